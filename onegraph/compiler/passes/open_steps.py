"""Gives steps of f32 to kernels of the package where sizes are open, as the library compiles them for each size.

A step that the library fuses with a product, which it compiles for each size anyway, stays with the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...capi.settings import has_avx2
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
from ..kernels.panel_product import PANEL_MATRICES
from ..kernels.registry import EXACT
from ..kernels.row_norms import OPEN_LAYER_NORM
from ..kernels.softmax import OPEN_SOFTMAX, has_plain_result
from ..options import Options
from ..rewrites.norms import layer_norm_width
from ..rewrites.open_forms import PLAIN

Maker = Callable[[Step, Edit], Sequence[Step]]  # the steps in the place of one of the library; none if it stays


def _by(executor: str, takes: Callable[[Call], bool]) -> Maker:
    """A step of a kernel that computes the op if this holds."""

    def made(step: Step, _: Edit) -> Sequence[Step]:
        assert step.part is not None
        return [step._replace(executor=executor)] if takes(step.part.call) else []

    return made


def _elementwise(name: str) -> Maker:
    """A step of an elementwise kernel behind no product of the library."""

    def made(step: Step, edit: Edit) -> Sequence[Step]:
        is_fused = _follows_product(step, edit.graph)
        return [] if is_fused else [step._replace(executor=EXACT, attrs={**step.attrs, OWN: name})]

    return made


def _is_norm_of_rows(call: Call) -> bool:
    return layer_norm_width(call) is not None


def _is_image(call: Call) -> bool:
    return call.rank("src") in (3, 4, 5)


def _reduces(call: Call) -> bool:
    return bool(reduced_axes(call))


def _scaled(norm: Step, edit: Edit) -> Sequence[Step]:
    """A Multiply and an Add for a BatchNormInference by constants that no convolution takes in."""
    part, values = norm.part, edit.values
    source, *vectors = (values[number] for number in norm.inputs)
    arrays = [vector.constant for vector in vectors]
    assert part is not None
    if any(array is None for array in arrays) or _follows_product(norm, edit.graph):
        return []
    gamma, beta, mean, variance = (np.asarray(array, np.float64).ravel() for array in arrays)
    with np.errstate(all="ignore"):
        factor = gamma / np.sqrt(variance + part.call.f32("epsilon"))
        arrays = [array.astype(np.float32) for array in (factor, beta - mean * factor)]
    rank = len(source.shape)
    channels = rank - 1 if part.call.string("data_format") == "NXC" else 1
    shape = [-1 if axis == channels else 1 for axis in range(rank)]
    pair = [
        edit.constant(array.reshape(shape), f"{norm.op.name} ({name})")  # type: ignore[union-attr]
        for name, array in zip(("factor", "shift"), arrays, strict=True)
    ]
    scaled = values.new(DataType.f32, source.shape, f"{norm.op.name} (Multiply)")
    return [
        edit.library_step(norm, "Multiply", (source.id, pair[0]), (scaled,), note=norm.note),
        edit.library_step(norm, "Add", (scaled, pair[1]), norm.outputs, note=COMPILED_ANEW),
    ]


def _multiplied(step: Step, edit: Edit) -> Sequence[Step]:
    """A step of a kernel for a MatMul of two matrices that a run computes."""
    part, ends = step.part, [edit.values[number] for number in (*step.inputs, *step.outputs)]
    is_plain = len(ends) == len(("src", "weights", "dst")) and all(len(value.shape) > 1 for value in ends)
    assert part is not None
    if not is_plain or not has_avx2():
        return []
    if any(value.constant is not None for value in ends):
        return []
    attrs = {"turned_src": part.call.flag("transpose_a"), "turned": part.call.flag("transpose_b")}
    return [step._replace(executor=PANEL_MATRICES.executor, attrs=attrs)]


ELEMENTWISE = {"Abs": "abs", "HardSwish": "hard_swish", "LeakyReLU": "leaky_relu", "Round": "round", "Tanh": "tanh"}
TAKEN: dict[str, Maker] = {
    "AvgPool": _by(AVG_POOL.executor, _is_image),
    "BatchNormInference": _scaled,
    "Interpolate": _by(INTERPOLATE.executor, _is_image),
    "LayerNorm": _by(OPEN_LAYER_NORM.executor, _is_norm_of_rows),
    "MatMul": _multiplied,
    "SoftMax": _by(OPEN_SOFTMAX.executor, has_plain_result),
    **{kind: _by(OPEN_REDUCTION.executor, _reduces) for kind in PLAIN},
    **{kind: _elementwise(name) for kind, name in ELEMENTWISE.items()},
}


def take_open_steps(edit: Edit, options: Options) -> None:
    """Put a step of a kernel in the place of each step of f32 that the library would compile for each size."""
    if not options.opens or options.reproducible:
        return
    for step in edit.graph.steps:
        make = TAKEN.get(step.kind)
        if make is None or step.library_part is None:
            continue
        ends = [edit.values[number] for number in (*step.inputs, *step.outputs)]
        is_full = all(value.dtype is DataType.f32 for value in ends)
        if is_full and (made := make(step, edit)):
            edit.replace(step, *made)


def _follows_product(step: Step, graph: Lowered) -> bool:
    maker = graph.maker(step.inputs[0])
    return maker is not None and maker.kind in PRODUCTS and maker.executor == "library"
