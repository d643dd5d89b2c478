"""Compiled programs as lines: the calls of kernels and of the library, with their numbers and their memory."""

from __future__ import annotations

import numpy as np

from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.numpy_steps import NumpyStep
from onegraph.runtime.compiled_program import CompiledProgram

from .recorded import digest


def calls_of(graph, **options):
    """What runs in a graph, in its order, and where the values lie."""
    options = {"policy": "fusion", "fallback": True, "fpmath_mode": "strict", **options}
    yield from lines_of(CompiledProgram(graph, **options))


def lines_of(program):
    """What runs in a program, in its order, and where the values lie."""
    placed = program.placement
    yield f"{placed.slots} {placed.offsets} {placed.arena_size} {placed.in_place} {placed.copied} {placed.direct}"
    yield from (f"{number} is {numbers_of(array)}" for number, array in placed.constants.items())
    for step in program.steps:
        made = step.compiled
        if isinstance(made, CompiledKernel):
            what = made.name, list(made.code), [*map(tensor, made._tensors)]
        else:
            what = [*map(tensor, made.inputs)], [*map(tensor, made.outputs)], made.inplace_pairs
        sizes = step.nbytes, step.flops, step.is_small, step.is_quick, step.again is None
        yield f"{what} {step.pieces} {step.n_inputs} {step.in_place} {step.shifts} {step.room} {step.rows} {sizes}"
    for part in program.parts:
        yield f"numpy {part.inputs} {part.outputs} {part.rows}" if isinstance(part, NumpyStep) else str(part)
    for note in program.notes:
        yield f"{note.executor} {[step.kind for step in note.steps]} {note.reasons} {[*map(value, note.outputs)]}"


def tensor(one):
    return f"{one.dtype} {one.shape} {one.strides}"


def value(one):
    return f"{one.id} {one.dtype} {one.shape} {one.strides} in {one.storage} from {one.offset}"


def numbers_of(array):
    """A text of some numbers of an array, to three digits."""
    few = np.asarray(array).ravel()[:64].astype(np.float64)
    with np.errstate(all="ignore"):
        return f"{array.shape} {digest(f'{number:.2e}' for number in few)}"
