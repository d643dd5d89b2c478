"""Defines host ops that select elements by indices, find indices, and make tensors of indices or shapes."""

from __future__ import annotations

from ..schema import Rule, Schema, ShapeFunction
from ..shapes import axis_in_range
from ..signature import NON_NEGATIVE, Attribute, Row, rows
from ..traits import Trait
from .indexing_shapes import (
    arg_shape,
    batches_alike,
    dims_shape,
    ends_are_finite,
    gather_nd_shape,
    gather_shape,
    indices_fit,
    indices_shape,
    nonzero_shape,
    one_hot_shape,
    place_in_range,
    range_shape,
    scalar_shape,
    slices_fit,
    src_shape,
    top_fits,
    top_shape,
    tuples_fit,
    updates_fit,
    values_are_two,
    weighted_shape,
    weights_fit,
)
from .types import ALL_NAMES, FLOAT_NAMES, INTEGER_NAMES, host, not_negative, shapes_are_numbers

ALL_INDICES = rows("T I", f"{ALL_NAMES} s32|s64")
ALL = rows("T", ALL_NAMES)
NUMBERS = f"{FLOAT_NAMES}|{INTEGER_NAMES}"
AXIS = Attribute("axis", "s64", "Axis of src, negative counted from the end.", default=0)
LAST = Attribute("axis", "s64", "Axis of src, negative counted from the end.", default=-1)
KEEP_DIMS = Attribute("keep_dims", "bool", "Keep the axis with size 1.", default=False)
LAST_INDEX = Attribute("last", "bool", "Which of several equal elements counts: the last, or the first.", default=False)
BATCH_DIMS = Attribute(
    "batch_dims", "s64", "Number of first axes that src and indices share.", default=0, range=NON_NEGATIVE
)
RUNNING = (
    AXIS,
    Attribute("exclusive", "bool", "Whether the element itself is left out.", default=False),
    Attribute("reverse", "bool", "Whether the first element is the last one.", default=False),
)
REDUCTION = Attribute(
    "reduction",
    "str",
    "How an update is combined with the element at its place.",
    default="none",
    values=("none", "add", "mul", "max", "min"),
)


def _indexing(
    kind: str,
    doc: str,
    inputs: str,
    shape: ShapeFunction,
    *attributes: Attribute,
    outputs: str = "dst:T",
    types: tuple[Row, ...] = ALL_INDICES,
    rules: tuple[Rule, ...] = (),
    traits: Trait = Trait.NONE,
) -> Schema:
    return host(kind, doc, inputs, outputs, types, shape, tuple(attributes), rules, traits=traits)


def _place_of(kind: str, extreme: str) -> Schema:
    """Record of an op that finds the place of an extreme element."""
    doc = f"dst = the index of the {extreme} element along axis"
    fields = AXIS, KEEP_DIMS, LAST_INDEX
    types = rows("T", NUMBERS)
    return _indexing(kind, doc, "src:T", arg_shape, *fields, outputs="dst:s64", types=types, rules=(axis_in_range,))


OPS = (
    _indexing(
        "Gather",
        "dst = the slices of src along axis that the indices name; negative indices count from the end",
        "src:T indices:I",
        gather_shape,
        AXIS,
        rules=(axis_in_range,),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _indexing(
        "GatherElements",
        "dst[i, j, k] = src[indices[i, j, k], j, k] for axis 0, and likewise for other axes",
        "src:T indices:I",
        indices_shape,
        AXIS,
        rules=(axis_in_range, indices_fit),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _indexing(
        "GatherND",
        "dst = the elements or slices of src that each tuple in the last axis of the indices names",
        "src:T indices:I",
        gather_nd_shape,
        BATCH_DIMS,
        rules=(batches_alike, tuples_fit),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _indexing(
        "WeightedGather",
        "dst[i, j] = the sum over k of weights[i, k] * src[indices[i, k], j] for axis 0; a negative index adds nothing",
        "src:T indices:I weights:T",
        weighted_shape,
        AXIS,
        types=rows("T I", f"{FLOAT_NAMES} s32|s64"),
        rules=(axis_in_range, weights_fit),
    ),
    _indexing(
        "ScatterElements",
        "dst = src, but dst[indices[i, j, k], j, k] = updates[i, j, k] for axis 0, and likewise for other axes",
        "src:T indices:I updates:T",
        src_shape,
        AXIS,
        REDUCTION,
        rules=(axis_in_range, indices_fit, updates_fit),
        traits=Trait.NONE,
    ),
    _indexing(
        "ScatterND",
        "dst = src with the updates at the places that each tuple in the last axis of the indices names",
        "src:T indices:I updates:T",
        src_shape,
        REDUCTION,
        rules=(tuples_fit, slices_fit),
        traits=Trait.NONE,
    ),
    _indexing(
        "OneHot",
        "dst = values[1] at the indices along a new axis, else values[0]; an index out of range has no place",
        "indices:I depth:s64! values:T",
        one_hot_shape,
        LAST,
        rules=(place_in_range, values_are_two, shapes_are_numbers, not_negative("depth")),
        traits=Trait.NONE,
    ),
    _place_of("ArgMax", "largest"),
    _place_of("ArgMin", "smallest"),
    _indexing(
        "TopK",
        "values = the k largest or smallest elements along axis, sorted; indices = their places",
        "src:T k:s64!",
        top_shape,
        LAST,
        Attribute("largest", "bool", "Whether the largest elements are taken, or the smallest.", default=True),
        outputs="values:T indices:s64",
        types=rows("T", NUMBERS),
        rules=(axis_in_range, shapes_are_numbers, top_fits),
        traits=Trait.NONE,
    ),
    _indexing(
        "NonZero",
        "dst = the indices of the elements other than 0, one column for each",
        "src:T",
        nonzero_shape,
        outputs="dst:s64",
        types=ALL,
        traits=Trait.NONE,
    ),
    *(
        _indexing(
            kind,
            f"dst = the {noun} of the elements so far along axis",
            "src:T",
            src_shape,
            *RUNNING,
            types=rows("T", NUMBERS),
            rules=(axis_in_range,),
        )
        for kind, name, noun in (("CumSum", "cum_sum", "sums"), ("CumProd", "cum_prod", "products"))
    ),
    _indexing(
        "Shape",
        "dst = the dims of src",
        "src:T",
        dims_shape,
        outputs="dst:s64",
        types=ALL,
        traits=Trait.SHAPE_ONLY,
    ),
    _indexing(
        "Size",
        "dst = the number of elements of src",
        "src:T",
        scalar_shape,
        outputs="dst:s64",
        types=ALL,
        traits=Trait.SHAPE_ONLY,
    ),
    _indexing(
        "Range",
        "dst = start, start + step, ... up to, but not including, limit",
        "start:T! limit:T! step:T!",
        range_shape,
        types=rows("T", NUMBERS),
        rules=(shapes_are_numbers, ends_are_finite),
        traits=Trait.NONE,
    ),
)
