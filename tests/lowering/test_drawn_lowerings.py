"""Lowerings with drawn attributes, of tensors whose ranks and sizes are 0, 1, 2 and 3, beside numpy.

Each is tried with known dims, with unknown ones, and with inputs that are known arrays.
"""

import itertools
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.errors import OneGraphError
from onegraph.lowering import attention as att
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering import norms, quantization, windows
from onegraph.lowering.bags import reduced_bags
from onegraph.lowering.einsum import einsum
from onegraph.lowering.emitter import Emitter, NotLowered
from onegraph.lowering.integer_products import integer_convolution, integer_matmul
from onegraph.lowering.layers import matmul, scaled_matmul
from onegraph.lowering.open_resize import resized_open
from onegraph.lowering.reduction import log_sum_exp, reduce
from onegraph.lowering.resize import resize
from onegraph.lowering.resize_axes import TORCH_OFFSETS, Axis, Sampling, nearest, places, shares_of
from onegraph.lowering.shares import padded_places
from onegraph.opset.dtypes import OF_NUMPY

DRAWS = 3  # of each lowering
# Further draws, by their number, that reach branches of the lowerings which no others of the first forty reach.
CHOSEN = {
    "reshape": (21,),
    "transpose": (5,),
    "flatten": (10, 12, 14),
    "slices": (41,),
    "concat": (9, 16),
    "expand": (4, 6, 16),
    "part": (14, 15),
    "with_part": (14, 23),
    "padded": (15,),
    "padded_axes": (6, 9),
    "cast": (14, 15),
    "binary": (7, 31),
    "sums_and_products": (7, 8, 12),
    "clamp": (3, 11),
    "select": (23,),
    "activations": (5, 7, 8, 9, 12),
    "reductions": (11,),
    "exponentials": (13,),
    "scaled_products": (7, 10, 12, 16, 17),
    "named_sums": (4, 6, 26),
    "layer_norms": (29,),
    "other_norms": (5,),
    "channel_norms": (4,),
    "pools": (12, 14, 20, 21, 26, 30, 38),
    "convolutions": (4, 18, 31),
    "integer_convolutions": (9, 15, 20, 31, 33),
    "bags": (16, 21),
    "dequantized": (3, 4, 6, 8, 9, 11, 13, 15, 16, 36),
    "quantized": (9, 11, 15, 26, 32),
    "integer_products": (3, 13, 19, 26),
    "deep_integer_convolutions": (59,),
    "attentions": (3, 4, 5, 11, 16, 19, 21, 27, 29, 38, 242),
}
FORMS = "known", "open", "computed"
F16, BF16 = np.float16, ml_dtypes.bfloat16


class Drawn(NamedTuple):
    """A lowering of these arrays, None for absent ones, what it computes of them, and whether dims may be unknown."""

    arrays: list
    lower: Any
    wanted: Any
    may_be_open: bool = True


class Draw:
    """Draws sizes, numbers and attributes."""

    def __init__(self, rng):
        self.rng = rng

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def flag(self):
        return self.one(False, True)

    def size(self, least=0, most=3):
        return int(self.rng.integers(least, most + 1))

    def shape(self, least=0, most=3, smallest=None):
        """A shape of such a rank, without elements seldom."""
        low = self.one(0, 1, 1) if smallest is None else smallest
        return tuple(self.size(low) for _ in range(self.size(least, most)))

    def dtype(self):
        return self.one(np.float32, np.float32, np.int64, F16, np.float64)

    def array(self, shape, dtype=np.float32, low=-4, high=4):
        """Small whole numbers, whose sums and products every data type holds."""
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)

    def axis(self, rank):
        return int(self.rng.integers(-rank, rank))

    def axes(self, rank):
        """Some axes, each counted from the start or from the end."""
        found = self.rng.permutation(rank)[: self.size(0, rank)].tolist()
        return [axis - rank * self.flag() for axis in found]

    def order(self, rank):
        return self.rng.permutation(rank).tolist()

    def beside(self, shape):
        """A shape that broadcasts with another one."""
        return tuple(self.one(1, dim, dim) for dim in shape)[self.size(0, len(shape)) if shape else 0 :]


CASES = {}


def case(draw):
    CASES[draw.__name__] = draw
    return draw


@case
def reshape(d):
    src = d.array(d.shape(), d.dtype())
    sizes = d.order(3) if not src.size else d.one(src.shape[::-1], (src.size,), (1, *src.shape), src.shape)
    dims = [*sizes]
    if dims and src.size and d.flag():
        dims[d.axis(len(dims))] = -1
    if d.flag():
        return Drawn([src, np.array(dims, np.int64)], mv.reshape, src.reshape(sizes))
    return Drawn([src], lambda e, x: mv.reshape(e, x, d.one(dims, np.array(dims, np.int64))), src.reshape(sizes))


@case
def transpose(d):
    src = d.array(d.shape(), d.dtype())
    first, second = d.order(src.ndim), d.order(src.ndim)
    wanted = src.transpose(first).transpose(second)
    return Drawn([src], lambda e, x: mv.transpose(e, mv.transpose(e, x, first), second), wanted)


@case
def unsqueeze(d):
    src, count = d.array(d.shape(), d.dtype()), d.size(1, 2)
    rank = src.ndim + count
    axes = [axis - rank * d.flag() for axis in d.order(rank)[:count]]
    return Drawn([src], lambda e, x: mv.unsqueeze(e, x, axes), np.expand_dims(src, axes))


