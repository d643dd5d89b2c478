"""Describes what the callers of an executable give and get: inputs, outputs and variables."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ..builder.graph import DataGraph
from ..builder.op_outputs import picklable
from ..ir.op import Array
from .arguments import Arguments, OutputSpec
from .growing import Growing
from .program import Program
from .state import State

Arrays = Mapping[str, Array]
NO_ARRAYS: Arrays = {}


class Interface:
    """The inputs, outputs and variables of an executable.

    Attributes:
        graph: the graph with its variables, whose first contents are not kept.
        state: the values of the variables; None if there are none.
        growing: the caches that grow.
        arguments: checks the arrays of a call.
        result: makes the value of a call from several outputs; None if there is one output.
    """

    def __init__(self, graph: DataGraph) -> None:
        self.state = State(graph) if graph.variables else None
        self.graph = graph if self.state is None else self.state.without_contents(graph)
        self.growing = Growing(graph)
        self.arguments = Arguments(self.graph, self.growing)
        self.names = tuple(graph.outputs)
        is_single = len(self.names) == 1
        self.result: Callable[..., Any] | None = (
            None if is_single else picklable(namedtuple("Outputs", self.names, rename=True))
        )

    @property
    def present(self) -> Arrays:
        """The present values of the variables, by name."""
        return NO_ARRAYS if self.state is None else self.state.present

    @property
    def following(self) -> Arrays:
        """The memory for the next values of the variables, by name of output."""
        return NO_ARRAYS if self.state is None else self.state.following

    def outputs_of(self, program: Program) -> list[OutputSpec]:
        """The outputs of a program without the next values of variables, which come last."""
        return program.placement.outputs()[: len(self.names)]

    def value(self, results: Arrays) -> Any:
        """The value of a call with these results, which are in the order of the outputs."""
        if self.result is None:
            return next(iter(results.values()))
        return self.result(*results.values())

    def by_name(self, value: Any) -> dict[str, Array]:
        """The results by name of output, from the value of a call."""
        return dict(zip(self.names, (value,) if self.result is None else value, strict=True))
