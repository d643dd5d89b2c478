"""Finds the strides with which the library computes wrong, or slowly."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..capi.settings import core_cache, has_avx512
from ..faults.layouts import wrong_layout
from ..faults.ops.pooling import SLOW_CHANNELS_FIRST, ChannelsFirst
from ..faults.slow_strides import FAULTS, SLOW_GAPS, SLOW_STRIDES
from ..faults.use import ELEMENTWISE, Laid
from ..native.library import VERSION
from ..opset import kinds
from ..opset.schema import Call
from .ir.step import Step
from .ir.value import Dims, Value, dense_of

WEIGHTED = kinds.with_input("weights") & kinds.in_category("convolution")  # ops with the weights as second input


def needs_dense(value: Value, steps: Sequence[Step]) -> bool:
    """Whether one of the ops would compute wrong, or slowly, with the strides of a value that it reads or writes."""
    if value.irregular:
        return True
    inside = frozenset([step.kind for step in steps])
    met = [
        Laid(step.kind, _rank(step), value.shape, value.strides, value.id in step.inputs, inside, step.attrs)
        for step in steps
    ]
    if any(wrong_layout(laid, VERSION) for laid in met):
        return True
    if value.dense:
        return False
    place = value.shape, value.strides
    is_slow = SLOW_STRIDES.affects(VERSION) and SLOW_STRIDES.when(place)
    if is_slow and any(step.kind in SLOW_STRIDES.ops and value.id in (*step.inputs, *step.outputs) for step in steps):
        return True
    # Behind a product, an elementwise op has the strides of the product, whose kernels take any.
    has_gaps = SLOW_GAPS.affects(VERSION) and SLOW_GAPS.when(place)
    if has_gaps and steps[0].kind in SLOW_GAPS.ops and value.id in (*steps[0].inputs, *steps[-1].outputs):
        return True
    return any(FAULTS.of(frozenset([laid.kind]), laid, VERSION) for laid in met)


def channels_last(shape: Dims) -> Dims:
    """The strides of a tensor (N, C, X) whose channels lie last."""
    batch, *places, channel = dense_of((shape[0], *shape[2:], shape[1]))
    return batch, channel, *places


def channels_first(shape: Dims) -> Dims:
    """The strides of a tensor (N, X, C) whose channels lie behind the batch."""
    batch, channel, *places = dense_of((shape[0], shape[-1], *shape[1:-1]))
    return batch, *places, channel


def is_slow_pool(step: Step, call: Call, values: Sequence[Value]) -> bool:
    """Whether a pool of these values is fast only if their channels lie last."""
    if step.attrs.get("data_format") != "NCX" or SLOW_CHANNELS_FIRST.ops.isdisjoint([step.kind]):
        return False
    if not all(value.dense and value.constant is None for value in values):
        return False
    return bool(SLOW_CHANNELS_FIRST.when(ChannelsFirst(call, core_cache() if has_avx512() else 0)))


def mixed(steps: Sequence[Step], values: Sequence[Value]) -> set[int]:
    """Of the ``values`` that elementwise and binary ops read, those whose strides a binary op would be slow with.

    The library has a reference kernel for some mixtures of strides. Beside a tensor with channels last, it is fast for
    others with channels last and for vectors.
    """
    inside = [step for step in steps if step.kind in SLOW_STRIDES.ops | ELEMENTWISE]
    if not any(step.kind in SLOW_STRIDES.ops for step in inside):
        return set()
    value_by_id = {value.id: value for value in values}
    read = {number: value_by_id[number] for step in inside for number in step.inputs if number in value_by_id}
    largest = max([prod(value.shape) for value in read.values()], default=0)
    strided = {number for number, value in read.items() if prod(value.shape) == largest and not value.dense}
    is_fast = all(SLOW_STRIDES.when((read[number].shape, read[number].strides)) is False for number in strided)
    dense = [value for number, value in read.items() if number not in strided]
    return set() if is_fast and all(sum(dim > 1 for dim in value.shape) < 2 for value in dense) else strided


def _rank(step: Step) -> int:
    """Rank of the first result of a step."""
    results = step.op.outputs if step.part is None else step.part.outputs
    return len(results[0].shape or ())
