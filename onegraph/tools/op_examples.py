"""Writes an example of each op: Python code that builds the op in a graph, in the names of an edition.

An op of the base vocabulary is built as in its first case that the edition allows (:mod:`onegraph.testing.cases`). An
op that only legacy-1 has is drawn by its recipe (:mod:`onegraph.testing.recipes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ..errors import SpecError
from ..graph import Graph
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, DEFAULT, HOST, Edition, base_of
from ..opset.schema import Schema
from ..testing.cases import CASES, Case
from ..testing.random_graph import in_edition, random_graph
from .python_code import to_python


class _Use(NamedTuple):
    """One use of an op in the names of an edition."""

    inputs: Sequence[LogicalTensor]
    attrs: Mapping[str, object]
    dtype: str | None = None
    outputs: Sequence[str] | None = None


def example(chosen: Edition, schema: Schema) -> str:
    """Python code that builds the op in a graph ``g``; it needs ``import numpy as np`` and ``import onegraph as og``.

    A comment after each ``g.output`` has the inferred data type and shape. The text is empty for a host op, which
    has no case.
    """
    if chosen.name == HOST:
        return ""
    for use in _uses(chosen, schema):
        try:
            return _code(_graph(chosen, schema, use))
        except SpecError:
            continue  # the edition lacks an attribute or a data type of the case
    raise ValueError(f"{chosen.name} allows no case of {schema.kind}")


def _uses(chosen: Edition, schema: Schema) -> Iterator[_Use]:
    base = base_of(schema)
    if base.kind not in BASE:
        op = random_graph(0, 1, dtypes=["f32"], kinds=[schema.kind], edition=chosen.name).ops[0]
        yield _Use([*op.inputs], op.attrs)
    for case in _cases().get(base.kind, ()):
        inputs = [_tensor(array) for array in case.inputs]
        attrs: Mapping[str, object] = case.attrs
        if chosen.name != DEFAULT:
            try:
                attrs, inputs = in_edition(schema, base, attrs, inputs, chosen)
            except SpecError:
                continue
        pairs = zip(base.outputs, schema.outputs, strict=False)
        outputs = None if case.outputs is None else [own.name for port, own in pairs if port.name in case.outputs]
        yield _Use(inputs, attrs, case.dtype, outputs)


@cache
def _cases() -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = {}
    for case in CASES:
        cases.setdefault(case.kind, []).append(case)
    return cases


def _tensor(array: Array) -> LogicalTensor:
    dtype = DataType.s64 if array.dtype == np.int64 else DataType.of(array.dtype)
    return LogicalTensor(0, dtype, array.shape, None, "", array)


def _graph(chosen: Edition, schema: Schema, use: _Use) -> Graph:
    """A graph of the op; an input is a constant if its contents decide whether the op is valid, or its shape."""
    graph = Graph(chosen.name)
    inputs = []
    for index, tensor in enumerate(use.inputs):
        port = schema.input_port(index)
        name = f"{port.name}_{index}" if port.variadic else port.name
        if port.is_read and tensor.value is not None:
            inputs.append(graph.constant(tensor.value, name=name))
        else:
            inputs.append(graph.input(name, tensor.dtype, tensor.shape))
    graph.op(schema.kind, inputs, use.attrs, dtype=use.dtype, outputs=use.outputs)
    for port, result in zip(schema.outputs, graph.ops[0].outputs, strict=False):
        graph.output(port.name, result)
    return graph


def _code(graph: Graph) -> str:
    text, arrays = to_python(graph)
    assert not arrays, "the constants of an example are in its code"
    code = text[text.index("g = og.Graph(") :].rstrip()
    op = graph.ops[0]
    name = "results" if len(op.outputs) > 1 else next(iter(graph.outputs), "")
    code = re.sub(rf"\b{op.name}\b", name, code)
    shapes = iter(graph.outputs.values())
    return re.sub(r"^g\.output\(.*\)$", lambda line: f"{line[0]}  # {_type(next(shapes))}", code, flags=re.MULTILINE)


def _type(tensor: LogicalTensor) -> str:
    return f"{tensor.dtype} {tensor.shape}"
