"""Defines the movement category: ops that rearrange elements without computing new values."""

from __future__ import annotations

from collections.abc import Iterable

from ..._util.counted import counted
from ..schema import Call, RuleFinding, Schema, same_shape
from ..shapes import Dim, axis_in_range, compatible, merge, normalize_axis, show
from ..signature import FLOATS, Attribute, Range, Shape, ports
from ..traits import Trait

AXIS = Attribute("axis", "s64", "Axis along which the inputs are joined, negative counted from the end.", required=True)
SHAPE = Attribute(
    "shape",
    "s64[]",
    "Shape of dst; one dim may be -1, which is computed from the number of elements; special_zero defines dims of 0.",
    required=True,
    range=Range("-1 or more", lambda number: number >= -1),
)
SPECIAL_ZERO = Attribute(
    "special_zero",
    "bool",
    "True: a 0 in shape means the dim of src at the same place; False: it means an empty axis.",
    required=True,
    implied=False,
)
ORDER = Attribute(
    "order",
    "s64[]",
    "For each axis of dst the axis of src it comes from, negative counted from the end; [] reverses the axes.",
    required=True,
)


# Concat --------------------------------------------------------------------------------------------------------------


def _joined(call: Call) -> int | None:
    """The axis of a Concat counted from 0; None if the rank of every input is unknown."""
    rank = next((tensor.rank for tensor in call.inputs if tensor is not None and tensor.rank is not None), None)
    return None if rank is None else normalize_axis(call.s64("axis"), rank)


def ranks_alike(call: Call) -> Iterable[RuleFinding]:
    """All inputs have the same rank."""
    ranks = [(index, None if tensor is None else tensor.rank) for index, tensor in enumerate(call.inputs)]
    known = [(index, rank) for index, rank in ranks if rank is not None]
    for index, rank in known[1:]:
        if rank != known[0][1]:
            yield RuleFinding(
                "src_i", f"rank {rank} of input {index}", f"rank {known[0][1]}, as input {known[0][0]} has"
            )


def dims_alike(call: Call) -> Iterable[RuleFinding]:
    """All inputs have the same dims, except along axis."""
    axis, seen = _joined(call), None
    if axis is None:
        return
    for index, tensor in enumerate(call.inputs):
        if tensor is None or tensor.shape is None:
            continue
        shape: Shape = (*tensor.shape[:axis], None, *tensor.shape[axis + 1 :])
        if not compatible(seen, shape):
            yield RuleFinding("src_i", f"shape {show(tensor.shape)} of input {index}", f"{show(seen)}, ? along axis")
        else:
            seen = merge(seen, shape)


def concat_shape(call: Call) -> tuple[Shape, ...]:
    """The common dims of the inputs, with the sum of their dims along axis."""
    axis = _joined(call)
    if axis is None:
        return (None,)
    common: Shape = None
    total: Dim = 0
    for tensor in call.inputs:
        shape = None if tensor is None else tensor.shape
        dim = None if shape is None else shape[axis]
        total = None if total is None or dim is None else total + dim
        common = merge(common, shape)
    assert common is not None
    return ((*common[:axis], total, *common[axis + 1 :]),)


# StaticReshape -------------------------------------------------------------------------------------------------------


def elements(dims: Iterable[Dim]) -> Dim:
    """The product of dims: 0 if any dim is 0, else None if any dim is unknown."""
    total: Dim = 1
    for dim in dims:
        total = 0 if 0 in (total, dim) else None if total is None or dim is None else total * dim
    return total


def one_open_dim(call: Call) -> Iterable[RuleFinding]:
    """At most one element of shape is -1."""
    if call.s64s("shape").count(-1) > 1:
        yield RuleFinding("shape", list(call.s64s("shape")), "at most one -1")


def zero_has_source(call: Call) -> Iterable[RuleFinding]:
    """With special_zero, every 0 in shape is at the position of an axis of src."""
    rank = call.rank("src")
    if call.flag("special_zero") and rank is not None and 0 in call.s64s("shape")[rank:]:
        yield RuleFinding(
            "shape", list(call.s64s("shape")), f"zeros at the first {rank} places only, as src has that rank"
        )


