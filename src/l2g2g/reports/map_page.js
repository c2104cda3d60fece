// Page: the map with its search, its legend, the chosen node and the selection.
"use strict";
const NUM_FOUND = 50; // results of a search that are listed
const NUM_LISTED = 200; // rows of the selection that are listed; the export has all

const LATER = 1000; // milliseconds until the server is asked again for a projection
const ABOUT = {
  tsne: "t-SNE: nodes that are near in the embedding are near on the map; distances between groups, and their sizes, "
    + "mean little.",
  pca: "PCA: the two directions of largest variance. Nodes that are apart here are apart; nodes that are together may "
    + "differ in the other directions.",
};

const state = { names: null, values: {}, chosen: -1, hovered: -1, partners: null, selected: [], lasso: null,
  partnersOf: null, places: {}, classNames: [] };
const nameOf = (row) => state.names ? String(state.names[row]) : String(row);
const announce = (text) => { byId("map-status").textContent = text; };

function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// [name, value as text] of all that is known about a node. show: how numbers are written.
function describeNode(row, show = formatNumber) {
  return facts.columns.map((column) => {
    const value = state.values[column.name][row];
    return [column.title, column.classes ? column.classes[value] : Number.isNaN(value) ? UNKNOWN : show(value)];
  });
}

async function startMap() {
  const started = performance.now();
  for (const { name, view, kept } of facts.projections) {
    if (view) state.places[name] = { view, kept, points: await readBlock(`points-${name}`) };
  }
  state.names = await readBlock("names");
  for (const column of facts.columns) state.values[column.name] = await readBlock(column.name);
  const first = facts.projections.find(({ view }) => view).name, shown = state.places[first];
  const map = new PointMap(byId("map-points"), byId("map-overlay"), shown.points, shown.view);
  let opened = null; // once the map is there, or when the first node is chosen
  const open = () => opened ??= openPartners();
  state.partnersOf = async (row) => (await open())(row);

  map.onOverlay = (context) => drawOverlay(context, map);
  let colouring = null;
  const nameClasses = () => {
    state.classNames = byId("map-names").checked ? placeNames(colouring, map.points, map.home) : [];
    map.draw();
  };
  const project = (name) => {
    byId("map-projection").value = name;
    const kept = Math.round(100 * state.places[name].kept);
    byId("map-about").textContent = `${ABOUT[name]} Of the 15 nearest nodes ${kept} % are near on this map.`;
    map.move(state.places[name].points, state.places[name].view);
    nameClasses();
  };
  const recolour = () => {
    const theme = currentTheme(), chosen = byId("map-colour").value;
    const column = facts.columns.find(({ name }) => name === chosen);
    const values = column ? state.values[chosen] : new Uint8Array(facts.numNodes);
    colouring = column && !column.classes ? colourByNumber(values, column.logarithmic)
      : colourByClass(values, column ? column.classes : ["all nodes"]);
    map.emphasis = state.selected.length ? map.emphasis : null;
    map.paint(colouring.codes, colouring.colours(theme), theme === "dark" ? [22, 24, 28] : [255, 255, 255]);
    showLegend(byId("map-legend"), colouring, theme, (code) => {
      state.selected = [];
      map.emphasis = code === null ? null : Uint8Array.from(colouring.codes, (own) => own === code ? 1 : 0);
      showSelection();
      map.draw();
    });
    nameClasses();
  };

  const choose = async (row) => {
    Object.assign(state, { chosen: row, partners: null });
    linkTo(row);
    if (row < 0) return showNode(), map.draw();
    map.reveal(row);
    showNode(choose);
    try {
      const partners = await state.partnersOf(row);
      if (state.chosen !== row) return;
      state.partners = partners;
      showNode(choose);
      announce(`${nameOf(row)} is chosen; its neighbours are listed.`);
    } catch (error) {
      announce(`The neighbours of ${nameOf(row)} could not be read: ${error.message}.`);
    }
    map.draw();
  };
  const select = (rows) => {
    state.selected = rows;
    map.emphasis = rows.length ? new Uint8Array(facts.numNodes) : null;
    for (const row of rows) map.emphasis[row] = 1;
    showSelection(choose);
    announce(rows.length ? `${formatNumber(rows.length)} nodes are selected.` : "Nothing is selected.");
    map.draw();
  };
  const clear = () => { select([]); choose(-1); };
  const lassoButton = byId("map-lasso");
  const isLasso = () => lassoButton.getAttribute("aria-pressed") === "true";
  listenToGestures(map, byId("map-overlay"), {
    choose, clear, isLasso,
    hover: (row) => { if (row !== state.hovered) { state.hovered = row; showTip(map); map.draw(); } },
    lasso: (polygon) => select(map.rowsInside(polygon)),
    drawLasso: (path) => { state.lasso = path; map.draw(); },
  });
  lassoButton.addEventListener("click", () => lassoButton.setAttribute("aria-pressed", String(!isLasso())));
  byId("map-view").addEventListener("click", () => {
    const right = map.width / map.ratio, bottom = map.height / map.ratio;
    select(map.rowsInside([[0, 0], [right, 0], [right, bottom], [0, bottom]]));
  });
  byId("map-in").addEventListener("click", () => map.zoom(1.6));
  byId("map-out").addEventListener("click", () => map.zoom(1 / 1.6));
  byId("map-home").addEventListener("click", () => map.fit(map.home));
  byId("map-clear").addEventListener("click", clear);
  byId("map-colour").addEventListener("change", recolour);
  byId("map-names").addEventListener("change", nameClasses);
  byId("map-projection").addEventListener("change", (event) => project(event.target.value));
  byId("map-mode").addEventListener("change", (event) => { map.mode = event.target.value; map.draw(); });
  byId("map-size").addEventListener("input", (event) => { map.sizeFactor = Number(event.target.value); map.draw(); });
  byId("map-opacity").addEventListener("input", (event) => { map.opacity = Number(event.target.value); map.draw(); });
  listenToSearch(choose);
  listenToExports();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
    recolour();
  });
  new ResizeObserver(() => map.resize()).observe(byId("map-points"));
  const printIn = (theme) => {
    const { dataset } = document.documentElement, before = dataset.theme ?? "";
    if (theme) dataset.theme = theme; else delete dataset.theme;
    recolour();
    map.drawNow();
    return before;
  };
  let onScreen = "";
  addEventListener("beforeprint", () => { onScreen = printIn("light"); }); // paper is white
  addEventListener("afterprint", () => printIn(onScreen));
  recolour();
  project(first);
  map.drawNow();
  announce(`${formatNumber(facts.numNodes)} nodes are on the map.`);
  const chooseLinked = () => {
    const row = linkedRow();
    if (row === null) announce("The node of this link is not in the embedding.");
    else if (row >= 0 && row !== state.chosen) choose(row);
  };
  addEventListener("hashchange", chooseLinked);
  chooseLinked();
  Object.assign(document.documentElement.dataset, { map: "ready", mapMs: Math.round(performance.now() - started) });
  window.pointMap = map; // for those who look at the page from the console
  setTimeout(open, 200);
  for (const { name, view } of facts.projections) {
    if (!view) awaitProjection(name).then(() => project(name)).catch((error) => announce(`${error.message}.`));
  }
}

