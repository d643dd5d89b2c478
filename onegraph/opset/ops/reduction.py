"""Defines the reduction category: ops that compute one value from all elements along the reduced axes."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding, Schema
from ..shapes import axis_of, normalize_axis
from ..signature import Attribute, Shape, ports, rows
from ..traits import Trait

AXES = Attribute(
    "axes",
    "s64[]",
    "Axes to reduce, negative ones counted from the end. Give either the attribute or the input of this name.",
    default=(),
)
KEEP_DIMS = Attribute("keep_dims", "bool", "Keep every reduced axis with size 1.", default=False)


def reduced_axes(call: Call) -> tuple[int, ...] | None:
    """The axes to reduce, counted from 0 and sorted; None if the axes or the rank of src are unknown."""
    rank = call.rank("src")
    if rank is None or (call.input("axes") is not None and call.value("axes") is None):
        return None
    axes = call.value("axes") if call.input("axes") is not None else call.s64s("axes")
    assert axes is not None
    normalized = [normalize_axis(axis, rank) for axis in axes]
    return tuple(sorted(axis for axis in normalized if axis is not None))


def axes_given(call: Call) -> Iterable[RuleFinding]:
    """Exactly one of the attribute and the input axes is given; an empty attribute beside the input counts as none."""
    if call.input("axes") is None and not call.has("axes"):
        yield RuleFinding("axes", "neither the attribute nor the input", "one of the two", "pass axes as an attribute")
    if call.input("axes") is not None and call.attr("axes"):
        yield RuleFinding("axes", "both the attribute and the input", "one of the two", "leave the attribute out")


def axes_valid(call: Call) -> Iterable[RuleFinding]:
    """Every element of axes names an axis of src, and no axis is named twice."""
    tensor = call.input("axes")
    if tensor is not None and tensor.rank not in (None, 1):
        yield RuleFinding("axes", f"rank {tensor.rank}", "a tensor of rank 1")
        return
    axes = call.value("axes") if tensor is not None else call.s64s("axes")
    rank = call.rank("src")
    if axes is None or rank is None:
        return
    normalized = [normalize_axis(axis, rank) for axis in axes]
    if None in normalized:
        yield RuleFinding("axes", list(axes), axis_of(rank, noun="axes"))
    elif len(set(normalized)) != len(normalized):
        yield RuleFinding("axes", list(axes), "no axis twice")


def reduced_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of dst."""
    shape, axes = call.shape("src"), reduced_axes(call)
    if shape is None:
        return (None,)
    keep = call.flag("keep_dims")
    if axes is None:
        tensor = call.input("axes")
        count = None if tensor is None or tensor.shape is None else tensor.shape[0]
        if keep:
            return ((None,) * len(shape),)
        return (None if count is None else (None,) * (len(shape) - count),)
    if keep:
        return (tuple(1 if axis in axes else dim for axis, dim in enumerate(shape)),)
    return (tuple(dim for axis, dim in enumerate(shape) if axis not in axes),)


def reduction(kind: str, name: str, doc: str, traits: Trait = Trait.NONE) -> Schema:
    """Schema of a reduction op."""
    return Schema(
        kind,
        name,
        "reduction",
        doc,
        ports("src:T axes:s32?"),
        ports("dst:T"),
        rows("T", "f32", "bf16", "f16"),
        reduced_shape,
        (AXES, KEEP_DIMS),
        rules=(axes_given, axes_valid),
        traits=traits,
    )


OPS = (
    reduction("ReduceL1", "reduce_l1", "dst = the sum of |src| over axes", Trait.SUMS),
    reduction("ReduceL2", "reduce_l2", "dst = the square root of the sum of src ** 2 over axes", Trait.SUMS),
    reduction("ReduceMax", "reduce_max", "dst = the maximum of src over axes"),
    reduction("ReduceMean", "reduce_mean", "dst = the mean of src over axes"),
    reduction("ReduceMin", "reduce_min", "dst = the minimum of src over axes"),
    reduction("ReduceProd", "reduce_prod", "dst = the product of src over axes"),
    reduction("ReduceSum", "reduce_sum", "dst = the sum of src over axes", Trait.SUMS),
)
