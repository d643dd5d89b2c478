"""Joins groups of few channels in a Convolution by constant weights, on CPUs without AVX-512.

The kernel for groups needs as many channels in a group as a register has. With fewer, the library copies the windows
and multiplies group by group. Groups of 16 channels, which join several with zeros in the weights between them, take
down to an eighth of the time, although they have 2 to 8 times as many multiplications.

NaN in the source would meet these zeros. So the step keeps the convolution that it stands for, and that is computed by
its definition where an element of the source is NaN or infinite (``compiler/row_leaks.py``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...arrays.mapped_files import give_back
from ...capi.settings import has_avx512
from ...faults.without_avx512 import GROUPS, ConvolutionGroups
from ...ir.op import Array
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options
from ..shared_constants import derived
from .lazy_constants import placed
from .row_leaks import is_finite

F32 = DataType.f32
WIDTH, MOST = 16, 8  # channels of a joined group, and the most groups that are joined to one
NOTE = "with {} groups joined to one, as the library has no kernel for so few channels in a group"


def join_groups(edit: Edit, _: Options) -> None:
    """Use fewer groups in each Convolution of f32 whose groups have few channels."""
    if has_avx512():
        return
    for step in edit.graph.steps:
        joined = _joined(edit, step)
        if joined is not None:
            edit.replace(step, joined)


def _joined(edit: Edit, step: Step) -> Step | None:
    """A convolution with its groups joined; None for other steps."""
    part = step.library_part
    if step.kind != "Convolution" or part is None:
        return None
    src, weights = (edit.values[number] for number in step.inputs[:2])
    constant, count = weights.constant, part.call.s64("groups")
    if constant is None or src.dtype is not F32 or not weights.dense or not is_finite(weights):
        return None
    is_oix = part.call.string("weights_format") == "OIX"
    results, source = weights.shape[:2] if is_oix else weights.shape[:-3:-1]
    groups = ConvolutionGroups(count, source, results // count)
    together = _together(groups)
    if together == 1 or not GROUPS.of(frozenset([step.kind]), groups, VERSION):
        return None
    key = derived(("joined", together, count, is_oix), edit.key(weights.id))
    array = edit.graph.shared.once(key, lambda: joined_weights(constant, groups, together, is_oix))
    give_back([constant])
    inputs = (src.id, edit.constant(array, f"{weights.name} (joined)", key), *step.inputs[2:])
    attrs = {**part.attrs, "groups": count // together}
    first, second, *types = part.types
    wider = replace(part, attrs=attrs, types=(first, replace(second, shape=array.shape), *types))
    note = step.note or NOTE.format(together)
    return step._replace(inputs=inputs, attrs=attrs, note=note, part=wider, whole=False, members=(step,))


def _together(groups: ConvolutionGroups) -> int:
    """How many groups to join to one: as few as have 16 channels in src and dst."""
    for together in range(1, MOST + 1):
        if groups.groups % together == 0 and min(groups.source, groups.result) * together >= WIDTH:
            return together
    return max(together for together in range(1, MOST + 1) if groups.groups % together == 0)


def joined_weights(weights: Array, groups: ConvolutionGroups, together: int, is_oix: bool) -> Array:
    """Weights for fewer groups, in the same layout OIX or XIO, with zeros between the groups that are joined."""
    spread = weights if is_oix else np.moveaxis(weights, (-1, -2), (0, 1))
    _, source, *window = spread.shape
    joined = groups.groups // together
    parts = spread.reshape(joined, together, groups.result, source, *window)
    blocks = np.zeros((joined, together, groups.result, together, source, *window), weights.dtype)
    for place in range(together):
        blocks[:, place, :, place] = parts[:, place]
    matrix = blocks.reshape(groups.groups * groups.result, together * source, *window)
    return placed(np.ascontiguousarray(matrix if is_oix else np.moveaxis(matrix, (0, 1), (-1, -2))))
