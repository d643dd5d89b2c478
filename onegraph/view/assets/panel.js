"use strict";
/* The panel beside the drawing: what is known of the thing that was chosen. Text goes in as text, never as HTML. */
const panel = model => {
  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children.filter(child => child !== null && child !== ""));
    return made;
  }
  const h3 = text => element("h3", {textContent: text});
  const long = text => (text.length > 24 ? "long" : "brief"); // the long ones may break anywhere
  const value = text => element("span", {className: `value ${long(text)}`, textContent: text});
  const muted = text => element("p", {className: "muted", textContent: text});
  const table = (heads, rows) => element("table", {},
    heads && element("thead", {}, element("tr", {}, ...heads.map(head => element("th", {scope: "col", textContent: head})))),
    element("tbody", {}, ...rows));
  const row = (cells, className = "") => element("tr", {className},
    ...cells.map(cell => cell?.tagName === "TD" ? cell : element("td", {className: /\S{24}/.test(cell) ? "long" : ""}, cell ?? "")));
  const bytes = count => (count === null || count === undefined ? "" : `${count.toLocaleString("en")} bytes`);
  const shape = tensor => (tensor.shape === null ? "unknown rank" : `[${tensor.shape.map(dim => dim ?? "?").join(", ")}]`);

  const producers = new Map(), readers = new Map();
  model.ops.forEach((op, number) => {
    op.outputs.forEach((tensor, port) => producers.set(tensor, [number, port]));
    op.inputs.forEach((tensor, port) => {
      if (tensor !== null) readers.set(tensor, [...(readers.get(tensor) ?? []), [number, port]]);
    });
  });
  const to = (text, target) => {
    const made = element("button", {type: "button", className: `link ${/\S{24}/.test(text) ? "long" : ""}`, textContent: text});
    made.dataset.target = target;
    return made;
  };
  const opLink = number => to(`${model.ops[number].kind} ${model.ops[number].name}`, `o${number}`);
  const tensorLink = tensor => to(model.tensors[tensor].name, `t${tensor}`);
  const lined = (...parts) => parts.flatMap((part, place) => (place ? [element("br"), part] : [part]));

  const violationCard = (found, ...above) => element("div",
    {className: `violation ${draw.severe([found]) ? "" : draw.isLimit(found) ? "limit" : "mild"}`},
    ...above, element("b", {textContent: `${draw.isLimit(found) ? "limit of the library" : found.severity}: ${found.where}`}),
    element("p", {}, value(found.given)), element("p", {textContent: `expected ${found.expected}`}),
    element("p", {className: "mark", textContent: `rule ${found.rule}`}));

  const stridesText = tensor => `strides [${tensor.strides.join(", ")}]`;
  const said = (...texts) => texts.filter(Boolean).map(text => element("span", {className: "mark", textContent: text}));

  function portName(ports, place) {
    const port = ports?.[Math.min(place, ports.length - 1)];
    return port === undefined ? String(place) : port.variadic && place >= ports.length - 1
      ? `${port.name}[${place - ports.length + 1}]` : port.name;
  }

  function tensorRow(ports, tensor, place, wrong, others) {
    if (tensor === null) return row([portName(ports, place), element("span", {className: "mark", textContent: "left out"}), ""]);
    const known = model.tensors[tensor];
    const notes = [value(`${known.dtype} ${shape(known)}`)];
    if (known.strides) notes.push(value(stridesText(known)));
    return row([portName(ports, place), element("td", {}, ...lined(...notes)),
                element("td", {}, ...lined(tensorLink(tensor), ...others))], wrong ? "wrong" : "");
  }

  function attributeRows(op, spec, wrong) {
    const declared = spec.attributes ?? [], names = new Set(declared.map(one => one.name));
    const rows = declared.map(one => {
      const given = one.name in op.attrs;
      const mark = given ? "given" : one.required ? "missing" : one.default === null ? "left out" : "default";
      return row([one.name, value(given ? op.attrs[one.name] : one.default ?? "–"),
                  element("span", {className: "mark", textContent: mark}),
                  element("td", {}, element("span", {className: "mark wide", textContent: one.values.join(", ") || one.range || ""}))],
        `${given ? "given" : "default"}${wrong.has(one.name) ? " wrong" : ""}`);
    });
    for (const name of Object.keys(op.attrs).filter(name => !names.has(name))) {
      rows.push(row([name, value(op.attrs[name]), element("span", {className: "mark", textContent: "unknown"}), ""], "wrong"));
    }
    return rows;
  }

  function specification(spec) {
    if (!spec.doc) return [muted(`The edition ${spec.edition} has no op ${spec.kind}.`)];
    const ports = list => list.map(port => `${port.name}: ${port.type}${port.optional ? "?" : ""}${port.variadic ? "*" : ""}`).join(", ");
    const types = spec.types.map(one => Object.entries(one).map(([name, of]) => `${name} = ${of.join(" or ")}`).join(", "));
    const source = muted(`. Since oneDNN ${spec.since}.`);
    source.prepend(element("a", {href: spec.link, target: "_blank", rel: "noreferrer", textContent: spec.page}));
    const made = [element("p", {textContent: spec.doc}), source,
      table(null, [
        row(["inputs", value(ports(spec.inputs) || "none")]), row(["outputs", value(ports(spec.outputs) || "none")]),
        row(["types", element("td", {}, ...lined(...types.map(value)))]),
        ...(spec.base === spec.kind ? [] : [row(["base op", value(spec.base)])])])];
    if (spec.attributes.length) {
      made.push(table(["attribute", "kind", "need", "meaning"], spec.attributes.map(one => row([
        one.name, one.kind, one.required ? "required" : one.default === null ? "optional" : `default ${one.default}`,
        one.doc + (one.values.length ? ` (${one.values.join(", ")})` : one.range ? ` (${one.range})` : "")]))));
    }
    if (spec.rules.length) made.push(table(["rule", "what it asks"], spec.rules.map(one => row([value(one.id), one.doc]))));
    const mistakes = spec.corrections.map(one => muted(
      `Mistake on the page, ${one.where || one.section}. Printed: ${one.printed}. Meant: ${one.meant}. Reason: ${one.reason}. onegraph: ${one.action}`));
    return [...made, ...spec.notes.map(muted), ...mistakes];
  }

  const RUNS = {reference: "numpy fallback", copy: "copied by numpy", view: "view, no work", constant: "computed at compilation"};

  function partitionChips(partition) {
    const chips = [to(`partition ${partition.index}`, `p${model.partitions.indexOf(partition)}`),
                   element("span", {className: partition.numpy ? "slow" : "", textContent: RUNS[partition.executor] ?? partition.executor})];
    if (partition.reference) chips.push(element("span", {className: "slow", textContent: "reference kernel"}));
    if (partition.fused) chips.push(element("span", {textContent: `fused, ${partition.ops.length} ops`}));
    if (partition.seconds !== null) chips.push(element("span", {textContent: layout.duration(partition.seconds)}));
    return chips;
  }

  function op(number) {
    const one = model.ops[number], spec = model.specs[one.spec];
    const limits = one.violations.filter(draw.isLimit), violations = one.violations.filter(found => !draw.isLimit(found));
    const wrong = new Set(violations.map(found => found.where));
    const partition = one.partition === null ? null : model.partitions[one.partition];
    const from = tensor => tensor !== null && producers.has(tensor) ? [opLink(producers.get(tensor)[0])] : [];
    const into = tensor => (readers.get(tensor) ?? []).map(([reader]) => opLink(reader));
    const attributes = attributeRows(one, spec, wrong);
    const place = (ports, at) => wrong.has(portName(ports, at));
    return [element("h2", {textContent: one.kind}), muted(one.name),
      element("div", {className: "chips"}, ...(partition ? partitionChips(partition) : []),
        ...one.partitions.filter(place => place !== one.partition).map(place => to(`also partition ${model.partitions[place].index}`, `p${place}`)),
        element("span", {textContent: spec.edition}), element("span", {textContent: spec.category})),
      ...[...violations, ...limits].map(found => violationCard(found)),
      partition?.reason ? element("p", {className: "reason", textContent: partition.reason}) : null,
      ...(attributes.length ? [h3("Attributes"), table(["name", "value", "", "allowed"], attributes)] : []),
      h3("Inputs"), table(["port", "type", "tensor, from"], one.inputs.map((tensor, at) =>
        tensorRow(spec.inputs, tensor, at, place(spec.inputs, at), from(tensor)))),
      h3("Outputs"), table(["port", "type", "tensor, to"], one.outputs.map((tensor, at) =>
        tensorRow(spec.outputs, tensor, at, place(spec.outputs, at), into(tensor)))),
      h3(`${spec.kind} in ${spec.edition}`), ...specification(spec)];
  }

  function partition(place) {
    const one = model.partitions[place];
    const facts = [["bytes in and out", bytes(one.bytes)], ...Object.entries(one.more)]
      .filter(([, text]) => text !== "").map(([name, text]) => row([name, value(text)]));
    return [element("h2", {textContent: `Partition ${one.index}`}), element("div", {className: "chips"}, ...partitionChips(one).slice(1)),
      one.reason ? element("p", {className: "reason", textContent: one.reason}) : null,
      h3("Ops"), table(["op", "result"], one.ops.map(number => row([opLink(number),
        element("td", {}, ...lined(...model.ops[number].outputs.map(tensor => value(layout.typeText(model.tensors[tensor])))))]))),
      ...(facts.length ? [h3("Facts"), table(null, facts)] : []),
      h3("Inputs"), ...one.inputs.map(text => element("p", {}, value(text))),
      h3("Outputs"), ...one.outputs.map(text => element("p", {}, value(text)))];
  }

  function tensor(id) {
    const one = model.tensors[id], producer = producers.get(id), read = readers.get(id) ?? [];
    const names = list => list.filter(([, other]) => other === id).map(([name]) => name).join(", ");
    const facts = [["data type", one.dtype], ["shape", shape(one)], ["strides", one.strides ? `[${one.strides.join(", ")}]` : "dense, row-major"],
      ["size", bytes(one.bytes)], ["constant", one.value], ["graph input", names(model.inputs) + (model.constants.includes(id) ? ", constant" : "")], ["graph output", names(model.outputs)]];
    return [element("h2", {textContent: one.name || `tensor ${id}`}), muted(`logical tensor ${id}`),
      table(null, facts.filter(([, text]) => text).map(([name, text]) => row([name, value(text)]))),
      ...(producer ? [h3("Written by"), element("p", {}, opLink(producer[0]))] : []),
      h3("Read by"), ...(read.length ? read.map(([number]) => element("p", {}, opLink(number))) : [muted("no op")])];
  }

  /* The kinds of the ops of a partition; those of a long one are counted. */
  function kindsText(kinds) {
    if (kinds.length <= 6) return kinds.join(" + ");
    const counts = new Map();
    for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return `${kinds.length} ops: ${[...counts].map(([kind, count]) => (count > 1 ? `${count} ${kind}` : kind)).join(", ")}`;
  }

  function overview() {
    const all = model.ops.flatMap((one, number) => one.violations.map(violation => [number, violation]));
    const found = all.filter(([, one]) => !draw.isLimit(one)), limits = all.filter(([, one]) => draw.isLimit(one));
    const most = Math.max(...model.partitions.map(one => one.seconds ?? 0)), timed = most > 0;
    const made = [element("h2", {textContent: model.title}), muted(`Edition ${model.edition}. ${model.summary}.`)];
    if (model.note) made.push(muted(model.note));
    if (limits.length) {
      const ops = new Set(limits.map(([number]) => model.ops[number].kind));
      made.push(muted(`The graph runs around ${limits.length} limit${limits.length > 1 ? "s" : ""} of the library, which the details of `
        + `these ops name: ${[...ops].join(", ")}.`));
    }
    if (found.length || model.violations.length) {
      made.push(h3("Violations"), ...model.violations.map(one => violationCard(one, element("p", {textContent: one.op}))),
        ...found.slice(0, 200).map(([number, one]) => violationCard(one, element("p", {}, opLink(number)))));
    }
    if (model.partitions.length) {
      const order = model.partitions.map((one, place) => [one, place]);
      if (timed) order.sort(([a], [b]) => (b.seconds ?? -1) - (a.seconds ?? -1));
      made.push(h3(timed ? "Partitions by time" : "Partitions"), table(["", "ops", timed ? "time" : "runs on"], order.map(([one, place]) => {
        const last = element("td", {className: timed ? "number" : "short"}, timed ? (one.seconds === null ? "" : layout.duration(one.seconds))
          : RUNS[one.executor] ?? one.executor);
        const what = element("td", {}, kindsText(one.ops.map(number => model.ops[number].kind)));
        const slow = one.numpy ? RUNS[one.executor] : one.reference ? "reference kernel" : "";
        if (timed && slow) what.append(...lined("", element("span", {className: "mark", textContent: slow})));
        if (timed && one.seconds !== null) {
          const bar = element("span", {className: "bar"});
          bar.style.width = `${one.seconds / most * 100}%`;
          what.append(bar);
        }
        return row([element("td", {className: "short"}, to(`P${one.index}`, `p${place}`)), what, last], one.numpy || one.reference ? "slow" : "");
      })));
    }
    const list = ports => (ports.length ? table(["name", "type"],
      ports.map(([name, id]) => row([to(name, `t${id}`), element("td", {}, ...lined(value(layout.typeText(model.tensors[id])),
        ...(model.tensors[id].strides ? [value(stridesText(model.tensors[id]))] : []),
        ...said(ports === model.inputs && model.constants.includes(id) ? "constant" : "")))]))) : muted("none"));
    made.push(h3("Graph inputs"), list(model.inputs), h3("Graph outputs"), list(model.outputs));
    if (!model.partitions.length) {
      const kinds = new Map();
      for (const one of model.ops) kinds.set(one.kind, (kinds.get(one.kind) ?? 0) + 1);
      made.push(h3("Ops"), table(["kind", "count"], [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, count]) => row([kind, String(count)]))));
    }
    return made;
  }

  const shown = target => (target === null ? overview() : {o: op, p: partition}[target[0]]?.(Number(target.slice(1)))
    ?? tensor(target.slice(1))).filter(child => child !== null);
  return {shown, element};
};