@case
def squeeze(d):
    src = d.array((1, *d.shape(most=2), 1), d.dtype())
    ones = [axis for axis, dim in enumerate(src.shape) if dim == 1]
    axes = [axis - src.ndim * d.flag() for axis in d.rng.permutation(ones)[: d.size(1)].tolist()]
    return Drawn([src], lambda e, x: mv.squeeze(e, x, axes), src.squeeze(tuple(axes)))


@case
def flatten(d):
    src = d.array(d.shape(least=1), d.dtype())
    axis = d.size(-src.ndim, src.ndim)
    at = axis % src.ndim if axis < 0 else axis
    return Drawn([src], lambda e, x: mv.flatten(e, x, axis), src.reshape(prod(src.shape[:at]), prod(src.shape[at:])))


@case
def slices(d):
    src = d.array(d.shape(least=1), d.dtype())
    axes = d.axes(src.ndim)
    ends = [(d.size(-4, 4), d.size(-4, 4), d.one(1, 1, 2, 3, -1, -2)) for _ in axes]
    starts, stops, steps = ([end[place] for end in ends] for place in range(3))
    wanted = src
    for axis, end in zip(axes, ends, strict=True):
        start, stop, step = end
        start = max(start, -src.shape[axis]) if step < 0 else start  # ONNX begins at the first element, numpy nowhere
        wanted = wanted[(slice(None),) * (axis % src.ndim) + (slice(start, stop, step),)]
    return Drawn([src], lambda e, x: mv.slice_(e, x, starts, stops, axes, steps), wanted)


@case
def concat(d):
    shape, axis, kind = [*d.shape(least=1)], 0, d.dtype()
    axis = d.axis(len(shape))
    parts = []
    for _ in range(d.size(1)):
        shape[axis] = d.size()
        parts.append(d.array(shape, kind))
    return Drawn(parts, lambda e, *parts: mv.concat(e, parts, axis), np.concatenate(parts, axis))


@case
def expand(d):
    wide = d.shape()
    src, dims = d.array(d.beside(wide), d.dtype()), d.one(wide, wide, d.beside(wide))
    wanted = np.broadcast_to(src, np.broadcast_shapes(src.shape, dims))
    if d.flag():
        return Drawn([src, np.array(dims, np.int64)], mv.expand, wanted)
    return Drawn([src], lambda e, x: mv.expand(e, x, dims), wanted)


@case
def split(d):
    src = d.array(d.shape(least=1), d.dtype())
    axis, sizes = d.axis(src.ndim), []
    while sum(sizes) < src.shape[axis]:
        sizes.append(d.size(0, src.shape[axis] - sum(sizes)))
    wanted = np.split(src, np.cumsum(sizes)[:-1], axis) if sizes else []
    return Drawn([src], lambda e, x: mv.split(e, x, sizes, axis), wanted)


@case
def part(d):
    src = d.array(d.shape(least=1), d.dtype())
    axis = d.size(0, src.ndim - 1)
    ends = d.size(), d.one(src.shape[axis], d.size()), d.size(1)
    wanted = src[(slice(None),) * axis + (slice(*ends),)]
    return Drawn([src], lambda e, x: mv.part(e, x, axis, *ends), wanted)


@case
def with_part(d):
    src = d.array(d.shape(least=1, smallest=0), d.dtype())
    axis = d.size(0, src.ndim - 1)
    size = src.shape[axis]
    step = d.one(*[step for step in (1, 2, 3) if size % step == 0])
    start = d.size(0, max(min(step, size) - 1, 0))
    places = range(start, size, step) if step > 1 else range(start, d.size(start, size))
    wanted = src.copy()
    updates = d.array((*src.shape[:axis], len(places), *src.shape[axis + 1 :]), src.dtype, 5, 9)
    wanted[(slice(None),) * axis + (np.array(places, int),)] = updates
    return Drawn([src, updates], lambda e, x, new: mv.with_part(e, x, new, axis, places), wanted, False)


@case
def padded(d):
    src, number = d.array(d.shape(), d.dtype()), d.size()
    pads = [(d.size(0, 2), d.size(0, 2)) for _ in src.shape]
    before, after = ([pad[side] for pad in pads] for side in (0, 1))
    wanted = np.pad(src, pads, constant_values=number) if pads else src
    return Drawn([src], lambda e, x: mv.padded(e, x, before, after, number), wanted, False)


@case
def padded_axes(d):
    dim, mode = d.size(1), d.one("edge", "reflect", "wrap")
    before, after = (d.size(-1, dim - (mode == "reflect")) for _ in range(2))
    before, after = (0, 0) if before + after + dim < 0 else (before, after)
    src = d.array((dim,))
    wide = np.pad(src, (max(before, 0), max(after, 0)), mode=mode)
    wanted = wide[max(-before, 0) : len(wide) - max(-after, 0)]
    places = padded_places(dim, before, after, mode)
    return Drawn([src], lambda e, x: e.op("Gather", [x, places], {"axis": 0}), wanted)


@case
def cast(d):
    src = d.array(d.shape(), d.one(np.float32, F16, BF16, np.int32, np.uint8, bool, np.int8), 0)
    target = d.one(np.float32, F16, BF16, np.int32, np.int8, bool)
    return Drawn([src], lambda e, x: mv.cast(e, x, OF_NUMPY[np.dtype(target)]), src.astype(target))


@case
def dims_of(d):
    src = d.array(d.shape(least=1), d.dtype())
    return Drawn([src], mv.dims_of, np.array(src.shape, np.int64))


