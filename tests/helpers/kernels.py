"""Runs a kernel of the package."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onegraph.compiler.ir.value import Value
from onegraph.compiler.kernels.codes import KERNELS as ON_CODES
from onegraph.compiler.kernels.elementwise import KERNELS as ELEMENTWISE
from onegraph.compiler.kernels.kernel import refusal
from onegraph.compiler.kernels.native import CompiledKernel, Numbers, compiled, packed
from onegraph.compiler.kernels.registry import named
from onegraph.compiler.steps import CompiledStep
from onegraph.native.library import address_of
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.runtime.plan import Plan, PlanSource
from tests.guard.memory import Guarded

DRAWN = [kernel.name for kernel in ELEMENTWISE]  # kernels that need no file of tests: test_drawn.py draws their uses


def values_of(arrays: Sequence[np.ndarray]) -> list[Value]:
    """A value with the layout of each array."""
    return [
        Value(place, OF_NUMPY[a.dtype], a.shape, tuple(stride // a.itemsize for stride in a.strides), place, "")
        for place, a in enumerate(arrays)
    ]


def kernel_for(kind: str, arrays: Sequence[np.ndarray], numbers: Numbers | None = None) -> CompiledKernel:
    """A kernel for inputs and a result."""
    *inputs, output = values_of(arrays)
    assert not refusal(named(kind).takes, [*inputs, output])
    if named(kind) in ON_CODES:  # the kernel finds a table, or numbers, behind the first element
        inputs[-1] = inputs[-1]._replace(shape=(1,), strides=(1,))
    return compiled(kind, inputs, [output], packed(kind, numbers or {}))


def run(kind: str, *arrays: np.ndarray, threads: int = 1, **numbers: int | float | str) -> None:
    """Run a kernel on inputs and a result, in a plan of one step."""
    run_compiled(kernel_for(kind, arrays, numbers), *arrays, threads=threads)


def plan_of(
    kernel: CompiledKernel, count: int, *, threads: int = 1, results: int = 1, condition: CompiledKernel | None = None
) -> Plan:
    """A plan of one step, whose tensors are inputs and results.

    ``condition``: a kernel that reads the first of them, and decides whether the step runs.
    """
    places, n_read = range(count), condition.ports[0] if condition else 0
    steps = [CompiledStep(kernel, kernel, places[n_read:], count - results - n_read, (), 0, 0)]
    if condition:
        end = compiled("when_special_end", [], [])
        steps.insert(0, CompiledStep(condition, condition, places[:n_read], n_read, (), 0, 0))
        steps.append(CompiledStep(end, end, (), 0, (), 0, 0))
    return Plan(PlanSource(steps, {place: (place, 0) for place in places}, count, threads, {}))


def run_compiled(
    kernel: CompiledKernel,
    *arrays: np.ndarray,
    threads: int = 1,
    results: int = 1,
    at_begin: bool = False,
    over: int | None = None,
    condition: CompiledKernel | None = None,
) -> None:
    """Run a compiled kernel on inputs and results, in a plan of one step.

    It gets copies between pages that nobody may touch, so that a read or write beside a tensor ends the process.

    Args:
        kernel: the kernel.
        arrays: inputs and results; what the kernel has written is copied to those that are writable.
        threads: number of threads.
        results: number of results.
        at_begin: whether the copies begin behind such a page, instead of ending before one.
        over: the place of the input in whose memory the first result lies.
        condition: a kernel that reads the first arrays, and decides whether the other one runs on the rest.
    """
    plan = plan_of(kernel, len(arrays), threads=threads, results=results, condition=condition)
    guarded = [Guarded(array, at_begin=at_begin) for array in arrays]
    if over is not None:
        guarded[-results] = guarded[over]
    for place, each in enumerate(guarded):
        plan.bind(place, address_of(each.array))
    plan.run_steps(0, 3 if condition else 1)
    for place, (array, each) in enumerate(zip(arrays, guarded, strict=True)):
        if array.flags.writeable and place != over:
            array[...] = each.array
    for each in guarded:
        assert each.is_clean(), f"{kernel.name} writes beside an array of {each.array.shape}"