// Ask the server for a projection until it is computed.
async function awaitProjection(name) {
  announce("The nodes are being laid out by their neighbours; until then the map shows PCA.");
  const option = byId("map-projection").querySelector(`[value=${name}]`);
  for (;;) {
    const answer = await fetch(`places?projection=${name}`);
    if (!answer.ok) throw new Error(`The projection could not be computed: ${await answer.text()}`);
    if (answer.status === 200) {
      const { view, kept, points } = await answer.json();
      state.places[name] = { view, kept, points: new Uint16Array(readBase64(points).buffer) };
      option.disabled = false;
      announce("The map now shows neighbours together.");
      return;
    }
    await new Promise((resolve) => { setTimeout(resolve, LATER); });
  }
}

// The address of the page names the chosen node, so that it can be passed on.
function linkTo(row) {
  if (row < 0 && !location.hash.startsWith("#node=")) return;
  history.replaceState(null, "", row < 0 ? "#" : `#node=${encodeURIComponent(nameOf(row))}`);
}

// The row of the node that the address names, -1 where it names none, null where that node is not there.
function linkedRow() {
  if (!location.hash.startsWith("#node=")) return -1;
  let wanted;
  try { wanted = decodeURIComponent(location.hash.slice(6)); } catch { return null; }
  const row = state.names ? state.names.findIndex((name) => String(name) === wanted) : Number(wanted);
  return Number.isInteger(row) && row >= 0 && row < facts.numNodes ? row : null;
}

