// Canvas: points drawn straight into pixels, which takes milliseconds for a million of them and needs no graphics card.
"use strict";
const UNITS = 65535; // coordinates are stored in 16 bits
const FINEST = 6; // pixels of one unit at the strongest zoom
const CLICK_REACH = 14; // pixels around the pointer in which a node is found
const MOST_MOVING = 150_000; // points drawn while the map moves; all of them once it rests
const REST = 150; // milliseconds
const CROWDED = 0.12; // points per pixel of the first view from which on a density is drawn
const CLOSE = 5; // times the first view: from here on points are drawn in any case

class PointMap {
  // points: x and y of every node in turn. view: [left, top, right, bottom] that is shown at first.
  constructor(canvas, overlay, points, view) {
    Object.assign(this, { canvas, overlay, points, home: view });
    this.numPoints = points.length / 2;
    Object.assign(this, { sizeFactor: 1, opacity: 1, mode: "auto" }); // mode: auto, points or density
    this.emphasis = null; // 1 for nodes that stand out, or null for all alike
    this.codes = new Uint16Array(this.numPoints);
    this.palette = this.faint = new Uint32Array([0]);
    this.onOverlay = () => {};
    this.pending = this.moving = false;
    this.isHome = true; // nobody has moved it: a window of another shape shows as much
    this.resize();
  }

  // Show the same nodes at other places.
  move(points, view) {
    Object.assign(this, { points, home: view });
    this.fit(view);
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(50, Math.round(this.canvas.clientWidth * ratio));
    const height = Math.max(50, Math.round(this.canvas.clientHeight * ratio));
    const kept = this.scale * ratio / this.ratio;
    for (const canvas of [this.canvas, this.overlay]) Object.assign(canvas, { width, height });
    Object.assign(this, { width, height, ratio, image: new ImageData(width, height) });
    this.pixels = new Uint32Array(this.image.data.buffer);
    if (this.isHome) this.fit(this.home); else this.scale = kept;
    this.draw();
  }

  fit(view) {
    const [left, top, right, bottom] = view;
    this.isHome = view === this.home;
    this.centreX = (left + right) / 2;
    this.centreY = (top + bottom) / 2;
    const margin = 0.92;
    this.scale = margin * Math.min(this.width / Math.max(right - left, 1), this.height / Math.max(bottom - top, 1));
    this.scale = Math.min(this.scale, FINEST * this.ratio);
    this.draw();
  }

  // Pixels of the page, measured from the corner of the canvas.
  toScreen(row) {
    return [((this.points[2 * row] - this.centreX) * this.scale + this.width / 2) / this.ratio,
      ((this.points[2 * row + 1] - this.centreY) * this.scale + this.height / 2) / this.ratio];
  }

  toUnits(x, y) {
    return [(x * this.ratio - this.width / 2) / this.scale + this.centreX,
      (y * this.ratio - this.height / 2) / this.scale + this.centreY];
  }

  pan(x, y) {
    const clamp = (value) => Math.min(Math.max(value, 0), UNITS);
    this.centreX = clamp(this.centreX - x * this.ratio / this.scale);
    this.centreY = clamp(this.centreY - y * this.ratio / this.scale);
    this.drawMoving();
  }

  // Zoom so that what lies under (x, y) stays there; without them the centre.
  zoom(factor, x = this.width / 2 / this.ratio, y = this.height / 2 / this.ratio) {
    const [unitX, unitY] = this.toUnits(x, y);
    const widest = 0.5 * Math.min(this.width, this.height) / UNITS;
    this.scale = Math.min(Math.max(this.scale * factor, widest), FINEST * this.ratio);
    const [movedX, movedY] = this.toUnits(x, y);
    this.centreX += unitX - movedX;
    this.centreY += unitY - movedY;
    this.drawMoving();
  }

  // Bring a node into view: where it lies outside, what was in view stays there too, smaller.
  reveal(row) {
    const [x, y] = this.toScreen(row), right = this.width / this.ratio, bottom = this.height / this.ratio;
    if (x < 0 || y < 0 || x > right || y > bottom) {
      const corners = [this.toUnits(0, 0), this.toUnits(right, bottom), this.points.slice(2 * row, 2 * row + 2)];
      this.fit(boundsOf(corners));
    }
    this.draw();
  }

