"""Broadcast operands of binary ops: which the library has fast kernels for, and how others become such ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import groupby

Dims = tuple[int, ...]
# One letter for each axis, 1 where the operand varies along it: the last axes, the first one too or not; the channels,
# the second axis; the first two (oneDNN, src/cpu/x64/injectors/injector_utils.cpp). All else has a reference kernel.
FAST = re.compile("0*1*|10+1+|[01]10*")
# For a vector of fewer elements along the last axis, the fast kernel is slow: it starts anew with each of the rows.
SHORT, MANY_ROWS, WIDE = 32, 2**13, 512
RUNS = 3  # of axes along all or none of which an operand varies: so many are fast, whatever they are


def varying(result: Dims, operand: Dims) -> tuple[bool, ...]:
    """For each axis of the result whether an operand that is broadcast to it varies along it."""
    missing = len(result) - len(operand)
    return (*(False for _ in range(missing)), *(dim > 1 for dim in operand))


def is_fast(varies: Sequence[bool]) -> bool:
    """Whether the library has a fast kernel for an operand that varies along these axes."""
    return FAST.fullmatch("".join("01"[flag] for flag in varies)) is not None


def steps_to_fast(result: Dims, operand: Dims) -> list[Dims]:
    """The shapes to broadcast an operand to, one after another, so that each step is fast on fewer axes.

    An operand that varies along every other run of axes is broadcast along the inner runs first.
    """
    missing = len(result) - len(operand)
    shape, steps = [*(1,) * missing, *operand], list[Dims]()
    while len(collapsed(result, tuple(shape))[0]) > RUNS:
        varies = varying(result, tuple(shape))
        last = next(axis for axis in reversed(range(len(result))) if result[axis] > 1 and not varies[axis])
        while not varies[last]:  # some axis before it varies, as there are more runs
            shape[last] = result[last]
            last -= 1
        steps.append(tuple(shape))
    return steps


def collapsed(result: Dims, operand: Dims) -> tuple[Dims, Dims]:
    """Both shapes on fewer axes: neighbours along all or none of which the operand varies are one, those of 1 none."""
    wide = [(flag, dim) for flag, dim in zip(varying(result, operand), result, strict=True) if dim > 1]
    runs = [(flag, math.prod([dim for _, dim in run])) for flag, run in groupby(wide, key=lambda pair: pair[0])]
    return tuple(size for _, size in runs), tuple(size if flag else 1 for flag, size in runs)


def rows_together(result: Dims, operand: Dims) -> int:
    """How many rows to see as one, for an operand that is a short vector for each of many; 1 for other operands."""
    whole, seen = collapsed(result, operand)
    if len(whole) != 2 or seen != (1, whole[1]) or whole[1] >= SHORT or whole[0] < MANY_ROWS:
        return 1
    return next(count for count in range(WIDE // whole[1], 0, -1) if whole[0] % count == 0)
