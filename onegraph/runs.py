"""Runs that are one call into C and next to nothing in Python."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arrays import allocator
from .frame import Frame
from .native import ffi, lib
from .op import Array
from .plan import plan_error
from .program import Program

QuickCall = Callable[[tuple[object, ...]], Any]

# What a run costs beside the kernels is Python's handling of the arrays, one by one; so it is written out for each
# number of inputs and outputs instead of in loops.
QUICK = """
def call(arrays):
    if len(arrays) != {n_inputs}:
        return None
    {inputs} = arrays
    if {misfits}:
        return None
    {outputs} = {made}
    try:
        addresses = [{addresses}]
    except (TypeError, ValueError, BufferError):
        return None
    watched = {watched}
    frame = check_out()
    status = run(frame.plan._ptr, {limit}, {n_slots}, addresses)
    free.append(frame)
    if status:
        if status == misaligned:
            return None
        raise plan_error(status)
    return {result}
"""


def quick_call(program: Program, limit: int, result: Callable[..., Any] | None) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays; None where the program is not one call into C.

    It serves the ordinary case, C-contiguous numpy arrays of the very shapes and data types that were compiled, and
    answers None for everything else, with nothing done.

    Args:
        program: for static shapes.
        limit: number of threads at most, 0 for the caller's OpenMP setting.
        result: makes one value of several outputs; None where there is one output.
    """
    values = program.values
    inputs = [values[tensor.id] for tensor in program.graph.inputs.values()]
    outputs = [values[number] for _, number in program.direct]
    in_order = [name for name, _ in program.direct] == list(program.graph.outputs)
    if not (inputs and program.in_c and in_order and all(value.dense for value in inputs)):
        return None
    ins, outs = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(len(outputs))]
    misfits = [
        f"type(x{i}) is not ndarray or x{i}.dtype is not dtype{i} or x{i}.shape != {value.shape}"
        for i, value in enumerate(inputs)
    ]
    source = QUICK.format(
        n_inputs=len(ins),
        n_slots=len(ins) + len(outs),
        limit=limit,
        inputs=f"{', '.join(ins)},",
        outputs=", ".join(outs),
        misfits=" or ".join(misfits),
        made=", ".join(f"make{i}()" for i in range(len(outs))),
        addresses=", ".join(f"from_buffer({name})" for name in (*ins, *outs)),  # raises where it is not contiguous
        watched=f"{', '.join(f'watch({name})' for name in ins)},",  # so that no other thread resizes it
        result="y0" if result is None else f"result({', '.join(outs)})",
    )
    names: dict[str, Any] = {
        "ndarray": np.ndarray,
        "from_buffer": ffi.from_buffer,
        "watch": weakref.ref,
        "check_out": program.check_out,
        "free": program.free_frames,
        "run": lib.onegraph_plan_call,
        "misaligned": lib.onegraph_misaligned,
        "plan_error": plan_error,
        "result": result,
        **{f"dtype{i}": value.dtype.numpy for i, value in enumerate(inputs)},
        **{f"make{i}": allocator(value.shape, value.dtype.numpy) for i, value in enumerate(outputs)},
    }
    exec(source, names)
    quick: QuickCall = names["call"]
    return quick


class BoundRun:
    """A run whose arrays are fixed. ``run`` returns what a call of the executable returns.

    One run at a time: a second thread gets a StateError.
    """

    __slots__ = ("__weakref__", "_arrays", "_busy", "_execute", "_frame", "_limit", "_outputs", "_plan", "_value")

    def __init__(
        self, frame: Frame, arrays: Mapping[int, Array], results: Mapping[str, Array], value: Any, limit: int
    ) -> None:
        self._frame, self._limit, self._value = frame, limit, value
        self._arrays, self._outputs = dict(arrays), dict(results)
        self._plan = frame.plan._ptr
        self._busy = threading.Lock()
        self._execute = lib.onegraph_plan_run if frame.program.in_c else self._execute_parts

    @property
    def outputs(self) -> Mapping[str, Array]:
        """The arrays that the runs write into, by name."""
        return dict(self._outputs)

    def run(self) -> Any:
        """Run on the bound arrays.

        Raises:
            StateError: another thread is in a run of this object.
        """
        status = self._execute(self._plan, self._limit)
        if status:
            raise plan_error(status)
        return self._value

    __call__ = run

    def _execute_parts(self, _: object, limit: int) -> int:
        if not self._busy.acquire(blocking=False):
            return int(lib.onegraph_busy)
        try:
            self._frame.run(limit)
            self._frame.copy_outputs(self._outputs)
        finally:
            self._busy.release()
        return 0