@case
def binary(d):
    shape, kind = d.shape(), d.one(np.float32, np.float32, np.int64, F16)
    first, second = d.array(shape, kind, 1), d.array(d.beside(shape), kind, 1)
    if d.flag():
        second = np.broadcast_to(second[(0,) * second.ndim] if second.size else second, second.shape)
    ends = d.one((first, second), (second, first))
    name, function = d.one(
        ("Subtract", np.subtract), ("Maximum", np.maximum), ("Minimum", np.minimum), ("Less", np.less)
    )
    return Drawn([*ends], lambda e, *ends: el.binary(e, name, *ends), function(*ends))


@case
def sums_and_products(d):
    shape, kind = d.shape(), d.one(np.float32, np.float32, np.int64, F16)
    src, number = d.array(shape, kind), np.array(d.size(-1, 2), kind)
    other = d.one(number, np.broadcast_to(number, d.beside(shape)), d.array(d.beside(shape), kind))
    if d.flag():
        other = np.broadcast_to(number, (2, *shape))
    function, wanted = d.one((el.add, src + other), (el.multiply, src * other))
    turn = d.flag()
    return Drawn([src], lambda e, x: function(e, *((other, x) if turn else (x, other))), wanted)


@case
def clamp(d):
    src = d.array(d.shape(), d.one(np.float32, F16, np.int32))
    low, high = (d.one(None, d.size(-2, 2)) for _ in range(2))
    ends = [None if one is None else np.array(one, src.dtype) for one in (low, high)]
    wanted = src if low is None else np.maximum(src, ends[0])
    wanted = wanted if high is None else np.minimum(wanted, ends[1])
    if d.one(0, 0, 1) and None not in ends:
        return Drawn([src, *ends], el.clamp, wanted)
    return Drawn([src], lambda e, x: el.clamp(e, x, *ends), wanted)


@case
def select(d):
    shape, kind = d.shape(), d.one(np.float32, np.float32, F16, np.int64)
    condition = d.array(d.one(shape, d.beside(shape)), bool, 0, 1)
    first, second = (d.array(d.one(shape, d.beside(shape)), kind) for _ in range(2))
    return Drawn([condition, first, second], el.select, np.where(condition, first, second))


@case
def activations(d):
    src = d.array(d.shape())
    a, b = d.one(0.5, 1.0, 2.0), d.one(0.25, 1.0)
    slope = d.array(d.beside(src.shape), np.float32, 1, d.one(1, 3))

    def elu(x):
        return np.where(x > 0, x, np.expm1(x))

    lower, wanted = d.one(
        (lambda e, x: el.negative(e, x), -src),
        (lambda e, x: el.prelu(e, x, slope), np.where(src > 0, src, slope * src)),
        (lambda e, x: el.swish(e, x, a), src / (1 + np.exp(-a * src))),
        (lambda e, x: el.selu(e, x, a, b), b * np.where(src > 0, src, a * np.expm1(src))),
        (lambda e, x: el.celu(e, x, a), a * elu(src / a)),
        (lambda e, x: el.thresholded_relu(e, x, a), np.where(src > a, src, 0)),
        (lambda e, x: el.shrink(e, x, a, b), np.where(src < -a, src + b, np.where(src > a, src - b, 0))),
    )
    return Drawn([src], lower, wanted)


@case
def reductions(d):
    kind = d.one("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2")
    src = d.array(d.shape(smallest=1), np.float32 if kind in ("Mean", "L2") else d.one(np.float32, np.int64), -2, 3)
    axes, keep = d.one(None, d.axes(src.ndim)), d.flag()
    along = tuple(range(src.ndim)) if axes is None else tuple(axes)
    functions = {"L1": lambda x, *how, **more: abs(x).sum(*how, **more)}
    functions["L2"] = lambda x, *how, **more: np.sqrt((x * x).sum(*how, **more))
    function = functions.get(kind) or getattr(np, kind.lower())
    wanted = function(src, along, keepdims=keep).astype(src.dtype)
    return Drawn([src], lambda e, x: reduce(e, f"Reduce{kind}", x, axes, keep), wanted)


@case
def exponentials(d):
    src, keep = d.array(d.shape(smallest=1), d.one(np.float32, np.float64)) * d.one(1, 100), d.flag()
    src = src.astype(d.one(np.float32, np.float64))
    axes = d.one(None, d.axes(src.ndim))
    along = tuple(range(src.ndim)) if axes is None else tuple(axes)
    most = src.max(along, keepdims=True).astype(np.float64)
    wanted = np.log(np.exp(src - most).sum(along, keepdims=True)) + most
    wanted = (wanted if keep else wanted.squeeze(along)).astype(src.dtype)
    return Drawn([src], lambda e, x: log_sum_exp(e, x, axes, keep), wanted)


@case
def products(d):
    batch, kind = d.shape(most=2, smallest=1), d.one(np.float32, np.float32, F16)
    rows, depth, columns = d.size(1), d.size(1), d.size(1)
    flags = d.flag(), d.flag()
    first = d.array((*d.beside(batch), *((depth, rows) if flags[0] else (rows, depth))), kind)
    second = d.array((*batch, *((columns, depth) if flags[1] else (depth, columns))), kind)
    sides = [one.swapaxes(-1, -2) if flag else one for one, flag in zip((first, second), flags, strict=True)]
    bias = d.one(None, d.array((columns,), kind))
    turns = dict(zip(("transpose_a", "transpose_b"), flags, strict=True))
    wanted = np.matmul(*(one.astype(np.float32) for one in sides)) + (0 if bias is None else bias)
    return Drawn([first, second, bias], lambda e, *ends: matmul(e, *ends, **turns), wanted.astype(kind))


