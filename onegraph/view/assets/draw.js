"use strict";
/* From boxes and lines to the text of an SVG. Every text of a user passes through escaped(). */
const draw = (() => {
  const ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"};
  // XML has no place for control characters
  const escaped = text => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, "�")
    .replace(/[&<>"']/g, char => ESCAPES[char]);
  const round = number => Math.round(number * 10) / 10;
  const CATEGORIES = ["convolution", "matmul", "normalization", "elementwise", "binary", "pooling", "reduction",
                      "movement", "quantization", "interpolation", "misc", "legacy", "unknown"];

  function path(edge) {
    if (edge.beside) {
      const {start, end} = edge, x = round((start.x + end.x) / 2), stop = round(end.x + Math.sign(start.x - end.x) * 2);
      return `M${round(start.x)} ${round(start.y)}C${x} ${round(start.y)} ${x} ${round(end.y)} ${stop} ${round(end.y)}`;
    }
    const points = [edge.start, ...edge.points, {x: edge.end.x, y: edge.end.y - 2}];
    let text = `M${round(points[0].x)} ${round(points[0].y)}`;
    for (let at = 1; at < points.length; at++) {
      const {x: x0, y: y0} = points[at - 1], {x, y} = points[at];
      const bend = edge.far ? Math.max(60, Math.abs(y - y0) / 3) : (y - y0) / 2;
      if (Math.abs(x - x0) < 0.5 && !edge.far) text += `L${round(x)} ${round(y)}`;
      else text += `C${round(x0)} ${round(y0 + bend)} ${round(x)} ${round(y - bend)} ${round(x)} ${round(y)}`;
    }
    return text;
  }

  /* The class that colours a node: c0 to c11, or q0 to q8 for heat, or plain. */
  function colour(model, node, mode) {
    if (node.partition === null && node.type !== "op") return "plain";
    const partition = node.partition === null ? null : model.partitions[node.partition];
    if (mode === "category" && node.type === "op") {
      const place = CATEGORIES.indexOf(model.specs[model.ops[node.number].spec].category);
      return `c${(place < 0 ? CATEGORIES.length - 1 : place) % 12}`;
    }
    if (mode === "heat") {
      const most = layout.longest(model), seconds = layout.seconds(model, node);
      return seconds === null || !most ? "plain" : `q${Math.round(seconds / most * 8)}`;
    }
    return partition?.executor !== "oneDNN" || partition.reference ? "plain" : `c${(node.partition * 5) % 12}`;
  }

  const opsOf = (model, node) =>
    node.type === "op" ? [node.number] : node.type === "partition" ? model.partitions[node.number].ops : [];
  const severe = found => found.some(one => one.severity === "error");
  // what the library lacks or gets wrong, though the graph is right: the executor goes around it
  const isLimit = one => one.severity === "library" || one.severity === "unsafe";

  function facts(model, node) {
    const partition = node.partition === null ? null : model.partitions[node.partition];
    const violations = opsOf(model, node).flatMap(number => model.ops[number].violations).filter(one => !isLimit(one));
    const fallback = node.type === "op" ? model.ops[node.number].numpy : Boolean(partition?.numpy);
    return {partition, violations, fallback, reference: Boolean(partition?.reference), seconds: layout.seconds(model, node), fused: Boolean(partition?.fused)};
  }

  function spoken(model, node) {
    const {partition, violations, fallback, reference, seconds, fused} = facts(model, node);
    const parts = [node.folded ? `${node.title}, ${node.folded.map(id => model.tensors[id].name).join(", ")}`
      : node.type === "op" ? `${model.ops[node.number].kind} ${model.ops[node.number].name}`
      : node.type === "partition" ? `partition ${partition.index}: ${partition.ops.map(n => model.ops[n].kind).join(", ")}`
      : `${node.type} ${node.type === "output" ? node.title : model.tensors[node.tensor].name}, ${node.text}`];
    if (node.type === "input" && node.chip) parts.push(node.chip);
    if (node.type === "op") parts.push(...model.ops[node.number].partitions.map(place => `partition ${model.partitions[place].index}`));
    if (fused) parts.push("fused");
    if (fallback) parts.push("runs on numpy");
    if (reference) parts.push("reference kernel");
    if (seconds !== null) parts.push(layout.duration(seconds));
    if (violations.length) parts.push(`${violations.length} violation${violations.length > 1 ? "s" : ""}`);
    return parts.join(", ");
  }

  function drawNode(model, node, mode) {
    const {violations, fallback, reference, fused} = facts(model, node);
    const {width, height, type} = node, small = type === "constant", left = -width / 2, top = -height / 2;
    const lone = mode === "partition" && type === "op" && !fused && !fallback && !reference;
    const marks = [type, colour(model, node, mode), lone && "lone", fallback && "fallback", reference && "slow", fused && "fused",
                   violations.length && "violating"].filter(Boolean).join(" ");
    const label = escaped(spoken(model, node));
    const radius = type === "op" || type === "partition" ? 9 : height / 2;
    const rect = extra => `<rect x="${left}" y="${top}" width="${width}" height="${height}" rx="${radius}"${extra}/>`;
    const pad = small ? 11 : 13;
    let text = `<g class="node ${marks}" id="${node.id}" transform="translate(${round(node.x)} ${round(node.y)})" `
      + `tabindex="0" role="button" aria-label="${label}"><title>${label}</title>`;
    if (type === "partition") text += `<rect class="stack" x="${left + 4}" y="${top + 4}" width="${width}" height="${height}" rx="9"/>`;
    text += rect(' class="body"');
    if (fallback) text += rect(' class="hatch" fill="url(#og-hatch)"');
    const line = (kind, y, words) => `<text class="${kind}" x="${left + pad}" y="${y}">${escaped(words)}</text>`;
    text += line("title", small ? -2 : node.far ? top + 19 : -4, node.title);
    text += line("name", small ? 11 : node.far ? top + 34 : 13, node.text);
    if (node.far) text += line("cut", top + 50, node.far);
    if (node.chip) {
      const wide = layout.textWidth(node.chip, 10, true) + 10, x = -left - wide - 9;
      text += `<rect class="chip" x="${round(x)}" y="${top + 8}" width="${round(wide)}" height="15" rx="7.5"/>`
        + `<text class="chip" x="${round(x + wide / 2)}" y="${top + 19}">${escaped(node.chip)}</text>`;
    }
    if (node.time) text += `<text class="time" x="${-left - 10}" y="${node.far ? top + 34 : 13}">${escaped(node.time)}</text>`;
    if (violations.length) {
      text += `<g class="badge ${severe(violations) ? "severe" : "mild"}" transform="translate(${-left - 4} ${top + 2})">`
        + `<circle r="10"/><text y="4">${violations.length > 9 ? "9+" : violations.length}</text></g>`;
    }
    return text + "</g>";
  }

  function drawEdge(model, edge) {
    const marks = `edge${edge.far ? " far" : ""}${edge.plain ? " data" : ""}`;
    const tensor = model.tensors[edge.tensor], line = path(edge);
    let text = `<g class="${marks}" data-tensor="${escaped(edge.tensor)}" data-from="${edge.from}" data-to="${edge.to}">`
      + `<title>${escaped(`${tensor.name}: ${edge.type}`)}</title><path class="reach" d="${line}"/>`
      + `<path class="line" d="${line}" marker-end="url(#og-arrow)"/>`;
    return text + "</g>";
  }

  function drawLabel(model, edge) {
    const name = edge.label ?? edge.rootLabel, wide = layout.textWidth(name, 10.5) + 8;
    const label = `${model.tensors[edge.tensor].name}: ${edge.type}`;
    return `<g class="type" data-tensor="${escaped(edge.tensor)}" data-from="${edge.from}" data-to="${edge.to}">`
      + `<title>${escaped(label)}</title><rect x="${round(edge.at.x - wide / 2)}" y="${round(edge.at.y - 7.5)}" `
      + `width="${round(wide)}" height="15" rx="4"/>`
      + `<text x="${round(edge.at.x)}" y="${round(edge.at.y + 3.8)}">${escaped(name)}</text></g>`;
  }

  /* The ground under the ops of a fused partition: their boxes, and the lines between them drawn broad. */
  function hulls(model, scene, mode) {
    let text = "";
    model.partitions.forEach((partition, place) => {
      const members = partition.ops.map(number => scene.nodes.get(`o${number}`)).filter(Boolean);
      if (members.length < 2) return;
      const inside = new Set(members.map(node => node.id));
      text += `<g class="hull ${colour(model, members[0], mode === "category" ? "partition" : mode)}" data-partition="${place}">`;
      for (const {x, y, width, height} of members) {
        text += `<rect x="${round(x - width / 2 - 9)}" y="${round(y - height / 2 - 9)}" width="${width + 18}" height="${height + 18}" rx="15"/>`;
      }
      for (const edge of scene.edges) {
        if (!edge.far && inside.has(edge.from) && inside.has(edge.to)) text += `<path d="${path(edge)}"/>`;
      }
      text += "</g>";
    });
    return text;
  }

  const DEFS = `<defs><marker id="og-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" `
    + `orient="auto-start-reverse"><path d="M0.5 0.8 7.2 4 0.5 7.2z"/></marker>`
    + `<pattern id="og-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`
    + `<path d="M0 0V7" class="stripe"/></pattern></defs>`;

  /* Everything inside the <svg>. */
  function inside(model, scene, mode) {
    return DEFS + `<g class="hulls">${hulls(model, scene, mode)}</g>`
      + `<g class="edges">${scene.edges.map(edge => drawEdge(model, edge)).join("")}</g>`
      + `<g class="types">${scene.edges.filter(edge => edge.at).map(edge => drawLabel(model, edge)).join("")}</g>`
      + `<g class="nodes">${[...scene.nodes.values()].sort((a, b) => a.y - b.y || a.x - b.x).map(node => drawNode(model, node, mode)).join("")}</g>`;
  }

  /* A whole SVG document. */
  function svg(model, mode, style, collapsed = new Set()) {
    const scene = layout.scene(model, collapsed), {left, top, right, bottom} = scene.box;
    const [width, height] = [round(right - left), round(bottom - top)];
    const still = inside(model, scene, mode).replaceAll(' tabindex="0" role="button"', "");
    return `<svg xmlns="http://www.w3.org/2000/svg" class="onegraph" role="img" aria-label="${escaped(model.title)}" `
      + `width="${width}" height="${height}" viewBox="${round(left)} ${round(top)} ${width} ${height}"><style>${style}</style>`
      + `<rect class="ground" x="${round(left)}" y="${round(top)}" width="${width}" height="${height}"/>${still}</svg>`;
  }

  const usual = model => (model.partitions.some(one => one.seconds !== null) ? "heat"
    : model.partitions.length ? "partition" : "category");

  return {inside, svg, escaped, colour, facts, spoken, usual, severe, isLimit, CATEGORIES};
})();
