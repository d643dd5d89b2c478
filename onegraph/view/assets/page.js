"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const model = JSON.parse($("model").textContent), {shown, element} = panel(model);
  const canvas = $("canvas"), view = $("view"), aside = $("panel"), search = $("search");
  const COLLAPSE_FROM = 300; // ops; graphs of more start with each partition as one box
  const several = model.partitions.flatMap((one, place) => (one.ops.length > 1 ? [place] : []));
  const state = {mode: draw.usual(model), filter: "", chosen: null, hits: [], hit: -1, collapsed: new Set()};
  if (model.ops.length > COLLAPSE_FROM) several.forEach(place => state.collapsed.add(place));
  let scene = null, shapes = new Map(), lines = [];
  const eye = camera(canvas, view, () => scene, model.embedded, $("legend"));

  /* Drawing ----------------------------------------------------------------------------------------------------- */

  function redraw() {
    view.innerHTML = draw.inside(model, scene, state.mode);
    shapes = new Map([...view.querySelectorAll(".node")].map(shape => [shape.id, shape]));
    lines = [...view.querySelectorAll(".edge, .type")];
    mark();
    legend();
  }
  function relayout(keep = false) {
    scene = layout.scene(model, state.collapsed);
    redraw();
    if (!keep) eye.fit(false);
    $("collapse").setAttribute("aria-pressed", String(several.length > 0 && state.collapsed.size === several.length));
  }
  const nodeOf = number => {
    const {partition} = model.ops[number];
    return scene.nodes.has(`o${number}`) ? `o${number}` : `p${partition}`;
  };
  function nodesOf(target) {
    if (target === null) return [];
    const id = target.slice(1);
    if (target[0] === "o") return [nodeOf(Number(id))];
    if (target[0] === "p") return scene.nodes.has(target) ? [target] : [...new Set(model.partitions[id].ops.map(nodeOf))];
    return [...scene.nodes.values()].filter(node => node.tensor === id || node.folded?.includes(id)).map(node => node.id);
  }
  const FILTERS = {
    fused: node => draw.facts(model, node).fused,
    numpy: node => draw.facts(model, node).fallback,
    violations: node => draw.facts(model, node).violations.length > 0,
  };
  function mark() {
    const chosen = new Set(nodesOf(state.chosen)), hits = new Set(state.hits.map(nodeOf));
    const keep = FILTERS[state.filter], kept = new Set();
    for (const [id, shape] of shapes) {
      shape.classList.toggle("chosen", chosen.has(id));
      shape.classList.toggle("hit", hits.has(id));
      if (keep?.(scene.nodes.get(id))) kept.add(id);
      shape.classList.toggle("kept", kept.has(id));
    }
    const focused = document.activeElement?.classList.contains("node") ? document.activeElement.id : null;
    const tensor = state.chosen?.[0] === "t" ? state.chosen.slice(1) : null;
    for (const line of lines) {
      const {from, to} = line.dataset;
      const touched = state.chosen?.[0] === "p" && chosen.size > 1 ? false : chosen.has(from) || chosen.has(to);
      line.classList.toggle("near", tensor ? line.dataset.tensor === tensor : touched || from === focused || to === focused);
      line.classList.toggle("kept", kept.has(from) && kept.has(to));
    }
    for (const hull of view.querySelectorAll(".hull")) {
      hull.classList.toggle("kept", model.partitions[hull.dataset.partition].ops.some(number => kept.has(`o${number}`)));
    }
    view.classList.toggle("dim", Boolean(keep));
  }

  /* Choosing ---------------------------------------------------------------------------------------------------- */

  function choose(target, {look = false, focus = false} = {}) {
    if (target?.[0] === "o" && look) {
      const {partition} = model.ops[target.slice(1)];
      if (partition !== null && state.collapsed.delete(partition)) relayout(true);
    }
    state.chosen = target;
    aside.replaceChildren(...shown(target));
    if (target !== null) {
      const close = element("button", {type: "button", className: "close", textContent: "✕", title: "Close (Esc)"});
      close.setAttribute("aria-label", "close");
      close.onclick = () => choose(null);
      aside.prepend(close);
    }
    if (target?.[0] === "p" && several.includes(Number(target.slice(1)))) {
      const place = Number(target.slice(1)), folded = state.collapsed.has(place);
      const fold = element("button", {type: "button", textContent: folded ? "Expand into its ops" : "Collapse into one box"});
      fold.onclick = () => toggle(place);
      aside.querySelector(".chips").after(fold);
    }
    const uncovered = aside.hidden && target !== null; // which may cover what was chosen
    aside.hidden = target === null && model.embedded;
    aside.scrollTop = 0;
    mark();
    const ids = nodesOf(target);
    if (look || uncovered) eye.reveal(ids.map(id => scene.nodes.get(id)));
    if (focus && ids.length) shapes.get(ids[0]).focus({preventScroll: true});
  }
  function toggle(place) {
    if (!state.collapsed.delete(place)) state.collapsed.add(place);
    relayout(true);
    choose(`p${place}`, {look: true});
  }
  function collapseAll() {
    if (!several.length) return;
    const whole = state.collapsed.size === several.length;
    state.collapsed = new Set(whole ? [] : several);
    if (state.chosen?.[0] === "o") state.chosen = null;
    relayout();
    choose(state.chosen, {look: state.chosen !== null});
  }
  const targetOf = shape => {
    const node = scene.nodes.get(shape.id);
    return node.folded ? `o${node.number}` : node.tensor === undefined ? node.id : `t${node.tensor}`;
  };

  /* Search ------------------------------------------------------------------------------------------------------ */

  const words = model.ops.map(op => {
    const tensors = [...op.inputs.filter(id => id !== null), ...op.outputs].map(id => model.tensors[id]);
    return [op.kind, op.name, ...layout.partitionNames(model, op), ...tensors.map(one => `${one.name} ${one.dtype} ${layout.shapeText(one.shape)}`),
            ...Object.entries(op.attrs).flat(), ...op.violations.map(found => `${found.rule} ${found.severity}`)].join(" ").toLowerCase();
  });
  function find() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    state.hits = wanted.length ? words.flatMap((text, number) => (wanted.every(word => text.includes(word)) ? [number] : [])) : [];
    const name = search.value.toLowerCase().trim(); // ops of that very kind or name first
    const first = number => (["kind", "name"].some(key => model.ops[number][key].toLowerCase() === name) ? 0 : 1);
    state.hits.sort((a, b) => first(a) - first(b) || a - b);
    state.hit = -1;
    $("hits").textContent = wanted.length ? `${state.hits.length} found` : "";
    mark();
  }
  function next(step) {
    if (!state.hits.length) return;
    state.hit = (state.hit + step + state.hits.length) % state.hits.length;
    $("hits").textContent = `${state.hit + 1} of ${state.hits.length}`;
    choose(`o${state.hits[state.hit]}`, {look: true});
  }
  search.oninput = find;
  search.onkeydown = event => {
    if (event.key === "Escape") {
      search.value = "";
      find();
      canvas.focus();
      event.stopPropagation();
    } else if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  };

  /* Buttons, legend --------------------------------------------------------------------------------------------- */

  const MODES = {partition: "Partitions", heat: "Time", category: "Kinds"};
  const timed = model.partitions.some(one => one.seconds !== null);
  const modes = Object.keys(MODES).filter(mode => mode === "category" || (mode === "heat" ? timed : model.partitions.length));
  const any = {fused: model.partitions.some(one => one.fused), numpy: model.partitions.some(one => one.numpy),
               reference: model.partitions.some(one => one.reference),
               violations: model.ops.some(op => op.violations.some(one => !draw.isLimit(one)))};
  function press(group, name) {
    for (const button of $(group).children) button.setAttribute("aria-pressed", String(button.dataset.name === name));
  }
  function setMode(mode) {
    state.mode = mode;
    press("modes", mode);
    redraw();
  }
  function setFilter(name) {
    if (!any[name]) return;
    state.filter = state.filter === name ? "" : name;
    press("filters", state.filter);
    mark();
  }
  function buttons(group, names, act, title) {
    for (const [name, text] of names) {
      const button = element("button", {type: "button", textContent: text, title: title(name)});
      button.dataset.name = name;
      button.onclick = () => act(name);
      $(group).append(button);
    }
  }
  function legend() {
    const box = (marks, inside) => {
      const made = element("span");
      made.innerHTML = `<svg class="onegraph" width="26" height="17" viewBox="0 0 26 17" aria-hidden="true">${inside
        ?? `<g class="${marks}"><rect class="body" x="1" y="1" width="24" height="15" rx="4"/></g>`}</svg>`;
      return made.firstChild;
    };
    const line = (swatch, text) => element("li", {}, swatch, element("span", {textContent: text}));
    const items = [];
    if (state.mode === "category") {
      const present = new Set(model.specs.map(spec => spec.category));
      draw.CATEGORIES.forEach((name, place) => present.has(name) && items.push(line(box(`c${place % 12}`), name)));
    } else if (state.mode === "heat") {
      const scale = element("li", {className: "scale"}), most = layout.longest(model);
      scale.innerHTML = `<svg class="onegraph" viewBox="0 0 90 10" height="12" preserveAspectRatio="none" aria-hidden="true">${
        [...Array(9).keys()].map(step => `<rect class="q${step}" x="${step * 10}" width="10" height="10" style="stroke:none"/>`).join("")}</svg>`;
      items.push(element("li", {textContent: "time of a partition"}), scale, element("li", {className: "ends"},
        element("span", {textContent: "0"}), element("span", {textContent: layout.duration(most)})));
    } else items.push(line(box("c0"), "partition, in its colour"));
    if (any.fused && !state.collapsed.size) {
      items.push(line(box("", `<g class="hull c0"><rect width="26" height="17" rx="5"/></g><g class="c0"><rect x="4" y="3.5" width="18" height="10" rx="3"/></g>`), "fused: one kernel"));
    }
    if (any.numpy) items.push(line(box("", `<g class="plain fallback"><rect class="body" x="1" y="1" width="24" height="15" rx="4"/><rect class="hatch" x="1" y="1" width="24" height="15" rx="4" fill="url(#og-hatch)"/></g>`), "fallback: runs on numpy"));
    if (any.reference) items.push(line(box("plain slow"), "slow: reference kernel"));
    if (any.violations) items.push(line(box("", `<g class="badge severe" transform="translate(8 8.5) scale(.75)"><circle r="10"/></g><g class="badge mild" transform="translate(19 8.5) scale(.6)"><circle r="10"/></g>`), "violation: error, or a note"));
    items.push(line(box("", `<g class="input"><rect class="body" x="1" y="1" width="24" height="15" rx="7.5"/></g>`), "graph input or output"));
    if (Object.values(model.tensors).some(one => one.value !== null)) {
      items.push(line(box("", `<g class="constant"><rect class="body" x="1" y="3" width="24" height="11" rx="5.5"/></g>`), "constant"));
    }
    $("keys").replaceChildren(...items);
  }
  const KEYS = [["↑ ↓ ← →", "to the op before, behind, or beside"], ["Tab", "through everything, from top to bottom"], ["Enter", "open in the panel"],
    ["Esc", "close, back to the overview"], ["/", "search; Enter to the next, Shift Enter back"], ["+ − 0", "zoom, fit"], ["f n v", "only fused, numpy fallback, violations"],
    ["c", "partitions as boxes"], ["m", "next colouring"], ["s", "save as SVG"]];
  function help() {
    $("helping").replaceChildren(element("h2", {textContent: "Keys"}), element("table", {}, element("tbody", {}, ...KEYS.map(([keys, text]) =>
      element("tr", {}, element("td", {}, ...keys.split(" ").flatMap(key => [element("kbd", {textContent: key}), " "])), element("td", {textContent: text}))))),
      element("p", {className: "muted", textContent: "Drag or scroll to move; Ctrl and scroll, or pinch, to zoom; double click a partition to open it."}),
      element("button", {type: "button", textContent: "Close", onclick: () => $("helping").close()}));
    $("helping").showModal();
  }
  function save() {
    const text = draw.svg(model, state.mode, $("drawing").textContent, state.collapsed);
    const link = element("a", {href: URL.createObjectURL(new Blob([text], {type: "image/svg+xml"})), download: "graph.svg"});
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /* Hands ------------------------------------------------------------------------------------------------------- */

  canvas.onclick = event => {
    if (eye.dragged()) return;
    const node = event.target.closest(".node"), line = event.target.closest(".edge, .type"), hull = event.target.closest(".hull");
    if (node) node.focus({preventScroll: true});
    choose(node ? targetOf(node) : line ? `t${line.dataset.tensor}` : hull ? `p${hull.dataset.partition}` : null);
  };
  canvas.ondblclick = event => {
    const node = event.target.closest(".node.partition"), hull = event.target.closest(".hull");
    if (node) toggle(scene.nodes.get(node.id).number);
    else if (hull) toggle(Number(hull.dataset.partition));
  };
  aside.onclick = event => {
    const target = event.target.closest("[data-target]")?.dataset.target;
    if (target) choose(target, {look: true});
  };
  $("zoom").onclick = event => {
    const way = event.target.dataset.zoom;
    if (way) way === "fit" ? eye.fit() : eye.zoom(way === "in" ? 1.3 : 1 / 1.3);
  };

  /* Keys -------------------------------------------------------------------------------------------------------- */

  const byPlace = (a, b) => a.y - b.y || a.x - b.x;
  function neighbour(id, key) {
    const here = scene.nodes.get(id), ends = list => list.map(([edge, end]) => scene.nodes.get(edge[end]));
    const {in: before, out: after} = scene.links.get(id);
    const rank = node => ["op", "partition"].includes(node.type) ? 0 : 1; // ops before inputs and constants
    const near = list => list.sort((a, b) => rank(a) - rank(b) || Math.abs(a.x - here.x) - Math.abs(b.x - here.x))[0];
    if (key === "ArrowDown") return near(ends(after.map(edge => [edge, "to"])));
    if (key === "ArrowUp") return near(ends(before.map(edge => [edge, "from"])));
    const way = key === "ArrowLeft" ? -1 : 1;
    const beside = [...scene.nodes.values()].filter(node => (node.x - here.x) * way > 1 && Math.abs(node.y - here.y) < 40);
    return beside.sort((a, b) => Math.abs(a.x - here.x) - Math.abs(b.x - here.x))[0];
  }
  function step(key) {
    const focused = document.activeElement?.closest?.(".node")?.id ?? nodesOf(state.chosen)[0];
    const first = () => [...scene.nodes.values()].sort(byPlace)[0];
    const node = focused && scene.nodes.has(focused) ? neighbour(focused, key) : first();
    if (!node) return;
    shapes.get(node.id).focus({preventScroll: true});
    eye.reveal([node]);
  }
  const ACTS = {
    "/": () => { search.focus(); search.select(); }, "+": () => eye.zoom(1.3), "=": () => eye.zoom(1.3), "-": () => eye.zoom(1 / 1.3), 0: () => eye.fit(),
    f: () => setFilter("fused"), n: () => setFilter("numpy"), v: () => setFilter("violations"), c: collapseAll, s: save, "?": help,
    m: () => setMode(modes[(modes.indexOf(state.mode) + 1) % modes.length]),
    Escape: () => { choose(null); if (state.filter) setFilter(state.filter); },
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("helping").open || event.target === search) return;
    const node = event.target.closest?.(".node"), inPanel = aside.contains(event.target);
    if (event.key.startsWith("Arrow") && !inPanel) step(event.key);
    else if (event.key === "Enter" && node) choose(targetOf(node));
    else if (Object.hasOwn(ACTS, event.key)) ACTS[event.key]();
    else return;
    event.preventDefault();
  });
  view.addEventListener("focusin", event => {
    mark();
    const node = scene.nodes.get(event.target.id);
    if (node && event.target.matches(":focus-visible")) eye.reveal([node]);
  });
  view.addEventListener("focusout", () => mark());

  /* Start ------------------------------------------------------------------------------------------------------- */

  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const total = model.partitions.reduce((sum, one) => sum + (one.seconds ?? 0), 0);
  const numpy = model.partitions.filter(one => one.numpy).length, reference = model.partitions.filter(one => one.reference).length;
  const found = model.ops.reduce((all, op) => all.concat(op.violations), model.violations);
  const limits = found.filter(draw.isLimit).length, wrong = found.length - limits;
  model.summary = [plural(model.ops.length, "op"), model.partitions.length ? plural(model.partitions.length, "partition") : "",
    any.fused ? `${model.partitions.filter(one => one.fused).length} fused` : "", numpy ? `${numpy} on numpy` : "",
    reference ? plural(reference, "reference kernel") : "", wrong ? plural(wrong, "violation") : "",
    timed ? `${layout.duration(total)} a run` : "", model.library, limits ? plural(limits, "library limit") : ""].filter(Boolean).join(" · ");
  $("summary").textContent = $("summary").title = model.summary;
  buttons("modes", modes.map(mode => [mode, MODES[mode]]), setMode, () => "Next colouring (m)");
  buttons("filters", Object.entries({fused: "Fused", numpy: "Numpy", violations: "Violations"}).filter(([name]) => any[name]),
    setFilter, name => `Only these (${name[0]})`);
  if (modes.length < 2) $("modes").hidden = true;
  $("collapse").hidden = !several.length;
  $("collapse").onclick = collapseAll;
  $("save").onclick = save;
  $("help").onclick = help;
  document.body.classList.toggle("embedded", model.embedded);
  $("legend").open = !model.embedded && innerWidth > 760;
  setTimeout(() => { // after the first paint, which says that the graph is being laid out
    scene = layout.scene(model, state.collapsed);
    press("modes", state.mode);
    redraw();
    choose(null);
    eye.fit(false);
    $("collapse").setAttribute("aria-pressed", String(several.length > 0 && state.collapsed.size === several.length));
    $("busy").hidden = true;
    document.documentElement.dataset.ready = "true";
  }, 30);
})();
