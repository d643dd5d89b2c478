"""The memory of one run of a program: one arena, the caller's arrays, and the steps bound to both."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .arrays import aligned_empty, owners, strided
from .lower import Value
from .native import address_of, lib
from .op import Array
from .plain import isinstance
from .plan import Plan, PlanSource, plan_error

if TYPE_CHECKING:
    from .program import Program
    from .steps import NumpyStep


class Frame:
    """What one run of a program needs beside the caller's arrays; for one run at a time.

    ``source``: the steps, those of the program by default.
    """

    def __init__(self, program: Program, source: PlanSource | None = None) -> None:
        # ``release`` drops this reference, as the program holds the frames that wait: a cycle keeps kernels and memory
        # until the garbage collector runs, and some bytes of the library for ever.
        self.program = program
        self.plan = Plan(program.source if source is None else source)
        self.number = self.plan.number  # where csrc/call.cpp looks for it
        self._arena = aligned_empty((program.arena_size,), np.dtype(np.uint8))
        self.plan.bind(0, address_of(self._arena))
        self._constants = tuple(program.constants.values())  # a run that is one call into C holds the frame alone
        for number, constant in program.constants.items():
            self.plan.bind(program.slots[number], address_of(constant))
        # Arrays for what numpy reads or writes; those in the caller's memory come and go with it.
        self._arrays = {number: self._inside(number) for number in program.touched if self._is_inside(number)}
        self._watched: list[tuple[weakref.ref[Array], int, int]] = []

    def bind(self, external: Mapping[int, Array]) -> None:
        """Let the external values live in these arrays, of the shapes and strides that they were compiled for."""
        # numpy resizes no array that has a weak reference, whatever refcheck says: its address must hold.
        watched = [owner for array in external.values() for owner in owners(array)]
        self._watched = [(weakref.ref(owner), address_of(owner), owner.nbytes) for owner in watched]
        for number, array in external.items():
            self.plan.bind(self.program.slots[number], address_of(array))
            for resident in self.program.residents.get(number, ()):
                self._arrays[resident] = self._view(resident, array)

    def refuse_moved(self) -> None:
        """Raise StateError where an array has other memory than when it was bound."""
        for watch, place, size in self._watched:
            array = watch()
            if array is not None and (address_of(array), array.nbytes) != (place, size):
                raise plan_error(lib.onegraph_moved)

    def release(self) -> None:
        """Forget the program and the caller's arrays, so that a frame that waits keeps nobody's memory."""
        self._watched.clear()
        for number in self.program.touched:
            if not self._is_inside(number):
                self._arrays.pop(number, None)
        del self.program

    def run(self) -> None:
        """Execute every step on the bound arrays."""
        for part in self.program.parts:
            if isinstance(part, range):
                self.plan.run_steps(part.start, part.stop)
            else:
                self.run_numpy(part)

    def run_numpy(self, step: NumpyStep) -> None:
        """Execute one step of numpy's."""
        inputs = [None if number is None else self._arrays[number] for number in step.inputs]
        for number, result in zip(step.outputs, step.run(inputs), strict=True):
            self._arrays[number][...] = result

    def copy_outputs(self, results: Mapping[str, Array]) -> None:
        """Fill the outputs that no step writes: inputs, constants, views, second names of another output."""
        for name, number in self.program.copied:
            results[name][...] = self._arrays[number]

    def measure(self, enough: float) -> list[float | None]:
        """The seconds that every step takes on blank memory; see :meth:`onegraph.plan.Plan.measure`."""
        self._arena.fill(0)
        program = self.program
        blank = {number: np.zeros(span(program.values[number]), np.uint8) for number in program.external}
        for number, memory in blank.items():
            self.plan.bind(program.slots[number], address_of(memory))
        return self.plan.measure(enough)

    def _is_inside(self, number: int) -> bool:
        return self.program.values[number].storage not in self.program.external

    def _inside(self, number: int) -> Array:
        """The array of a value in the arena or in a constant."""
        value = self.program.values[number]
        constant = self.program.constants.get(value.storage)
        if constant is not None:
            return self._view(number, constant)
        size = value.dtype.numpy.itemsize
        offset = self.program.offsets[value.storage]
        return np.ndarray(value.shape, value.dtype.numpy, self._arena, offset, [step * size for step in value.strides])

    def _view(self, number: int, whole: Array) -> Array:
        """A value that lives in an array: the array itself, or the same memory by other axes."""
        value = self.program.values[number]
        if value.storage == number:
            return whole
        return strided(whole, value.shape, value.strides)


def span(value: Value) -> int:
    """Bytes from the first to the last element of a value, both included."""
    reach = sum((dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True))
    return (reach + 1) * value.dtype.numpy.itemsize if math.prod(value.shape) else 0