  // colours: rgb of every code; background: rgb.
  paint(codes, colours, background) {
    this.codes = codes;
    this.background = packColour(background);
    this.palette = Uint32Array.from(colours, packColour);
    this.faint = Uint32Array.from(colours, (colour) => packColour(mixColours(colour, background, 0.82)));
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.drawNow();
    });
  }

  drawMoving() {
    this.moving = true;
    this.isHome = false;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.draw();
    }, REST);
    this.draw();
  }

  drawNow() {
    this.pixels.fill(this.background ?? 0xffffffff);
    const stamp = makeStamp(this.radius(), this.opacity);
    this.isDensity = this.mode === "density" || (this.mode === "auto" && this.isCrowded());
    const draw = this.isDensity ? (palette, which) => this.drawDensity(palette, which)
      : (palette, which) => this.drawPoints(stamp, palette, which);
    if (this.emphasis) {
      draw(this.faint, 0);
      draw(this.palette, 1);
    } else {
      draw(this.palette, -1);
    }
    this.canvas.getContext("2d").putImageData(this.image, 0, 0);
    const context = this.overlay.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.onOverlay(context);
  }

  // How many times closer than the first view.
  closeness() {
    const [left, top, right, bottom] = this.home;
    const shown = Math.min(this.width / Math.max(right - left, 1), this.height / Math.max(bottom - top, 1));
    return this.scale / shown;
  }

  // Few points are large; many are small, and grow as one comes closer.
  radius() {
    const spacing = Math.sqrt(this.width * this.height / this.numPoints);
    const usual = 0.22 * spacing * Math.sqrt(Math.max(this.closeness(), 1));
    return this.sizeFactor * Math.min(Math.max(usual, 0.8 * this.ratio), 5 * this.ratio);
  }

  isCrowded() {
    const [left, top, right, bottom] = this.home;
    const area = (right - left) * (bottom - top) * (this.scale / Math.max(this.closeness(), 1e-9)) ** 2;
    return this.numPoints > CROWDED * area && this.closeness() < CLOSE;
  }

  // Many points in one pixel: the mean of their colours, and the stronger the more there are.
  drawDensity(palette, which) {
    const { points, codes, pixels, width, height, scale, emphasis, numPoints } = this;
    const left = width / 2 - this.centreX * scale, top = height / 2 - this.centreY * scale;
    const sums = new Float32Array(4 * width * height), reach = Math.max(1, Math.round(this.sizeFactor * this.ratio));
    for (let row = 0; row < numPoints; row++) {
      if (which >= 0 && emphasis[row] !== which) continue;
      const x = Math.floor(points[2 * row] * scale + left), y = Math.floor(points[2 * row + 1] * scale + top);
      if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
      const colour = palette[codes[row]];
      for (let dy = -reach; dy <= reach; dy++) {
        for (let dx = -reach; dx <= reach; dx++) {
          const weight = 1 / (1 + dx * dx + dy * dy), place = 4 * ((y + dy) * width + x + dx);
          sums[place] += weight * (colour & 255);
          sums[place + 1] += weight * (colour >> 8 & 255);
          sums[place + 2] += weight * (colour >> 16 & 255);
          sums[place + 3] += weight;
        }
      }
    }
    const weights = [];
    for (let place = 3; place < sums.length; place += 4 * 61) if (sums[place] > 0) weights.push(sums[place]);
    weights.sort((a, b) => a - b);
    const strongest = Math.log1p(weights[Math.floor(0.98 * (weights.length - 1))] ?? 1);
    for (let pixel = 0; pixel < pixels.length; pixel++) {
      const weight = sums[4 * pixel + 3];
      if (weight === 0) continue;
      const share = Math.min(1, 0.15 + 0.85 * Math.log1p(weight) / strongest) * this.opacity;
      const colour = (255 << 24 | sums[4 * pixel + 2] / weight << 16 | sums[4 * pixel + 1] / weight << 8
        | sums[4 * pixel] / weight) >>> 0;
      pixels[pixel] = blend(pixels[pixel], colour, Math.round(256 * share));
    }
  }

  // which: draw nodes with this emphasis only; -1 for all. The order is a fixed shuffle, so that no class hides others.
  drawPoints(stamp, palette, which) {
    const { points, codes, pixels, width, height, scale, emphasis, numPoints } = this;
    const left = width / 2 - this.centreX * scale + 0.5, top = height / 2 - this.centreY * scale + 0.5;
    const { reach, offsetsX, offsetsY, coverage } = stamp, step = shuffleStep(numPoints);
    const numTurns = this.moving ? Math.min(numPoints, MOST_MOVING) : numPoints;
    for (let turn = 0, row = -step; turn < numTurns; turn++) {
      row += row + step < numPoints ? step : step - numPoints;
      if (which >= 0 && emphasis[row] !== which) continue;
      const x = Math.floor(points[2 * row] * scale + left), y = Math.floor(points[2 * row + 1] * scale + top);
      if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
      const colour = palette[codes[row]], middle = y * width + x;
      for (let place = 0; place < coverage.length; place++) {
        const pixel = middle + offsetsY[place] * width + offsetsX[place], share = coverage[place];
        pixels[pixel] = share === 256 ? colour : blend(pixels[pixel], colour, share);
      }
    }
  }

  // The node nearest to a place on the page, or -1 where none is near.
  pick(x, y, reach = CLICK_REACH) {
    const [unitX, unitY] = this.toUnits(x, y), { points, emphasis } = this;
    let best = -1, nearest = (reach * this.ratio / this.scale) ** 2;
    for (let row = 0; row < this.numPoints; row++) {
      const dx = points[2 * row] - unitX, dy = points[2 * row + 1] - unitY, distance = dx * dx + dy * dy;
      if (distance < nearest && (!emphasis || emphasis[row])) { nearest = distance; best = row; }
    }
    return best;
  }

  // Rows inside a polygon of [x, y] on the page.
  rowsInside(polygon) {
    const corners = polygon.map(([x, y]) => this.toUnits(x, y)), rows = [];
    const [left, top, right, bottom] = boundsOf(corners);
    for (let row = 0; row < this.numPoints; row++) {
      const x = this.points[2 * row], y = this.points[2 * row + 1];
      if (x >= left && x <= right && y >= top && y <= bottom && isInside(x, y, corners)) rows.push(row);
    }
    return rows;
  }
}

