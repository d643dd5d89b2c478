"""Runs programs on bound arrays, most of them with one call into C."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NoReturn

from .._util.fork_safety import new_rlock
from .._util.init_once import Made
from .._util.interpreter_tricks import is_held
from ..arrays.ndarrays import Held, owners
from ..capi.thread_affinity import OwnerThread, calling_thread
from ..errors import ArgumentError, StateError, StatusError
from ..ir.op import Array
from ..native import library
from ..native.library import lib
from ..opset.dtypes import DataType
from ..opset.shapes import show
from ..opset.signature import Shape
from .frame import Frame
from .plan import plan_error
from .program import Program
from .state import State

if TYPE_CHECKING:
    from .call_types import Result

Port = tuple[str, DataType, Shape]  # name, data type and dims of an input or output


class BoundRun(Made):
    """A run on fixed arrays. ``Executable.bind`` makes it; calling the object is the same as calling ``run``.

    Only one thread may run it at a time; a second thread gets a StateError. After any other error, bind the arrays
    again.

    Attributes:
        run: runs on the bound arrays and returns the same value as a call of the executable. Raises StateError if
            another thread is running this object, or if the graph has gradient ops and another thread bound it; raises
            StatusError if the library fails, for example because memory is short.
    """

    __slots__ = ("__weakref__", "_has_state", "_outputs", "_owner", "run")

    run: Callable[[], Result]
    _has_state: bool
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
        shaping: Mapping[str, Array],
        state: State | None,
    ) -> BoundRun:
        """A run of a frame to which ``arrays`` are bound.

        Args:
            program, frame: what runs.
            arrays: the bound arrays by value.
            results: the outputs by name.
            value: what a run returns.
            failed: called with the error of a failed run; returns the error to raise.
            shaping: the inputs that set a shape, by name.
            state: the variables; each run reads their values and gives them their next values.
        """
        self = cls.__new__(cls)
        self._outputs, self._has_state = dict(results.given), state is not None
        # Nothing that the function refers to refers back to it, so that everything is freed with its last user.
        self._owner = owner = (program, frame, dict(arrays))
        if program.in_c:
            watched = tuple(owner for array in arrays.values() for owner in owners(array))
            run = library.bound_run(frame.plan.number, value, partial(_failure, failed), owner, watched)
            self.run = run if program.owner_thread is None else partial(_run_in_owner_thread, program.owner_thread, run)
        else:
            self.run = partial(_run_parts, owner, dict(results), value, failed, new_rlock())
        if shaping:
            compiled = [(name, array, array.copy()) for name, array in shaping.items()]
            self.run = partial(_run_in_shape, compiled, self.run)
        if state is not None:
            self.run = partial(_run_with_state, state, frame, self.run)
        return self

    @property
    def outputs(self) -> Mapping[str, Array]:
        """The arrays that runs write into, by name of output."""
        return dict(self._outputs)

    def __call__(self) -> Result:
        """Call ``run``."""
        return self.run()

    def __repr__(self) -> str:
        from ..compiler.report import partition_lines

        return "\n".join([self._signature(), *partition_lines(self._owner[0].reports)])

    def _repr_html_(self) -> str:
        """The bound run as HTML for a notebook: inputs, outputs and partitions."""
        from ..compiler.report import partition_table

        return partition_table(self._signature(), self._owner[0].reports, {})

    def _signature(self) -> str:
        """The names, data types and shapes of the bound arrays."""
        program = self._owner[0]
        ports = [
            [(name, tensor.dtype, program.placement.values[tensor.id].shape) for name, tensor in named.items()]
            for named in (program.graph.inputs, program.graph.outputs)
        ]
        return signature("BoundRun", *ports)

    def _sample(self, enough: int, most: int) -> list[int]:
        """Run for about ``enough`` nanoseconds, at most ``most`` times; returns the time of each run in nanoseconds.

        A run that is one call into C is timed in C; with variables it is not, as each run binds their memory.
        """
        program, frame, _ = self._owner
        in_c = program.in_c and not self._has_state
        return frame.plan.sample(enough, most) if in_c else sample(self.run, enough, most)

    def _lay_upon_inputs(self) -> None:
        """From now on, write results over the inputs where the library allows it; only the next run is then right.

        Raises:
            ArgumentError: such an input is read-only.
        """
        program, frame, arrays = self._owner
        names = {tensor.id: name for name, tensor in program.graph.inputs.items()}
        in_place = program.placement.in_place
        for source in in_place.values():
            if not arrays[source].flags.writeable:
                raise ArgumentError(f"in_place: input {names[source]!r} is read-only; pass a copy of it")
        frame.bind({**arrays, **{target: arrays[source] for target, source in in_place.items()}})


def signature(title: str, inputs: Iterable[Port], outputs: Iterable[Port]) -> str:
    """One line with the inputs and outputs of an executable or a bound run."""
    ins, outs = (
        ", ".join(f"{name}: {dtype} {show(shape)}" for name, dtype, shape in ports) for ports in (inputs, outputs)
    )
    return f"{title}({ins} -> {outs})"


def sample(run: Callable[[], object], enough: int, most: int) -> list[int]:
    """Run for about ``enough`` nanoseconds, at most ``most`` times; returns the time of each run in nanoseconds."""
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
    """Raise StateError unless the calling thread is the owner, or there is none."""
    if own not in (None, calling_thread()):
        raise StateError(
            "this run was bound by another thread; oneDNN keeps the scratch memory of gradient ops per thread: "
            "bind one for each thread"
        )


def _run_with_state(state: State, frame: Frame, run: Callable[[], Any]) -> Any:
    """Run once with the present values of the variables, and keep the next ones."""

    def step() -> Any:
        frame.bind_variables(state)
        return run()

    return state.step(step)


def _run_in_owner_thread(own: OwnerThread, run: Callable[[], Any]) -> Any:
    """Run with one call into C, in the owner thread only."""
    refuse_elsewhere(own)
    return run()


def _run_in_shape(compiled: Sequence[tuple[str, Array, Array]], run: Callable[[], Any]) -> Any:
    """Run if the inputs that set a shape have the contents that the program was compiled for."""
    for name, array, contents in compiled:
        if array.tobytes() != contents.tobytes():
            raise StateError(f"the contents of {name!r} set a shape and have changed since it was bound; bind it again")
    return run()


def _run_parts(
    owner: tuple[Program, Frame, Mapping[int, Array]],
    results: Mapping[str, Array],
    value: Any,
    failed: Callable[[StatusError], StatusError],
    busy: threading.RLock,
) -> Any:
    """Run a program that needs more than one call into C."""
    program, frame, _ = owner
    refuse_elsewhere(program.owner_thread)
    if is_held(busy):
        raise plan_error(lib.onegraph_busy)
    try:
        frame.refuse_moved()
        with busy:  # an interrupt cannot arrive between taking the lock and the guarantee of its release
            frame.run(results)
    except StatusError as error:
        raise failed(error) from None
    return value
