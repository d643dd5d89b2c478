"""Counts of tuples in rows of integers, which a tree of their elements finds."""

from __future__ import annotations

from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of
from .native import Numbers

HALF, MOST_SKIPS = 32, 2**31 - 2  # bits of a number that a kernel gets; a number that it gets


def _numbers(step: Step) -> Numbers:
    """The list has the number of tuples, their sizes and columns, and both halves of each element."""
    call = call_of(step)
    sizes, tuples = call.s64s("sizes"), call.s64s("tuples")
    halves = [half for element in tuples for half in (_low(element), element >> HALF)]
    contents = [len(sizes), *sizes, *call.s64s("columns"), *halves]
    return {"skips": min(call.s64("skips"), MOST_SKIPS), "contents": contents}


def _low(element: int) -> int:
    """The lower half of the bits as a signed number."""
    half = element & ((1 << HALF) - 1)
    return half - (1 << HALF) if half >> (HALF - 1) else half


KERNELS = (
    Kernel(
        "count_tuples",
        "by onegraph, in a tree of the tuples",
        kinds=("CountTuples",),
        takes=(NOT_EMPTY,),
        numbers=_numbers,
        varies=True,
    ),
)
