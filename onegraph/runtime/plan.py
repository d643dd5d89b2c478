"""Executes steps one after another in one C call, without the GIL (``plan.cpp``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.mapped_files import Pages
from ..capi.engine import default_engine
from ..capi.settings import least_alignment
from ..compiler.kernels.native import CompiledKernel
from ..compiler.steps import CompiledStep
from ..errors import ArgumentError, StateError
from ..ir.op import Array
from ..native.library import Handle, address, address_of, create, ffi, lib, status_error, what

if TYPE_CHECKING:
    from ..capi import CompiledPartition

EXECUTE = "dnnl_graph_compiled_partition_execute"
CHUNK, PART = 1000, 50_000_000  # runs and nanoseconds of one C call, during which interrupts wait
_idle: list[Any] = []  # streams of freed plans, for reuse: a SYCL queue that was used does not free all its memory


class PlanSource:
    """The C arrays that plans are made from: steps, the memory of their tensors, and the threads of each step.

    ``keeps``: for each step, whether the library keeps constants that it finds by a hash.
    ``places``: the slot of each piece of memory, and its offset in the slot in bytes.
    ``kept``: what the steps refer to besides ``compiled``.
    ``limit``: the largest number of threads of a run; 0 leaves it to the caller's OpenMP setting.
    ``pages``: the pages of files that pieces of memory lie in. The first run of a plan gives them back after the last
    step that reads the piece, because the library has copies of most constants by then. Kernels of the package read
    constants in each run, so what they alone read stays.
    ``arenas``: where runs take the memory of intermediates from; None if each plan has its own.
    ``n_last``: the number of steps at the end that :meth:`Plan.finish` executes; they are kernels of the package.
    """

    def __init__(
        self,
        steps: Sequence[CompiledStep],
        places: Mapping[int, tuple[int, int]],
        n_slots: int,
        limit: int,
        pages: Mapping[int, Pages],
        *,
        n_last: int = 0,
        bound: bool = False,
        arenas: Arenas | None = None,
    ) -> None:
        self.compiled = tuple([step.compiled for step in steps])
        self.kept: tuple[object, ...] = ()
        self.alone = tuple([step.alone for step in steps if step.alone is not None])
        self.arenas = arenas
        self.n_slots, self.limit, self.bound, self.n_last = n_slots, limit, bound, n_last
        self._constants: list[tuple[int, object]] = []  # those for other sizes have the same ones
        self.keeps = [step.again is not None for step in steps]
        self.steps = ffi.new(
            "onegraph_step_t[]",
            [_in_c(step.compiled, keeps, step.room, step.alone) for step, keeps in zip(steps, self.keeps, strict=True)],
        )
        piece_places = [places[piece] for step in steps for piece in step.pieces]
        shifts = [shift for step in steps for shift in step.shifts or [0] * len(step.pieces)]
        self.slots = ffi.new("size_t[]", [slot for slot, _ in piece_places])
        self.offsets = ffi.new("size_t[]", [at + shift for (_, at), shift in zip(piece_places, shifts, strict=True)])

        copied = {piece for step in steps if not isinstance(step.compiled, CompiledKernel) for piece in step.pieces}
        last = {piece: index for index, step in enumerate(steps) for piece in step.pieces if piece in pages}
        ends = sorted((index, *pages[piece]) for piece, index in last.items() if piece in copied)
        self.pages = ffi.new("onegraph_pages_t[]", [(i, ffi.cast("void *", begin), size) for i, begin, size in ends])

    def filled(
        self, rows: Array, keeps: tuple[object, ...], rooms: Array, offsets: Array, *, is_new: bool
    ) -> PlanSource:
        """The source for other kernels and partitions, with the same numbers of threads.

        Args:
            rows: the steps in C, one row of bytes for each.
            is_new: whether the library has compiled partitions, which read constants for the first time.
            keeps: what the rows refer to.
            rooms: for each step the start and size of ``CompiledStep.room``.
            offsets: of the tensors.
        """
        source, count = copy(self), len(self.steps)
        source.compiled, source.kept, source.steps = (), keeps, ffi.new("onegraph_step_t[]", count)
        source.offsets = ffi.new("size_t[]", len(self.offsets))
        source.pages = self.pages if is_new else ffi.new("onegraph_pages_t[]", 0)
        filled = _bytes_of(source.steps)
        filled[...] = rows
        for name, values in (
            ("threads", field_of(_bytes_of(self.steps), "threads")),
            ("room", rooms[:, 0]),
            ("room_size", rooms[:, 1]),
        ):
            field_of(filled, name)[...] = values
        ffi.memmove(source.offsets, ffi.from_buffer(offsets), offsets.nbytes)
        return source

    def constants(self, slots: Mapping[int, int], arrays: Mapping[int, Array]) -> Sequence[tuple[int, object]]:
        """The slots of constants with their addresses, for :meth:`Plan.bind_all`."""
        if len(self._constants) != len(arrays):
            self._constants[:] = [(slots[number], as_pointer(address_of(array))) for number, array in arrays.items()]
        return self._constants

    @property
    def threads(self) -> list[int]:
        """The number of threads of each step; 0 for all that a run may use."""
        return [step.threads for step in self.steps]

    @threads.setter
    def threads(self, counts: Sequence[int]) -> None:
        for step, count in zip(self.steps, counts, strict=True):
            step.threads = count


def _in_c(
    kernel: CompiledPartition | CompiledKernel,
    keeps: bool = False,
    room: tuple[int, int] = (0, 0),
    alone: CompiledPartition | None = None,
) -> tuple[object, ...]:
    """A step as C reads it."""
    if isinstance(kernel, CompiledKernel):
        own = kernel.pointer, kernel.code, len(kernel.code), False
        return ffi.NULL, *kernel.ports, 0, keeps, *own, *room, ffi.NULL
    prepares = kernel._compilation.prepares
    own = ffi.NULL, ffi.NULL, 0, prepares
    return kernel._ptr, *kernel._compilation.ports, 0, keeps, *own, *room, ffi.NULL if alone is None else alone._ptr


def _bytes_of(steps: Any) -> Array:
    """The bytes of steps in C, one row for each, in their memory."""
    return np.frombuffer(ffi.buffer(steps), np.uint8).reshape(len(steps), ffi.sizeof("onegraph_step_t"))


def rows_of(kernels: Sequence[CompiledPartition | CompiledKernel]) -> Array:
    """Steps in C that run these, one row of bytes for each."""
    steps = ffi.new("onegraph_step_t[]", [*map(_in_c, kernels)])
    return _bytes_of(steps).copy() if kernels else np.empty((0, ffi.sizeof("onegraph_step_t")), np.uint8)


@cache
def _place_of(name: str) -> tuple[int, int, str]:
    """Where a field of a step in C begins and ends, and the type of its numbers."""
    field = dict(ffi.typeof("onegraph_step_t").fields)[name]
    size = ffi.sizeof(field.type)
    return field.offset, field.offset + size, f"i{size}"


def field_of(rows: Array, name: str) -> Array:
    """A field of steps in C, in the memory of their rows."""
    start, end, kind = _place_of(name)
    return rows[:, start:end].view(kind)[:, 0]


def as_pointer(memory: int) -> object:
    """An address for :meth:`Plan.bind_all`."""
    return ffi.cast("void *", memory)


class Arenas(Handle):
    """Memory for the intermediates of runs, which the plans of many programs share.

    Raises:
        OutOfMemoryError: there is not enough memory.
    """

    __slots__ = ()

    def __init__(self) -> None:
        pointer = ffi.new("onegraph_arenas **")
        _check(lib.onegraph_arenas_create(pointer))
        super().__init__(pointer[0], lib.onegraph_arenas_destroy)


class Plan(Handle):
    """Steps with tensors of their own, for one run at a time.

    Raises:
        OutOfMemoryError: there is not enough memory for the tensors.
    """

    __slots__ = ("n_steps", "number")

    def __init__(self, source: PlanSource) -> None:
        engine = default_engine()
        try:
            stream = _idle.pop()
        except IndexError:
            stream = create(lib.dnnl_stream_create, "dnnl_stream_t", engine._ptr, lib.dnnl_stream_default_flags)
        reusable_stream = ffi.gc(stream, _idle.append)  # a C function, so that no interrupt arrives inside it
        pointer = ffi.new("onegraph_plan **")
        _check(
            lib.onegraph_plan_create(
                pointer,
                engine._ptr,
                stream,
                source.limit,
                source.bound,
                least_alignment(),
                len(source.steps),
                source.steps,
                len(source.slots),
                source.slots,
                source.offsets,
                source.n_slots,
                len(source.pages),
                source.pages,
                source.n_last,
            )
        )
        kept = source.compiled, source.alone, source.arenas, source.kept
        super().__init__(pointer[0], lib.onegraph_plan_destroy, engine, reusable_stream, *kept)
        self.n_steps = len(source.steps)
        self.number = address(pointer[0])  # for onegraph_plan_run and onegraph_plan_call

    def bind(self, slot: int, memory: int) -> None:
        """Set the address of a slot; the caller keeps the memory valid during every run."""
        _check(lib.onegraph_plan_bind(self._ptr, slot, ffi.cast("void *", memory)))

    def share(self, arenas: Arenas, size: int) -> None:
        """Let each run take so many bytes for slot 0, until this slot is bound; the caller keeps ``arenas``."""
        _check(lib.onegraph_plan_share(self._ptr, arenas._ptr, size))

    def bind_all(self, slots: Sequence[tuple[int, object]]) -> None:
        """Set the addresses of slots, which are given as pointers."""
        bind, plan = lib.onegraph_plan_bind, self._ptr
        for slot, pointer in slots:
            if status := bind(plan, slot, pointer):
                _check(status)

    def run_steps(self, first: int, last: int) -> None:
        """Execute the steps from ``first`` up to, but not including, ``last``."""
        _check(lib.onegraph_plan_run_steps(self._ptr, first, last, ffi.NULL))

    def exchange(self, turn: object) -> None:
        """Let each later :meth:`finish` change the number at ``turn`` from 0 to 1 or back; NULL ends that."""
        _check(lib.onegraph_plan_exchange(self._ptr, turn))

    def finish(self) -> None:
        """Execute the steps at the end, and change the number of :meth:`exchange`. Both happen, or neither."""
        _check(lib.onegraph_plan_finish(self._ptr))

    def take_back(self) -> None:
        """Write back what steps have written over variables since the last :meth:`finish`."""
        _check(lib.onegraph_plan_take_back(self._ptr))

    def time(self, first: int, last: int) -> list[float]:
        """Execute the steps from ``first`` up to, but not including, ``last``; returns the time of each in seconds."""
        nanoseconds = ffi.new("int64_t[]", last)
        _check(lib.onegraph_plan_run_steps(self._ptr, first, last, nanoseconds))
        return [nanoseconds[index] * 1e-9 for index in range(first, last)]

    def sample(self, enough: int, most: int) -> list[int]:
        """Run for about ``enough`` nanoseconds, at most ``most`` times; returns the time of each run in nanoseconds."""
        samples: list[int] = []
        nanoseconds, count = ffi.new("int64_t[]", CHUNK), ffi.new("size_t *")
        while most > len(samples) and enough >= 0:
            count[0] = 0
            part = min(enough, PART), min(CHUNK, most - len(samples))
            _check(lib.onegraph_plan_sample(self._ptr, *part, nanoseconds, count))
            durations = nanoseconds[0 : count[0]]
            samples.extend(durations)
            enough -= sum(durations)
        return samples

    def prepare(self) -> list[int]:
        """Execute each step that keeps constants for the first time.

        Returns:
            for each step, the bytes that the library keeps; -1 if it took constants of another partition.
        """
        sizes = ffi.new("int64_t[]", self.n_steps)
        _check(lib.onegraph_plan_prepare(self._ptr, sizes))
        return list(sizes)

    def measure(self, enough: float) -> list[float | None]:
        """The shortest time of each step in seconds, with its number of threads.

        Steps that take less than ``enough`` seconds are run several times. None means that other load kept the threads
        from running at the same time.
        """
        nanoseconds = ffi.new("int64_t[]", self.n_steps)
        _check(lib.onegraph_plan_measure(self._ptr, int(enough * 1e9), nanoseconds))
        return [duration * 1e-9 if duration >= 0 else None for duration in nanoseconds]


def plan_error(status: int) -> Exception:
    """The exception for a status that a C function of the plan returned."""
    if status == lib.onegraph_busy:
        return StateError("this run is in use by another thread; bind one for each thread")
    if status == lib.onegraph_moved:
        return StateError("a bound array has other memory than when it was bound; bind the arrays again")
    if status == lib.onegraph_wrong_contents:
        return ArgumentError(what())
    return status_error(EXECUTE, status)


def _check(status: int) -> None:
    if status:
        raise plan_error(status)
