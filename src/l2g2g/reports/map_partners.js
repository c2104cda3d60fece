// Partners: the nearest nodes of a node and the links it most likely lacks: from lists that were made before, from the
// vectors in the page, or from the server, scored by scoreByDecoder (see models/decoders). Each gives {neighbours: [[row, cosine]], links: [[row, probability]]}.
"use strict";
const NUM_PARTNERS = 10;
const SHORTLIST = 256; // nodes of the largest inner product, which a learned decoder then ranks

async function openPartners() {
  const { mode } = facts.partners;
  if (mode === "live") return askServer;
  if (mode === "lists") return readLists();
  return readVectors();
}

async function askServer(row) {
  const answer = await fetch(`node?row=${row}`);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

async function readLists() {
  const lists = {};
  for (const kind of ["neighbours", "links"]) {
    lists[kind] = { rows: await readBlock(`${kind}-rows`), values: await readBlock(`${kind}-values`) }; // or null
  }
  const listOf = ({ rows, values }, row) => {
    if (!rows) return null;
    const width = rows.length / facts.numNodes, found = [];
    for (let place = row * width; place < (row + 1) * width; place++) {
      if (rows[place] >= 0) found.push([rows[place], values[place]]);
    }
    return found;
  };
  return async (row) => ({ neighbours: listOf(lists.neighbours, row), links: listOf(lists.links, row) });
}

async function readVectors() {
  const stored = await readBlock("vectors"), scales = await readBlock("vector-scales");
  const starts = await readBlock("edge-starts"), ends = await readBlock("edge-ends");
  const network = await readBlock("decoder");
  if (ends) for (let place = 1; place < ends.length; place++) ends[place] += ends[place - 1];
  const width = scales.length, count = facts.numNodes, { decoder } = facts.partners;
  const lengths = new Float32Array(count);
  for (let row = 0; row < count; row++) {
    let sum = 0;
    for (let column = 0; column < width; column++) sum += (stored[row * width + column] * scales[column]) ** 2;
    lengths[row] = Math.sqrt(sum);
  }

  const isEdge = (first, second) => {
    if (!ends) return false;
    const [row, wanted] = first < second ? [first, second] : [second, first];
    let low = starts[row], high = starts[row + 1];
    while (low < high) {
      const middle = low + high >> 1;
      if (ends[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low < starts[row + 1] && ends[low] === wanted;
  };
  // Inner products of columns [from, until) of a node with as many columns, from `other` on, of all nodes.
  const products = (row, from = 0, until = width, other = 0) => {
    const factors = new Float32Array(until - from), found = new Float32Array(count);
    for (let column = from; column < until; column++) {
      factors[column - from] = stored[row * width + column] * scales[column] * scales[column - from + other];
    }
    for (let node = 0; node < count; node++) {
      let sum = 0;
      for (let column = 0, place = node * width + other; column < factors.length; column++, place++) {
        sum += factors[column] * stored[place];
      }
      found[node] = sum;
    }
    return found;
  };
  const cosines = (row, inner) => inner.map((value, node) => value / Math.max(lengths[row] * lengths[node], 1e-30));
  const vectorOf = (row) => Array.from(scales, (scale, column) => stored[row * width + column] * scale);
  const page = { decoder, weights: network, width, lengths, products, cosines, vectorOf };
  const learned = (row, inner) => {
    const near = topRows(inner, SHORTLIST, (node) => node !== row && !isEdge(row, node));
    const ranked = near.map(([node]) => [node, scoreByDecoder(page, row, node)]);
    return ranked.sort((a, b) => b[1] - a[1]).slice(0, NUM_PARTNERS);
  };

  return async (row) => {
    const inner = products(row);
    const neighbours = topRows(cosines(row, inner), NUM_PARTNERS, (node) => node !== row);
    if (!decoder) return { neighbours, links: null };
    const links = decoder.ranksPairs ? learned(row, inner)
      : topRows(scoreByDecoder(page, row, inner), NUM_PARTNERS, (node) => node !== row && !isEdge(row, node));
    return { neighbours, links: links.map(([node, score]) => [node, 1 / (1 + Math.exp(-score))]) };
  };
}

// [[row, score]] of the highest scores among rows that are allowed, the highest first.
function topRows(scores, count, isAllowed) {
  const found = [];
  for (let row = 0; row < scores.length; row++) {
    const score = scores[row];
    if (found.length === count && score <= found[count - 1][1]) continue;
    if (!isAllowed(row)) continue;
    let place = found.length;
    while (place > 0 && found[place - 1][1] < score) place--;
    found.splice(place, 0, [row, score]);
    if (found.length > count) found.pop();
  }
  return found;
}
