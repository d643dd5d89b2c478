"""Finds what a program writes for caches that grow, and whether it may write where the caches lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..compiler.kernels.cast import CAST
from ..compiler.kernels.native import CompiledKernel
from ..compiler.steps import CompiledStep
from .growing import Grown, Growth, capacity_of, room_for
from .program import Program


def grown_outputs(program: Program, growths: Sequence[Growth]) -> tuple[Grown, ...]:
    """What a program writes for each growth."""
    return tuple([_grown(program, growth) for growth in growths])


def _grown(program: Program, growth: Growth) -> Grown:
    """The output of a program for a growth."""
    values, graph, axis = program.placement.values, program.graph, growth.axis
    past, present = values[graph.inputs[growth.past].id], values[graph.outputs[growth.present].id]
    size, shape = present.dtype.numpy.itemsize, present.shape
    inner = prod(shape[axis + 1 :]) * size
    rows = capacity_of(shape, present.strides, axis) or room_for(shape[axis])
    reach = sum((max(dim, 1) - 1) * step for dim, step in zip(shape, present.strides, strict=True))
    writers = [step for step in program.steps if present.id in step.pieces[step.n_inputs :]]
    is_direct = program.in_c and (growth.present, present.id) in program.placement.direct
    alike = all(dim == 1 or a == b for dim, a, b in zip(past.shape, past.strides, present.strides, strict=True))
    is_over = is_direct and alike and any(_keeps(step, past.id, present.id) for step in writers)
    return Grown(
        present.dtype.numpy,
        shape,
        tuple([step * size for step in present.strides]),
        (reach + 1) * size,
        prod(shape[:axis]) * rows * inner,
        is_over and all(_keeps(step, past.id, present.id) or _is_behind(step, present.id) for step in writers),
    )


def _keeps(step: CompiledStep, past: int, present: int) -> bool:
    """Whether a step copies an input to the beginning of an output, which is nothing where both are one place."""
    is_copy = isinstance(step.compiled, CompiledKernel) and step.compiled.name == CAST.name
    return is_copy and [*step.pieces] == [past, present] and not any(step.shifts)


def _is_behind(step: CompiledStep, present: int) -> bool:
    """Whether all that a step writes into an output lies behind its beginning."""
    shifts = step.shifts or [0] * len(step.pieces)
    ends = zip(step.pieces[step.n_inputs :], shifts[step.n_inputs :], strict=True)
    return all(shift > 0 for piece, shift in ends if piece == present)
