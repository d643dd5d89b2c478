"""Moves the constant weights of MatMuls to addresses where the kernel without AVX-512 packs them.

That kernel packs columns of the weights only where they lie at an address or a stride that is no multiple of 32 bytes;
otherwise it reads them where they lie. If their rows are a multiple of 2 KiB apart, a column falls on one or two of the
64 sets of the cache, and the product takes 1.3 to 1.9 times as long as with packed weights.
"""

from __future__ import annotations

from math import prod

from ...arrays.mapped_files import give_back
from ...capi.settings import has_avx2, has_avx512
from ...faults.without_avx512 import COLUMNS, Columns
from ...native.library import VERSION, address_of
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Values
from ..options import Options
from ..shared_constants import derived
from ..transformed_weights import BY_COLUMNS, BY_ROWS, SKEW, weights_in

F32 = DataType.f32
NOTE = "with weights at an address from where the kernel packs them"


def skew_weights(edit: Edit, _: Options) -> None:
    """Move the weights of some MatMuls to addresses that are no multiple of 32 bytes."""
    if has_avx512() or not has_avx2():
        return
    moved_weights: dict[tuple[int, str], int] = {}  # the moved weights
    for step in edit.graph.steps:
        layout = _layout(edit.values, step) if step.kind == "MatMul" and step.executor == "library" else ""
        if layout:
            first, weights, *operands = step.inputs
            if (weights, layout) not in moved_weights:
                moved_weights[weights, layout] = _skewed(edit, weights, layout)
            inputs = (first, moved_weights[weights, layout], *operands)
            edit.replace(step, step._replace(inputs=inputs, note=step.note or NOTE))


def _layout(values: Values, step: Step) -> str:
    """How the weights of a MatMul are to lie; empty where they stay."""
    src, weights = (values[number] for number in step.inputs[:2])
    constant = weights.constant
    if constant is None or constant.shape != weights.shape or src.dtype is not F32 or len(weights.shape) < 2:
        return ""
    is_turned = bool(step.attrs.get("transpose_b"))
    is_by_rows = weights.dense != is_turned
    columns = weights.shape[-2 if is_turned else -1]
    rows = prod(values[step.outputs[0]].shape) // max(columns * prod(weights.shape[:-2]), 1)
    if is_by_rows and address_of(constant) % (2 * SKEW):
        return ""  # it lies well
    sizes = Columns(rows, columns, constant.itemsize)
    return (BY_COLUMNS if is_turned else BY_ROWS) if COLUMNS.of(frozenset(["MatMul"]), sizes, VERSION) else ""


def _skewed(edit: Edit, number: int, layout: str) -> int:
    """The id of the moved weights."""
    value = edit.values[number]
    constant = value.constant
    assert constant is not None
    key = derived(("skewed", layout), edit.key(number))
    array = edit.graph.shared.once(key, lambda: weights_in(layout, constant))
    give_back([constant])
    moved = edit.constant(array, f"{value.name} (moved)", key)
    edit.transformed[moved] = constant, layout
    return moved
