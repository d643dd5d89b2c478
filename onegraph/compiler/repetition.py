"""Repeats cheap exact steps for each of their readers, because the library fuses a step with a single reader only.

A file in the QDQ form has one Dequantize for all readers of a tensor, such as a product and the sum of a residual
block. The library's int8 patterns take only a Dequantize with one reader, so each reader gets a Dequantize of its own.
The same holds for a TypeCast behind a Dequantize. A repeated step that no fusion takes in is not computed again: its
result is that of the first one.

Each of these steps runs right before its reader. A file has the Dequantize of all weights first, and the library gets
a large graph in pieces: a Dequantize far before its product would be in another piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..faults.use import DEQUANTIZATIONS
from .lowered import Lowered, Step


def repeat_for_readers(lowered: Lowered) -> Lowered:
    """The graph with a Dequantize of its own before each library step that reads a dequantized tensor.

    ``Lowered.repeated`` has the results of the new steps.
    """
    repetition = _Repetition(lowered)
    steps = [found for step in reversed(lowered.steps) for found in repetition.added(step)]
    numbered = tuple([step._replace(id=number) for number, step in enumerate(reversed(steps))])
    return replace(lowered, values=repetition.values, steps=numbered, repeated=repetition.repeated)


class _Repetition:
    def __init__(self, lowered: Lowered) -> None:
        self.values = dict(lowered.values)
        self.repeated: dict[int, int] = {}
        self._moved: set[int] = set()  # results of the steps that were moved to their reader
        self._makers: dict[int, Step] = {}
        for step in lowered.steps:
            is_cast = step.kind == "TypeCast" and step.inputs[0] in self._makers
            if step.executor == "library" and (is_cast or step.kind in DEQUANTIZATIONS):
                self._makers[step.outputs[0]] = step
        # Results that have a reader already: the caller, or a step that no fusion takes in.
        self._read = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._read.update(n for step in lowered.steps if step.executor != "library" for n in step.inputs)

    def added(self, step: Step) -> Iterator[Step]:
        """A step of the graph and what it needs, unless it was moved to its reader."""
        if step.outputs[0] not in self._moved:
            yield from self._placed(step)

    def _placed(self, step: Step) -> Iterator[Step]:
        """A step, then the steps that must run right before it."""
        own: dict[int, int] = {}
        for number in dict.fromkeys(step.inputs if step.executor == "library" else ()):
            if number not in self._makers:
                continue
            own[number] = number
            if number in self._read:
                own[number] = len(self.values)
                value = self.values[number]
                self.values[own[number]] = value._replace(id=own[number], storage=own[number])
                self.repeated[own[number]] = number
            self._read.add(number)
        is_changed = any(number != copy for number, copy in own.items())
        # Not ``whole``: as a fallback, numpy reads and writes the values of the step, not the tensors of the op.
        yield step._replace(inputs=tuple([own.get(n, n) for n in step.inputs]), whole=False) if is_changed else step
        for number, copy in reversed(own.items()):
            maker = self._makers[number]
            if copy == number:
                self._moved.add(number)
                yield from self._placed(maker)
                continue
            note = f"{maker.op.kind} {maker.op.name!r} is repeated, so that each reader has its own"
            yield from self._placed(maker._replace(outputs=(copy,), note=note, whole=False))
