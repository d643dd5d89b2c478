"""Defines host ops of models that detect objects: boxes, windows with places, and samples between pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..._util.counted import counted
from ..schema import Call, Rule, RuleFinding, Schema, ShapeFunction
from ..shapes import compatible, known, known_dims, show
from ..signature import NON_NEGATIVE, POSITIVE, Attribute, Row, Shape, rows
from ..traits import Trait
from ..window import extent
from .types import ALL_NAMES, FLOAT_NAMES, INTEGER_NAMES, host, not_negative, shapes_are_vectors

FLOATS = rows("T", FLOAT_NAMES)
NUMBERS = rows("T", f"{FLOAT_NAMES}|{INTEGER_NAMES}")
KERNEL = Attribute("kernel", "s64[]", "Size of a window along each spatial axis.", required=True, range=POSITIVE)
STRIDES = Attribute(
    "strides", "s64[]", "Distance of two windows along each spatial axis.", required=True, range=POSITIVE
)
DILATIONS = Attribute("dilations", "s64[]", "Distance of two elements of a window.", required=True, range=POSITIVE)
PADS_BEGIN = Attribute("pads_begin", "s64[]", "Padding before each spatial axis.", required=True, range=NON_NEGATIVE)
PADS_END = Attribute("pads_end", "s64[]", "Padding behind each spatial axis.", required=True, range=NON_NEGATIVE)
LISTS = "kernel", "strides", "dilations", "pads_begin", "pads_end"
WINDOW = KERNEL, STRIDES, PADS_BEGIN, PADS_END, DILATIONS


def selected_shape(call: Call) -> tuple[Shape, ...]:
    """One row of three numbers for each box that stays; their number depends on the contents."""
    return ((None, 3),)


def boxes_fit(call: Call) -> Iterable[RuleFinding]:
    """boxes is (batches, boxes, 4), and scores (batches, classes, boxes)."""
    boxes, scores = call.shape("boxes"), call.shape("scores")
    if boxes is not None and (len(boxes) != 3 or boxes[2] not in (4, None)):
        yield RuleFinding("boxes", f"shape {show(boxes)}", "(batches, boxes, 4)")
    elif scores is not None and len(scores) != 3:
        yield RuleFinding("scores", f"shape {show(scores)}", "(batches, classes, boxes)")
    elif boxes is not None and scores is not None and not compatible((boxes[0], boxes[1]), (scores[0], scores[2])):
        yield RuleFinding("scores", f"shape {show(scores)}", f"the batches and boxes of {show(boxes)} of boxes")


def aligned_shape(call: Call) -> tuple[Shape, ...]:
    """One image of the cells for each box."""
    boxes, src = call.shape("boxes"), call.shape("src")
    count, channels = None if boxes is None else boxes[0], None if src is None else src[1]
    return ((count, channels, call.s64("rows"), call.s64("columns")),)


def regions_fit(call: Call) -> Iterable[RuleFinding]:
    """src is (batches, channels, height, width), boxes (count, 4), and images (count)."""
    src, boxes, images = call.shape("src"), call.shape("boxes"), call.shape("images")
    if src is not None and len(src) != 4:
        yield RuleFinding("src", f"shape {show(src)}", "(batches, channels, height, width)")
    elif boxes is not None and (len(boxes) != 2 or boxes[1] not in (4, None)):
        yield RuleFinding("boxes", f"shape {show(boxes)}", "(count, 4)")
    elif images is not None and (len(images) != 1 or not compatible(images, boxes and boxes[:1])):
        yield RuleFinding("images", f"shape {show(images)}", "one number for each box")


def windows_of(call: Call, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
    """The number of windows along each spatial axis of these sizes."""
    kernel, strides, dilations, begin, end = (call.s64s(name) for name in LISTS)
    return tuple(
        None
        if size is None
        else max((size + begin[axis] + end[axis] - extent(kernel[axis], dilations[axis])) // strides[axis] + 1, 0)
        for axis, size in enumerate(sizes)
    )


def pooled_shape(call: Call) -> tuple[Shape, ...]:
    """The number of windows along each spatial axis, for the elements and their places."""
    src = call.shape("src")
    if src is None:
        return None, None
    shape = (*src[:2], *windows_of(call, src[2:]))
    return shape, shape


def window_fits(call: Call) -> Iterable[RuleFinding]:
    """src has one to three spatial axes, and each list of the window as many numbers."""
    src = call.shape("src")
    if src is not None and not 3 <= len(src) <= 5:
        yield RuleFinding("src", f"shape {show(src)}", "(batches, channels, one to three spatial dims)")
        return
    count = len(call.s64s("kernel")) if src is None else len(src) - 2
    for name in LISTS:
        if len(call.s64s(name)) != count:
            yield RuleFinding(name, list(call.s64s(name)), f"{counted(count, 'number')}, one for each spatial axis")


def unpooled_shape(call: Call) -> tuple[Shape, ...]:
    """The shape that is given."""
    return (call.value("shape"),)


def indices_fit(call: Call) -> Iterable[RuleFinding]:
    """The indices have the shape of src."""
    if not compatible(call.shape("src"), call.shape("indices")):
        yield RuleFinding(
            "indices", f"shape {show(call.shape('indices'))}", f"shape {show(call.shape('src'))}, as src has"
        )


def columns_shape(call: Call) -> tuple[Shape, ...]:
    """(batches, channels, elements of a window, windows)."""
    src, offsets = call.shape("src"), call.shape("offsets")
    windows = None if offsets is None or None in offsets[2:] else prod(known_dims(offsets[2:]))
    return ((*(src[:2] if src is not None else (None, None)), prod(call.s64s("kernel")), windows),)


def offsets_fit(call: Call) -> Iterable[RuleFinding]:
    """src is an image, and the offsets and the mask have numbers for each window of it, group and element."""
    src, offsets, mask = call.shape("src"), call.shape("offsets"), call.shape("mask")
    if src is None or len(src) != 4:
        if src is not None:
            yield RuleFinding("src", f"shape {show(src)}", "(batches, channels, height, width)")
        return
    groups, taps = call.s64("offset_groups"), prod(call.s64s("kernel"))
    if any(len(call.s64s(name)) != 2 for name in LISTS):
        yield from window_fits(call)
    elif src[1] is not None and src[1] % groups:
        yield RuleFinding("offset_groups", groups, f"a divisor of {src[1]}, the number of channels")
    elif not compatible(offsets, wanted := (src[0], 2 * groups * taps, *windows_of(call, src[2:]))):
        yield RuleFinding("offsets", f"shape {show(offsets)}", f"shape {show(wanted)}")
    elif call.input("mask") and not compatible(mask, wanted := (src[0], groups * taps, *windows_of(call, src[2:]))):
        yield RuleFinding("mask", f"shape {show(mask)}", f"shape {show(wanted)}")


def sampled_shape(call: Call) -> tuple[Shape, ...]:
    """The batches and channels of src, and the places of the grid."""
    src, grid = call.shape("src"), call.shape("grid")
    if src is None or grid is None:
        return (None,)
    return ((*src[:2], *grid[1:-1]),)


def grid_fits(call: Call) -> Iterable[RuleFinding]:
    """The last axis of the grid has a number for each of the one to three spatial axes of src."""
    src, grid = call.shape("src"), call.shape("grid")
    if src is None or grid is None:
        return
    if not 3 <= len(src) <= 5:
        yield RuleFinding("src", f"shape {show(src)}", "(batches, channels, one to three spatial dims)")
    elif len(grid) != len(src) or not compatible((grid[0], grid[-1]), (src[0], len(src) - 2)):
        yield RuleFinding("grid", f"shape {show(grid)}", f"({src[0]}, {'dims, ' * (len(src) - 2)}{len(src) - 2})")
    elif call.string("mode") == "cubic" and len(src) == 5:
        yield RuleFinding("mode", "cubic", "linear or nearest for volumes")


def compressed_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src, with as many slices as conditions hold."""
    src = call.shape("src")
    if src is None:
        return (None,)
    axis = call.s64("axis") % max(len(src), 1)
    return ((*src[:axis], None, *src[axis + 1 :]),)


