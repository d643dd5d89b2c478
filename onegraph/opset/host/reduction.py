"""Defines reductions and the matrix product for data types for which the specification lacks them."""

from __future__ import annotations

from collections.abc import Iterable

from ..ops.matmul import OPS as MATMUL
from ..ops.reduction import AXES, KEEP_DIMS, axes_valid, reduced_shape
from ..schema import Call, RuleFinding, Schema
from ..shapes import broadcast, compatible, show
from ..signature import Attribute, Row, Shape, ports, rows
from ..traits import Trait
from .types import FLOAT_NAMES, INTEGER_NAMES, NUMBERS, host

ORDERED = rows("T", f"{FLOAT_NAMES}|{INTEGER_NAMES}|boolean")
MATRICES = next(schema for schema in MATMUL if schema.kind == "MatMul")


def _reduction(kind: str, doc: str, types: tuple[Row, ...] = NUMBERS, traits: Trait = Trait.NONE) -> Schema:
    inputs, outputs = ports("src:T axes:s64!?"), ports("dst:T")
    fields = AXES, KEEP_DIMS
    return host(
        kind,
        doc,
        inputs,
        outputs,
        types,
        reduced_shape,
        fields,
        (axes_valid,),
        traits=traits,
    )


DIMS = Attribute(
    "dims", "s64[]", "The dims of shape that are known before a call, with -1 for each other one.", default=()
)


def sum_to_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of shape; the known ones if its contents are unknown."""
    wanted = call.value("shape")
    if wanted is not None:
        return (tuple(wanted),)
    count = call.shape("shape")
    dims = call.s64s("dims")
    if dims:
        return (tuple([None if dim == -1 else dim for dim in dims]),)
    return (() if count == (0,) else None,)


def shape_broadcasts(call: Call) -> Iterable[RuleFinding]:
    """A tensor of the shape can be broadcast to the shape of src."""
    (target,), src = sum_to_shape(call), call.shape("src")
    try:
        fits = target is None or src is None or compatible(broadcast(target, src), src)
    except ValueError:
        fits = False
    if not fits:
        yield RuleFinding("shape", show(target), f"a shape that broadcasts to {show(src)} of src")


OPS = (
    _reduction("ReduceSum", "dst = the sum of src over axes", traits=Trait.SUMS),
    _reduction("ReduceMean", "dst = the mean of src over axes"),
    _reduction("ReduceProd", "dst = the product of src over axes"),
    _reduction("ReduceMax", "dst = the maximum of src over axes", ORDERED),
    _reduction("ReduceMin", "dst = the minimum of src over axes", ORDERED),
    host(
        "SumTo",
        "dst = src summed over the axes along which a tensor of the given shape was broadcast to the shape of src",
        "src:T shape:s64!",
        "dst:T",
        NUMBERS,
        sum_to_shape,
        (DIMS,),
        shape_rules=(shape_broadcasts,),
        traits=Trait.SUMS,
    ),
    host(
        "MatMul",
        "dst = src @ weights + bias, as in numpy",
        "src:T weights:T bias:T?",
        "dst:T",
        NUMBERS,
        MATRICES.shape,
        tuple(attribute for attribute in MATRICES.attributes if attribute.name.startswith("transpose")),
        rules=MATRICES.rules,
        shape_rules=MATRICES.shape_rules,
        traits=Trait.PRODUCT,
    ),
)
