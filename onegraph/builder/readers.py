"""Finds the ops and outputs of a graph that the arguments of an edit name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from .._util.counted import some_of
from .._util.exact_types import elements, has_type, text
from ..errors import ArgumentError, shown
from ..ir.op import Op
from .adding_ops import OpAdding
from .uses import is_same


def own_op(graph: OpAdding, argument: object, where: str) -> Op:
    """The op of this graph with this name, or that this record describes, maybe before an edit."""
    label = text(argument)
    if label is None and not has_type(argument, Op):
        raise ArgumentError(f"{where}: {shown(argument)}; expected an op of this graph, or its name")
    record = None if label is not None else cast("Op", argument)
    for op in graph._ops:
        if op.name == label or (record is not None and is_same(op, record)):
            return op
    name = label if record is None else record.name
    names = some_of(op.name for op in graph._ops)
    raise ArgumentError(f"{where}: {shown(name)} is no op of this graph, or was before an edit; it has {names}")


def readers_named(graph: OpAdding, consumers: object, pairs: Mapping[int, object]) -> tuple[set[int], set[str]]:
    """The ids of the ops that read the new tensors, and the names of the graph outputs that become them."""
    listed = elements(consumers)
    if not listed:
        expected = "a list of ops, or of names of ops and outputs; without consumers, all of them read the new tensor"
        raise ArgumentError(f"replace: consumers: {shown(consumers)}; expected {expected}")
    ops, ends = set[int](), set[str]()
    for one in listed:
        label = text(one)
        end = next((name for name in graph.outputs if name == label), None)
        if end is not None and graph.outputs[end].id in pairs:
            ends.add(end)
        elif end is not None and not graph._is_taken(end):
            raise ArgumentError(f"replace: consumers: output {end!r} does not read what is replaced")
        else:
            op = own_op(graph, one, "replace: consumers")
            if not any(tensor.id in pairs for tensor in op.inputs):
                raise ArgumentError(f"replace: consumers: {op.kind} {op.name!r} does not read what is replaced")
            ops.add(op.id)
    return ops, ends
