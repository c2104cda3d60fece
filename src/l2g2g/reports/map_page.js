// Page: the map with its search, its legend, the chosen node and the selection.
"use strict";
const NUM_FOUND = 50; // results of a search that are listed
const NUM_LISTED = 200; // rows of the selection that are listed; the export has all

const state = { names: null, values: {}, chosen: -1, hovered: -1, partners: null, selected: [], lasso: null,
  partnersOf: null };
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
    return [column.title, column.classes ? column.classes[value] : show(value)];
  });
}

async function startMap() {
  const started = performance.now();
  const points = await readBlock("points");
  state.names = await readBlock("names");
  for (const column of facts.columns) state.values[column.name] = await readBlock(column.name);
  const map = new PointMap(byId("map-points"), byId("map-overlay"), points, facts.view);
  let opened = null; // once the map is there, or when the first node is chosen
  const open = () => opened ??= openPartners();
  state.partnersOf = async (row) => (await open())(row);

  map.onOverlay = (context) => drawOverlay(context, map);
  const recolour = () => {
    const theme = currentTheme(), chosen = byId("map-colour").value;
    const column = facts.columns.find(({ name }) => name === chosen);
    const values = column ? state.values[chosen] : new Uint8Array(facts.numNodes);
    const colouring = column && !column.classes ? colourByNumber(values, column.logarithmic)
      : colourByClass(values, column ? column.classes : ["all nodes"]);
    map.emphasis = state.selected.length ? map.emphasis : null;
    map.paint(colouring.codes, colouring.colours(theme), theme === "dark" ? [22, 24, 28] : [255, 255, 255]);
    showLegend(byId("map-legend"), colouring, theme, (code) => {
      state.selected = [];
      map.emphasis = code === null ? null : Uint8Array.from(colouring.codes, (own) => own === code ? 1 : 0);
      showSelection();
      map.draw();
    });
  };

  const choose = async (row) => {
    Object.assign(state, { chosen: row, partners: null });
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
    hover: (row) => { if (row !== state.hovered) { state.hovered = row; map.draw(); } },
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
  map.drawNow();
  announce(`${formatNumber(facts.numNodes)} nodes are on the map.`);
  Object.assign(document.documentElement.dataset, { map: "ready", mapMs: Math.round(performance.now() - started) });
  window.pointMap = map; // for those who look at the page from the console
  setTimeout(open, 200);
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
    label(state.hovered, false);
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
  const lists = [["neighbours", "Nearest nodes, by cosine", (value) => value.toFixed(3)],
    ["links", "Likeliest missing links, by probability", (value) => `${(100 * value).toFixed(1)} %`]];
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
    if (kind === "links" && facts.partners.note) place.append(makeElement("p", facts.partners.note, { class: "hint" }));
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
    ["id", ...facts.columns.map(({ name }) => name)],
    ...state.selected.map((row) => [nameOf(row), ...describeNode(row, String).map(([, value]) => value)]),
  ].map((cells) => cells.map(quote).join(","))));
}

startMap().catch((error) => {
  announce(`The map cannot be shown: ${error.message}.`);
  throw error;
});
