"""Defines host ops that rearrange elements. Reshapes, transposes, slices and expansions are views without a copy."""

from __future__ import annotations

from ..ops.movement import concat_shape, dims_alike, order_permutes, ranks_alike, transpose_shape
from ..schema import Rule, Schema, ShapeFunction
from ..shapes import axis_in_range
from ..signature import Attribute, rows
from ..traits import Trait
from .movement_shapes import (
    cuts_fit,
    expand_fits,
    expand_shape,
    is_matrix,
    one_for_each_axis,
    pad_shape,
    reshape_fits,
    reshape_shape,
    slice_shape,
    slices_fit,
    squeeze_shape,
    squeezed_are_one,
    src_shape,
    tile_shape,
    unsqueeze_shape,
    unsqueezed_in_range,
)
from .types import ALL_NAMES, host, not_negative, shapes_are_vectors

AXIS = Attribute("axis", "s64", "Axis along which the inputs are joined, negative counted from the end.", required=True)
ORDER = Attribute("order", "s64[]", "For each axis of dst the axis of src it comes from; [] reverses.", required=True)
AXES = Attribute("axes", "s64[]", "Axes, negative counted from the end.", required=True)
MODE = Attribute(
    "mode",
    "str",
    "The contents of the padding: value, or elements of src: reflected, repeated at the edge, or from the other end.",
    default="constant",
    values=("constant", "edge", "reflect", "wrap"),
)
UPPER = Attribute("upper", "bool", "True keeps the upper triangle of each matrix, False the lower one.", default=True)
ALL = rows("T", ALL_NAMES)


def _movement(
    kind: str,
    doc: str,
    inputs: str,
    shape: ShapeFunction,
    *attributes: Attribute,
    rules: tuple[Rule, ...] = (),
    shape_rules: tuple[Rule, ...] = (),
    traits: Trait = Trait.NONE,
) -> Schema:
    checked = (shapes_are_vectors, *rules)
    return host(kind, doc, inputs, "dst:T", ALL, shape, tuple(attributes), checked, shape_rules, traits=traits)


OPS = (
    _movement(
        "Reshape",
        "dst = the elements of src, in row-major order, in another shape; one dim may be -1",
        "src:T shape:s64!",
        reshape_shape,
        rules=(reshape_fits,),
        traits=Trait.MOVES | Trait.VIEW | Trait.RESHAPES | Trait.BOUNDED,
    ),
    _movement(
        "Squeeze",
        "dst = src without some axes of size 1",
        "src:T",
        squeeze_shape,
        AXES,
        rules=(squeezed_are_one,),
        traits=Trait.MOVES | Trait.VIEW | Trait.RESHAPES | Trait.BOUNDED,
    ),
    _movement(
        "Unsqueeze",
        "dst = src with further axes of size 1, which are counted in dst",
        "src:T",
        unsqueeze_shape,
        AXES,
        rules=(unsqueezed_in_range,),
        traits=Trait.MOVES | Trait.VIEW | Trait.RESHAPES | Trait.BOUNDED,
    ),
    _movement(
        "Transpose",
        "dst = src with its axes in another order: axis i of dst is axis order[i] of src",
        "src:T",
        transpose_shape,
        ORDER,
        rules=(order_permutes,),
        traits=Trait.MOVES | Trait.VIEW | Trait.BOUNDED,
    ),
    _movement(
        "Slice",
        "dst = src[start:end:step] along each of axes, all axes by default; a start before an axis is its first one",
        "src:T starts:s64! ends:s64! axes:s64!? steps:s64!?",
        slice_shape,
        rules=(slices_fit,),
        traits=Trait.MOVES | Trait.VIEW | Trait.BOUNDED,
    ),
    _movement(
        "Expand",
        "dst = src broadcast with a shape",
        "src:T shape:s64!",
        expand_shape,
        rules=(not_negative("shape"),),
        shape_rules=(expand_fits,),
        traits=Trait.MOVES | Trait.VIEW | Trait.BOUNDED,
    ),
    _movement(
        "Concat",
        "dst = the inputs concatenated along axis",
        "src_i:T*",
        concat_shape,
        AXIS,
        rules=(axis_in_range, ranks_alike),
        shape_rules=(dims_alike,),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _movement(
        "Tile",
        "dst = src repeated along each axis",
        "src:T repeats:s64!",
        tile_shape,
        rules=(one_for_each_axis("repeats"), not_negative("repeats")),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _movement(
        "Pad",
        "dst = src with elements before and after each axis; pads has the numbers before all axes, then those after",
        "src:T pads:s64! value:T?",
        pad_shape,
        MODE,
        rules=(one_for_each_axis("pads", 2), cuts_fit),
        traits=Trait.MOVES,
    ),
    _movement(
        "Triangle",
        "dst = src with zeros below (upper) or above (lower) a diagonal, which offset moves to the right",
        "src:T",
        src_shape,
        UPPER,
        Attribute("offset", "s64", "Number of the diagonal; 0 is the main one.", default=0),
        rules=(is_matrix,),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
)
