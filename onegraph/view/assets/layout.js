"use strict";
/* From the model to boxes and lines: ranks by longest path, then dagre. Nothing here touches a document, so that the
   page and Python's SVG run the same text. */
const layout = (() => {
  const BAND = 110; // nodes that dagre is given at a time; it recurses once for each rank
  const LABELS = 160; // graphs of more nodes than this show the types of tensors only where they are pointed at
  const ACROSS = 2; // ranks that a line from one band to another may pass; it goes straight, past nothing
  const FAR = 150; // ranks that all lines may pass together before the longest are cut and named at their ends
  const SHARED = 4; // readers of a number from which on its lines are cut: a learning rate goes to every update

  function textWidth(text, size, bold = false) {
    let em = 0;
    for (const char of text) {
      if ("iljtfrI.,:;'|![]() ".includes(char)) em += 0.38;
      else if ("mwMW@%×".includes(char)) em += char === "×" ? 0.84 : 0.98;
      else if (char > "\u2e80") em += 1.05;
      else em += char >= "A" && char <= "Z" ? 0.74 : 0.635;
    }
    return em * size * (bold ? 1.1 : 1);
  }

  function shortened(text, limit) {
    const chars = [...text];
    return chars.length <= limit ? text : chars.slice(0, limit - 8).join("") + "…" + chars.slice(-7).join("");
  }

  const shapeText = shape => (shape === null ? "?" : shape.length ? shape.map(dim => dim ?? "?").join("×") : "scalar");
  const typeText = tensor => `${tensor.dtype} ${shapeText(tensor.shape)}`;

  function duration(seconds) {
    const [scale, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    return `${Number((seconds * scale).toPrecision(3))} ${unit}`;
  }

  /* Nodes and edges ------------------------------------------------------------------------------------------- */

  const timeText = timed => (timed.seconds === null ? "" : duration(timed.seconds));

  /* The time of what a node stands for: an op in all its parts, or the partition that it is fused in. */
  const seconds = (model, node) => (node.type === "op" ? model.ops[node.number].seconds
    : node.partition === null ? null : model.partitions[node.partition].seconds);
  const longest = model => [...model.ops, ...model.partitions].reduce((most, one) => Math.max(most, one.seconds ?? 0), 0);

  /* Most ops are in one partition; what is cheap, and read by several, may be computed in each of them. */
  const partitionNames = (model, op) => op.partitions.map(place => `P${model.partitions[place].index}`);
  const fewNames = names => (names.length > 3 ? `${names[0]} +${names.length - 1}` : names.join(" "));
  function opNode(model, number) {
    const op = model.ops[number], partition = op.partition === null ? null : model.partitions[op.partition];
    // the time of a partition stands in its first op
    const time = partition && partition.ops[0] === number ? timeText(op) : "";
    return {id: `o${number}`, type: "op", number, partition: op.partition, title: shortened(op.kind, 30),
            text: shortened(op.name, 28), time, chip: fewNames(partitionNames(model, op)), key: number};
  }

  function partitionNode(model, place) {
    const partition = model.partitions[place], {ops, index} = partition;
    const kinds = ops.map(number => model.ops[number].kind);
    return {id: `p${place}`, type: "partition", number: place, partition: place,
            title: shortened([...new Set(kinds)].join(" + "), 34), text: `${ops.length} ops`, time: timeText(partition),
            chip: `P${index}`, key: Math.min(...ops)};
  }

  function pill(model, id, type, tensor, name) {
    const value = model.tensors[tensor];
    return {id, type, tensor, title: shortened(name, 26), text: shortened(typeText(value), 30), partition: null};
  }

  function measure(node) {
    const small = node.type === "constant";
    const chip = node.chip ? textWidth(node.chip, 10, true) + 20 : 0;
    const time = node.time ? textWidth(node.time, 11, true) + 12 : 0;
    const title = textWidth(node.title, small ? 10.5 : 13, !small) + chip;
    const widths = [title, textWidth(node.text, small ? 10 : 11) + time, node.far ? textWidth(node.far, 10) : 0];
    node.width = Math.round(Math.max(small ? 60 : 96, ...widths) + (small ? 22 : 26));
    node.height = small ? 32 : node.far ? 60 : 46;
  }

  const GAP = 24, BETWEEN = 6; // from an op to what stands beside it, and from one of those to the next

  /* Constants stand beside the op that reads them, and so do graph inputs where another op comes in from above: as
     sources of their own they would pull a long chain to one side. The first are on the right, many on both sides. */
  function besides(nodes, links) {
    for (const node of nodes.values()) {
      const {out: [edge, ...others]} = links.get(node.id);
      if (!["constant", "input"].includes(node.type) || !edge || others.length) continue;
      const reader = nodes.get(edge.to), above = links.get(reader.id).in.map(one => nodes.get(one.from).type);
      if (reader.type === "output" || (node.type === "input" && !above.some(type => ["op", "partition"].includes(type)))) continue;
      edge.beside = true;
      node.host = reader;
      (reader.guests ??= []).push(node);
    }
  }
  function sides({guests = []}) {
    const right = guests.length > 2 ? Math.ceil(guests.length / 2) : guests.length;
    return [guests.slice(0, right), guests.slice(right)];
  }
  const tall = guests => guests.reduce((sum, {height}) => sum + height + BETWEEN, -BETWEEN);

  /* The room that a node takes with its guests; as much on the left as on the right, so that chains stay straight. */
  function room(node) {
    const stacks = sides(node), wide = Math.max(0, ...(node.guests ?? []).map(({width}) => width + GAP));
    return {width: node.width + 2 * wide, height: Math.max(node.height, ...stacks.map(tall))};
  }
  function placeGuests(node, links) {
    sides(node).forEach((stack, left) => {
      const way = left ? -1 : 1;
      let y = node.y - tall(stack) / 2;
      for (const guest of stack) {
        guest.x = node.x + way * (node.width / 2 + GAP + guest.width / 2);
        guest.y = y + guest.height / 2;
        y += guest.height + BETWEEN;
        const edge = links.get(guest.id).out[0], reach = Math.min(14, node.height / 2 - 6);
        edge.start = {x: guest.x - way * guest.width / 2, y: guest.y};
        edge.end = {x: node.x + way * node.width / 2, y: node.y + Math.max(-reach, Math.min(reach, guest.y - node.y))};
        edge.points = [];
      }
    });
  }

  /* Names without the words that all of them begin with: gamma, beta of stem_gamma, stem_beta. */
  function withoutPrefix(names) {
    const words = names.map(name => name.split(/(?<=[_.])/));
    let same = 0;
    while (words.every(parts => parts.length > same + 1 && parts[same] === words[0][same])) same++;
    return words.map(parts => parts.slice(same).join(""));
  }

  /* The constants of a normalization are one node: scale, shift, mean and variance say little beside it. By op. */
  function foldedConstants(model, producer, inputs, held) {
    const found = new Map(), readers = new Map();
    for (const op of model.ops) for (const tensor of new Set(op.inputs)) readers.set(tensor, (readers.get(tensor) ?? 0) + 1);
    const results = new Set(model.outputs.map(([, tensor]) => tensor));
    model.ops.forEach((op, number) => {
      if (model.specs[op.spec].category !== "normalization" || held[number][0] === "p") return;
      const own = [...new Set(op.inputs)].filter(tensor => tensor !== null && !producer.has(tensor) && !results.has(tensor)
        && (inputs.has(tensor) ? model.constants.includes(tensor) && readers.get(tensor) === 1 : true));
      if (own.length > 1) found.set(number, own);
    });
    return found;
  }

  /* What is drawn: ops or, collapsed, the partitions that hold several; graph inputs and outputs; constants beside
     the ops that read them. */
  function elements(model, collapsed) {
    const nodes = new Map(), edges = [], producer = new Map(), inputs = new Map(model.inputs.map(([n, t]) => [t, n]));
    const held = model.ops.map((op, number) =>
      op.partition !== null && collapsed.has(op.partition) && model.partitions[op.partition].ops.length > 1
        ? `p${op.partition}` : `o${number}`);
    const add = node => (nodes.has(node.id) || nodes.set(node.id, node), node.id);
    model.ops.forEach((op, number) => {
      add(held[number][0] === "p" ? partitionNode(model, op.partition) : opNode(model, number));
      op.outputs.forEach(tensor => producer.has(tensor) || producer.set(tensor, held[number]));
    });
    const seen = new Set();
    const join = (from, to, tensor, plain) => {
      const id = `${from} ${to} ${tensor}`;
      if (from !== to && !seen.has(id)) edges.push({id, from, to, tensor, plain});
      seen.add(id);
    };
    const mark = tensor => (model.constants.includes(tensor) ? "constant" : "");
    const folded = foldedConstants(model, producer, inputs, held);
    const hidden = new Set([...folded.values()].flat());
    for (const [name, tensor] of model.inputs) if (!hidden.has(tensor)) add({...pill(model, `i${tensor}`, "input", tensor, name), chip: mark(tensor), key: -1});
    for (const [number, tensors] of folded) {
      const names = withoutPrefix(tensors.map(tensor => model.tensors[tensor].name)).join(", ");
      const node = {id: `n${number}`, type: "constant", folded: tensors, number, partition: null, title: `${tensors.length} constants`,
                    text: shortened(names, 30), key: number - 0.5};
      join(add(node), held[number], tensors[0], true);
    }
    model.ops.forEach((op, number) => op.inputs.forEach(tensor => {
      if (tensor === null || folded.get(number)?.includes(tensor)) return;
      if (producer.has(tensor)) join(producer.get(tensor), held[number], tensor, false);
      else if (inputs.has(tensor)) join(`i${tensor}`, held[number], tensor, true);
      else if (held[number][0] === "o") {
        const node = pill(model, `c${tensor}_${number}`, "constant", tensor, model.tensors[tensor].name);
        join(add({...node, key: number - 0.5}), held[number], tensor, true);
      }
    }));
    model.outputs.forEach(([name, tensor], place) => {
      const source = producer.get(tensor) ?? (inputs.has(tensor) ? `i${tensor}` : null);
      const id = add({...pill(model, `x${place}`, "output", tensor, name), key: model.ops.length + place});
      if (source !== null) join(source, id, tensor, true);
    });
    return {nodes, edges};
  }

  function index(nodes, edges) {
    const links = new Map([...nodes.keys()].map(id => [id, {in: [], out: []}]));
    for (const edge of edges) {
      links.get(edge.from).out.push(edge);
      links.get(edge.to).in.push(edge);
    }
    return links;
  }

  /* Longest path from the sources; sources stand right above what reads them. An edge that closes a cycle is far. */
  function rank(nodes, edges, links) {
    const waits = new Map([...links].map(([id, {in: before}]) => [id, before.length]));
    const left = [...nodes.values()].sort((a, b) => b.key - a.key), ready = [], done = new Set();
    for (const node of left) if (!waits.get(node.id)) ready.push(node.id);
    while (done.size < nodes.size) {
      if (!ready.length) {
        while (done.has(left[left.length - 1].id)) left.pop();
        ready.push(left.pop().id);
      }
      const id = ready.pop(), node = nodes.get(id);
      if (done.has(id)) continue;
      done.add(id);
      node.rank = 0;
      for (const edge of links.get(id).in) {
        if (done.has(edge.from) && edge.from !== id) node.rank = Math.max(node.rank, nodes.get(edge.from).rank + 1);
        else edge.far = true;
      }
      for (const edge of links.get(id).out) {
        waits.set(edge.to, waits.get(edge.to) - 1);
        if (!waits.get(edge.to)) ready.push(edge.to);
      }
    }
    for (const [id, {in: before, out: after}] of links) {
      if (!before.length && after.length) nodes.get(id).rank = Math.min(...after.map(edge => nodes.get(edge.to).rank)) - 1;
    }
  }

  /* Lines over many ranks cost the most and say the least. A graph input is drawn again beside a reader that is far;
     of the others, the longest are cut and named in the reader once they are too many, and so are those of a number
     that many read. */
  function cut(model, nodes, edges, links) {
    const span = edge => nodes.get(edge.to).rank - nodes.get(edge.from).rank;
    for (const {out: after} of links.values()) {
      const numbers = after.filter(edge => !edge.plain && model.tensors[edge.tensor].shape?.every(dim => dim === 1));
      if (numbers.length >= SHARED) for (const edge of numbers) edge.far = true;
    }
    const long = edges.filter(edge => !edge.far && span(edge) > 4).sort((a, b) => span(b) - span(a));
    let total = long.reduce((sum, edge) => sum + span(edge), 0);
    for (const edge of long) {
      const source = nodes.get(edge.from), reader = nodes.get(edge.to), again = source.type === "input" && reader.type !== "output";
      if (!again && total <= FAR) continue;
      total -= span(edge);
      if (again) {
        const copy = {...source, id: `${source.id}_${edge.to}`, rank: reader.rank - 1, key: reader.key - 0.5};
        nodes.set(copy.id, copy);
        edge.from = copy.id;
      } else edge.far = true;
    }
  }

  function nameFar(nodes, edges) {
    for (const edge of edges.filter(edge => edge.far)) {
      const reader = nodes.get(edge.to), source = nodes.get(edge.from);
      const name = source.type === "partition" ? source.chip : source.text;
      reader.far = shortened(reader.far ? `${reader.far}, ${name}` : `⤷ from ${name}`, 34);
    }
  }

  /* Ranges of ranks to lay out one by one, cut where the fewest lines cross. */
  function bands(nodes, edges) {
    const hosts = [...nodes.values()].filter(node => !node.host), crosses = edge => !edge.far && !edge.beside;
    const ranks = hosts.map(node => node.rank), low = ranks.reduce((a, b) => Math.min(a, b), 0);
    const count = new Array(ranks.reduce((a, b) => Math.max(a, b), 0) - low + 1).fill(0), crossing = count.slice();
    for (const node of hosts) count[(node.rank -= low)]++;
    for (const edge of edges.filter(crosses)) {
      for (let at = nodes.get(edge.from).rank; at < nodes.get(edge.to).rank; at++) crossing[at]++;
    }
    const cuts = [];
    let held = 0, best = -1;
    for (let at = 0; at < count.length; at++) {
      held += count[at];
      if (held < BAND / 2) continue;
      if (best < 0 || crossing[at] <= crossing[best]) best = at;
      if (held >= BAND) {
        cuts.push(best);
        held = 0;
        at = best;
        best = -1;
      }
    }
    const found = cuts.length && nodes.size > LABELS ? [...cuts, count.length - 1] : [count.length - 1];
    const bandOf = [];
    let start = 0;
    for (const [number, end] of found.entries()) for (; start <= end; start++) bandOf[start] = number;
    const made = found.map(() => ({nodes: [], edges: []})), between = [];
    for (const node of hosts) made[bandOf[node.rank]].nodes.push(node);
    for (const edge of edges.filter(crosses)) {
      const from = nodes.get(edge.from).rank, to = nodes.get(edge.to).rank;
      if (bandOf[from] === bandOf[to]) made[bandOf[from]].edges.push(edge);
      else if (to - from > ACROSS) edge.far = true;
      else between.push(edge);
    }
    return {bands: made, between};
  }

  function placeBand(band) {
    const graph = new dagre.graphlib.Graph({multigraph: true});
    graph.setGraph({rankdir: "TB", nodesep: 26, edgesep: 14, ranksep: 40});
    for (const node of band.nodes) graph.setNode(node.id, room(node));
    for (const edge of band.edges) {
      const label = edge.label ? {width: textWidth(edge.label, 10.5) + 8, height: 14, labelpos: "c"} : {};
      const tight = edge.plain ? 1 : 3;
      graph.setEdge(edge.from, edge.to, {...label, weight: tight, minlen: 1}, edge.id);
    }
    dagre.layout(graph);
    for (const node of band.nodes) ({x: node.x, y: node.y} = graph.node(node.id));
    for (const edge of band.edges) {
      const placed = graph.edge(edge.from, edge.to, edge.id);
      edge.points = placed.points;
      if (edge.label) edge.at = {x: placed.x, y: placed.y};
    }
    const xs = band.nodes.flatMap(({x, width}) => [x - width / 2, x + width / 2]);
    return {left: Math.min(...xs), right: Math.max(...xs), height: graph.graph().height};
  }

  /* Bands one under the other, each moved sideways until the lines into it run straight down. */
  function stack(found, nodes) {
    let top = 0;
    const done = new Set();
    for (const band of found.bands) {
      const size = placeBand(band), here = new Set(band.nodes.map(node => node.id));
      const shifts = found.between.filter(edge => here.has(edge.to) && done.has(edge.from))
        .map(edge => nodes.get(edge.from).x - nodes.get(edge.to).x).sort((a, b) => a - b);
      const dx = shifts.length ? shifts[shifts.length >> 1] : -(size.left + size.right) / 2;
      for (const node of band.nodes) {
        node.x += dx;
        node.y += top;
        done.add(node.id);
      }
      for (const edge of band.edges) {
        edge.points = edge.points.map(({x, y}) => ({x: x + dx, y: y + top}));
        if (edge.at) edge.at = {x: edge.at.x + dx, y: edge.at.y + top};
      }
      top += size.height + 44;
    }
  }

  /* Lines leave at the bottom and arrive at the top, side by side in the order in which they come. */
  function attach(nodes, edges, links) {
    for (const edge of edges.filter(edge => !edge.beside)) {
      const from = nodes.get(edge.from), to = nodes.get(edge.to);
      edge.points = edge.points ? edge.points.slice(1, -1) : [];
      edge.start = {x: from.x, y: from.y + from.height / 2};
      edge.end = {x: to.x, y: to.y - to.height / 2};
    }
    const spread = (found, node, next, end) => {
      const near = found.filter(edge => !edge.far && !edge.beside).map(edge => [next(edge), edge]).sort((a, b) => a[0] - b[0]);
      const step = Math.min(22, (node.width - 24) / Math.max(1, near.length));
      near.forEach(([, edge], place) => (edge[end].x = node.x + (place - (near.length - 1) / 2) * step));
    };
    for (const node of nodes.values()) {
      const {in: before, out: after} = links.get(node.id);
      spread(before, node, edge => (edge.points[edge.points.length - 1] ?? edge.start).x, "end");
      // one tensor leaves by one point, however many read it
      const tensors = [...new Set(after.map(edge => edge.tensor))];
      for (const edge of after) if (edge.rootLabel) edge.at = {x: node.x, y: node.y + node.height / 2 + 13};
      if (tensors.length > 1) spread(after, node, edge => (edge.points[0] ?? edge.end).x, "start");
    }
  }

  /* The picture of a model: nodes with x, y (of the centre), width and height; edges with start, points, end. */
  function scene(model, collapsed = new Set()) {
    const {nodes, edges} = elements(model, collapsed);
    const before = index(nodes, edges);
    rank(nodes, edges, before);
    cut(model, nodes, edges, before);
    const links = index(nodes, edges);
    for (const edge of edges) edge.type = typeText(model.tensors[edge.tensor]);
    for (const {out: after} of nodes.size > LABELS ? [] : links.values()) {
      for (const edge of after) {
        // a tensor that several read is named once, where it leaves; dagre makes room for the name of the others
        const same = after.filter(other => other.tensor === edge.tensor && !other.far);
        if (edge.plain || edge.far || same.find(other => !other.plain) !== edge) continue;
        edge[same.length > 1 ? "rootLabel" : "label"] = shortened(edge.type, 32);
      }
    }
    besides(nodes, links);
    const found = nodes.size ? bands(nodes, edges) : {bands: []};
    nameFar(nodes, edges);
    for (const node of nodes.values()) measure(node);
    stack(found, nodes);
    for (const node of nodes.values()) placeGuests(node, links);
    attach(nodes, edges, links);
    const all = [...nodes.values()], margin = 36;
    const box = {
      left: all.reduce((low, node) => Math.min(low, node.x - node.width / 2), 0) - margin,
      right: all.reduce((high, node) => Math.max(high, node.x + node.width / 2), 0) + margin,
      top: all.reduce((low, node) => Math.min(low, node.y - node.height / 2), 0) - margin,
      bottom: all.reduce((high, node) => Math.max(high, node.y + node.height / 2), 0) + margin,
    };
    for (const {x} of edges.flatMap(edge => edge.points)) [box.left, box.right] = [Math.min(box.left, x - margin), Math.max(box.right, x + margin)];
    return {nodes, edges, links, box};
  }

  return {scene, shapeText, typeText, duration, seconds, longest, textWidth, shortened, partitionNames};
})();
