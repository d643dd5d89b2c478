"""Divides the gradient of a PReLU into steps that keep NaN: two products by kernels of the package, and a sum."""

from __future__ import annotations

from collections.abc import Iterator

from ..opset.dtypes import DataType
from ..opset.ops.binary import slope_target
from ..opset.schema import TensorType
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue
from .lowered import Dims, Step, Value, dense_of
from .rewrites import Part

SRC, SLOPE = "prelu_backward_src", "prelu_backward_slope"


def slope_steps(step: Step, values: dict[int, Value]) -> Iterator[Step]:
    """The steps in the place of a PReLUBackward, whose new values are added to ``values``."""
    assert step.part is not None
    src, slope, diff = step.inputs
    call, shape = step.part.call, values[src].shape
    target = known_dims(slope_target(call, values[slope].shape, shape))
    own = step._replace(executor="exact", whole=False, folded=())
    yield own._replace(outputs=step.outputs[:1], attrs={**step.attrs, "own": SRC})
    if len(step.outputs) < 2:
        return
    result = values[step.outputs[1]]
    found = _new(values, shape, result.name)
    yield own._replace(inputs=(src, diff), outputs=(found,), attrs={**step.attrs, "own": SLOPE})
    axes = tuple([axis for axis, dim in enumerate(target) if dim == 1 and shape[axis] > 1])
    parts: list[tuple[str, dict[str, AttrValue], Dims, DataType]] = []
    if axes:
        parts.append(("ReduceSum", {"axes": axes, "keep_dims": True}, target, DataType.f32))
    parts.append(("StaticReshape", {"shape": result.shape, "special_zero": False}, result.shape, DataType.f32))
    if result.dtype is not DataType.f32:
        parts.append(("TypeCast", {}, result.shape, result.dtype))
    for index, (kind, attrs, dims, dtype) in enumerate(parts):
        given, made = TensorType(DataType.f32, values[found].shape), TensorType(dtype, dims)
        last = index == len(parts) - 1
        number = result.id if last else _new(values, dims, result.name)
        executor = "copy" if kind == "TypeCast" else "library"
        part = Part(kind, attrs, (0,), (given,), (made,))
        yield step._replace(
            executor=executor,
            kind=kind,
            inputs=(found,),
            outputs=(number,),
            attrs=attrs,
            part=part,
            whole=False,
            folded=(),
        )
        found = number


def _new(values: dict[int, Value], shape: Dims, name: str) -> int:
    number = len(values)
    values[number] = Value(number, DataType.f32, shape, dense_of(shape), number, f"{name} (products)")
    return number
