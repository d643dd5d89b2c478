"""Runs that are one call into C and next to nothing in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import native
from .capi.homes import home
from .errors import StateError, StatusError
from .forks import new_lock
from .frame import Frame
from .native import lib
from .op import Array
from .plan import plan_error
from .program import Program

QuickCall = Callable[..., Any]


def quick_call(program: Program, result: Callable[..., Any] | None) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays (csrc/call.cpp); None where it is not one call into C.

    It serves the ordinary case, C-contiguous numpy arrays of the very shapes and data types that were compiled, and
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
    if not (inputs and program.in_c and program.home is None and in_order and all(value.dense for value in inputs)):
        return None
    ports = [tuple((value.dtype.numpy, value.shape) for value in values) for values in (inputs, outputs)]
    # Nothing of the program holds the function, so that the program goes with its last user.
    call: QuickCall = native.quick_call(*ports, program.free_frames, program.check_out, plan_error, result)
    return call


class BoundRun:
    """A run whose arrays are fixed. ``run`` returns what a call of the executable returns.

    One run at a time: a second thread gets a StateError. After any other error, bind the arrays again.
    """

    __slots__ = (
        "__weakref__", "_arrays", "_busy", "_execute", "_failed", "_frame", "_outputs", "_plan", "_program", "_value"
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        frame: Frame,
        arrays: Mapping[int, Array],
        results: Mapping[str, Array],
        value: Any,
        failed: Callable[[StatusError], StatusError],
    ) -> None:
        self._program, self._frame, self._value, self._failed = program, frame, value, failed
        self._arrays, self._outputs = dict(arrays), dict(results)
        self._plan = frame.plan.number
        self._busy = new_lock()
        in_c = program.in_c and program.home is None
        self._execute = lib.onegraph_plan_run if in_c else self._execute_parts

    @property
    def outputs(self) -> Mapping[str, Array]:
        """The arrays that the runs write into, by name."""
        return dict(self._outputs)

    def run(self) -> Any:
        """Run on the bound arrays.

        Raises:
            StateError: another thread is in a run of this object, or bound it and there are gradient ops in the graph.
            StatusError: the library could not run it, such as for want of memory.
        """
        try:
            status = self._execute(self._plan)
            if status:
                raise plan_error(status)
            return self._value
        except StatusError as error:
            raise self._failed(error) from None

    __call__ = run

    def _execute_parts(self, _: int) -> int:
        if self._program.home not in (None, home()):
            raise StateError(
                "this run was bound by another thread; oneDNN keeps the scratch memory of gradient ops per thread: "
                "bind one for each thread"
            )
        if self._busy.locked():
            return int(lib.onegraph_busy)
        with self._busy:  # where an interrupt cannot come between taking it and the promise to give it back
            self._frame.run()
            self._frame.copy_outputs(self._outputs)
        return 0
