"use strict";
/* What part of the drawing is seen: zoom, drag, pinch, wheel. */
const camera = (canvas, view, scene, embedded, legend) => {
  const LEAST = 0.03, READABLE = 0.62, NAMED = 0.4, SHAPES = 0.16; // scales at which texts, the types of lines, and shapes are seen
  const state = {x: 0, y: 0, k: 1}, pointers = new Map();
  let travelled = 0;

  function move() {
    view.setAttribute("transform", `translate(${state.x} ${state.y}) scale(${state.k})`);
    canvas.classList.toggle("distant", state.k < NAMED);
    canvas.classList.toggle("remote", state.k < SHAPES);
  }

  function zoom(factor, at = {x: canvas.clientWidth / 2, y: canvas.clientHeight / 2}) {
    const k = Math.min(4, Math.max(0.005, state.k * factor));
    state.x = at.x - (at.x - state.x) * k / state.k;
    state.y = at.y - (at.y - state.y) * k / state.k;
    state.k = k;
    move();
  }

  /* The whole drawing, or at first as much of it as can be read, from its inputs on. The legend covers none of it: the
     drawing stands beside it, and where that takes more room than there is, the legend is closed. */
  function fit(whole = true) {
    place(whole, 0);
    const least = Math.min(state.k, READABLE);
    if (!legend.open || !covered()) return;
    place(whole, legend.offsetLeft + legend.offsetWidth);
    if (!covered() && state.k >= least) return;
    legend.open = false;
    place(whole, 0);
  }
  function covered() {
    const right = legend.offsetLeft + legend.offsetWidth, top = legend.offsetTop, {x, y, k} = state;
    return [...scene().nodes.values()].some(node => (node.x - node.width / 2) * k + x < right && (node.x + node.width / 2) * k + x > 0
      && (node.y + node.height / 2) * k + y > top && (node.y - node.height / 2) * k + y < canvas.clientHeight);
  }
  function place(whole, inset) {
    const {box: {left, right, top, bottom}, nodes} = scene();
    const width = Math.max(1, canvas.clientWidth - inset), height = canvas.clientHeight || 1;
    const across = Math.min(1.15, width / (right - left)), all = Math.min(across, height / (bottom - top));
    state.k = whole || all >= READABLE ? Math.max(all, LEAST) : across >= READABLE * 0.8 ? Math.min(across, 0.85) : READABLE;
    // the input that the graph has first: those of a training step are followed by its variables
    const first = [...nodes.values()].find(({type}) => type === "input")
      ?? [...nodes.values()].sort((a, b) => a.y - b.y || a.x - b.x)[0];
    const start = width / 2 - (first?.x ?? 0) * state.k; // where that input is in the middle
    state.x = inset + (across < state.k ? Math.min(-left * state.k, Math.max(width - right * state.k, start)) : (width - (left + right) * state.k) / 2);
    const up = first && (first.y - top) * state.k > height / 2 ? first.y - height / 4 / state.k : top;
    state.y = all < state.k ? 8 - up * state.k : height / 2 - (top + bottom) / 2 * state.k;
    move();
  }

  /* Moves these nodes to the middle where any of them is out of sight. */
  function reveal(nodes) {
    if (!nodes.length) return;
    const most = (sign, pick) => sign * Math.max(...nodes.map(node => sign * pick(node)));
    const left = most(-1, node => node.x - node.width / 2), right = most(1, node => node.x + node.width / 2);
    const top = most(-1, node => node.y - node.height / 2), bottom = most(1, node => node.y + node.height / 2);
    if (state.k < 0.5) zoom(0.8 / state.k);
    const gap = 50, {x, y, k} = state, width = canvas.clientWidth, height = canvas.clientHeight;
    const seen = left * k + x > gap && right * k + x < width - gap && top * k + y > gap && bottom * k + y < height - gap;
    if (seen) return;
    state.x = width / 2 - (left + right) / 2 * k;
    state.y = height / 2 - (top + bottom) / 2 * k;
    move();
  }

  const within = (x, y) => {
    const bounds = canvas.getBoundingClientRect();
    return {x: x - bounds.left, y: y - bounds.top};
  };
  const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);
  canvas.onpointerdown = event => {
    pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
    if (pointers.size === 1) travelled = 0;
  };
  canvas.onpointermove = event => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = {x: event.clientX, y: event.clientY};
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    travelled += apart(now, last);
    if (travelled < 4) return;
    if (!canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
    if (other) zoom(apart(now, other) / Math.max(1, apart(last, other)), within((now.x + other.x) / 2, (now.y + other.y) / 2));
    else {
      state.x += now.x - last.x;
      state.y += now.y - last.y;
      move();
    }
    pointers.set(event.pointerId, now);
  };
  canvas.onpointerup = canvas.onpointercancel = event => {
    pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
  };
  canvas.addEventListener("wheel", event => {
    const zooming = event.ctrlKey || event.metaKey;
    if (embedded && !zooming) return; // the notebook scrolls
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 20 : 1;
    if (zooming) {
      zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * unit)) / 300), within(event.clientX, event.clientY));
    } else {
      state.x -= event.deltaX * unit;
      state.y -= event.deltaY * unit;
      move();
    }
  }, {passive: false});

  return {zoom, fit, reveal, dragged: () => travelled >= 4};
};
