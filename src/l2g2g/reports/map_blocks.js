// Blocks: the arrays that the page carries, compressed and as base64, and the facts about them.
"use strict";
const facts = JSON.parse(document.getElementById("map-facts").textContent);
const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array, float32: Float32Array,
  float64: Float64Array };

const byId = (name) => document.getElementById(name);

// A new element; what comes from data goes in as text and is never read as HTML.
function makeElement(tag, text = "", attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function readBase64(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

// The array of a block, or null where the page has none of that name.
async function readBlock(name) {
  const element = byId(`block-${name}`);
  if (!element) return null;
  const packed = readBase64(element.textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const kind = element.dataset.kind;
  element.remove(); // its memory is needed no longer
  return kind === "json" ? JSON.parse(new TextDecoder().decode(buffer)) : new ARRAYS[kind](buffer);
}
