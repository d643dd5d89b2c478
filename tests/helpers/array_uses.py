"""Drawn uses of the ops that kernels on dense arrays compute, each with the arrays and the attributes of an op."""

import math
from functools import partial

import numpy as np

import onegraph as og
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.reference import run_op

NUMBERS = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def op_of(kind, arrays, attrs, known=(), has_shapes=True):
    g = og.Graph()
    ends = [
        None
        if array is None
        else g.constant(array, dtype=OF_NUMPY[array.dtype])
        if place in known
        else g.input(f"x{place}", OF_NUMPY[array.dtype], array.shape if has_shapes else None)
        for place, array in enumerate(arrays)
    ]
    g.op(kind, ends if ends[-1] is not None else ends[:-1], attrs, edition="host")
    return g.ops[-1]


class Draw:
    """Random numbers, and the sizes and attributes of ops."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def one(self, *options):
        return options[self.number(0, len(options) - 1)]

    def flag(self):
        return self.one(True, False)

    def dims(self, low, high, most=7):
        return [self.number(1, most) for _ in range(self.number(low, high))]

    def floats(self, *shape, dtype=None):
        return (self.rng.normal(size=shape) * 3).astype(dtype or self.one("f4", "f8"))

    def array(self, *shape):
        """Numbers of any type, of which some are equal, and some not finite."""
        found = np.round(self.rng.normal(size=shape) * 9)
        dtype = np.dtype(self.one(*NUMBERS))
        if dtype.kind == "f" and found.size and self.flag():
            found.flat[self.number(0, found.size - 1)] = self.one(np.nan, np.inf, -np.inf, -0.0)
        return (np.abs(found) if dtype.kind == "u" else found).astype(dtype)

    def places(self, dim, *shape):
        """Indices, of which now and then one is out of range."""
        return self.rng.integers(-dim, dim + (self.number(0, 9) == 0), size=shape).astype(self.one("i4", "i8"))


def along(d):
    shape = d.dims(1, 4)
    axis = d.number(-len(shape), len(shape) - 1)
    shape[axis] = d.one(0, 1, 5, 40)
    return [d.array(*shape)], {"axis": axis, "exclusive": d.flag(), "reverse": d.flag()}


def top(d):
    shape = d.dims(1, 3)
    axis = d.number(-len(shape), len(shape) - 1)
    shape[axis] = d.one(1, 7, 100, 2000)
    count = np.int64([d.number(0, shape[axis])])
    return [d.array(*shape), count], {"axis": axis, "largest": d.flag()}, (1,)


def elements(d, *, updates):
    src = d.array(*d.dims(1, 4))
    axis = d.number(-src.ndim, src.ndim - 1)
    shape = [d.number(1, dim) for dim in src.shape]
    shape[axis] = d.one(0, 1, 5, 9)
    places = d.places(src.shape[axis], *shape)
    if not updates:
        return [src, places], {"axis": axis}
    values = src.reshape(-1)[d.rng.integers(0, src.size, size=shape)]
    return [src, places, values], {"axis": axis, "reduction": d.one("none", "add", "mul", "max", "min")}


def tuples(d, *, updates):
    src = d.array(*d.dims(1, 4))
    batch = 0 if updates else d.number(0, src.ndim - 1)
    count, outer = d.number(1, src.ndim - batch), [*src.shape[:batch], *d.dims(0, 2, 4)]
    places = np.stack([d.places(dim, *outer) for dim in src.shape[batch : batch + count]], -1)
    if not updates:
        return [src, places], {"batch_dims": batch}
    values = src.reshape(-1)[d.rng.integers(0, src.size, size=[*outer, *src.shape[count:]])]
    return [src, places, values], {"reduction": d.one("none", "add", "mul", "max", "min")}


def extreme(d):
    src = d.array(*d.dims(1, 3))
    axis = d.number(-src.ndim, src.ndim - 1)
    src = np.repeat(src, d.one(1, 30), axis)
    return [src], {"axis": axis, "keep_dims": d.flag(), "last": d.flag()}


def joined(d):
    src = d.array(*d.dims(1, 4))
    axis = d.number(-src.ndim, src.ndim - 1)
    return [np.repeat(src, d.number(1, 3), axis) for _ in range(d.number(1, 4))], {"axis": axis}


def rows(d):
    src = d.array(*d.dims(0, 1, 3), 9, d.one(1, 60, 64))
    return [src, d.places(9, d.one(5, 64, 900))], {"axis": src.ndim - 2}


def shares(d):
    """Rows of few and of many elements, between axes of one and of several."""
    shape, dtype = d.dims(1, 4), d.one("f4", "f8")
    axis = d.number(-len(shape), len(shape) - 1)
    shape[axis], count, taps = d.one(1, 5, 40), d.one(0, 1, 7, 30), d.number(1, 6)
    shape[-1] *= 1 if axis in (-1, len(shape) - 1) else d.one(1, 17)
    src, places = d.floats(*shape, dtype=dtype), d.places(shape[axis], count, taps)
    src.flat[d.number(0, src.size - 1)] = d.one(1, np.nan, np.inf)
    return [src, places, d.floats(count, taps, dtype=dtype)], {"axis": axis}


def window_of(d, count):
    return {
        "kernel": [d.number(1, 3) for _ in range(count)],
        "strides": [d.number(1, 3) for _ in range(count)],
        "pads_begin": [d.number(0, 2) for _ in range(count)],
        "pads_end": [d.number(0, 2) for _ in range(count)],
        "dilations": [d.number(1, 2) for _ in range(count)],
    }


def pooled(d):
    dims = d.dims(1, 3, 9)
    dims = [dim + 4 for dim in dims]
    return [d.array(d.number(1, 2), d.number(1, 3), *dims)], {**window_of(d, len(dims)), "column_major": d.flag()}


def unpooled(d):
    count, size = d.number(0, 9), d.number(10, 30)
    places = d.rng.permutation(size)[:count] + (d.number(0, 9) == 0) * size
    return [d.array(count), places, np.int64([size])], {}, (2,)


def deformed(d):
    groups, dtype, window = d.number(1, 3), d.one("f4", "f8"), window_of(d, 2)
    dims = [d.number(2, 9), d.number(5, 9)]
    counts = [
        max((dim + begin + end - (size - 1) * apart - 1) // step + 1, 0)
        for dim, begin, end, size, apart, step in zip(
            dims, *(window[key] for key in ("pads_begin", "pads_end", "kernel", "dilations", "strides")), strict=True
        )
    ]
    taps = groups * window["kernel"][0] * window["kernel"][1]
    offsets = d.floats(2, 2 * taps, *counts, dtype=dtype)
    mask = d.floats(2, taps, *counts, dtype=dtype) if d.flag() else None
    src = d.floats(2, groups * d.number(0, 2), *dims, dtype=dtype)
    return [src, np.round(offsets) if d.flag() else offsets, mask], {**window, "offset_groups": groups}


def aligned(d):
    dtype, count = d.one("f4", "f8"), d.number(0, 5)
    boxes = (d.rng.random((count, 4)) * 12 - 2).astype(dtype)
    attrs = {"rows": d.number(1, 4), "columns": d.number(1, 4), "samples": d.number(0, 3)}
    attrs |= {"scale": d.one(1.0, 0.5), "half_pixel": d.flag(), "mode": d.one("avg", "max")}
    return [d.floats(2, d.number(1, 4), *d.dims(2, 2, 9), dtype=dtype), boxes, d.rng.integers(0, 2, size=count)], attrs


def gridded(d):
    dims, dtype = d.dims(1, 3), d.one("f4", "f8")
    places = [d.number(1, 5) for _ in dims[1:]] + [d.one(0, 1, 7, 300)]
    grid = (d.rng.normal(size=(2, *places, len(dims))) * 1.3).astype(dtype)
    attrs = {"padding": d.one("zeros", "border", "reflection"), "align_corners": d.flag()}
    attrs["mode"] = d.one("linear", "nearest", *(["cubic"] if len(dims) < 3 else []))
    return [d.floats(2, d.number(1, 4), *dims, dtype=dtype), grid], attrs


def suppressed(d):
    boxes = np.round(d.rng.random((2, 40, 4)) * 20).astype("f4")
    scores = np.round(d.rng.random((2, 3, 40)), 1).astype("f4")  # many are equal
    limits = np.int64(d.one(0, 3, 100)), np.float32(d.one(0, 0.3, 0.5)), np.float32(d.one(0, 0.5))
    return [boxes, scores, *limits], {"center": d.flag()}


def compressed(d):
    src = d.array(*d.dims(1, 3))
    axis = d.number(-src.ndim, src.ndim - 1)
    return [src, d.rng.random(d.number(1, src.shape[axis])) < 0.5], {"axis": axis}


def found(d):
    return [
        d.rng.integers(0, 2, size=[*d.dims(0, 2, 3), d.one(3, 4096, 9000)]).astype(d.one("f4", "u1", "?", "i8"))
    ], {}


def multiplied(d):
    rows, depth, columns = (d.one(1, d.number(1, 40), d.number(1, 300)) for _ in range(3))
    batch, turned = d.dims(0, 2, 3), [d.flag(), d.flag()]
    first, second = [d.one(batch, batch[1:], []) + ends for ends in ([rows, depth], [depth, columns])]
    first, second = d.one((first, second), (first, second), ([depth], second), (first, [depth]))
    shapes = [
        ends[:-2] + ends[:-3:-1] if flag and len(ends) > 1 else ends
        for ends, flag in zip((first, second), turned, strict=True)
    ]
    last = columns if len(second) > 1 else rows
    ends, dtype = [*shapes, *d.one([], [[last]], [[last]], [[1]])], d.one("f8", "f8", "i4", "i8", "u4", "u8")
    drawn = d.floats if dtype == "f8" else partial(d.rng.integers, -(2**40), 2**40)
    arrays = [(drawn(*one) if dtype == "f8" else drawn(size=one)).astype(dtype) for one in ends]
    return arrays, dict(zip(("transpose_a", "transpose_b"), turned, strict=True))


def reduced(d, multiplies=False):
    shape = d.dims(1, 4, 6)
    if d.flag():  # many rows, maybe short ones
        shape[d.number(0, len(shape) - 1)] = 300
    array = d.array(*shape)
    if multiplies and array.dtype.kind == "f":  # no factor is 0, whose product with an infinity is none
        array = d.rng.uniform(-1.2, 1.2, array.shape).astype(array.dtype)
    axes = [axis for axis in range(array.ndim) if d.flag()] or [d.number(-array.ndim, array.ndim - 1)]
    return [array, np.array(axes)], {"keep_dims": d.flag()}, (1,)


def coupled(d):
    classes = d.number(2, 6)
    pairs = d.rng.uniform(1e-7, 1 - 1e-7, (d.number(1, 40), classes * (classes - 1) // 2))
    return [pairs.astype(d.one("f4", "f8"))], {"classes": classes}


def hot(d):
    depth, shape = d.number(1, 12), d.dims(1, 3)
    indices = d.rng.integers(-15, 15, shape).astype(d.one("i8", "i4"))
    values = d.rng.integers(0, 2, 2).astype(d.one("f4", "f2", "i8", "u1", "?"))
    return [indices, np.array([depth]), values], {"axis": d.number(-1, len(shape))}, (1,)


DRAWS = {
    "CumSum": along,
    "CumProd": along,
    "TopK": top,
    "Gather": rows,
    "GatherElements": lambda d: elements(d, updates=False),
    "WeightedGather": shares,
    "ScatterElements": lambda d: elements(d, updates=True),
    "GatherND": lambda d: tuples(d, updates=False),
    "ScatterND": lambda d: tuples(d, updates=True),
    "MaxPoolPlaces": pooled,
    "MaxUnpool": unpooled,
    "DeformColumns": deformed,
    "RoiAlign": aligned,
    "GridSample": gridded,
    "NonMaxSuppression": suppressed,
    "Compress": compressed,
    "NonZero": found,
    "MatMul": multiplied,
    "ArgMax": extreme,
    "ArgMin": extreme,
    "Concat": joined,
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), reduced),
    "ReduceProd": lambda d: reduced(d, multiplies=True),
    "CouplePairs": coupled,
    "OneHot": hot,
    "Triangle": lambda d: ([d.array(*d.dims(2, 4))], {"upper": d.flag(), "offset": d.number(-8, 8)}),
}


class Large(Draw):
    """Draws of which one shape has some ``most`` elements more, so that threads divide the work."""

    def __init__(self, seed, most):
        super().__init__(seed)
        self.most, self.left = most, seed % 2  # shapes that stay before

    def dims(self, low, high, most=7):
        found = super().dims(low, high, most)
        self.left -= 1
        if self.left == -1 and found:
            place = self.number(0, len(found) - 1)
            found[place] *= max(self.most // math.prod(found), 1)
        return found


def suppressions(d):
    boxes = np.round(d.rng.random((3, 1500, 4)) * 60).astype("f4")
    scores = d.rng.random((3, 4, 1500)).astype("f4")
    return [boxes, scores, np.int64(300), np.float32(0.4), np.float32(0.2)], {"center": d.flag()}


def long_products(d):
    dtype, shape = d.one("f8", "i8"), d.one((210, 300, 500), (300, 500, 1), (1, 300, 900), (100, 600, 3))
    rows, depth, columns = shape
    return [(d.rng.normal(size=one) * 99).astype(dtype) for one in ((rows, depth), (depth, columns))], {}


def long_rows(d):
    size, count = d.one((210_000, 5), (210_000, 40), (70_000, 70_000))
    return [d.array(1, size), np.int64([count])], {"axis": 1, "largest": d.flag()}, (1,)


def many_slices(d):
    """Slices of a few elements, at places of which many are equal, and a few slices of many elements."""
    rows, columns, count = d.one((700, 40, 2000), (5, 20_000, 4), (40_000, 1, 40_000))
    src, updates = d.array(rows, columns), d.rng.integers(0, 9, (count, columns))
    places = d.rng.integers(-rows, rows, (count, 1))
    return [src, places, updates.astype(src.dtype)], {"reduction": d.one("none", "add", "max")}


# By kind, how many elements a large draw has, or draws of which all are large.
LARGE = {
    **dict.fromkeys(DRAWS, 3000),
    **dict.fromkeys(("CumSum", "CumProd", "ScatterElements", "GatherElements", "MaxPoolPlaces", "Triangle"), 30_000),
    "Gather": 300,
    "MatMul": long_products,
    "NonMaxSuppression": suppressions,
    "TopK": long_rows,
    "ScatterND": many_slices,
    "CouplePairs": lambda d: ([d.rng.uniform(0.1, 0.9, (400, 15))], {"classes": 6}),
    "NonZero": lambda d: ([d.rng.integers(0, 2, (4, 9000)).astype(d.one("f4", "u1"))], {}),
    "GridSample": lambda d: ([d.floats(2, 3, 20, 30, dtype="f4"), d.floats(2, 50, 70, 2, dtype="f4") / 3], {}),
}


def computed(op, arrays, host=None):
    try:
        return run_op(op, arrays, host=host)
    except og.OneGraphError as error:
        return error


def close(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind != "f":
        return np.array_equal(found, wanted)
    size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    share = 3e-5 if wanted.dtype == np.float32 else 1e-11
    return np.allclose(found, wanted, rtol=share, atol=share * size, equal_nan=True)