// What is known about the node under the pointer, beside it.
function showTip(map) {
  const tip = byId("map-tip"), row = state.hovered;
  tip.hidden = row < 0;
  if (row < 0) return;
  const table = makeElement("dl");
  for (const [name, value] of describeNode(row)) table.append(makeElement("dt", name), makeElement("dd", value));
  tip.replaceChildren(makeElement("b", nameOf(row)), table);
  const [x, y] = map.toScreen(row), right = map.width / map.ratio, bottom = map.height / map.ratio;
  tip.style.left = `${x < right / 2 ? x + 14 : Math.max(x - 14 - tip.offsetWidth, 0)}px`;
  tip.style.top = `${Math.min(Math.max(y - tip.offsetHeight / 2, 4), Math.max(bottom - tip.offsetHeight - 4, 4))}px`;
}

function drawOverlay(context, map) {
  const { color: ink, backgroundColor: paper } = getComputedStyle(document.documentElement);
  const ring = (row, radius) => {
    const [x, y] = map.toScreen(row);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
  };
  const label = (row, bold) => {
    const [x, y] = map.toScreen(row), name = nameOf(row), text = name.length > 40 ? `${name.slice(0, 39)}…` : name;
    context.font = `${bold ? "bold " : ""}13px system-ui, sans-serif`;
    const width = context.measureText(text).width;
    const left = Math.min(Math.max(x + 10, 4), map.width / map.ratio - width - 4), base = Math.max(y - 8, 14);
    context.lineWidth = 4;
    context.strokeStyle = paper;
    context.strokeText(text, left, base);
    context.fillStyle = ink;
    context.fillText(text, left, base);
  };
  drawNames(context, map, ink, paper);
  if (state.chosen >= 0) {
    const [x, y] = map.toScreen(state.chosen);
    context.strokeStyle = ink;
    for (const [kind, dash] of [["neighbours", []], ["links", [4, 4]]]) {
      for (const [row] of state.partners?.[kind] ?? []) {
        context.lineWidth = 1;
        context.setLineDash(dash);
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(...map.toScreen(row));
        context.stroke();
        context.setLineDash([]);
        ring(row, 5);
      }
    }
    context.lineWidth = 3;
    ring(state.chosen, 8);
    label(state.chosen, true);
  }
  if (state.hovered >= 0 && state.hovered !== state.chosen) {
    Object.assign(context, { lineWidth: 2, strokeStyle: ink });
    ring(state.hovered, 7);
  }
  if (state.lasso) {
    Object.assign(context, { lineWidth: 2, strokeStyle: ink });
    context.setLineDash([6, 4]);
    context.beginPath();
    state.lasso.forEach(([x, y], place) => place ? context.lineTo(x, y) : context.moveTo(x, y));
    context.closePath();
    context.stroke();
    context.setLineDash([]);
  }
}

// Names of the classes, the largest first; one that would cover another is left out.
function drawNames(context, map, ink, paper) {
  context.font = "600 13px system-ui, sans-serif";
  const taken = [], right = map.width / map.ratio, bottom = map.height / map.ratio;
  for (const { name, x, y } of state.classNames) {
    const text = name.length > 28 ? `${name.slice(0, 27)}…` : name, width = context.measureText(text).width;
    const left = ((x - map.centreX) * map.scale + map.width / 2) / map.ratio - width / 2;
    const base = ((y - map.centreY) * map.scale + map.height / 2) / map.ratio + 4;
    const box = [left - 4, base - 14, left + width + 4, base + 5];
    const isOutside = box[2] < 0 || box[3] < 0 || box[0] > right || box[1] > bottom;
    if (isOutside || taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3]
      && box[3] > other[1])) continue;
    taken.push(box);
    Object.assign(context, { lineWidth: 4, strokeStyle: paper, fillStyle: ink, lineJoin: "round" });
    context.strokeText(text, left, base);
    context.fillText(text, left, base);
  }
}

