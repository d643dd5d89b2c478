"""Graphs that lie one change beside a graph: an op of another kind or with other attributes, a result that is returned
too, exchanged inputs, an input in the place of a constant, another constant, or another size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.ir.op import schema_of
from onegraph.opset.editions.registry import edition

from .neighbours import attributes_beside

ALIKE = (
    ("Add", "Multiply", "Subtract", "Maximum", "Divide", "Minimum"),
    ("ReLU", "Sigmoid", "Tanh", "Exp", "Abs", "GELU", "Square", "HardSwish"),
    ("MaxPool", "AvgPool"),
    ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2"),
    ("SoftMax", "LogSoftmax"),
)
CHANGES = ("kind", "attributes", "returned", "exchanged", "given", "constant", "size")


def near(
    graph: og.Graph, drawn: Random, count: int, first: int = 0, changes: Sequence[str] = CHANGES
) -> Iterator[og.Graph]:
    """Some of the graphs beside a graph, from a change on; those that are no valid graphs are left out.

    The change ``opened`` leaves no dim of an input known.
    """
    for turn in range(first, first + (count if graph.ops else 0)):
        with suppress(OneGraphError):
            yield changed(graph, changes[turn % len(changes)], drawn)


def changed(graph: og.Graph, change: str, drawn: Random) -> og.Graph:
    """A graph with one change, at a place drawn at random, if there is such a place."""
    new, made = og.Graph(), {}
    fixed = [one for one in graph._tensors if one.value is not None and one.value.dtype.kind != "i"]
    constant = drawn.choice(fixed).id if fixed and change in ("given", "constant") else None
    resized = drawn.choice([*graph.inputs]) if graph.inputs and change == "size" else None
    place = drawn.randrange(len(graph.ops))
    for tensor in graph._tensors:
        if tensor.value is not None and not (tensor.id == constant and change == "given"):
            value = np.array(tensor.value)
            if tensor.id == constant:
                value.ravel()[:1] = value.ravel()[:1] * np.asarray(0.75, value.dtype) + np.asarray(1, value.dtype)
            made[tensor.id] = new.constant(value, dtype=tensor.dtype, name=tensor.name)
        elif tensor.id == constant or graph.inputs.get(tensor.name) is tensor:
            shape = (None,) * len(tensor.shape) if change == "opened" and tensor.shape else tensor.shape
            if tensor.name == resized and shape:
                axis = drawn.randrange(len(shape))
                shape = (*shape[:axis], (shape[axis] or 0) + drawn.choice((-1, 1)), *shape[axis + 1 :])
            made[tensor.id] = new.input(tensor.name.replace(".", "_"), tensor.dtype, shape)
    for number, op in enumerate(graph.ops):
        inputs = [None if tensor is None else made[tensor.id] for tensor in op.inputs]
        kind, attrs = op.kind, dict(op.attrs)
        if number == place and change == "kind":
            kind = next((drawn.choice(kinds) for kinds in ALIKE if kind in kinds), kind)
        if number == place and change == "attributes":
            attrs = drawn.choice([*attributes_beside(schema_of(op), attrs, (2, 3)), attrs])
        if number == place and change == "exchanged" and len(inputs) > 1:
            inputs[:2] = inputs[1::-1]
        types = tuple(tensor.dtype for tensor in op.outputs)
        names = [tensor.name for tensor in op.outputs]
        results = new._add_op(edition(op.edition), kind, attrs, inputs, types, name=op.name, names=names)
        made.update(zip((tensor.id for tensor in op.outputs), results, strict=True))
    for name, tensor in graph.outputs.items():
        new.output(name, made[tensor.id])
    if change == "returned":
        for tensor in graph.ops[place].outputs[:1]:
            new.output("inside", made[tensor.id])
    return new
