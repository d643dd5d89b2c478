"""How a pass changes a lowered graph: new values, and steps in the place of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.signature import AttrValue
from ..shared_constants import Key
from .lowered import Lowered
from .part import Part
from .step import NO_ATTRS, Step
from .value import Values


class Edit:
    """The changes of one pass. The pass looks at ``graph`` as it was; :meth:`done` returns the changed graph.

    Args:
        graph: the graph; it stays as it is.

    Attributes:
        values: the values of the changed graph.
        keys: the keys of its constants that were computed.
        repeated, transformed: additions to the mappings of the graph.
    """

    def __init__(self, graph: Lowered) -> None:
        self.graph = graph
        self.reset()

    def reset(self) -> None:
        """Forget all changes."""
        self.values, self.keys = Values(self.graph.values), dict(self.graph.keys)
        self.repeated: dict[int, int] = {}
        self.transformed: dict[int, tuple[Array, str]] = {}
        self._folded: list[Step] = []
        self._instead: dict[int, Sequence[Step]] = {}  # by id of the step
        self._spare: set[int] = set()  # ids of the steps that go if nobody reads their results
        self._order: Sequence[Step] | None = None
        self._refused: dict[int, tuple[str, ...]] = {}  # by id of the step

    # Values ----------------------------------------------------------------------------------------------------------

    def constant(self, array: Array, name: str, key: Key | None = None) -> int:
        """The id of a new constant; the programs of an executable share the contents by the key."""
        number = self.values.new(DataType.of(array.dtype), array.shape, name, array)
        if not array.flags.c_contiguous:
            self.change(number, strides=tuple([stride // array.itemsize for stride in array.strides]))
        if key is not None:
            self.keys[number] = key
        return number

    def key(self, value: int) -> Key:
        """The key of a constant, which stays the same from the first call on."""
        if value not in self.keys:
            self.keys[value] = self.graph.key(self.values[value])
        return self.keys[value]

    def change(self, value: int, **fields: object) -> None:
        """Change fields of a value."""
        self.values[value] = self.values[value]._replace(**fields)  # type: ignore[arg-type]

    # Steps -----------------------------------------------------------------------------------------------------------

    def part(self, kind: str, attrs: Mapping[str, AttrValue], inputs: Sequence[int], outputs: Sequence[int]) -> Part:
        """The op of the library with the types of these values."""
        types = tuple([self.values[value].type for value in inputs])
        return Part(kind, attrs, tuple(range(len(types))), types, tuple([self.values[value].type for value in outputs]))

    def library_step(
        self,
        step: Step,
        kind: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        attrs: Mapping[str, AttrValue] = NO_ATTRS,
        note: str = "",
    ) -> Step:
        """A step of the library for the op of another step."""
        part = self.part(kind, attrs, inputs, outputs)
        return step.instead("library", inputs, outputs, kind=kind, attrs=attrs, note=note, part=part)

    def replace(self, step: Step, *steps: Step) -> None:
        """Put steps, or none, in the place of a step of the graph."""
        self._instead[step.id] = steps

    def note_computed(self, step: Step, note: str) -> None:
        """Note that the results of a step were computed, and how."""
        self._folded.append(step._replace(note=note))

    def spare(self, steps: Iterable[Step]) -> None:
        """Take away these steps, or those in their place, where nobody reads their results any more."""
        self._spare.update([step.id for step in steps])

    def refuse(self, step: Step, kernel: str, reason: str) -> None:
        """Note why a kernel of the package does not take a step, for reports."""
        self._refused[step.id] = (*self._refused.get(step.id, step.refused), f"{kernel}: {reason}")

    def reorder(self, steps: Sequence[Step]) -> None:
        """Put the steps of the changed graph into an order of their own; in place of all :meth:`replace`."""
        self._order, self._refused = self._with_refusals(steps), {}

    @property
    def is_changed(self) -> bool:
        """Whether any step was replaced, or a kernel was refused for it."""
        return bool(self._instead or self._refused) or self._order is not None

    def steps(self) -> Sequence[Step]:
        """The steps of the changed graph; the ids of new ones are those of the steps in whose place they are."""
        steps = self._order
        if steps is None:
            steps = [new for step in self.graph.steps for new in self._instead.get(step.id, (step,))]
        steps = self._with_refusals(steps)
        return self._without_spare(steps) if self._spare else steps

    def read(self) -> set[int]:
        """The values that the changed graph reads or returns."""
        return set(self.graph.returned).union(*[step.reads for step in self.steps()])

    def done(self) -> Lowered:
        """The changed graph; the same graph if no step was replaced."""
        if not self.is_changed:
            return self.graph
        return replace(
            self.graph,
            values=self.values,
            steps=tuple([step._replace(id=number) for number, step in enumerate(self.steps())]),
            keys=self.keys,
            folded=(*self.graph.folded, *self._folded),
            repeated={**self.graph.repeated, **self.repeated},
            transformed={**self.graph.transformed, **self.transformed},
        )

    def _with_refusals(self, steps: Sequence[Step]) -> Sequence[Step]:
        refused = self._refused
        return [step._replace(refused=refused.get(step.id, step.refused)) for step in steps] if refused else steps

    def _without_spare(self, steps: Sequence[Step]) -> Sequence[Step]:
        read, live_steps = {*self.graph.returned}, list[Step]()
        for step in reversed(steps):
            if step.id in self._spare and read.isdisjoint(step.outputs):
                continue
            read.update(step.reads)
            live_steps.append(step)
        return live_steps[::-1]
