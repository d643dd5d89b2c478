"""Stands for values that follow from open sizes while a graph is lowered with such sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._util.records import record
from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType


@record(frozen=True)
class OpenInput:
    """What a value is once the dims are unknown.

    Attributes:
        kind: ``value``; or what an op that reads it stands for: ``shape`` for the condition of a Where that is an
            Expand, ``rows`` for the indices of a Gather that is a Reshape, ``places`` for those of one that is a Slice.
        numbers: the dims of the result, or the axis, the start, the end and the step of the places.
        make: makes the value, given an emitter and a function that makes a vector of sizes.
    """

    kind: str
    numbers: Sequence[int]
    make: Callable[[Any, Callable[[Sequence[int]], Any]], Any] | None = None


class OpenInputs:
    """The values of one graph that follow from open sizes: inputs of the graph, until its dims are unknown.

    Attributes:
        recipes: what each value is, by the name of the input.
    """

    def __init__(self) -> None:
        self.recipes: dict[str, OpenInput] = {}

    def value(self, graph: DataGraph, dtype: DataType, shape: Sequence[int], recipe: OpenInput) -> LogicalTensor:
        """A value of a shape."""
        name = f"open:{len(self.recipes)}"
        self.recipes[name] = recipe
        return graph.input(name, dtype, [*shape])
