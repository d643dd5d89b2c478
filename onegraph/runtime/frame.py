"""Holds the memory that one run of a program needs besides the caller's arrays, and executes its steps."""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate

import numpy as np

from ..arrays.ndarrays import aligned_empty, owners, strided
from ..compiler.array_kernels.arrays import LIMIT
from ..compiler.memory_planner import aligned
from ..compiler.steps import Ending, NumpyStep, nothing
from ..ir.op import Array
from ..native.library import address_of, ffi, lib
from .placement import ARENA, Placement, span
from .plan import Plan, PlanSource, as_pointer, plan_error
from .state import State


class Frame:
    """A plan and an arena, for one run at a time.

    A frame does not refer to its program, which keeps free frames: a cycle would keep kernels and memory until the
    garbage collector runs, and some bytes of the library forever.

    Args:
        placement: where the values lie.
        parts: the steps before the end in order: ranges of steps of the plan, and numpy steps.
        ending: the steps at the end.
        source: the source of the plan.
        arena: the arena of a frame that will not run again; None shares one, or allocates it.
    """

    def __init__(
        self,
        placement: Placement,
        parts: Sequence[range | NumpyStep],
        ending: Ending,
        source: PlanSource,
        arena: Array | None = None,
    ) -> None:
        self.placement, self.parts, self.ending = placement, parts, ending
        self._active = [part for part in parts if isinstance(part, range) or part.run is not nothing]
        self.plan, self._limit = Plan(source), source.limit
        self._state: State | None = None
        self.number = self.plan.number  # read by native/csrc/call.cpp
        self.arena = arena
        if arena is None and source.arenas is not None:
            self.plan.share(source.arenas, placement.arena_size)
        else:
            self.own_arena()
        self.plan.bind_all(source.constants(placement.slots, placement.constants))
        # Arrays that numpy reads or writes; ``bind`` adds and ``release`` removes those in the caller's memory.
        self._arrays = {
            number: self._inside(number)
            for piece, numbers in placement.residents.items()
            if piece not in placement.external
            for number in numbers
        }
        self._watched: list[tuple[weakref.ref[Array], int, int]] = []
        # By turn: the values of the variables, the addresses of their slots, and the views that numpy steps read.
        self._variables: dict[int, tuple[object, list[tuple[int, object]], dict[int, Array]]] = {}

    def bind(self, external: Mapping[int, Array]) -> None:
        """Bind the external values to these arrays, which have the compiled shapes and strides."""
        # The weak references stop numpy from resizing the arrays, even with refcheck=False, so addresses stay valid.
        watched = [owner for array in external.values() for owner in owners(array)]
        self._watched = [(weakref.ref(owner), address_of(owner), owner.nbytes) for owner in watched]
        for number, array in external.items():
            self.plan.bind(self.placement.slots[number], address_of(array))
        self._arrays.update(self._resident_views(external))
        self._use(None)

    def _use(self, state: State | None) -> None:
        """Let runs give the variables their next values; None ends that."""
        if self._state is not state:
            self._state = state
            self.plan.exchange(ffi.NULL if state is None else state.turns)

    def bind_variables(self, state: State) -> None:
        """Bind the present values of the variables, and the memory for the next ones."""
        self._use(state)
        present, bound = state.present, self._variables.get(state.turn)
        if bound is None or bound[0] is not present:
            state.give_memory(self.ending.variables)
            present = state.present
            external, placed = self.placement.external_arrays(present, state.following), self.placement.slots
            slots = [(placed[number], as_pointer(address_of(array))) for number, array in external.items()]
            bound = self._variables[state.turn] = present, slots, self._resident_views(external)
        self.plan.bind_all(bound[1])
        self._arrays.update(bound[2])

    def refuse_moved(self) -> None:
        """Raise StateError if an array has other memory than when it was bound."""
        for watch, place, size in self._watched:
            array = watch()
            if array is not None and (address_of(array), array.nbytes) != (place, size):
                raise plan_error(lib.onegraph_moved)

    def release(self) -> None:
        """Drop the caller's arrays, so that a free frame does not keep their memory."""
        self._watched.clear()
        for piece in self.placement.external:
            for number in self.placement.residents.get(piece, ()):
                self._arrays.pop(number, None)

    def run(self, results: Mapping[str, Array]) -> None:
        """Execute every step on the bound arrays, and fill the outputs ``results`` that no step writes.

        The variables get their next values at the end, all of them in one call into C.
        """
        if self._state is None:
            self._run_parts()
            self.copy_outputs(results)
            self.plan.finish()
            return
        try:
            self._run_parts()
            self.copy_outputs({**results, **self._state.following})
            self.plan.finish()
        finally:
            self.plan.take_back()

    def run_on(self, external: Mapping[int, Array], copies: Sequence[tuple[Array, int]]) -> None:
        """Execute every step of a program without variables, on arrays whose slots are bound.

        Args:
            external: of these arrays, those that numpy reads or writes, by the value that each holds.
            copies: the outputs that no step writes, each with its value.
        """
        self._arrays.update(self._resident_views(external))
        try:
            self._run_parts()
            for target, number in copies:
                target[...] = self._arrays[number]
            self.plan.finish()
        finally:
            self.release()

    def _run_parts(self) -> None:
        LIMIT.threads = self._limit
        for part in self._active:
            if isinstance(part, range):
                self.plan.run_steps(part.start, part.stop)
            else:
                self.run_numpy(part)

    def run_numpy(self, step: NumpyStep) -> None:
        """Execute one numpy step."""
        inputs = [None if number is None else self._arrays[number] for number in step.inputs]
        step.run(inputs, [self._arrays[number] for number in step.outputs])

    def copy_outputs(self, results: Mapping[str, Array]) -> None:
        """Fill the outputs that no step writes: inputs, constants, views, and further names of an output."""
        for name, number in self.placement.copied:
            if name in results:
                results[name][...] = self._arrays[number]

    @contextmanager
    def blank(self) -> Iterator[Plan]:
        """The plan, in a block in which all memory but the constants is zeroed."""
        self.own_arena().fill(0)
        values, slots = self.placement.values, self.placement.slots
        starts = [*accumulate([aligned(span(values[number])) for number in self.placement.external], initial=0)]
        # Fresh pages take no memory until they are written to; the heap would fill memory that was in use before.
        blank = np.frombuffer(mmap.mmap(-1, max(starts[-1], 1)), np.uint8)
        for number, start in zip(self.placement.external, starts, strict=False):
            self.plan.bind(slots[number], address_of(blank) + start)
        yield self.plan

    def own_arena(self) -> Array:
        """The arena of this frame alone."""
        if self.arena is None:
            self.arena = aligned_empty((self.placement.arena_size,), np.dtype(np.uint8))
        self.plan.bind(ARENA, address_of(self.arena))
        return self.arena

    def _inside(self, number: int) -> Array:
        """The array of a value whose memory is in the arena or in a constant."""
        value = self.placement.values[number]
        constant = self.placement.constants.get(value.storage)
        if constant is not None:
            return self._view(number, constant)
        dtype = value.dtype.numpy
        offset = self.placement.offsets[value.storage] + value.shift
        return np.ndarray(
            value.shape, dtype, self.own_arena(), offset, [step * dtype.itemsize for step in value.strides]
        )

    def _resident_views(self, external: Mapping[int, Array]) -> dict[int, Array]:
        """The values that numpy reads or writes in these arrays."""
        residents = self.placement.residents
        return {n: self._view(n, array) for piece, array in external.items() for n in residents.get(piece, ())}

    def _view(self, number: int, array: Array) -> Array:
        """The value as an array: ``array`` itself, or a view of it."""
        value = self.placement.values[number]
        if value.storage == number:
            return array
        return strided(array, value.shape, value.strides, value.shift)
