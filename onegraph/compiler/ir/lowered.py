"""The lowered graph, and who makes and consumes each of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ..._util.fork_safety import cached_property
from ..._util.records import record
from ...builder.graph import DataGraph
from ...ir.op import Array
from .step import Step
from .value import Value, Values

if TYPE_CHECKING:
    from ..shared_constants import Key, SharedConstants


@record(frozen=True)
class Lowered:
    """A graph lowered to steps; every shape is known. :class:`Edit` makes a changed copy.

    Attributes:
        shared: the constants that other programs of the executable have computed.
        keys: the keys in ``shared`` of the constants that were computed.
        folded: the steps that were computed at compilation.
        repeated: the results that repeat another one for their only consumer, each with the other one.
        transformed: the constants that are transformed weights, each with the weights and their layout.
    """

    graph: DataGraph
    values: Values
    steps: tuple[Step, ...]
    shared: SharedConstants
    keys: dict[int, Key] = field(default_factory=dict)
    folded: tuple[Step, ...] = ()
    repeated: Mapping[int, int] = field(default_factory=dict)
    transformed: Mapping[int, tuple[Array, str]] = field(default_factory=dict)

    def maker(self, value: int) -> Step | None:
        """The step that makes a value; None for inputs and constants of the graph."""
        return self._makers.get(value)

    def consumers(self, value: int) -> Sequence[Step]:
        """The steps that read a value, each once, in their order; also those that read it as a fallback only."""
        return self._consumers.get(value, ())

    def only_consumer(self, value: int) -> Step | None:
        """The step that reads a value, if one step alone does, once, and the graph does not return the value."""
        consumers = self.consumers(value)
        if len(consumers) != 1 or value in self.returned or consumers[0].inputs.count(value) > 1:
            return None
        return consumers[0]

    @cached_property
    def returned(self) -> frozenset[int]:
        """The values that the graph returns."""
        return frozenset([tensor.id for tensor in self.graph.outputs.values()])

    @cached_property
    def _makers(self) -> dict[int, Step]:
        return {value: step for step in self.steps for value in step.outputs}

    @cached_property
    def _consumers(self) -> dict[int, list[Step]]:
        consumers: dict[int, list[Step]] = {}
        for step in self.steps:
            for value in step.reads:
                consumers.setdefault(value, []).append(step)
        return consumers

    def key(self, value: Value) -> Key:
        """The key of a constant, which stays the same."""
        assert value.constant is not None
        known = self.keys.get(value.id)
        if known is None:
            known = self.keys[value.id] = self.shared.key(value.constant)
        return known