@case
def scaled_products(d):
    kind = d.one(np.float32, F16, BF16, np.int64, np.float64)
    rows, depth, columns = (d.size(1) for _ in range(3))
    flags, turns = (d.flag(), d.flag()), ("transpose_a", "transpose_b")
    first, second = d.array((rows, depth), kind), d.array((depth, columns), kind)
    bias = d.one(None, d.array(d.one((), (1,), (columns,), (rows, 1), (1, columns), (rows, columns)), kind))
    alpha, beta = (d.one(1.0, 2.0, *([0.3, 0.5] if np.dtype(kind).kind != "i" else [])) for _ in range(2))
    wanted = alpha * (first.astype(np.float64) @ second.astype(np.float64))
    wanted = wanted + (0 if bias is None else beta * bias.astype(np.float64))
    ends = [np.ascontiguousarray(one.T) if flag else one for one, flag in zip((first, second), flags, strict=True)]
    how = {"alpha": alpha, "beta": beta, **dict(zip(turns, flags, strict=True))}
    return Drawn([*ends, bias], lambda e, *ends: scaled_matmul(e, *ends, **how), wanted.astype(kind))


@case
def named_sums(d):
    sizes, dots = {name: d.size(1) for name in "ijkl"}, d.shape(most=2, smallest=1) if d.flag() else None
    terms, arrays = [], []
    for _ in range(d.size(1)):
        names = [d.one(*"ijkl") for _ in range(d.size())]
        place = d.size(0, len(names))
        hidden = () if dots is None else d.beside(dots)
        shape = [sizes[name] for name in names]
        terms.append("".join(names) if dots is None else f"{''.join(names[:place])}...{''.join(names[place:])}")
        arrays.append(d.array((*shape[:place], *hidden, *shape[place:])))
    names = sorted({name for term in terms for name in term if name.isalpha()})
    kept = [names[place] for place in d.order(len(names))][: d.size(0, len(names))]
    target = d.one("", "->" + "".join([*kept[:1], *(["..."] if dots is not None else []), *kept[1:]]))
    equation = ",".join(terms) + target
    return Drawn(arrays, lambda e, *ends: einsum(e, equation, ends), np.einsum(equation, *arrays))


@case
def layer_norms(d):
    src = d.array(d.shape(least=1, smallest=1))
    axis = d.axis(src.ndim)
    along = tuple(range(axis % src.ndim, src.ndim))
    gamma, beta = (d.one(None, d.array(src.shape[axis % src.ndim :])) for _ in range(2))
    mean, variance = src.mean(along, keepdims=True), src.var(along, keepdims=True)
    normal = (src - mean) / np.sqrt(variance + 1e-3)
    wanted = normal * (1 if gamma is None else gamma) + (0 if beta is None else beta)
    return Drawn([src, gamma, beta], lambda e, *ends: norms.layer_norm(e, *ends, axis, 1e-3), [wanted, mean, variance])


@case
def other_norms(d):
    src = d.array(d.shape(least=1, smallest=1))
    axis, power = d.axis(src.ndim), d.one(1, 2)
    size = np.linalg.norm(src, power, axis, keepdims=True)
    along = d.axes(src.ndim) or [0]
    apart = src - src.mean(tuple(along), keepdims=True)
    deviation = src.std(tuple(along), keepdims=True)
    return d.one(
        Drawn([src], lambda e, x: norms.lp_norm(e, x, axis, power), src / np.maximum(size, 1e-30)),
        Drawn([src], lambda e, x: norms.mean_variance_norm(e, x, along), apart / (deviation + 1e-9)),
    )


