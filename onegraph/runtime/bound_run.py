"""Runs that are one call into C and next to nothing in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns
from typing import Any, NoReturn

import numpy as np

from .._util.fork_safety import new_rlock
from .._util.init_once import Made
from .._util.interpreter_tricks import is_held
from ..arrays.ndarrays import Held, owners
from ..capi.thread_affinity import OwnerThread, calling_thread
from ..compiler.lower import Value
from ..errors import ArgumentError, StateError, StatusError
from ..ir.op import Array
from ..native import library
from ..native.library import lib
from ..opset.shapes import is_dense
from .plan import plan_error
from .program import Frame, Program

QuickCall = Callable[..., Any]


def quick_call(program: Program, result: Callable[..., Any] | None) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays (``call.cpp``); None where it is not one call into C.

    It serves the ordinary case, numpy arrays of the very shapes, strides and data types that were compiled, and
    answers None for everything else, with nothing done. Its second argument is None, or what to write into: the array
    of a single output, a tuple or list of those of several.

    Args:
        program: for these shapes.
        result: makes one value of several outputs; None where there is one output.
    """
    values = program.values
    inputs = [values[tensor.id] for tensor in program.graph.inputs.values()]
    outputs = [values[number] for _, number in program.direct]
    in_order = [name for name, _ in program.direct] == list(program.graph.outputs)
    if not (inputs and program.in_c and program.owner_thread is None and in_order):
        return None
    ports = [tuple(map(_port, values)) for values in (inputs, outputs)]
    # Nothing of the program holds the function, so that the program goes with its last user.
    call: QuickCall = library.quick_call(*ports, program.free_frames, plan_error, result)
    return call


def _port(value: Value) -> tuple[np.dtype[np.generic], tuple[int, ...], tuple[int, ...]]:
    """Data type, shape, and strides in bytes; no strides where it is dense."""
    dtype = value.dtype.numpy
    dense = is_dense(value.shape, value.strides)
    return dtype, value.shape, () if dense else tuple([step * dtype.itemsize for step in value.strides])


class BoundRun(Made):
    """A run whose arrays are fixed. ``Executable.bind`` makes it; it may be called, too.

    One run at a time: a second thread gets a StateError. After any other error, bind the arrays again.

    Attributes:
        run: runs on the bound arrays, and returns what a call of the executable returns. Raises StateError where
            another thread is in a run of this object, or bound it and there are gradient ops in the graph; StatusError
            where the library could not run it, such as for want of memory.
    """

    __slots__ = ("__weakref__", "_outputs", "_owner", "run")

    run: Callable[[], Any]
    _outputs: dict[str, Array]
    _owner: tuple[Program, Frame, dict[int, Array]]

    def __init__(self) -> None:
        raise TypeError("a BoundRun is made by Executable.bind")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would run on the arrays of the original."""
        raise TypeError("a BoundRun cannot be copied or pickled; bind the arrays again")

    @classmethod
    def _of(
        cls,
        program: Program,
        frame: Frame,
        arrays: Mapping[int, Array],
        results: Held,
        value: Any,
        failed: Callable[[StatusError], StatusError],
    ) -> BoundRun:
        """A run of a frame to which ``arrays`` are bound."""
        self = cls.__new__(cls)
        self._outputs = dict(results.given)
        # Nothing that the function holds holds it, so that everything goes with its last user.
        self._owner = owner = (program, frame, dict(arrays))
        if program.in_c:
            watched = tuple(owner for array in arrays.values() for owner in owners(array))
            run = library.bound_run(frame.plan.number, value, partial(_failure, failed), owner, watched)
            self.run = run if program.owner_thread is None else partial(_run_in_owner_thread, program.owner_thread, run)
        else:
            self.run = partial(_run_parts, owner, dict(results), value, failed, new_rlock())
        return self

    @property
    def outputs(self) -> Mapping[str, Array]:
        """The arrays that the runs write into, by name."""
        return dict(self._outputs)

    def __call__(self) -> Any:
        """``run``."""
        return self.run()

    def _sample(self, enough: int, most: int) -> list[int]:
        """Run for about ``enough`` nanoseconds, ``most`` times at most; returns the nanoseconds of each run.

        They are taken in C where a run is one call into C.
        """
        program, frame, _ = self._owner
        return frame.plan.sample(enough, most) if program.in_c else sample(self.run, enough, most)

    def _lay_upon_inputs(self) -> None:
        """From now on write results over the inputs where the library offers that; the next run alone is right.

        Raises:
            ArgumentError: such an input is read-only.
        """
        program, frame, arrays = self._owner
        names = {tensor.id: name for name, tensor in program.graph.inputs.items()}
        for source in program.in_place.values():
            if not arrays[source].flags.writeable:
                raise ArgumentError(f"in_place: input {names[source]!r} is read-only; pass a copy of it")
        frame.bind({**arrays, **{target: arrays[source] for target, source in program.in_place.items()}})


def sample(run: Callable[[], object], enough: int, most: int) -> list[int]:
    """Run for about ``enough`` nanoseconds, ``most`` times at most; returns the nanoseconds of each run."""
    begin = end = perf_counter_ns()
    samples: list[int] = []
    while len(samples) < most and end - begin <= enough:
        start = perf_counter_ns()
        run()
        end = perf_counter_ns()
        samples.append(end - start)
    return samples


def _failure(failed: Callable[[StatusError], StatusError], status: int) -> Exception:
    error = plan_error(status)
    return failed(error) if isinstance(error, StatusError) else error


def refuse_elsewhere(own: OwnerThread | None) -> None:
    """Raise StateError in any other thread than the one that alone can run what it has compiled."""
    if own not in (None, calling_thread()):
        raise StateError(
            "this run was bound by another thread; oneDNN keeps the scratch memory of gradient ops per thread: "
            "bind one for each thread"
        )


def _run_in_owner_thread(own: OwnerThread, run: Callable[[], Any]) -> Any:
    """A run that is one call into C, in the one thread that can do it."""
    refuse_elsewhere(own)
    return run()


def _run_parts(
    owner: tuple[Program, Frame, Mapping[int, Array]],
    results: Mapping[str, Array],
    value: Any,
    failed: Callable[[StatusError], StatusError],
    busy: threading.RLock,
) -> Any:
    """A run that is not one call into C."""
    program, frame, _ = owner
    refuse_elsewhere(program.owner_thread)
    if is_held(busy):
        raise plan_error(lib.onegraph_busy)
    try:
        frame.refuse_moved()
        with busy:  # where an interrupt cannot come between taking it and the promise to give it back
            frame.run()
            frame.copy_outputs(results)
    except StatusError as error:
        raise failed(error) from None
    return value
