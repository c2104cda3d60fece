// Gestures: mouse, fingers, wheel and keys on the map. A lasso is drawn in its mode, or with the shift key held.
"use strict";
const STEP = 60; // pixels of one arrow key
const STILL = 5; // a pointer that moves less has clicked

// actions: choose(row), hover(row), lasso(polygon), clear(), isLasso().
function listenToGestures(map, surface, actions) {
  const pointers = new Map();
  let path = null, moved = 0, span = 0;
  const placeOf = (event) => {
    const box = surface.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const distance = () => {
    const [[x1, y1], [x2, y2]] = [...pointers.values()];
    return Math.hypot(x1 - x2, y1 - y2);
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    surface.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, placeOf(event));
    moved = pointers.size > 1 ? STILL : 0;
    path = pointers.size === 1 && (actions.isLasso() || event.shiftKey) ? [placeOf(event)] : null;
    if (pointers.size === 2) span = distance();
  });

  surface.addEventListener("pointermove", (event) => {
    const place = placeOf(event), before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") actions.hover(map.pick(...place));
      return;
    }
    pointers.set(event.pointerId, place);
    moved += Math.hypot(place[0] - before[0], place[1] - before[1]);
    if (path) {
      path.push(place);
      actions.drawLasso(path);
    } else if (pointers.size === 2) {
      const now = distance(), [[x1, y1], [x2, y2]] = [...pointers.values()];
      map.pan((place[0] - before[0]) / 2, (place[1] - before[1]) / 2);
      map.zoom(now / Math.max(span, 1), (x1 + x2) / 2, (y1 + y2) / 2);
      span = now;
    } else if (moved >= STILL) {
      map.pan(place[0] - before[0], place[1] - before[1]);
    }
  });

  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    const drawn = path;
    path = null;
    if (drawn) actions.drawLasso(null);
    if (event.type === "pointercancel") return;
    if (moved < STILL) actions.choose(map.pick(...placeOf(event)));
    else if (drawn && drawn.length > 2) actions.lasso(drawn);
  };
  surface.addEventListener("pointerup", release);
  surface.addEventListener("pointercancel", release);
  surface.addEventListener("pointerleave", () => actions.hover(-1));

  surface.addEventListener("wheel", (event) => {
    // Without the focus the wheel scrolls the page, as readers expect.
    if (document.activeElement !== surface && !event.ctrlKey) return;
    event.preventDefault();
    map.zoom(Math.exp(-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) / 300), ...placeOf(event));
  }, { passive: false });
  surface.addEventListener("dblclick", (event) => map.zoom(2, ...placeOf(event)));

  const middle = () => [surface.clientWidth / 2, surface.clientHeight / 2];
  const keys = {
    ArrowLeft: () => map.pan(STEP, 0), ArrowRight: () => map.pan(-STEP, 0),
    ArrowUp: () => map.pan(0, STEP), ArrowDown: () => map.pan(0, -STEP),
    "+": () => map.zoom(1.4), "=": () => map.zoom(1.4), "-": () => map.zoom(1 / 1.4),
    0: () => map.fit(map.home), Home: () => map.fit(map.home),
    Enter: () => actions.choose(map.pick(...middle(), Infinity)), Escape: () => actions.clear(),
  };
  surface.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
