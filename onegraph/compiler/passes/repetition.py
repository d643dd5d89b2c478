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

from ...faults.use import DEQUANTIZATIONS
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options


def repeat_for_consumers(edit: Edit, _: Options) -> None:
    """Put a Dequantize of its own before each library step that reads a dequantized tensor.

    ``Edit.repeated`` gets the results of the new steps.
    """
    repetition = _Repetition(edit)
    if repetition.is_needed:
        steps = [repeated_step for step in reversed(edit.graph.steps) for repeated_step in repetition.added(step)]
        edit.reorder(steps[::-1])


class _Repetition:
    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._moved: set[int] = set()  # results of the steps that were moved to their consumer
        self._cheap: dict[int, Step] = {}  # by result, the steps that may be repeated
        for step in edit.graph.steps:
            is_cast = step.kind == "TypeCast" and step.inputs[0] in self._cheap
            if step.executor == "library" and (is_cast or step.kind in DEQUANTIZATIONS):
                self._cheap[step.outputs[0]] = step
        # Results that have a consumer already: the caller, or a step that no fusion takes in.
        self._read = {*edit.graph.returned}
        self._read.update(n for step in edit.graph.steps if step.executor != "library" for n in step.inputs)

    @property
    def is_needed(self) -> bool:
        """Whether any step may be repeated."""
        return bool(self._cheap)

    def added(self, step: Step) -> Iterator[Step]:
        """A step of the graph and what it needs, from the last one on, unless it was moved to its consumer."""
        if step.outputs[0] not in self._moved:
            yield from self._placed(step)

    def _placed(self, step: Step) -> Iterator[Step]:
        """A step, then the steps that must run right before it."""
        own: dict[int, int] = {}
        for number in dict.fromkeys(step.inputs if step.executor == "library" else ()):
            if number not in self._cheap:
                continue
            own[number] = number
            if number in self._read:
                own[number] = self._edit.values.add(self._edit.values[number])
                self._edit.repeated[own[number]] = number
            self._read.add(number)
        is_changed = any(number != copy for number, copy in own.items())
        # Not ``whole``: as a fallback, numpy reads and writes the values of the step, not the tensors of the op.
        yield step._replace(inputs=tuple([own.get(n, n) for n in step.inputs]), whole=False) if is_changed else step
        for number, copy in reversed(own.items()):
            maker = self._cheap[number]
            if copy == number:
                self._moved.add(number)
                yield from self._placed(maker)
                continue
            note = f"{maker.op.kind} {maker.op.name!r} is repeated, so that each reader has its own"
            yield from self._placed(maker._replace(outputs=(copy,), note=note, whole=False))