def element_count(call: Call) -> Iterable[RuleFinding]:
    """src and dst have the same number of elements."""
    src, shape = call.shape("src"), call.s64s("shape")
    if src is None:
        return
    if -1 not in shape:
        have, want = elements(src), elements(_copied(call, axis, dim) for axis, dim in enumerate(shape))
        if have is not None and want is not None and have != want:
            yield RuleFinding("shape", list(shape), f"a shape of {counted(have, 'element')}, as src has")
    elif 0 in (_copied(call, axis, dim) for axis, dim in enumerate(shape)):
        yield RuleFinding("shape", list(shape), "no -1 beside a dim of 0, which leaves it open")
    else:
        have, want = _left_over(call, src)
        if have is not None and want and have % want:
            yield RuleFinding("shape", list(shape), f"a shape that {show(src)} of src can be divided into")


def _copied(call: Call, axis: int, dim: int) -> Dim:
    if dim or not call.flag("special_zero"):
        return dim
    src = call.shape("src")
    return None if src is None else src[axis]


def _left_over(call: Call, src: tuple[Dim, ...]) -> tuple[Dim, Dim]:
    """Numbers of elements of src and of shape without its -1; dims that special_zero copies are left out of both."""
    shape = call.s64s("shape")
    copies = {axis for axis, dim in enumerate(shape) if dim == 0 and call.flag("special_zero")}
    have = elements(dim for axis, dim in enumerate(src) if axis not in copies)
    return have, elements(dim for axis, dim in enumerate(shape) if dim != -1 and axis not in copies)


def reshape_shape(call: Call) -> tuple[Shape, ...]:
    """The attribute shape with its -1 and the zeros of special_zero resolved."""
    shape, src = call.s64s("shape"), call.shape("src")
    dims = [None if dim == -1 else _copied(call, axis, dim) for axis, dim in enumerate(shape)]
    if -1 in shape and src is not None:
        have, want = _left_over(call, src)
        if have is not None and want:
            dims[shape.index(-1)] = have // want
    return (tuple(dims),)


# StaticTranspose -----------------------------------------------------------------------------------------------------


def transposition(call: Call) -> tuple[int, ...] | None:
    """For each axis of dst the axis of src, counted from 0; None if the order is empty and the rank unknown."""
    order, rank = call.s64s("order"), call.rank("src")
    if not order:
        return None if rank is None else tuple(reversed(range(rank)))
    return tuple(axis % len(order) for axis in order)


def order_permutes(call: Call) -> Iterable[RuleFinding]:
    """order names every axis of src exactly once, or is empty."""
    order, rank = call.s64s("order"), call.rank("src")
    size = len(order) if rank is None else rank
    normalized = [normalize_axis(axis, size) for axis in order]
    if order and (None in normalized or sorted(axis or 0 for axis in normalized) != list(range(size))):
        yield RuleFinding("order", list(order), f"every axis of a rank {size} src once, from {-size} to {size - 1}")


def transpose_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src in their new order."""
    shape, order = call.shape("src"), transposition(call)
    if order is None:
        return (None,)
    return (tuple(None if shape is None else shape[axis] for axis in order),)


OPS = (
    # The specification has no limit on the number of inputs; the library takes at most 64.
    Schema(
        "Concat",
        "concat",
        "movement",
        "dst = the inputs concatenated along axis",
        ports("src_i:T*"),
        ports("dst:T"),
        FLOATS,
        concat_shape,
        (AXIS,),
        rules=(axis_in_range, ranks_alike),
        shape_rules=(dims_alike,),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    Schema(
        "Reorder",
        "reorder",
        "movement",
        "dst = src in another memory layout",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        same_shape,
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    Schema(
        "StaticReshape",
        "static_reshape",
        "movement",
        "dst = the elements of src, in row-major order, in another shape",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        reshape_shape,
        (SHAPE, SPECIAL_ZERO),
        rules=(one_open_dim, zero_has_source),
        shape_rules=(element_count,),
        traits=Trait.MOVES | Trait.BOUNDED | Trait.VIEW | Trait.RESHAPES,
    ),
    Schema(
        "StaticTranspose",
        "static_transpose",
        "movement",
        "dst = src with its axes in another order: axis i of dst is axis order[i] of src",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        transpose_shape,
        (ORDER,),
        rules=(order_permutes,),
        traits=Trait.MOVES | Trait.BOUNDED | Trait.VIEW,
    ),
)
