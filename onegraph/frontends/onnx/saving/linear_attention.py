"""Writes linear attention as a Scan over the tokens."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from ....builder.graph import DataGraph
from ....lowering.emitter import Emitter
from ....lowering.linear_attention import Tokens, looped_tokens
from ....opset.schema import Call
from ..own import DOMAIN
from .body import NodeValue
from .table import known_dims_of, writes

PORTS = ("query", "key", "value", "state", "decay", "rate")


@writes("host LinearAttention")
def linear_attention(call: Call, *values: NodeValue | None) -> tuple[NodeValue, ...]:
    """A function with the nodes of the loop."""
    present = {port: value for port, value in zip(PORTS, values, strict=False) if value is not None}
    graph = DataGraph()
    ends = {
        port: graph.input(port, value.dtype, known_dims_of(call, call.shape(port), port))
        for port, value in present.items()
    }
    emit = Emitter(graph)
    tokens = Tokens(ends["query"], ends["key"], ends["value"], ends.get("decay"), ends.get("rate"))
    for name, result in zip(("dst", "last"), looped_tokens(emit, tokens, ends["state"]), strict=True):
        graph.output(name, emit.tensor(result))
    body = present["query"].body
    exported = body.functions.exported(graph)
    model: onnx.ModelProto = exported[0]
    model.graph.initializer.extend([numpy_helper.from_array(array, name) for name, array in exported[1].items()])
    name = body.functions.of_model(model)
    return body.nodes_results(name, [*present.values()], [call.output_type(0), call.output_type(1)], DOMAIN)