// Pixels of a disc with soft edges, and how much of what is below each of them it hides, in parts of 256.
function makeStamp(radius, opacity) {
  const reach = Math.ceil(radius), offsetsX = [], offsetsY = [], coverage = [];
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const share = Math.min(Math.max(radius + 0.5 - Math.hypot(x, y), 0), 1);
      if (share < 0.05) continue;
      offsetsX.push(x);
      offsetsY.push(y);
      coverage.push(Math.round(256 * share * opacity));
    }
  }
  return { reach, offsetsX: Int32Array.from(offsetsX), offsetsY: Int32Array.from(offsetsY),
    coverage: Int32Array.from(coverage) };
}

// Both colours packed as 0xAABBGGRR; red and blue at once, then green.
function blend(below, above, share) {
  const rest = 256 - share;
  const redBlue = ((above & 0xff00ff) * share + (below & 0xff00ff) * rest) >>> 8 & 0xff00ff;
  const green = ((above & 0xff00) * share + (below & 0xff00) * rest) >>> 8 & 0xff00;
  return (0xff000000 | redBlue | green) >>> 0;
}

// A step that visits every row once, far from its neighbour: near the golden section, and without a common divisor.
function shuffleStep(count) {
  const divides = (a, b) => b ? divides(b, a % b) : a;
  let step = Math.max(1, Math.floor(0.618 * count));
  while (divides(count, step) > 1) step++;
  return step;
}

function boundsOf(corners) {
  const xs = corners.map(([x]) => x), ys = corners.map(([, y]) => y);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

function isInside(x, y, corners) {
  let inside = false;
  for (let place = 0, last = corners.length - 1; place < corners.length; last = place++) {
    const [x1, y1] = corners[place], [x2, y2] = corners[last];
    if (y1 > y !== y2 > y && x < (x2 - x1) * (y - y1) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}
