"""Runs a MatMul with few rows and variable weights on four axes, where the library reads the weights as they lie.

On two or three axes the library copies such weights into its own layout in every run, which can take longer than the
product. Axes of size 1 in front change no address, so the partition runs on the same memory. A MatMul of up to 256 rows
takes 0.45 to 0.95 of the time then.

Constant weights are copied once. Batches of f32 matrices with rows of up to 1 KiB are as fast to read where they lie:
without the copy, they take half the memory, and the first run is shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..capi.settings import has_avx512
from ..faults.performance import WEIGHTS, MatMulUse
from ..faults.use import ELEMENTWISE
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.kinds import ARITHMETIC
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Value, Values, dense_of

AXES = 4
SHORT_ROW = 256  # columns of constant batches of matrices that are read where they lie
# Ops that compute the same on a tensor with further axes of size 1 in front.
BEHIND = ELEMENTWISE | ARITHMETIC | {"TypeCast"}


def lifted_rank(steps: Sequence[Step], values: Mapping[int, Value]) -> int:
    """The number of axes of the values that get more, if steps that are one partition are faster then; otherwise 0.

    They are a MatMul, and elementwise ops behind it.
    """
    first, *following = steps
    if first.kind != "MatMul" or first.attrs.get("transpose_a"):
        return 0
    x, weights = (values[number] for number in first.inputs[:2])
    rank, turned = len(x.shape), bool(first.attrs.get("transpose_b"))
    is_short = rank == 3 and not turned and weights.dtype is DataType.f32 and weights.shape[-1] <= SHORT_ROW
    is_copied_once = weights.constant is not None and not is_short
    product = MatMulUse(x.shape, weights.shape, turned, is_copied_once, has_avx512())
    is_slow = bool(WEIGHTS.of(frozenset(["MatMul"]), product, VERSION))
    return rank if is_slow and all(_is_behind(step, values, rank) for step in following) else 0


def _is_behind(step: Step, values: Mapping[int, Value], rank: int) -> bool:
    """Whether a step behind the MatMul computes the same on lifted values, with its attributes as they are."""
    if step.kind == "StaticReshape":
        return len(values[step.outputs[0]].shape) != rank
    if step.kind == "StaticTranspose":
        return len(values[step.inputs[0]].shape) != rank
    return step.kind in BEHIND


def lifted(value: Value, rank: int) -> Value:
    """A value of so many axes with axes of size 1 in front, four in all; another value is as it was."""
    if len(value.shape) != rank:
        return value
    more = AXES - rank
    shape = (1,) * more + value.shape
    if value.dense:
        return value._replace(shape=shape, strides=dense_of(shape))
    extent = value.shape[0] * value.strides[0]
    return value._replace(shape=shape, strides=(extent,) * more + value.strides)


def with_lifted(lowered: Lowered, steps: Sequence[Step], rank: int) -> Lowered:
    """The graph with the values of some steps lifted that have so many axes."""
    numbers = {number for step in steps for number in (*step.inputs, *step.outputs)}
    return replace(lowered, values=Values(lowered.values | {n: lifted(lowered.values[n], rank) for n in numbers}))
