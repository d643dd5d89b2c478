"""Removes ops from the JSON form of a graph: Wildcards, and ops that pass on an input."""

from __future__ import annotations

from collections.abc import Sequence

from .._util.counted import counted
from ..builder.graph import AnyGraph
from ..errors import ArgumentError
from ..serialize.names import KEY
from .json_form import JsonForm, JsonObject

REMOVED = "undef"  # the kind that removes an op


def remove(form: JsonForm[AnyGraph], op: JsonObject) -> None:
    """Remove an op; its readers get the input that it passes on."""
    source, gone = _passed_on(form, op), op["outputs"][0]["id"]
    form.changed.add(gone)
    form.ops.remove(op)
    kept = source["id"]
    for use in form.uses.pop(gone):
        if use is not op["outputs"][0]:
            use.clear()
            use.update(source)
            form.uses[kept].append(use)
    about = form.root.get(KEY) or {}
    for entry in (*about.get("inputs", ()), *about.get("outputs", ())):
        entry["id"] = kept if entry["id"] == gone else entry["id"]
    if not any(use["id"] == kept for left in form.ops for use in (*left["inputs"], *left["outputs"])):
        form.root.setdefault(KEY, {}).setdefault("tensors", []).append(source)
    form.root["output_ports"] = [kept if port == gone else port for port in form.root.get("output_ports") or ()]
    _keep_ports(form, {use["id"] for left in form.ops for use in left["outputs"]} | {kept}, {gone}, [])
    read = {use["id"] for left in form.ops for use in left["inputs"]}
    form.inputs = {number: name for number, name in form.inputs.items() if number in read | {kept}}
    form.keep_op_names()


def _passed_on(form: JsonForm[AnyGraph], op: JsonObject) -> JsonObject:
    """The input that the readers of a removed op get: its only one, or the only one that an op produces."""
    inputs = op["inputs"]
    is_idle_cast = op["kind"] == "TypeCast" and inputs[0]["dtype"] == op["outputs"][0]["dtype"]
    is_removable = form.schema(op).category in ("binary", "elementwise") or is_idle_cast
    if not is_removable or len(inputs) > 2 or len(op["outputs"]) != 1:
        expected = "only elementwise and binary ops of one or two inputs are removed"
        raise ArgumentError(f"op_kind: {op['kind']} as {REMOVED!r}; {expected}")
    made = {use["id"] for other in form.ops for use in other["outputs"]}
    sources = [use for use in inputs if use["id"] in made] if len(inputs) == 2 else inputs
    if len(sources) != 1:
        expected = "expected one input that an op produces, which the readers get instead"
        raise ArgumentError(
            f"op_kind: {op['kind']} as {REMOVED!r}: {counted(len(sources), 'input')} come from ops; {expected}"
        )
    source: JsonObject = dict(sources[0])
    return source


def _drop_wildcards(form: JsonForm[AnyGraph]) -> None:
    """Remove all Wildcards: their outputs become graph inputs, and their inputs graph outputs."""
    wild = [op for op in form.ops if op["kind"] == "Wildcard"]
    written = {use["id"] for op in wild for use in op["outputs"]}
    ended = [op for op in form.ops if not op["outputs"] and all(use["id"] in written for use in op["inputs"])]
    dropped = {op["id"] for op in (*wild, *ended)}
    form.ops = form.root["graph"] = [op for op in form.ops if op["id"] not in dropped]
    produced = {use["id"] for op in form.ops for use in op["outputs"]}
    freed = list(dict.fromkeys(use["id"] for op in wild for use in op["inputs"] if use["id"] in produced))
    _keep_ports(form, produced, written, freed)
    form.keep_op_names()


def _keep_ports(form: JsonForm[AnyGraph], produced: set[int], written: set[int], freed: Sequence[int]) -> None:
    """Remove ports of removed tensors and of outputs of Wildcards; ``freed`` become graph outputs."""
    about = form.root.get(KEY) or {}
    read = {use["id"] for op in form.ops for use in op["inputs"]}
    kept = produced.union(read, (use["id"] for use in about.get("tensors", ()))) - written
    for key in ("input_ports", "output_ports"):
        form.root[key] = [number for number in form.root.get(key) or () if number in kept]
    form.root["output_ports"] = list(dict.fromkeys([*form.root["output_ports"], *freed]))
    for key in {"inputs", "outputs"} & about.keys():
        about[key] = [entry for entry in about[key] if entry["id"] in kept]
    if "outputs" not in about:
        return
    named = {entry["id"]: entry["name"] for key in ("inputs", "outputs") for entry in about[key]}
    for number in freed:
        if number not in named:
            name = f"t{number}"
            while name in named.values():
                name += "_"
            named[number] = name
            about["outputs"].append({"id": number, "name": name})


def without_wildcards(graph: AnyGraph) -> AnyGraph:
    """See :meth:`onegraph.Graph.without_wildcards`."""
    if not any(op.kind == "Wildcard" for op in graph.ops):
        return graph.copy()
    form = JsonForm(graph, lenient=not graph.strict)
    _drop_wildcards(form)
    return form.graph()