@case
def channel_norms(d):
    src = d.array((d.size(1), d.one(2, 4), *d.shape(least=1, most=2, smallest=1)))
    groups, size, beta = d.one(1, 2), d.size(1), d.one(0.5, 0.75)
    gamma, shift = d.one((None, None), (d.array(src.shape[1:2]), d.array(src.shape[1:2])))
    rows = src.reshape(len(src), groups, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-3)
    normal, around = rows.reshape(src.shape), (-1, *[1] * (src.ndim - 2))
    if gamma is not None:
        normal = normal * gamma.reshape(around) + shift.reshape(around)
    total = np.zeros_like(src)
    for at in range(src.shape[1]):
        total[:, at] = (src[:, max(at - (size - 1) // 2, 0) : at + size // 2 + 1] ** 2).sum(1)
    response = src / (2 + 0.3 / size * total) ** beta
    return d.one(
        Drawn([src, gamma, shift], lambda e, *ends: norms.group_norm(e, *ends, groups, 1e-3), normal),
        Drawn([src], lambda e, x: norms.local_response(e, x, size, 0.3, beta, 2.0), response),
    )


def drawn_window(d, rank, modes=("None", "None", "VALID", "SAME_UPPER", "SAME_LOWER")):
    """A kernel and a window of drawn numbers, whose padding is smaller than the kernel."""
    kernel, apart = [d.size(1) for _ in range(rank)], [d.size(1, 2) for _ in range(rank)]
    mode = d.one(*modes)
    begin, end = ([d.size(0, (size - 1) // 2) for size in kernel] for _ in range(2))
    return kernel, windows.Window([d.size(1) for _ in range(rank)], begin, end, apart, mode)


def places_of(window, axis, size, length, ceil):
    """By window along an axis, the places of its elements."""
    step, apart, begin, end = (one[axis] for one in (window.strides, window.dilations, window.begin, window.end))
    reach = (length - 1) * apart + 1
    if window.auto_pad != "None":
        count = -(-size // step) if window.auto_pad.startswith("SAME") else (size - reach) // step + 1
        total = max((count - 1) * step + reach - size, 0) if window.auto_pad.startswith("SAME") else 0
        begin = -(-total // 2) if window.auto_pad == "SAME_LOWER" else total // 2
        end = total - begin
    room = size + begin + end - reach
    count = (-(-room // step) if ceil else room // step) + 1
    count -= ceil and (count - 1) * step >= size + begin
    starts = range(-begin, -begin + max(count, 0) * step, step)
    return [[at + number * apart for number in range(length)] for at in starts], (begin, end)


@case
def pools(d):
    """A pool of several axes is one along each of them."""
    rank, kind = d.size(1, 2), d.one(np.float32, np.float32, np.uint8, np.int8, np.float64)
    kernel, window = drawn_window(d, rank)
    name, ceil = d.one("max", "average", "lp"), d.flag()
    if name != "max":
        kind = np.float32
    src = d.array((d.size(1, 2), d.size(1, 2), *(d.size(4, 6) for _ in kernel)), kind)
    excludes, power = d.flag(), d.size(1)
    wanted = src if name == "max" else np.abs(src).astype(np.float64) ** power if name == "lp" else src
    counts = np.ones(())
    for axis, length in enumerate(kernel):
        rows, (begin, end) = places_of(window, axis, src.shape[axis + 2], length, ceil)
        if not rows:
            return pools(d)
        inside = [[at for at in row if 0 <= at < src.shape[axis + 2]] for row in rows]
        if not all(inside):
            return pools(d)
        low, high = (0, 0) if excludes else (begin, end)
        held = [sum(-low <= at < src.shape[axis + 2] + high for at in row) for row in rows]
        counts = counts[..., None] * np.array(held)
        parts = [wanted.take(row, axis + 2) for row in inside]
        wanted = np.stack([part.max(axis + 2) if name == "max" else part.sum(axis + 2) for part in parts], axis + 2)
    wanted = wanted / counts if name == "average" else wanted ** (1 / power) if name == "lp" else wanted
    functions = {
        "max": lambda e, x: windows.max_pool(e, x, kernel, window, ceil=ceil),
        "average": lambda e, x: windows.average_pool(e, x, kernel, window, ceil=ceil, exclude_pad=excludes),
        "lp": lambda e, x: windows.lp_pool(e, x, kernel, window, power, ceil=ceil),
    }
    return Drawn([src], functions[name], wanted)


def convolved(src, weights, window, groups):
    """Sums over the places of windows, of each group; None without a window."""
    kernel, own = weights.shape[2:], weights.shape[1]
    axes = [places_of(window, axis, src.shape[axis + 2], size, False)[0] for axis, size in enumerate(kernel)]
    total = np.zeros((len(src), len(weights), *map(len, axes)), src.dtype)
    for place in itertools.product(*map(range, kernel)):
        image = src
        for axis, (rows, number) in enumerate(zip(axes, place, strict=True)):
            at = np.array([row[number] for row in rows], int)
            shape = [-1 if one == axis + 2 else 1 for one in range(src.ndim)]
            is_inside = ((at >= 0) & (at < src.shape[axis + 2])).reshape(shape)
            image = image.take(at.clip(0, src.shape[axis + 2] - 1), axis + 2) * is_inside
        image = image.reshape(len(src), groups, own, *image.shape[2:])
        tap = weights[(..., *place)].reshape(groups, -1, own)
        total += np.einsum("ngi...,goi->ngo...", image, tap).reshape(total.shape)
    return total if all(axes) else None


def drawn_convolution(d, rank, kinds, low, high):
    """An image, weights, a window and groups."""
    groups, own = d.one(1, 2, 3), d.one(1, 1, 2)
    kernel, window = drawn_window(d, rank)
    src = d.array((d.size(1, 2), own * groups, *(d.size(3, 5) for _ in kernel)), kinds[0], low, high)
    return src, d.array((d.one(1, 1, 2) * groups, own, *kernel), kinds[1], low, high), window, groups


@case
def convolutions(d):
    src, weights, window, groups = drawn_convolution(d, d.one(1, 2, 3, 3), (np.float32, np.float32), -4, 4)
    wanted, bias = convolved(src, weights, window, groups), d.one(None, d.array((len(weights),)))
    if wanted is None:
        return convolutions(d)
    wanted += 0 if bias is None else bias.reshape(-1, *[1] * (src.ndim - 2))
    lower = windows.convolution
    return Drawn([src, weights, bias], lambda e, *ends: lower(e, *ends, window, groups=groups), wanted)


@case
def integer_convolutions(d):
    kinds = d.one(np.uint8, np.int8), d.one(np.uint8, np.int8)
    src, weights, window, groups = drawn_convolution(d, d.one(1, 2), kinds, 0, 127)
    point = d.one(None, d.array(d.one((), (1,)), kinds[0], 0, 9))
    zero = d.one(None, d.array(d.one((), (1,), (len(weights),)), kinds[1], 0, 9))
    image = src.astype(np.int64) - (0 if point is None else point)
    taps = weights.astype(np.int64) - (0 if zero is None else zero.reshape(-1, *[1] * (weights.ndim - 1)))
    wanted = convolved(image, taps, window, groups)
    if wanted is None:
        return integer_convolutions(d)

    def lower(e, *ends):
        return integer_convolution(e, *ends, window, groups=groups)

    return Drawn([src, weights, point, zero], lower, wanted.astype(np.int32))


@case
def bags(d):
    rows = d.array((d.size(), *d.shape(most=2)))
    ends = np.sort(d.array((d.size(1, 4),), np.int64, 0, 5))
    kind, function, empty = d.one(("ReduceSum", np.sum, 0), ("ReduceMean", np.mean, 0), ("ReduceMax", np.max, -np.inf))
    parts = [rows[start:end] for start, end in itertools.pairwise(ends)]
    whole = [function(one, axis=0) if len(one) else np.full(rows.shape[1:], empty) for one in parts]
    whole = np.array(whole, np.float32).reshape(len(parts), *rows.shape[1:])
    trips = d.one(None, np.array(d.size(-1, len(parts)), np.int64))
    wanted = whole if trips is None else whole[: max(int(trips), 0)]
    return Drawn([rows, ends, trips], lambda e, *given: reduced_bags(e, kind, *given), wanted)


def drawn_scale(d, shape, kind):
    """A scale and zero points, as arrays and as they are repeated for each element, with the axis and the block."""
    axis = d.axis(len(shape)) if shape else 0
    form = d.one("number", "one", *(["axis", "axis", "blocks"] if shape else []))
    block = d.size(1, 2) if form == "blocks" else 0
    dims = {"number": (), "one": (1,), "axis": shape[axis % len(shape) :][:1] if shape else ()}.get(form)
    if dims is None:
        dims = tuple(-(-dim // block) if place == axis % len(shape) else dim for place, dim in enumerate(shape))
    scale = 2.0 ** d.array(dims, np.float32, -1, 1)
    zero = d.one(None, d.array(dims, kind, 0, 3))

    def wide(part):
        if form == "blocks":
            return part.repeat(block, axis)[tuple(map(slice, shape))]
        return part.reshape(-1, *[1] * (len(shape) - 1 - axis % len(shape))) if form == "axis" else part.reshape(())

    zeros = 0 if zero is None else wide(zero).astype(np.int64)
    return scale, zero, wide(scale), zeros, {"axis": axis if shape else 1, "block": block}


@case
def dequantized(d):
    kind = np.dtype(d.one(np.uint8, np.int8, np.int16, np.int32, ml_dtypes.int4))
    codes = d.array(d.shape(smallest=1), np.int64, 0 if kind == np.uint8 else -8, 7).astype(kind)
    scale, zero, wide, zeros, form = drawn_scale(d, codes.shape, kind)

    def lower(e, codes, scale, zero):
        return quantization.dequantize(e, codes, quantization.Scale(scale, zero, **form))

    return Drawn([codes, scale, zero], lower, ((codes.astype(np.int64) - zeros) * wide).astype(np.float32))


@case
def quantized(d):
    kind = np.dtype(d.one(np.uint8, np.int8, np.int16))
    src = d.array(d.shape(smallest=1), np.float32, -200, 200) * np.float32(0.8)  # no ties
    scale, zero, wide, zeros, form = drawn_scale(d, src.shape, kind)

    def lower(e, x, scale, zero):
        return quantization.quantize(e, x, quantization.Scale(scale, zero, **form), OF_NUMPY[kind])

    limits = np.iinfo(kind)
    return Drawn([src, scale, zero], lower, np.clip(np.rint(src / wide) + zeros, limits.min, limits.max).astype(kind))


@case
def integer_products(d):
    first, second = d.one(np.uint8, np.int8), d.one(np.uint8, np.int8)
    batch = d.shape(most=1, smallest=1)
    rows, depth, columns = d.size(1), d.size(1, 5), d.size(1)
    ends = d.one(((*batch, rows, depth), (depth, columns)), ((depth,), (depth, columns)), ((rows, depth), (depth,)))
    src, weights = (
        d.array(shape, kind, np.iinfo(kind).min, np.iinfo(kind).max)
        for shape, kind in zip(ends, (first, second), strict=True)
    )
    point = d.one(None, d.array(d.one((), (1,)), first, 0, 9))
    zero = d.one(None, d.array(d.one((), (1,), *([(columns,)] if weights.ndim > 1 else [])), second, 0, 9))
    sides = [one.astype(np.int64) - (0 if by is None else by) for one, by in ((src, point), (weights, zero))]
    return Drawn([src, weights, point, zero], integer_matmul, np.matmul(*sides).astype(np.int32))


@case
def attentions(d):
    batch, kv_heads, group, tokens, keys, size = (d.size(1, 2) for _ in range(6))
    tokens, keys = d.size(1), d.size(1, 4)
    query = d.array((batch, kv_heads * group, tokens, size))
    key, value = d.array((batch, kv_heads, keys, size)), d.array((batch, kv_heads, keys, d.size(1)))
    place, past = np.arange(tokens)[:, None], d.one(0, 0, max(keys - tokens, 0))
    lengths = d.one(None, None, d.array((batch,), np.int32, 1, keys))
    causal, left, right = d.flag(), d.one(-1, -1, 0, 1), d.one(-1, -1, 0, 1)
    scale, softcap, stage = d.one(None, 0.5, 1.0), d.one(0.0, 0.0, 2.0), d.one(None, None, 0, 1, 2, 3)
    shape = (batch, kv_heads * group, tokens, d.one(1, keys, keys, max(keys - 1, 1)))
    shape = tuple(d.one(1, dim) for dim in shape[:3]) + shape[3:]
    mask = d.one(None, d.array(shape, bool, 0, 1), d.array(shape))
    at = place + past
    allowed = np.ones((1, 1, tokens, keys), bool)
    if lengths is not None:
        by = lengths.reshape(-1, 1, 1, 1).astype(np.int64)
        allowed, at = allowed & (np.arange(keys) < by), by + place - tokens
    for holds, flag in (
        (np.arange(keys) <= at, causal),
        (np.arange(keys) >= at - left, left >= 0),
        (np.arange(keys) <= at + right, right >= 0),
    ):
        allowed = allowed & holds if flag else allowed
    stages = [query @ np.repeat(key, group, 1).swapaxes(-1, -2) * (size**-0.5 if scale is None else scale)]
    stages.append(softcap * np.tanh(stages[0] / softcap) if softcap else stages[0])
    bias = np.zeros((1, 1, 1, keys)) if mask is None else mask
    if bias.shape[-1] not in (1, keys):
        rest = (*bias.shape[:-1], keys - bias.shape[-1])
        bias = np.concatenate([bias, np.full(rest, False if bias.dtype == bool else -np.inf)], -1)
    bias = np.where(bias, 0, -np.inf) if mask is not None and mask.dtype == bool else bias
    stages.append(stages[1] + np.where(allowed, bias, -np.inf))
    with np.errstate(all="ignore"):
        shares = np.exp(stages[2] - stages[2].max(-1, keepdims=True))
        stages.append(np.nan_to_num(shares / shares.sum(-1, keepdims=True)))
    wanted = [stages[3] @ np.repeat(value, group, 1), *([] if stage is None else [stages[stage]])]
    kind = d.one(np.float32, np.float32, F16)  # of 16 bits, a kernel computes short sequences too
    mask = mask if mask is None or mask.dtype == bool else mask.astype(kind)
    query, key, value, *wanted = (one.astype(kind) for one in (query, key, value, *wanted))

    def lower(e, query, key, value, mask, lengths):
        masking = att.Masking(mask, causal, left, right, lengths, past)
        found = att.attention(e, query, key, value, scale=scale, softcap=softcap, masking=masking, stage=stage)
        return [found.output, *([] if stage is None else [found.scores])]

    return Drawn([query, key, value, mask, lengths], lower, wanted)


def drawn_axis(d, size, is_crop):
    """How an axis is resized."""
    count, own = d.size(1, 6), d.one(None, None, 0.3, 0.5, 0.75, 1.0, 2.0, 3.0)
    count = count if own is None else max(int(size * own), 1)
    scale = count / size if own is None else own
    is_ratio = not is_crop and scale == count / size and d.flag()
    begin, end = (d.one(0.0, 0.25, -0.25), d.one(1.0, 0.75, 1.5)) if is_crop else (0.0, 1.0)
    return Axis(size, count, scale, begin, end, is_ratio=is_ratio)


COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_crop_and_resize", "pytorch_nearest", "pytorch_nearest_exact"),
)


@case
def resizes(d):
    """Known sizes, by what serves them and by what serves open ones."""
    src = d.array(d.shape(least=1, most=5, smallest=1), d.one(np.float32, np.float32, F16, np.float64))
    mode, coordinates = d.one("nearest", "linear", "linear", "cubic"), d.one(*COORDINATES)
    if mode != "nearest" and coordinates in TORCH_OFFSETS:
        coordinates = "half_pixel"
    is_crop = coordinates == "tf_crop_and_resize"
    sampling = Sampling(
        *(mode, coordinates, d.one("floor", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
        antialias=d.one(False, False, True),
        exclude_outside=d.one(False, False, True),
        outside=7.0,
    )
    chosen = sorted({axis % src.ndim for axis in d.axes(src.ndim)} or {src.ndim - 1})
    axes = {place: drawn_axis(d, src.shape[place], is_crop) for place in chosen}
    wanted, inside = src.astype(np.float64), np.ones([1] * src.ndim, bool)
    for place, axis in axes.items():
        if mode == "nearest":
            wanted = wanted.take(nearest(axis, sampling), place)
        else:
            with np.errstate(all="ignore"):
                matrix = shares_of(axis, sampling).matrix(axis.size)
            wanted = np.moveaxis(np.tensordot(matrix, wanted, ([1], [place])), 0, place)
        at = places(axis, coordinates).reshape([-1 if one == place else 1 for one in range(src.ndim)])
        inside = inside & (at >= 0) & (at <= axis.size - 1)
    if np.isnan(wanted).any():
        return resizes(d)
    wanted = np.where(inside | (not is_crop), wanted, 7.0).astype(src.dtype)

    def lower(e, x):
        found = None if is_crop else resized_open(e, x, axes, sampling)
        return resize(e, x, axes, sampling) if found is None else found

    ways = [lambda e, x: resize(e, x, axes, sampling), lower]
    return Drawn([src], d.one(*ways) if src.dtype == np.float32 else ways[0], wanted, False)


@case
def deep_integer_products(d):
    """Sums that f32 does not hold at once."""
    first, second = d.one(np.uint8, np.int8), d.one(np.uint8, np.int8)
    depth = d.one(100, 257, 258, 259, 260, 515, 516, 517, 530)
    src = d.array((1, depth), first, np.iinfo(first).max - 3, np.iinfo(first).max)
    weights = d.array((depth, d.size(1, 2)), second, np.iinfo(second).max - 3, np.iinfo(second).max)
    point = d.one(None, d.array(d.one((), (1,), (1, 1)), first, 0, 9))
    zero = d.one(None, d.array(d.one((), (1,), weights.shape[1:], (1, weights.shape[1])), second, 0, 9))
    sides = [one.astype(np.int64) - (0 if by is None else by) for one, by in ((src, point), (weights, zero))]
    return Drawn([src, weights, point, zero], integer_matmul, np.matmul(*sides).astype(np.int32))


@case
def deep_integer_convolutions(d):
    groups, own, kinds = (
        d.one(1, 1, 2),
        d.one(2, 64, 128, 129, 258, 259),
        (d.one(np.uint8, np.int8), d.one(np.uint8, np.int8)),
    )
    ends = [np.iinfo(kind).max for kind in kinds]
    src = d.array((1, own * groups, d.size(1, 3)), kinds[0], ends[0] - 3, ends[0])
    weights = d.array((groups * d.size(1, 2), own, d.one(1, 2)), kinds[1], ends[1] - 3, ends[1])
    window = windows.Window([1], [d.size(0, 1)], [d.size(0, 1)], [1])
    point = d.one(None, d.array(d.one((), (1,)), kinds[0], 0, 9))
    zero = d.one(None, d.array(d.one((), (1,), (len(weights),)), kinds[1], 0, 9))
    image = src.astype(np.int64) - (0 if point is None else point)
    taps = weights.astype(np.int64) - (0 if zero is None else zero.reshape(-1, 1, 1))
    wanted = convolved(image, taps, window, groups)
    if wanted is None:
        return deep_integer_convolutions(d)

    def lower(e, *ends):
        return integer_convolution(e, *ends, window, groups=groups)

    return Drawn([src, weights, point, zero], lower, wanted.astype(np.int32))


@case
def halves(d):
    """Attention of 16-bit numbers and of several precisions, as 16 bits hold it."""
    kind, precision = d.one(np.float32, F16, BF16), d.one(None, og.f32, og.f16, og.bf16)
    batch, heads, tokens, keys, size = d.size(1, 2), d.size(1, 2), d.size(1), d.size(1, 4), d.size(1, 2)
    query, key, value = (d.array((batch, heads, rows, size), np.float32, -2, 2) for rows in (tokens, keys, keys))
    mask = d.one(None, d.array((1, 1, tokens, keys), bool, 0, 1) | (np.arange(keys) == 0))
    stage, softcap = d.one(None, None, 0, 3), d.one(0.0, 0.0, 1.0, 2.0)
    scores = query @ key.swapaxes(-1, -2) * np.float32(size**-0.5)
    first, scores = scores, softcap * np.tanh(scores / softcap) if softcap else scores
    shares = np.exp(scores + (0 if mask is None else np.where(mask, 0, -np.inf)))
    shares = shares / shares.sum(-1, keepdims=True)
    wanted = [shares @ value, *([] if stage is None else [first if stage == 0 else shares])]

    def lower(e, query, key, value, mask):
        how = {"softcap": softcap, "masking": att.Masking(mask), "stage": stage, "precision": precision}
        found = att.attention(e, query, key, value, **how)
        return [mv.cast(e, one, og.f16) for one in (found.output, *([] if stage is None else [found.scores]))]

    ends = [one.astype(kind) for one in (query, key, value)]
    return Drawn([*ends, mask], lower, [one.astype(F16) for one in wanted])


def numbers_of(name):
    return [*range(DRAWS), *CHOSEN.get(name, ())]


def drawn(name, number):
    """A case, and what draws which of its inputs are known arrays beside others that are not."""
    d = Draw(np.random.default_rng([number, *name.encode()]))
    made = CASES[name](d)
    return d, made


def lowered(name, number, form):
    """The graph of a lowering, and its results, of which some may be known arrays."""
    d, made = drawn(name, number)
    graph, ends = og.Graph(), []
    for place, array in enumerate(made.arrays):
        if array is None or form == "computed" or (place and d.one(True, False, False)):
            ends.append(array)
        else:
            is_open = form == "open" and made.may_be_open
            dims = [None if is_open and d.flag() else dim for dim in array.shape]
            ends.append(graph.input(f"x{place}", OF_NUMPY[array.dtype], dims))
    emit = Emitter(graph)
    found = made.lower(emit, *ends)
    for place, one in enumerate(found if isinstance(found, (list, tuple)) else [found]):
        graph.output(f"y{place}", emit.tensor(one))
    return graph


@pytest.mark.parametrize("name", CASES)
def test_drawn_lowerings_are_those_of_numpy(name):
    failed = []
    for number, form in itertools.product(numbers_of(name), FORMS):
        made = drawn(name, number)[1]
        given = {f"x{place}": array for place, array in enumerate(made.arrays) if array is not None}
        wanted = made.wanted if isinstance(made.wanted, list) else [made.wanted]
        try:
            graph = lowered(name, number, form)
            given = {key: array for key, array in given.items() if key in graph.inputs}
            with np.errstate(all="ignore"):
                results = reference.run(graph, given).values()
            for tensor, one, right in zip(graph.outputs.values(), results, wanted, strict=True):
                assert one.shape == right.shape
                assert tensor.shape is None or all(
                    dim in (None, size) for dim, size in zip(tensor.shape, one.shape, strict=True)
                )
                bound = 4e-3 if right.dtype == F16 else 2e-4
                bound = 5e-2 if name == "halves" else bound  # of bf16
                np.testing.assert_allclose(one.astype(np.float64), right.astype(np.float64), rtol=bound, atol=bound)
        except NotLowered as error:
            if form != "open":
                failed.append((number, form, repr(error)))
        except (OneGraphError, AssertionError, ValueError, TypeError) as error:
            failed.append((number, form, type(error).__name__, str(error)[:300]))
    assert not failed, f"{len(failed)}: " + "\n".join(map(str, failed[:6]))
