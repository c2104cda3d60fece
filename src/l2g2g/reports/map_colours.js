// Colours: a small code for every node, a colour for every code, and the legend that says what they mean.
"use strict";
// Told apart by most eyes, on white and on near black (after Okabe and Ito, and Tol).
const CLASS_COLOURS = ["#0077bb", "#ee7733", "#009988", "#cc3311", "#aa4499", "#ddaa33", "#33bbee", "#117733",
  "#ee3377", "#999933", "#7755cc", "#a06040"];
const OTHER = "#8a8a8a";
const RAMPS = { light: ["#d0a92a", "#57b05c", "#22828c", "#3b4a8c", "#400a50"],
  dark: ["#5a4fb0", "#3a87b8", "#3cb48a", "#a5d05a", "#fdec6a"] };
const NUM_STEPS = 128;
const UNKNOWN = "not known"; // the class of nodes without one (map_columns.py)

const parseColour = (text) => [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
const packColour = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
const mixColours = (first, second, share) => first.map((part, place) =>
  Math.round(part + share * (second[place] - part)));
const showColour = (parts) => `rgb(${parts.join(" ")})`;

function rampColour(theme, share) {
  const stops = RAMPS[theme].map(parseColour), place = share * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return mixColours(stops[below], stops[below + 1], place - below);
}

// {codes: a code per node, colours(theme): rgb per code, entries: [{name, code, count}], or null and low, high, most}
function colourByClass(values, names) {
  const counts = new Array(names.length).fill(0);
  for (const value of values) counts[value]++;
  const known = names.map((_, place) => place).filter((place) => names[place] !== UNKNOWN);
  const order = known.sort((a, b) => counts[b] - counts[a] || a - b);
  const few = names.length <= CLASS_COLOURS.length && order.length === names.length;
  const shown = order.slice(0, CLASS_COLOURS.length);
  const codeOf = new Uint16Array(names.length).fill(shown.length);
  shown.forEach((value, code) => { codeOf[value] = code; });
  const codes = new Uint16Array(values.length);
  for (let row = 0; row < values.length; row++) codes[row] = codeOf[values[row]];
  const entries = shown.map((value, code) => ({ name: names[value], code, count: counts[value] }));
  if (!few) {
    const rest = values.length - entries.reduce((sum, entry) => sum + entry.count, 0);
    const numOthers = order.length - shown.length;
    const name = numOthers ? `${formatNumber(numOthers)} others` : UNKNOWN;
    entries.push({ name, code: shown.length, count: rest, isRest: true });
  }
  const colours = (theme) => entries.map((entry) =>
    mixColours(parseColour(entry.isRest ? OTHER : CLASS_COLOURS[entry.code]), [255, 255, 255],
      theme === "dark" ? 0.2 : 0));
  return { codes, colours, entries };
}

// The last colour begins where the highest half per cent does: a few hubs would leave all others in one colour.
function colourByNumber(values, logarithmic) {
  const scale = (value) => logarithmic ? Math.log1p(value) : value;
  const sorted = Float64Array.from(values).filter((value) => !Number.isNaN(value)).sort();
  const numMissing = values.length - sorted.length;
  const low = sorted[0], most = sorted.at(-1), nearly = sorted[Math.floor(0.995 * (sorted.length - 1))];
  const high = nearly > low ? nearly : most, reach = Math.max(scale(high) - scale(low), 1e-12);
  const codes = new Uint16Array(values.length);
  for (let row = 0; row < values.length; row++) {
    if (Number.isNaN(values[row])) { codes[row] = NUM_STEPS; continue; }
    const share = (Math.min(scale(values[row]), scale(high)) - scale(low)) / reach;
    codes[row] = Math.round((NUM_STEPS - 1) * share);
  }
  const colours = (theme) => [...Array.from({ length: NUM_STEPS },
    (_, code) => rampColour(theme, code / (NUM_STEPS - 1))), mixColours(parseColour(OTHER), [255, 255, 255], 0.3)];
  return { codes, colours, entries: null, low, high, most, numMissing };
}

// The legend as HTML. onChoose(code or null): a class is to stand out, or none.
function showLegend(place, colouring, theme, onChoose) {
  const colours = colouring.colours(theme);
  if (!colouring.entries) {
    const bar = makeElement("div", "", { class: "ramp", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${[0, 32, 64, 96, 127].map((code) =>
      showColour(colours[code])).join(", ")})`;
    const ends = makeElement("div", "", { class: "ramp-ends" });
    const more = colouring.most > colouring.high ? ` and more, up to ${formatNumber(colouring.most)}` : "";
    ends.append(makeElement("span", formatNumber(colouring.low)),
      makeElement("span", `${formatNumber(colouring.high)}${more}`));
    place.replaceChildren(bar, ends);
    if (colouring.numMissing) {
      place.append(makeElement("p", `grey: ${formatNumber(colouring.numMissing)} not known`, { class: "hint" }));
    }
    return;
  }
  const buttons = colouring.entries.map((entry) => {
    const button = makeElement("button", "", { type: "button", "aria-pressed": "false", class: "entry" });
    const swatch = makeElement("span", "", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = showColour(colours[entry.code]);
    button.append(swatch, makeElement("span", entry.name, { class: "entry-name" }),
      makeElement("span", formatNumber(entry.count), { class: "count" }));
    button.addEventListener("click", () => {
      const pressed = button.getAttribute("aria-pressed") === "true";
      for (const other of buttons) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(!pressed));
      onChoose(pressed ? null : entry.code);
    });
    return button;
  });
  place.replaceChildren(...buttons);
}

function formatNumber(value) {
  return Number.isInteger(value) ? value.toLocaleString("en-GB") : Number(value.toPrecision(3)).toString();
}

// Where the name of each class goes, in units of the points: the middle of the place where most of its nodes lie.
function placeNames(colouring, points, view) {
  if (!colouring.entries || colouring.entries.length < 2) return [];
  const [left, top, right, bottom] = view, cells = 20;
  const cellOf = (row) => {
    const x = Math.floor(cells * (points[2 * row] - left) / Math.max(right - left, 1));
    const y = Math.floor(cells * (points[2 * row + 1] - top) / Math.max(bottom - top, 1));
    return x < 0 || y < 0 || x >= cells || y >= cells ? -1 : y * cells + x;
  };
  const entries = colouring.entries.filter((entry) => !entry.isRest && entry.count);
  const sums = entries.map(() => new Float64Array(3 * cells * cells));
  const numberOf = new Int32Array(colouring.entries.length).fill(-1);
  entries.forEach((entry, number) => { numberOf[entry.code] = number; });
  for (let row = 0; row < colouring.codes.length; row++) {
    const number = numberOf[colouring.codes[row]], cell = number < 0 ? -1 : cellOf(row);
    if (cell < 0) continue;
    sums[number][3 * cell] += points[2 * row];
    sums[number][3 * cell + 1] += points[2 * row + 1];
    sums[number][3 * cell + 2]++;
  }
  return entries.flatMap((entry, number) => {
    let best = 0;
    for (let cell = 1; cell < cells * cells; cell++) {
      if (sums[number][3 * cell + 2] > sums[number][3 * best + 2]) best = cell;
    }
    const [x, y, count] = sums[number].subarray(3 * best, 3 * best + 3);
    return count ? [{ name: entry.name, code: entry.code, x: x / count, y: y / count }] : [];
  });
}