// What is known about the chosen node, and its partners as buttons that choose them.
function showNode(choose) {
  const place = byId("map-node"), row = state.chosen;
  if (row < 0) {
    place.replaceChildren(makeElement("p", "Choose a node on the map or by its name.", { class: "hint" }));
    return;
  }
  const table = makeElement("dl");
  for (const [name, value] of describeNode(row)) table.append(makeElement("dt", name), makeElement("dd", value));
  place.replaceChildren(makeElement("h3", nameOf(row), { id: "map-chosen" }), table);
  const lists = [["neighbours", "Nearest nodes, by cosine", (value) => value.toFixed(3)]];
  if (facts.partners.links) {
    lists.push(["links", "Likeliest missing links, by probability", (value) => `${(100 * value).toFixed(1)} %`]);
  }
  for (const [kind, title, show] of lists) {
    const found = state.partners?.[kind];
    place.append(makeElement("h4", title));
    if (!found) {
      place.append(makeElement("p", state.partners ? facts.partners.missing : "…", { class: "hint" }));
      continue;
    }
    const list = makeElement("ol", "", { id: `map-${kind}` });
    for (const [other, value] of found) {
      const item = makeElement("li"), line = makeElement("div", "", { class: "line" });
      const button = makeElement("button", nameOf(other), { type: "button", class: "node" });
      button.addEventListener("click", () => choose(other));
      line.append(button, makeElement("span", show(value), { class: "count" }));
      item.append(line);
      list.append(item);
    }
    place.append(list);
    if (kind === lists.at(-1)[0] && facts.partners.note) place.append(makeElement("p", facts.partners.note, { class: "hint" }));
  }
}

function showSelection(choose) {
  const rows = state.selected, table = byId("map-table");
  byId("map-selection").hidden = !rows.length;
  const more = rows.length > NUM_LISTED ? `; the first ${NUM_LISTED} are listed` : "";
  byId("map-count").textContent = `${formatNumber(rows.length)} nodes${more}`;
  table.tBodies[0].replaceChildren(...rows.slice(0, NUM_LISTED).map((row) => {
    const line = makeElement("tr"), head = makeElement("th", "", { scope: "row" });
    const button = makeElement("button", nameOf(row), { type: "button", class: "node" });
    button.addEventListener("click", () => choose(row));
    head.append(button);
    line.append(head, ...describeNode(row).map(([, value]) => makeElement("td", value)));
    return line;
  }));
}

function listenToSearch(choose) {
  const input = byId("map-search"), list = byId("map-found");
  let lowered = null, waiting = 0;
  const find = () => {
    const typed = input.value.trim(), wanted = typed.toLowerCase();
    if (!wanted) return list.replaceChildren(), announce("");
    lowered ??= Array.from({ length: facts.numNodes }, (_, row) => nameOf(row).toLowerCase());
    const groups = [[], [], [], []]; // the very name, in other letters, names that begin with it, names that hold it
    for (let row = 0; row < lowered.length; row++) {
      const place = lowered[row].indexOf(wanted);
      if (place < 0) continue;
      const isWhole = lowered[row].length === wanted.length;
      groups[place > 0 ? 3 : !isWhole ? 2 : nameOf(row) === typed ? 0 : 1].push(row);
    }
    const rows = groups.flat();
    list.replaceChildren(...rows.slice(0, NUM_FOUND).map((row) => {
      const item = makeElement("li"), button = makeElement("button", nameOf(row), { type: "button", class: "node" });
      button.addEventListener("click", () => { choose(row); list.replaceChildren(); });
      item.append(button);
      return item;
    }));
    announce(rows.length > NUM_FOUND ? `${formatNumber(rows.length)} nodes are found; ${NUM_FOUND} are listed.`
      : `${rows.length} ${rows.length === 1 ? "node is" : "nodes are"} found.`);
  };
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 80);
  });
  const move = (event) => {
    const buttons = [...list.querySelectorAll("button")], place = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") { list.replaceChildren(); input.focus(); }
    if (event.key === "Enter" && place < 0) { event.preventDefault(); find(); list.querySelector("button")?.click(); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !buttons.length) return;
    event.preventDefault();
    (buttons[place + step] ?? (step > 0 ? buttons.at(-1) : input)).focus();
  };
  input.addEventListener("keydown", move);
  list.addEventListener("keydown", move);
}

function listenToExports() {
  const quote = (text) => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const save = (ending, lines) => {
    const address = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
    const link = makeElement("a", "", { href: address, download: `${facts.fileName}-selection.${ending}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  byId("map-save-ids").addEventListener("click", () => save("txt", state.selected.map(nameOf)));
  byId("map-save-table").addEventListener("click", () => save("csv", [
    ["id", ...facts.columns.map(({ name, title }) => name.startsWith("column-") ? title : name)],
    ...state.selected.map((row) => [nameOf(row), ...describeNode(row, String).map(([, value]) => value)]),
  ].map((cells) => cells.map(quote).join(","))));
}

startMap().catch((error) => {
  announce(`The map cannot be shown: ${error.message}.`);
  throw error;
});
