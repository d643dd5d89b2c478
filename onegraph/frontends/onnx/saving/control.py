"""Writes control flow: a function with one node, whose graphs read the inputs of the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from ....builder.graph import DataGraph
from ....errors import UnsupportedError
from ....lowering.control import ENDLESS
from ....opset.dtypes import DataType
from ....opset.schema import Call
from ....serialize.words import body_of
from ..own import DOMAIN
from ..types import NUMBERS
from .body import NodeValue
from .table import writes

SINGLE = "i", "condition_before"  # inputs of a body of one element, whose shape ONNX Runtime asks for


@writes("host If")
def branch(call: Call, condition: NodeValue, *values: NodeValue) -> tuple[NodeValue, ...]:
    """An If, whose branches read the values by their names."""
    names = [f"c{number}" for number in range(len(values))]
    graphs = [_graph(condition, _body(call, name), {}, _ends("y", call)) for name in ("then_body", "else_body")]
    attrs = {"then_branch": graphs[0], "else_branch": graphs[1]}
    return _called(call, "If", ["condition"], attrs, {"condition": condition, **dict(zip(names, values, strict=True))})


@writes("host Loop")
def loop(call: Call, trips: NodeValue, condition: NodeValue, *values: NodeValue) -> tuple[NodeValue, ...]:
    """A Loop, or a Scan of tensors that are taken apart."""
    graph, count, scanned = _body(call, "body"), call.s64("n_states"), call.s64("n_scanned")
    states, slices = ([f"{letter}{number}" for number in range(size)] for letter, size in zip("sx", (count, scanned)))  # noqa: B905
    outer = [*[f"first_{name}" for name in (*states, *slices)]]
    fixed = [f"c{number}" for number in range(len(values) - len(outer))]
    ports = dict(zip([*outer, *fixed], values, strict=True))
    dtypes = {f"s{number}": value.dtype for number, value in enumerate(values[:count])}
    dtypes |= {f"x{number}": value.dtype for number, value in enumerate(values[count : count + scanned])}
    ends = [f"t{number}" for number in range(count)] + _ends("y", call)[: len(call.output_types) - count]
    if not scanned:
        if any(call.s64s("result_axes")) or any(call.s64s("result_reversed")):
            raise UnsupportedError("a Loop puts slices together along its first axis, in the order of the iterations")
        inputs: Mapping[str, DataType] = {SINGLE[0]: DataType.s64, SINGLE[1]: DataType.boolean, **dtypes}
        body = _graph(trips, graph, inputs, ["going", *ends])
        ports = {"trips": trips, "condition": condition, **ports}
        return _called(call, "Loop", ["trips", "condition", *outer], {"body": body}, ports)
    going = graph.outputs["going"].value
    limit, first = call.value("trips"), call.value("condition")
    if "i" in graph.inputs or limit != (ENDLESS,) or first != (1,) or going is None or not going.all():
        raise UnsupportedError("a Scan takes every slice, and does not count")
    attrs = {
        "body": _graph(trips, graph, dtypes, ends),
        "num_scan_inputs": scanned,
        "scan_input_axes": [*call.s64s("axes")] or [0] * scanned,
        "scan_input_directions": [*call.s64s("reversed")] or [0] * scanned,
    }
    results = len(ends) - count
    if results:
        attrs["scan_output_axes"] = [*call.s64s("result_axes")] or [0] * results
        attrs["scan_output_directions"] = [*call.s64s("result_reversed")] or [0] * results
    return _called(call, "Scan", outer, attrs, ports)


def _body(call: Call, name: str) -> DataGraph:
    try:
        return body_of(call, name)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None


def _ends(letter: str, call: Call) -> list[str]:
    return [f"{letter}{number}" for number in range(len(call.output_types))]


def _graph(value: NodeValue, graph: DataGraph, inputs: Mapping[str, DataType], ends: list[str]) -> onnx.GraphProto:
    """A body as the graph of a node; what is none of its inputs comes from the function around it."""
    model, constants = value.body.functions.exported(graph)
    made: onnx.GraphProto = model.graph
    made.name = "body"
    by_name = {one.name: one for one in made.input}
    del made.input[:]
    for name, dtype in inputs.items():
        made.input.append(by_name.get(name) or helper.make_tensor_value_info(name, NUMBERS[dtype], []))
    outputs = {one.name: one for one in made.output}
    del made.output[:]
    made.output.extend([outputs[name] for name in ends])
    made.initializer.extend([numpy_helper.from_array(array, name) for name, array in constants.items()])
    for end in (*[one for one in made.input if one.name not in SINGLE], *made.output):
        end.type.tensor_type.ClearField("shape")
    return made


def _called(
    call: Call, kind: str, inputs: list[str], attrs: Mapping[str, Any], ports: Mapping[str, NodeValue]
) -> tuple[NodeValue, ...]:
    """The results of a function that has the node."""
    names = [f"result_{number}" for number in range(len(call.output_types))]
    node = helper.make_node(kind, inputs, names, **attrs)
    functions = next(iter(ports.values())).body.functions
    opsets = [helper.make_opsetid("", functions.opset)]
    opsets += [helper.make_opsetid(one, 1) for one in sorted({DOMAIN, *functions.imports})]
    made = helper.make_function(DOMAIN, f"{kind}Body", [*ports], names, [node], opsets)
    name = functions.added(made)
    return next(iter(ports.values())).body.nodes_results(name, [*ports.values()], call.output_types, DOMAIN)
