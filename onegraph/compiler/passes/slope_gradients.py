"""Divides the gradient of a PReLU into steps that keep NaN: two products by kernels of the package, and a sum."""

from __future__ import annotations

from collections.abc import Iterator

from ...opset.dtypes import DataType
from ...opset.ops.binary import slope_target
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Dims
from ..kernels.elementwise import OWN
from ..kernels.registry import EXACT

SRC, SLOPE = "prelu_backward_src", "prelu_backward_slope"  # the kernels


def slope_steps(edit: Edit, step: Step) -> Iterator[Step]:
    """The steps in the place of a PReLUBackward."""
    assert step.part is not None
    values, (src, slope, diff) = edit.values, step.inputs
    call, shape = step.part.call, values[src].shape
    target = known_dims(slope_target(call, values[slope].shape, shape))
    own = step._replace(executor=EXACT, whole=False, folded=())
    yield own._replace(outputs=step.outputs[:1], attrs={**step.attrs, OWN: SRC})
    if len(step.outputs) < 2:
        return
    result = values[step.outputs[1]]
    source = values.new(DataType.f32, shape, f"{result.name} (products)")
    yield own._replace(inputs=(src, diff), outputs=(source,), attrs={**step.attrs, OWN: SLOPE})
    axes = tuple([axis for axis, dim in enumerate(target) if dim == 1 and shape[axis] > 1])
    parts: list[tuple[str, dict[str, AttrValue], Dims]] = []
    if axes:
        parts.append(("ReduceSum", {"axes": axes, "keep_dims": True}, target))
    parts.append(("StaticReshape", {"shape": result.shape, "special_zero": False}, result.shape))
    if result.dtype is not DataType.f32:
        parts.append(("TypeCast", {}, result.shape))
    for index, (kind, attrs, dims) in enumerate(parts, 1):
        is_last = index == len(parts)
        product_id = result.id if is_last else values.new(DataType.f32, dims, f"{result.name} (products)")
        step = edit.library_step(step, kind, (source,), (product_id,), attrs, step.note)
        yield step._replace(executor="copy") if kind == "TypeCast" else step
        source = product_id
