"""Computes constants only if a step needs them, and only if no other program of the executable has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..._util.open_numbers import has_open_numbers
from ...arrays.mapped_files import give_back
from ...arrays.ndarrays import aligned_empty
from ...capi.settings import is_aligned
from ...errors import OneGraphError
from ...ir.op import Array
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Dims, dense_of
from ..numpy_steps import numpy_step
from ..report import nbytes
from ..shared_constants import Key, derived
from ..view_places import axis_order, is_view, viewed_constant

LARGE_VIEW = 1 << 20  # bytes; a larger view of a constant is not copied


class NotComputedError(Exception):
    """numpy cannot compute a step. Where the op runs, the error tells more."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.step = step


class _Maker(NamedTuple):
    """A step on constants, and the values that are read and written where it is computed."""

    step: Step
    sources: list[int]
    results: Sequence[int]


class LazyConstants:
    """The values of a graph, where those that depend on constants alone become constants.

    Args:
        edit: the changes of the graph, whose values and keys this class fills.
    """

    def __init__(self, edit: Edit) -> None:
        self._edit, self.values, self._keys, self.shared = edit, edit.values, edit.keys, edit.graph.shared
        self._makers: dict[int, _Maker] = {}  # for each constant that is not in the graph, how it is computed

    def __contains__(self, number: int) -> bool:
        constant = self.values[number].constant
        return number in self._makers or (constant is not None and not has_open_numbers(constant))

    def add(self, step: Step) -> None:
        """Make constants of the results of a step on constants, which are computed when they are needed."""
        maker = _Maker(step, *self._ends(step))
        made_from = [self.key(number) for number in maker.sources]
        computation = self._computation(step, maker.results)
        for port, number in enumerate(maker.results):
            strides, storage = self._place(step, number)
            self.values[number] = self.values[number].placed(storage, strides)
            self._keys[number] = derived((port, *computation), *made_from)
            self._makers[number] = maker

    def settle(self, used: set[int]) -> None:
        """Compute the constants among the values ``used``, and drop the contents of all others.

        Raises:
            NotComputedError: numpy cannot compute a step.
        """
        used = used | {self.values[number].storage for number in used}
        for number in used & self._makers.keys():
            self.contents(number)
        for number, value in self.values.items():
            if value.constant is not None and number not in used:
                self.values[number] = value._replace(constant=None)

    def key(self, number: int) -> Key:
        """The key of a constant."""
        return self._edit.key(number)

    def contents(self, number: int) -> Array:
        """The contents of a constant, computed unless a program has them.

        Raises:
            NotComputedError: numpy cannot compute a step.
        """
        waiting = [number]
        while waiting:
            value = self.values[waiting[-1]]
            if value.constant is None:
                array = self.shared.find(self._keys[value.id])
                if array is None:
                    maker = self._makers[value.id]
                    if missing := [source for source in maker.sources if self.values[source].constant is None]:
                        waiting += missing
                        continue
                    self._compute(maker)
                else:
                    self.values[value.id] = value._replace(constant=array)
            waiting.pop()
        contents = self.values[number].constant
        assert contents is not None
        return contents

    def _compute(self, maker: _Maker) -> None:
        """Compute a step whose inputs have contents."""
        step = maker.step
        try:
            arrays = [self._viewed(step)] if is_view(step) else self._run(step)
        except (OneGraphError, MemoryError):
            raise NotComputedError(step) from None
        give_back(self._known(maker.sources))  # the contents of a file, which few others read
        for number, array in zip(maker.results, arrays, strict=True):
            shared = self.shared.keep(self._keys[number], array)
            self.values[number] = self.values[number]._replace(constant=shared)

    def _known(self, numbers: Sequence[int]) -> list[Array]:
        return [array for number in numbers if (array := self.values[number].constant) is not None]

    def _run(self, step: Step) -> list[Array]:
        run = numpy_step(step, self.values, 0)
        constants = [None if number is None else self.values[number].constant for number in run.inputs]
        values = [self.values[number] for number in run.outputs]
        results = [aligned_empty(value.shape, value.dtype.numpy) for value in values]
        run.run(constants, results)
        return [*map(placed, results)]

    def _viewed(self, step: Step) -> Array:
        """The result of a step that only changes shape or axis order."""
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        array = viewed_constant(step, source, target)
        return placed(array) if target.storage == target.id else array

    def _ends(self, step: Step) -> tuple[list[int], Sequence[int]]:
        """The values that are read and written where a step is computed; of an op that is one step, all its tensors."""
        if is_view(step):
            return [*step.inputs], step.outputs
        run = numpy_step(step, self.values, 0)
        return [number for number in run.inputs if number is not None], run.outputs

    def _computation(self, step: Step, results: Sequence[int]) -> tuple[object, ...]:
        """What a step computes, as plain data."""
        op = step.op
        named = step.executor, step.kind, step.whole, sorted(step.attrs.items())
        signature = op.kind, op.edition, sorted(op.attrs.items()), [tensor is None for tensor in op.inputs]
        return (
            *named,
            *signature,
            [(self.values[number].dtype.value, self.values[number].shape) for number in results],
        )

    def _place(self, step: Step, number: int) -> tuple[Dims, int]:
        """The strides and the storage of a result.

        Large results of a change of axis order are views, so that weights are in memory once. Small ones are dense, as
        ops with broadcasts have fast kernels for dense operands only.
        """
        target = self.values[number]
        if not is_view(step) or step.kind == "StaticReshape" or nbytes(target) <= LARGE_VIEW:
            return dense_of(target.shape), number
        source = self.values[step.inputs[0]]
        return tuple([source.strides[axis] for axis in axis_order(step, source)]), source.storage


def placed(array: Array) -> Array:
    """The array as a read-only one that the library can read."""
    if not (array.flags.c_contiguous and is_aligned(array)):
        aligned = aligned_empty(array.shape, array.dtype)
        aligned[...] = array
        array = aligned
    array.flags.writeable = False
    return array
