"""Gives steps of f32 to kernels of the package where sizes are open, as the library compiles them for each size.

A step that the library fuses with a product, which it compiles for each size anyway, stays with the product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...opset.dtypes import DataType
from ...opset.kinds import PRODUCTS
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.arrays import OPEN_REDUCTION
from ..kernels.avg_pool import AVG_POOL
from ..kernels.elementwise import OWN
from ..kernels.interpolate import INTERPOLATE
from ..kernels.kernel import COMPILED_ANEW
from ..kernels.registry import EXACT
from ..kernels.row_norms import OPEN_LAYER_NORM
from ..kernels.softmax import OPEN_SOFTMAX
from ..options import Options
from ..rewrites.norms import layer_norm_width
from ..rewrites.open_forms import PLAIN


def _has_one_result(call: Call) -> bool:
    return len(call.output_types) == 1 and not (call.schema.has_attribute("mode") and call.has("mode"))


def _is_norm_of_rows(call: Call) -> bool:
    return layer_norm_width(call) is not None


def _has_known_windows(call: Call) -> bool:
    return call.attr("auto_pad") in (None, "none", "None", "NOTSET") and (call.rank("src") or 0) in (3, 4, 5)


def _is_image(call: Call) -> bool:
    return (call.rank("src") or 0) in (3, 4, 5)


def _reduces(call: Call) -> bool:
    return bool(reduced_axes(call))


# By kind, the executor that takes a step, and under which condition; of elementwise ops, the name of the kernel.
TAKEN: dict[str, tuple[str, Callable[[Call], bool]]] = {
    "SoftMax": (OPEN_SOFTMAX.executor, _has_one_result),
    "LayerNorm": (OPEN_LAYER_NORM.executor, _is_norm_of_rows),
    "AvgPool": (AVG_POOL.executor, _has_known_windows),
    **dict.fromkeys(sorted(PLAIN), (OPEN_REDUCTION.executor, _reduces)),
    "Interpolate": (INTERPOLATE.executor, _is_image),
}
NORM = "BatchNormInference"
ELEMENTWISE = {"Abs": "abs", "HardSwish": "hard_swish", "LeakyReLU": "leaky_relu", "Round": "round", "Tanh": "tanh"}


def take_open_steps(edit: Edit, options: Options) -> None:
    """Put a step of a kernel in the place of each step of f32 that the library would compile for each size."""
    if not options.opens or options.reproducible:
        return
    for step in edit.graph.steps:
        if step.kind == NORM:
            _scale(edit, step)
        if not _is_taken(step, edit):
            continue
        if step.kind in ELEMENTWISE:
            if not _follows_product(step, edit.graph):
                attrs = {**step.attrs, OWN: ELEMENTWISE[step.kind]}
                edit.replace(step, step._replace(executor=EXACT, attrs=attrs))
        else:
            edit.replace(step, step._replace(executor=TAKEN[step.kind][0]))


def _is_taken(step: Step, edit: Edit) -> bool:
    """Whether a kernel computes a step of the library."""
    part = step.library_part
    if part is None or (step.kind not in TAKEN and step.kind not in ELEMENTWISE):
        return False
    ends = [edit.values[number] for number in (*step.inputs, *step.outputs)]
    is_full = all(value.dtype is DataType.f32 and 0 not in value.shape for value in ends)
    return is_full and (step.kind in ELEMENTWISE or TAKEN[step.kind][1](part.call))


def _scale(edit: Edit, norm: Step) -> None:
    """Put a Multiply and an Add in the place of a BatchNormInference by constants that no convolution takes in."""
    part, values = norm.library_part, edit.values
    source, *vectors = (values[number] for number in norm.inputs)
    arrays = [vector.constant for vector in vectors]
    is_f32 = all(values[number].dtype is DataType.f32 for number in (*norm.inputs, *norm.outputs))
    if part is None or not is_f32 or len(arrays) != 4 or 0 in source.shape or _follows_product(norm, edit.graph):
        return
    if any(array is None for array in arrays):
        return
    gamma, beta, mean, variance = (np.asarray(array, np.float64).ravel() for array in arrays)
    factor = gamma / np.sqrt(variance + part.call.f32("epsilon"))
    rank = len(source.shape)
    channels = rank - 1 if part.call.string("data_format") == "NXC" else 1
    shape = [-1 if axis == channels else 1 for axis in range(rank)]
    pair = [
        edit.constant(array.astype(np.float32).reshape(shape), f"{norm.op.name} ({name})")
        for name, array in (("factor", factor), ("shift", beta - mean * factor))
    ]
    scaled = values.new(DataType.f32, source.shape, f"{norm.op.name} (Multiply)")
    edit.replace(
        norm,
        edit.library_step(norm, "Multiply", (source.id, pair[0]), (scaled,), note=norm.note),
        edit.library_step(norm, "Add", (scaled, pair[1]), norm.outputs, note=COMPILED_ANEW),
    )


def _follows_product(step: Step, graph: Lowered) -> bool:
    maker = graph.maker(step.inputs[0])
    return maker is not None and maker.kind in PRODUCTS and maker.executor == "library"
