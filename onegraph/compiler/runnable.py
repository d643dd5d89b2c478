"""Finds what keeps a graph from running: Wildcards, and shapes that depend on data."""

from __future__ import annotations

from collections.abc import Iterator

from ..builder.graph import DataGraph
from ..errors import UnsupportedError
from ..ir.op import LogicalTensor, shape_inputs_of


def shape_tensors(graph: DataGraph) -> Iterator[LogicalTensor]:
    """The tensors that set a shape or axes; their contents must be known before compilation."""
    for op in graph.ops:
        for index in shape_inputs_of(op):
            tensor = op.inputs[index] if index < len(op.inputs) else None
            if tensor is not None:
                yield tensor


def refuse_wildcards(graph: DataGraph) -> None:
    """Refuse a graph that cannot run at all.

    Raises:
        UnsupportedError: a Wildcard has an output, and its computation is unknown.
    """
    for op in graph.ops:
        if op.kind == "Wildcard" and op.outputs:
            hint = "Graph.without_wildcards() makes what it writes an input"
            raise UnsupportedError(
                f"{op.name!r} is a Wildcard, which has no meaning of its own and cannot be run; {hint}"
            )