def condition_fits(call: Call) -> Iterable[RuleFinding]:
    """The condition has one axis, and the axis is one of src."""
    src, condition = call.shape("src"), call.shape("condition")
    if condition is not None and len(condition) != 1:
        yield RuleFinding("condition", f"shape {show(condition)}", "one axis")
    elif src is not None and not -len(src) <= call.s64("axis") < len(src):
        yield RuleFinding("axis", call.s64("axis"), f"an axis of {show(src)}")
    elif src is not None and known(condition):
        size = src[call.s64("axis")]
        if size is not None and known_dims(condition)[0] > size:
            yield RuleFinding(
                "condition", f"shape {show(condition)}", f"at most {counted(size, 'element')}, the size of the axis"
            )


def _detection(
    kind: str,
    doc: str,
    ends: tuple[str, str],
    types: tuple[Row, ...],
    shape: ShapeFunction,
    attributes: tuple[Attribute, ...],
    *rules: Rule,
    traits: Trait = Trait.NONE,
) -> Schema:
    return host(kind, doc, *ends, types, shape, attributes, rules, traits=traits)


OPS = (
    _detection(
        "NonMaxSuppression",
        "dst = batch, class and box of the boxes that stay: the best of each class, without those that overlap a "
        "better one by more than overlap; limit is their largest number for each class",
        ("boxes:T scores:T limit:s64 overlap:f32 threshold:f32", "dst:s64"),
        FLOATS,
        selected_shape,
        (Attribute("center", "bool", "Whether a box is its center and size, else two corners.", default=False),),
        boxes_fit,
    ),
    _detection(
        "RoiAlign",
        "dst = the means, or maxima, of samples between the pixels of an image of src, in the cells of each box; a box "
        "is x, y of two corners",
        ("src:T boxes:T images:s64", "dst:T"),
        FLOATS,
        aligned_shape,
        (
            Attribute("rows", "s64", "Number of cells of a box along its height.", required=True, range=POSITIVE),
            Attribute("columns", "s64", "Number of cells of a box along its width.", required=True, range=POSITIVE),
            Attribute(
                "samples",
                "s64",
                "Samples along each side of a cell; 0 takes one a pixel.",
                default=0,
                range=NON_NEGATIVE,
            ),
            Attribute("scale", "f32", "Factor of the numbers of a box.", default=1.0),
            Attribute(
                "half_pixel", "bool", "Whether pixels are half a pixel away, and boxes may be small.", default=True
            ),
            Attribute("mode", "str", "What is taken of the samples.", default="avg", values=("avg", "max")),
        ),
        regions_fit,
    ),
    _detection(
        "MaxPoolPlaces",
        "dst = the largest element of each window, the first of equal ones; places = its place among all of src",
        ("src:T", "dst:T places:s64"),
        NUMBERS,
        pooled_shape,
        (
            *WINDOW,
            Attribute("column_major", "bool", "Whether places count the first spatial axis fastest.", default=False),
        ),
        window_fits,
    ),
    _detection(
        "MaxUnpool",
        "dst = the elements of src at the places that the indices name among all elements, and 0 elsewhere",
        ("src:T indices:s64 shape:s64!", "dst:T"),
        NUMBERS,
        unpooled_shape,
        (),
        indices_fit,
        shapes_are_vectors,
        not_negative("shape"),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
    _detection(
        "DeformColumns",
        "dst = what each window of a convolution reads from src: between the pixels, each element at its own offset "
        "(down, right), times its mask",
        ("src:T offsets:T mask:T?", "dst:T"),
        FLOATS,
        columns_shape,
        (
            *WINDOW,
            Attribute(
                "offset_groups", "s64", "Groups of channels with offsets of their own.", default=1, range=POSITIVE
            ),
        ),
        offsets_fit,
    ),
    _detection(
        "GridSample",
        "dst = src at the places of a grid: numbers from -1 to 1 along each spatial axis, the last axis first",
        ("src:T grid:T", "dst:T"),
        FLOATS,
        sampled_shape,
        (
            Attribute(
                "mode",
                "str",
                "How elements between pixels are found.",
                default="linear",
                values=("linear", "nearest", "cubic"),
            ),
            Attribute(
                "padding",
                "str",
                "What lies outside an image.",
                default="zeros",
                values=("zeros", "border", "reflection"),
            ),
            Attribute(
                "align_corners", "bool", "Whether -1 and 1 are centers of pixels, else their edges.", default=False
            ),
        ),
        grid_fits,
    ),
    _detection(
        "Compress",
        "dst = the slices of src along axis where the condition holds; slices behind the condition are left out",
        ("src:T condition:boolean", "dst:T"),
        rows("T", ALL_NAMES),
        compressed_shape,
        (Attribute("axis", "s64", "Axis of src, negative counted from the end.", default=0),),
        condition_fits,
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
)
