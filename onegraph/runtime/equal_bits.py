"""Compares two forms of a step of a program bit by bit, on random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..compiler.ir.value import Value
from ..compiler.reproducible import StepComparison
from ..compiler.steps import CompiledStep
from ..ir.op import Array
from ..native.library import address_of
from ..opset.dtypes import DataType
from .placement import span
from .plan import Plan, PlanSource

# Elements of results to compare. Few sums that differ in f32 still differ after rounding to 16 bits.
ENOUGH = {2: 1 << 18}
ENOUGH_OTHERS = 1 << 13
# The first draw is positive, because a variance or the source of a Log is; the second has numbers of both signs.
LEAST_DRAWS, MOST_DRAWS = 2, 32
# Every part is compared, because kernels handle the rows at the ends of the shares of threads in another way.
MOST_PARTS = 1 << 12
POOL = 65521  # numbers; a prime, so that no axis has a period


def agrees(case: StepComparison) -> bool:
    """Whether a step computes the bits of its canonical form."""
    step, tensors, n_inputs = case.step, case.tensors, case.step.n_inputs
    outputs = range(n_inputs, len(tensors))
    memory = [_memory_of(value) for value in (*tensors, *tensors[n_inputs:])]
    parts = _chosen(case.parts)
    canonical = [_moved(case.canonical(part), n_inputs, len(outputs)) for part in parts]
    full_step = step._replace(pieces=range(len(tensors)), shifts=())
    runs = [_plan([full_step], case.threads, memory), _plan(canonical, 1, memory)]
    compared, draw = 0, 0
    enough = max(ENOUGH.get(tensors[port].dtype.numpy.itemsize, ENOUGH_OTHERS) for port in outputs)
    while (compared < enough and draw < MOST_DRAWS) or draw < LEAST_DRAWS:
        for port in range(n_inputs):
            _fill(memory[port], tensors[port], len(tensors) * draw + port, is_positive=draw % 2 == 0)
        for block in memory[n_inputs:]:
            block.fill(0)
        for plan in runs:
            plan.run_steps(0, plan.n_steps)
        for port in outputs:
            ours, theirs = (_bits(memory[place], tensors[port]) for place in (port, port + len(outputs)))
            if case.divided[port]:
                shape = case.parts, tensors[port].shape[0] // case.parts, *tensors[port].shape[1:]
                ours, theirs = (bits.reshape(shape)[parts] for bits in (ours, theirs))
            if not np.array_equal(ours, theirs):
                return False
            compared += ours.size
        draw += 1
    return True


def _moved(step: CompiledStep, n_inputs: int, places: int) -> CompiledStep:
    """The step with outputs so many places later."""
    return step._replace(pieces=[piece + places * (piece >= n_inputs) for piece in step.pieces])


def _plan(steps: Sequence[CompiledStep], threads: int, memory: Sequence[Array]) -> Plan:
    source = PlanSource(steps, {piece: (piece + 1, 0) for piece in range(len(memory))}, len(memory) + 1, threads, {})
    source.threads = [threads] * len(steps)
    plan = Plan(source)
    for piece, block in enumerate(memory):
        plan.bind(piece + 1, address_of(block))
    return plan


def _chosen(parts: int) -> list[int]:
    """Some of the parts."""
    if parts <= MOST_PARTS:
        return [*range(parts)]
    return sorted(np.random.default_rng(0).choice(parts, MOST_PARTS, replace=False).tolist())


def _memory_of(value: Value) -> Array:
    """Memory for a value, in bytes."""
    return aligned_empty((span(value),), np.dtype(np.uint8))


def _view(block: Array, value: Value, dtype: np.dtype[np.generic]) -> Array:
    return np.ndarray(value.shape, dtype, block, 0, [stride * dtype.itemsize for stride in value.strides])


def _bits(block: Array, value: Value) -> Array:
    return _view(block, value, np.dtype(f"u{value.dtype.numpy.itemsize}"))


def _fill(block: Array, value: Value, seed: int, *, is_positive: bool) -> None:
    """Write a constant, or random numbers."""
    view = _view(block, value, value.dtype.numpy)
    view[...] = _numbers(value, seed, is_positive) if value.constant is None else value.constant.reshape(value.shape)


def _numbers(value: Value, seed: int, is_positive: bool) -> Array:
    random, dtype, count = np.random.default_rng(seed), value.dtype.numpy, min(POOL, prod(value.shape))
    if value.dtype is DataType.boolean:
        numbers: Array = random.integers(0, 2, count, np.uint8).astype(dtype)
    elif dtype.kind in "iu":
        numbers = random.integers(0, 256, count).astype(dtype)  # all codes of 8 bits
    else:
        drawn = random.standard_normal(count, np.float32)
        numbers = (np.abs(drawn) if is_positive else drawn).astype(dtype)
    return np.resize(numbers, value.shape)
