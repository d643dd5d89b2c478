"""Defines the matmul category, which has one op: MatMul."""

from __future__ import annotations

from collections.abc import Iterable

from ..._util.counted import counted
from ..schema import Call, RuleFinding, Schema
from ..shapes import broadcast, compatible, show
from ..signature import Attribute, Shape, ports, rows
from ..traits import Trait


def operands(call: Call) -> tuple[Shape, Shape]:
    """Shapes of src and weights after transpose_a and transpose_b; vectors are never transposed."""
    return _transposed(call.shape("src"), call.flag("transpose_a")), _transposed(
        call.shape("weights"), call.flag("transpose_b")
    )


def _transposed(shape: Shape, transpose: bool) -> Shape:
    if shape is None or not transpose or len(shape) < 2:
        return shape
    return (*shape[:-2], shape[-1], shape[-2])


def not_scalar(call: Call) -> Iterable[RuleFinding]:
    """src and weights have at least one axis."""
    for name in ("src", "weights"):
        if call.shape(name) == ():
            yield RuleFinding(name, "a scalar", "at least one axis")


def matmul_fits(call: Call) -> Iterable[RuleFinding]:
    """The inner dims agree, the batch dims broadcast, and the bias broadcasts to dst."""
    src, weights = operands(call)
    if src is None or weights is None:
        return
    inner = src[-1], weights[-2] if len(weights) > 1 else weights[0]
    if None not in inner and inner[0] != inner[1]:
        yield RuleFinding(
            "weights",
            f"{counted(inner[1], 'row')} (shape {show(call.shape('weights'))})",
            f"{inner[0]}, the columns of src (shape {show(call.shape('src'))})",
            "transpose_a and transpose_b exchange the last two axes",
        )
    try:
        dst = product_shape(src, weights)
    except ValueError:
        yield RuleFinding(
            "weights",
            f"batch {show(weights[:-2])}",
            f"a batch that broadcasts with {show(src[:-2])} of src",
        )
        return
    bias = call.shape("bias")
    if bias is None or dst is None:
        return
    try:
        fits = compatible(broadcast(bias, dst), dst)
    except ValueError:
        fits = False
    if not fits:
        yield RuleFinding("bias", f"shape {show(bias)}", f"a shape that broadcasts to {show(dst)} of dst")


def product_shape(src: Shape, weights: Shape) -> Shape:
    """Shape of the product of two operands, as in numpy.matmul.

    Raises:
        ValueError: the batch dims cannot be broadcast.
    """
    if src is None or weights is None:
        return None
    batch = broadcast(src[:-2], weights[:-2])
    assert batch is not None
    rows_ = src[-2:-1] if len(src) > 1 else ()
    columns = weights[-1:] if len(weights) > 1 else ()
    return (*batch, *rows_, *columns)


def matmul_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of dst."""
    return (product_shape(*operands(call)),)


OPS = (
    Schema(
        "MatMul",
        "matmul",
        "matmul",
        "dst = src @ weights + bias, as in numpy.matmul: src and weights may be vectors or have batch axes, which are "
        "broadcast",
        ports("src:T1 weights:T1 bias:T1?"),
        ports("dst:T2"),
        rows("T1 T2", "f32 f32", "bf16 bf16", "f16 f16", "bf16 f32 @3.8", "f16 f32 @3.8"),
        matmul_shape,
        (
            Attribute("transpose_a", "bool", "Exchanges the last two axes of src.", default=False),
            Attribute("transpose_b", "bool", "Exchanges the last two axes of weights.", default=False),
            Attribute(
                "accumulation_mode",
                "str",
                "The data type that products are summed in; strict: the type that the data types of the inputs imply.",
                default="strict",
                values=("strict", "relaxed", "any", "f32", "s32", "f16"),
                since=(3, 10),
            ),
        ),
        rules=(not_scalar,),
        shape_rules=(matmul_fits,),
        traits=Trait.PRODUCT,
    ),
)
