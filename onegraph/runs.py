"""Runs that are one call into C and next to nothing in Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from typing import Any, TypeVar

import numpy as np

from .arrays import Allocator
from .capi.homes import home
from .errors import StateError, StatusError
from .forks import new_lock
from .frame import Frame
from .native import ffi, lib
from .op import Array
from .plan import plan_error
from .program import Program

T = TypeVar("T")
QuickCall = Callable[..., Any]
# Outputs that are given are held against every input and one another; so many times written out, else in a loop.
MAX_PAIRS = 8

# What a run costs beside the kernels is Python's handling of the arrays, one by one; so it is written out for each
# number of inputs and outputs instead of in loops.
QUICK = """
def call(arrays, out=None):
    if len(arrays) != {n_inputs}:
        return None
    {inputs} = arrays
    if {misfits}:
        return None
    if out is None:
        try:
            {outputs} = {ready}
        except IndexError:
            {outputs} = {made}
    elif {miscounted}:
        return None
    else:
        {outputs} = out
        if {unfit}:
            return None
        written = {written}
    watched = {watched}
    try:
        frame = pop()
    except IndexError:
        frame = check_out()
    addresses = frame.addresses
    try:
        {addresses}
    except (TypeError, ValueError, BufferError):
        free.append(frame)
        return None
    status = run(frame.plan.number, {n_slots}, addresses)
    free.append(frame)
    if status:
        if status == misaligned:
            return None
        raise plan_error(status)
    return {result}
"""


def quick_call(program: Program, result: Callable[..., Any] | None) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays; None where the program is not one call into C.

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
    ins, outs = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(len(outputs))]
    misfits, unfit = (
        [
            f"type({name}) is not ndarray or {name}.dtype is not dtype_{name} or {name}.shape != {value.shape}"
            for name, value in zip(names, values, strict=True)
        ]
        for names, values in ((ins, inputs), (outs, outputs))
    )
    unfit += [f"not {name}.flags.writeable" for name in outs]
    pairs = list(_pairs(outs, ins))
    if len(pairs) <= MAX_PAIRS:
        unfit += [f"shared({one}, {other})" for one, other in pairs]
    else:
        unfit.append(f"any_shared(({', '.join(outs)},), ({', '.join(ins)},))")
    source = QUICK.format(
        n_inputs=len(ins),
        n_slots=len(ins) + len(outs),
        inputs=f"{', '.join(ins)},",
        outputs=", ".join(outs),
        misfits=" or ".join(misfits),
        ready=", ".join(f"pop_{name}()" for name in outs),
        made=", ".join(f"make_{name}()" for name in outs),
        miscounted="False" if len(outs) == 1 else f"type(out) not in sequences or len(out) != {len(outs)}",
        unfit=" or ".join(unfit),
        written=f"{', '.join(f'watch({name})' for name in outs)},",
        # Raises where the array is not contiguous.
        addresses="; ".join(f"addresses[{i}] = from_buffer({name})" for i, name in enumerate((*ins, *outs))),
        watched=f"{', '.join(f'watch({name})' for name in ins)},",  # so that no other thread resizes it
        result="y0" if result is None else f"result({', '.join(outs)})",
    )
    makers = {name: Allocator(value.shape, value.dtype.numpy) for name, value in zip(outs, outputs, strict=True)}
    names: dict[str, Any] = {
        "ndarray": np.ndarray,
        "from_buffer": ffi.from_buffer,
        "watch": weakref.ref,
        "check_out": program.check_out,
        "free": program.free_frames,
        "pop": program.free_frames.pop,
        "run": lib.onegraph_plan_call,
        "misaligned": lib.onegraph_misaligned,
        "plan_error": plan_error,
        "result": result,
        "sequences": (tuple, list),
        "shared": np.may_share_memory,
        "any_shared": _any_shared,
        **{f"dtype_{name}": value.dtype.numpy for name, value in zip((*ins, *outs), (*inputs, *outputs), strict=True)},
        **{f"make_{name}": make for name, make in makers.items()},
        **{f"pop_{name}": make.pop for name, make in makers.items()},
    }
    exec(source, names)
    quick: QuickCall = names.pop("call")  # no cycle, so that the program goes with its last user
    return quick


def _pairs(outputs: Sequence[T], inputs: Sequence[T]) -> Iterator[tuple[T, T]]:
    """What must not share memory with what."""
    return chain(product(outputs, inputs), combinations(outputs, 2))


def _any_shared(outputs: Sequence[Array], inputs: Sequence[Array]) -> bool:
    return any(np.may_share_memory(one, other) for one, other in _pairs(outputs, inputs))


class BoundRun:
    """A run whose arrays are fixed. ``run`` returns what a call of the executable returns.

    One run at a time: a second thread gets a StateError. After any other error, bind the arrays again.
    """

    __slots__ = ("__weakref__", "_arrays", "_busy", "_execute", "_failed", "_frame", "_outputs", "_plan", "_value")

    def __init__(
        self,
        frame: Frame,
        arrays: Mapping[int, Array],
        results: Mapping[str, Array],
        value: Any,
        failed: Callable[[StatusError], StatusError],
    ) -> None:
        self._frame, self._value, self._failed = frame, value, failed
        self._arrays, self._outputs = dict(arrays), dict(results)
        self._plan = frame.plan.number
        self._busy = new_lock()
        in_c = frame.program.in_c and frame.program.home is None
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
        if self._frame.program.home not in (None, home()):
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
