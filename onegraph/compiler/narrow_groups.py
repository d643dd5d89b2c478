"""Joins groups of few channels in a Convolution by constant weights, on CPUs without AVX-512.

The kernel for groups needs as many channels in a group as a register has. With fewer, the library copies the windows
and multiplies group by group. Groups of 16 channels, which join several with zeros in the weights between them, take
down to an eighth of the time, although they have 2 to 8 times as many multiplications.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays.mapped_files import give_back
from ..capi.settings import has_avx512
from ..faults.without_avx512 import GROUPS, Groups
from ..ir.op import Array
from ..native.library import VERSION
from ..opset.dtypes import DataType
from .lazy_constants import placed
from .lowered import Lowered, Step, dense_of
from .rewrites import Part
from .shared_constants import derived

F32 = DataType.f32
WIDTH, MOST = 16, 8  # channels of a joined group, and the most groups that are joined to one
NOTE = "with {} groups joined to one, as the library has no kernel for so few channels in a group"


def join_groups(lowered: Lowered) -> Lowered:
    """The graph with fewer groups in each Convolution of f32 whose groups have few channels."""
    if has_avx512() or not any(step.kind == "Convolution" for step in lowered.steps):
        return lowered
    made = replace(lowered, values=dict(lowered.values), keys=dict(lowered.keys))
    return replace(made, steps=tuple([_joined(made, step) for step in lowered.steps]))


def _joined(lowered: Lowered, step: Step) -> Step:
    """A step with its groups joined; a new constant is added to the values of the graph."""
    part = step.part
    if step.kind != "Convolution" or step.executor != "library" or part is None or len(step.inputs) < 2:
        return step
    src, weights = (lowered.values[number] for number in step.inputs[:2])
    known, count = weights.constant, part.call.s64("groups")
    if known is None or src.dtype is not F32 or not weights.dense:
        return step
    is_oix = part.call.string("weights_format") == "OIX"
    results, source = weights.shape[:2] if is_oix else weights.shape[:-3:-1]
    groups = Groups(count, source, results // count)
    together = _together(groups)
    if together == 1 or not GROUPS.of(frozenset([step.kind]), groups, VERSION):
        return step
    key = derived(("joined", together, count, is_oix), lowered.key(weights))
    array = lowered.shared.once(key, lambda: joined_weights(known, groups, together, is_oix))
    give_back([known])
    number = len(lowered.values)
    lowered.values[number] = weights._replace(
        id=number,
        shape=array.shape,
        strides=dense_of(array.shape),
        storage=number,
        name=f"{weights.name} (joined)",
        constant=array,
    )
    lowered.keys[number] = key
    first, second, *types = part.types
    return step._replace(
        inputs=(step.inputs[0], number, *step.inputs[2:]),
        attrs={**step.attrs, "groups": count // together},
        note=step.note or NOTE.format(together),
        part=Part(
            part.kind,
            {**part.attrs, "groups": count // together},
            part.inputs,
            (first, replace(second, shape=array.shape), *types),
            part.outputs,
        ),
        whole=False,
    )


def _together(groups: Groups) -> int:
    """How many groups to join to one: as few as have 16 channels in src and dst."""
    for together in range(1, MOST + 1):
        if groups.groups % together == 0 and min(groups.source, groups.result) * together >= WIDTH:
            return together
    return max(together for together in range(1, MOST + 1) if groups.groups % together == 0)


def joined_weights(weights: Array, groups: Groups, together: int, is_oix: bool) -> Array:
    """Weights for fewer groups, in the same layout OIX or XIO, with zeros between the groups that are joined."""
    spread = weights if is_oix else np.moveaxis(weights, (-1, -2), (0, 1))
    _, source, *window = spread.shape
    joined = groups.groups // together
    parts = spread.reshape(joined, together, groups.result, source, *window)
    found = np.zeros((joined, together, groups.result, together, source, *window), weights.dtype)
    for place in range(together):
        found[:, place, :, place] = parts[:, place]
    whole = found.reshape(groups.groups * groups.result, together * source, *window)
    return placed(np.ascontiguousarray(whole if is_oix else np.moveaxis(whole, (0, 1), (-1, -2))))
