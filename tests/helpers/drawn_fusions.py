"""Partitions of a drawn op and of ops that it is joined with: which faults of fusions they run into."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.faults import slow_fusions
from onegraph.faults.fusions import FUSIONS, strided

from .draws import material
from .fault_subjects import fused

FAULTS = (*FUSIONS, *strided.FAULTS, *slow_fusions.FAULTS)
SIZES = (1, 1, 2, 3, 4, 8, 16, 17, 64, 4096)
MAINS = ("product", "image", "transposed", "sum", "number", "pool", "norm")
ROWS = (1, 2, 4, 8, 63, 64, 65)


def tensor(g: og.Graph, drawn: Random, shape: Any, dtype: str) -> Any:
    """An input, or the floats of codes."""
    name = f"x{len(g.inputs)}"
    if dtype != "int8":
        return g.input(name, dtype, shape)
    codes = g.input(name, drawn.choice(("u8", "s8")), shape)
    return g.dequantize(codes, scales=[0.5], zps=[drawn.choice((0, 0, 3))])


def main_op(g: og.Graph, drawn: Random, kind: str, dtype: str) -> Any:
    """The result of the first op."""
    if kind == "product":
        batch = [drawn.choice((1, 2, 3)) for _ in range(drawn.choice((0, 0, 1, 2, 2)))]
        rows, terms, columns = (drawn.choice(SIZES) for _ in range(3))
        turned = drawn.random() < 0.3
        left = tensor(g, drawn, (*batch, rows, terms), dtype)
        ends = (columns, terms) if turned else (terms, columns)
        right = tensor(g, drawn, (*drawn.choice(([], batch)), *ends), "int8" if dtype == "int8" else dtype)
        return g.matmul(left, right, transpose_b=turned)
    axes, channels, form = drawn.choice((1, 2, 2, 3)), drawn.choice(SIZES[:9]), drawn.choice(("NXC", "NCX"))
    sizes = [drawn.choice((1, 2, 3, 5, 8, 16)) for _ in range(axes)]
    shape = (2, channels, *sizes) if form == "NCX" else (2, *sizes, channels)
    if kind in ("image", "transposed"):
        groups, more = drawn.choice((1, 1, 1, channels)), drawn.choice((1, 2, 4, 8))
        out = groups * more
        kernel = [drawn.choice((1, 1, 2, 3)) for _ in range(axes)]
        weights = (*kernel, channels // groups, out) if kind == "image" else (*kernel, out // groups, channels)
        ends = tensor(g, drawn, shape, dtype), tensor(g, drawn, weights, dtype)
        attrs = {
            "pads_begin": drawn.choice((0, 1)),
            "pads_end": 1,
            "strides": drawn.choice((1, 1, 2)),
            "groups": groups,
        }
        make = g.convolution if kind == "image" else g.conv_transpose
        return make(*ends, **attrs, data_format=form, weights_format="XIO" if kind == "image" else "XOI")
    x = tensor(g, drawn, shape, dtype)
    if kind == "sum":
        make = drawn.choice((g.reduce_sum, g.reduce_mean, g.reduce_max))
        return make(x, axes=drawn.sample(range(len(shape)), drawn.choice((1, 2))), keep_dims=drawn.random() < 0.7)
    if kind == "pool":
        return drawn.choice((g.max_pool, g.avg_pool))(x, kernel=1, strides=1, data_format=form)
    if kind == "norm":
        return drawn.choice(
            (g.softmax(x, axis=drawn.choice((1, -1))), g.layer_norm(x, keep_stats=False, use_affine=False))
        )
    return drawn.choice((g.sigmoid, g.exp, g.tanh, g.relu))(x)


def joined(g: og.Graph, drawn: Random, y: Any, dtype: str) -> Any:
    """The result of an op that is joined."""
    kind = drawn.random()
    if kind < 0.2:
        return drawn.choice((g.relu, g.tanh, g.sigmoid, g.gelu, g.exp))(y)
    if kind < 0.3:
        return g.multiply(y, g.sigmoid(y))
    if kind < 0.37 and dtype != "f32":
        return g.type_cast(y, dtype=drawn.choice(("bf16", "f32")))
    if kind < 0.43:
        return g.quantize(y, scales=[0.5], zps=[drawn.choice((0, 5))], dtype=drawn.choice(("u8", "s8")))
    shape = [dim if drawn.random() < 0.55 else 1 for dim in y.shape]
    shape = shape[drawn.choice((0, 0, 0, 1, 2)) :] if drawn.random() < 0.5 else list(y.shape)
    other = tensor(g, drawn, tuple(shape), drawn.choice((y.dtype.value, y.dtype.value, dtype)))
    make = drawn.choice((g.add, g.add, g.multiply, g.subtract, g.divide, g.maximum))
    return make(other, y) if drawn.random() < 0.3 else make(y, other)


def number_of(drawn: Random, y: Any) -> tuple[int, ...]:
    """A shape that is broadcast to that of a value."""
    share = drawn.choice((0.5, 0.5, 1.0))
    shape = [dim if drawn.random() < share else 1 for dim in y.shape]
    return tuple(shape[drawn.choice((0, 0, 0, 1, 2)) :])


def batches(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """Batches of products, and an operand that is broadcast to them."""
    batch = [drawn.choice((1, 2, 3)) for _ in range(drawn.choice((0, 1, 1, 2, 2, 3, 3)))]
    rows, terms, columns = (drawn.choice((1, 4, 5, 6)) for _ in range(3))
    left = tensor(g, drawn, (*batch, rows, terms), dtype)
    y = g.matmul(left, tensor(g, drawn, (*drawn.choice((batch, [], [1] * len(batch))), terms, columns), dtype))
    y = drawn.choice((y, y, y, g.relu(y)))
    if drawn.random() < 0.2:
        shapes: Any = ((1, *y.shape), (-1,), (-1, columns), (*y.shape[:-1], columns, 1))
        y = g.static_reshape(y, shape=drawn.choice(shapes), special_zero=False)
    return drawn.choice((g.add, g.add, g.multiply))(y, g.input("other", y.dtype, number_of(drawn, y)))


def swish(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A number times a function of that number or of another one."""
    x = tensor(g, drawn, [drawn.choice((1, 2, 3)) for _ in range(drawn.choice((1, 2, 3)))], dtype)
    if drawn.random() < 0.5:
        x = drawn.choice((g.exp, lambda x: g.matmul(x, tensor(g, drawn, (x.shape[-1], 4), dtype))))(x)
    y = drawn.choice((g.sigmoid, g.sigmoid, g.sigmoid, g.tanh))(x)
    other = drawn.choice((x, x, x, g.input("other", x.dtype, x.shape)))
    return drawn.choice((g.multiply, g.multiply, g.add))(*drawn.choice(((x, y), (y, other), (other, y))))


def requantized(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A pool or an Interpolate between a Dequantize and a Quantize."""
    codes, zps, form = ("u8", "s8"), ([0], [0], [3], None), drawn.choice(("NXC", "NCX"))
    x = g.input("x", drawn.choice(codes), (1, 4, 4, 4))
    x = g.dequantize(x, scales=[drawn.choice((0.5, 0.5, 0.25))], zps=drawn.choice(zps))
    y = drawn.choice((g.avg_pool, g.max_pool, g.max_pool))(x, kernel=2, strides=2, data_format=form)
    y = drawn.choice((y, y, g.relu(y)))
    return g.quantize(y, scales=[0.5], zps=drawn.choice(zps), dtype=drawn.choice(codes))


def folded(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A convolution and what is folded into its weights, or added late."""
    attrs = {name: drawn.choice((1, 1, 2)) for name in ("strides", "dilations")}
    attrs |= {name: drawn.choice((0, 0, 1, 2)) for name in ("pads_begin", "pads_end")}
    groups, more, axes = drawn.choice((1, 1, 2, 3, 4)), drawn.choice((1, 1, 2, 3, 4, 5, 8)), drawn.choice((1, 2, 2, 3))
    channels, kernel = groups * drawn.choice((1, 1, 2, 3, 4, 5)), (drawn.choice((1, 2, 3)),) * axes
    is_turned = drawn.random() < 0.5
    x = tensor(g, drawn, (1, *(6,) * axes, channels), dtype)
    ends = (more, channels) if is_turned else (channels // groups, groups * more)
    weights = tensor(g, drawn, (*kernel, *ends), dtype)
    make = g.conv_transpose if is_turned else g.convolution
    more_attrs = {"data_format": "NXC", "weights_format": "XOI" if is_turned else "XIO", "groups": groups}
    y = make(x, weights, **attrs, **more_attrs)
    vectors = [g.input(f"v{index}", "f32", y.shape[-1:]) for index in range(4)]
    for _ in range(drawn.choice((0, 1, 1, 2, 2, 3))):
        y = drawn.choice(
            (
                lambda y: g.batch_norm_inference(y, *vectors, epsilon=1e-5),
                lambda y: g.bias_add(y, g.input(f"b{len(g.inputs)}", y.dtype, y.shape[-1:])),
                g.tanh,
                lambda y: g.add(y, g.input(f"r{len(g.inputs)}", y.dtype, y.shape)),
            )
        )(y)
    return y


def codes_of(g: og.Graph, drawn: Random, shape: Any) -> Any:
    """The floats of codes, whose scale or zero point may be known in the run alone."""
    codes = g.input(f"x{len(g.inputs)}", drawn.choice(("u8", "s8")), shape)
    if drawn.random() < 0.6:
        return g.dequantize(codes, scales=[0.5], zps=drawn.choice(([0], [0], [3], None)))
    ends = [g.input(f"x{len(g.inputs)}", "f32", (1,)), g.input(f"x{len(g.inputs)}", "s32", (1,))]
    return g.op("DynamicDequantize", [codes, *ends[: drawn.choice((1, 2))]])


def spread(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A ConvTranspose of codes with groups, strides and gaps."""
    groups, form = drawn.choice((1, 2, 2)), drawn.choice(("NXC", "NXC", "NCX"))
    ins, outs = groups * drawn.choice((1, 3, 4, 5, 8)), drawn.choice((1, 3, 4, 5, 8))
    ends = [
        codes_of(g, drawn, (1, ins, 4, 4) if form == "NCX" else (1, 4, 4, ins)),
        codes_of(g, drawn, (2, 2, outs, ins)),
    ]
    attrs = {one: drawn.choice(([1, 1], [1, 1], [2, 1], [3, 1], [1, 2])) for one in ("strides", "dilations")}
    attrs |= {one: drawn.choice(([0, 0], [0, 0], [0, 2])) for one in ("pads_begin", "pads_end")}
    return g.op("ConvTranspose", ends, {**attrs, "groups": groups, "data_format": form, "weights_format": "XOI"})


def columns(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A product of codes in bf16, of which one matrix or both are transposed columns in batches."""
    rank, flip = drawn.choice((3, 4, 4, 5)), [drawn.random() < 0.8, drawn.random() < 0.3]
    rows, terms = (drawn.choice((1, 1, 2)) for _ in "ab")
    shapes = [(*(2,) * (rank - 2), *sizes[:: -1 if turned else 1])
              for sizes, turned in zip(((rows, terms), (terms, 8)), flip, strict=True)]  # fmt: skip
    ends = [g.type_cast(codes_of(g, drawn, shape), dtype="bf16") for shape in shapes]
    return g.matmul(*ends, transpose_a=flip[0], transpose_b=flip[1])


def rows(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A binary op on many rows, with a vector that is short or not."""
    count, size = drawn.choice((2, 8191, 8192, 8193)), drawn.choice((4, 31, 32, 33))
    other = drawn.choice(((size,), (1,), (count, 1), (count, size)))
    y = drawn.choice((g.add, g.multiply))(g.input("x", "f32", (count, size)), g.input("other", "f32", other))
    return drawn.choice((g.relu, g.exp, lambda y: y))(y)


def turned(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A product of matrices, of which some are transposed or made of codes, and whose axes change places."""
    rank, flip, cast = drawn.choice((2, 2, 3, 3, 4)), [drawn.random() < 0.5 for _ in "ab"], drawn.random() < 0.4
    batch, rows, terms = (2,) * (rank - 2), drawn.choice(ROWS), drawn.choice((1, 6))
    shapes = [
        (*batch, *((terms, rows) if flip[0] else (rows, terms))),
        (*drawn.choice((batch, ())), *((8, terms) if flip[1] else (terms, 8))),
    ]
    ends = [codes_of(g, drawn, shape) if drawn.random() < 0.6 else tensor(g, drawn, shape, dtype) for shape in shapes]
    if cast:
        ends = [one if one.dtype is og.bf16 else g.type_cast(one, dtype="bf16") for one in ends]
    if drawn.random() < 0.2:
        ends.append(g.input("bias", ends[0].dtype, (8,)))
    y = g.matmul(*ends, transpose_a=flip[0], transpose_b=flip[1])
    for dtype in drawn.choice(((), (), ("f32", "bf16"), ("bf16",), ("f16",))):
        y = g.type_cast(y, dtype=dtype)
    if drawn.random() < 0.4:
        y = g.static_transpose(y, order=drawn.sample(range(rank), rank))
    return y


def attention(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """Shares of tokens, many or few, and what they are multiplied by."""
    heads, tokens = drawn.choice((1, 15, 16, 17)), drawn.choice((4, 2048, 4096))
    q, k, v = (g.input(name, "f32" if dtype == "int8" else dtype, (1, heads, tokens, 4)) for name in "qkv")
    scores = g.matmul(q, k, transpose_b=True)
    scores = drawn.choice((scores, g.divide(scores, g.input("scale", scores.dtype, (1,)))))
    return drawn.choice((lambda shares: g.matmul(shares, v), g.relu))(g.softmax(scores, axis=-1))


def long_sum(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """Sums of few or many elements."""
    x = g.input("x", "f32" if dtype == "int8" else dtype, (drawn.choice((2, 8)), drawn.choice((4, 255, 256, 257))))
    y = drawn.choice((g.reduce_sum, g.reduce_max, g.reduce_l2))(x, axes=[drawn.choice((0, 1))], keep_dims=True)
    return drawn.choice((g.gelu, g.exp, g.relu, g.square, lambda y: g.add(y, y)))(y)


def scaled(g: og.Graph, drawn: Random, dtype: str) -> Any:
    """A product of codes, with a scale for each index along an axis of the weights or of the result."""
    groups, form = drawn.choice((1, 1, 2, 3)), drawn.choice(("NXC", "NCX"))
    kind = drawn.choice(("product", "image", "transposed"))
    ins, outs = groups * drawn.choice((1, 2, 3)), groups * drawn.choice((1, 1, 2, 3))
    attrs: dict[str, Any] = {}
    if kind == "product":
        attrs["transpose_b"] = drawn.random() < 0.5
        shape: tuple[int, ...] = (outs, ins) if attrs["transpose_b"] else (ins, outs)
        shape = (*drawn.choice(((), (), (2,))), *shape)
        source: tuple[int, ...] = (2, 4, ins)
    else:
        source = (1, ins, 4, 4) if form == "NCX" else (1, 4, 4, ins)
        words = ("XIO", "OIX") if kind == "image" else ("XOI", "IOX")
        attrs |= {"data_format": form, "groups": groups, "weights_format": drawn.choice(words)}
        few = {"I": ins // groups, "O": outs} if kind == "image" else {"I": ins, "O": outs // groups}
        shape = tuple(n for letter in attrs["weights_format"] for n in ((2, 2) if letter == "X" else (few[letter],)))
    axis = drawn.randrange(-len(shape), len(shape))
    count = shape[axis]
    x = g.dequantize(g.input("x", drawn.choice(("u8", "s8")), source), scales=[0.5], zps=[drawn.choice((0, 3))])
    w, along = g.input("w", "s8", shape), {"qtype": "per_channel", "axis": axis}
    if drawn.random() < 0.6:
        w = g.dequantize(w, scales=[0.5] * count, zps=[0] * count, **along)
    else:
        w = g.op("DynamicDequantize", [w, g.input("scale", "f32", (count,))], along)
    if drawn.random() < 0.3:
        x, w = (g.type_cast(one, dtype="bf16") for one in (x, w))
    make = {"product": g.matmul, "image": g.convolution, "transposed": g.conv_transpose}[kind]
    y = make(x, w, **attrs, **({} if kind == "product" else {"strides": 1, "pads_begin": 0, "pads_end": 0}))
    if drawn.random() < 0.4 and y.dtype is og.f32:
        axis = drawn.randrange(-len(y.shape), len(y.shape))
        count = drawn.choice((1, y.shape[axis], y.shape[axis]))
        y = g.quantize(y, scales=[0.5] * count, zps=[0] * count, qtype="per_channel", axis=axis, dtype="u8")
    return y


MADE = (batches, swish, requantized, folded, spread, turned, columns, rows, attention, long_sum, scaled)
FORMS = {one.__name__: one for one in MADE}


@material(lambda: (*MAINS, *FORMS))
def faults_of_fusions(name: str, number: int) -> list[str]:
    """The faults of a partition."""
    from tests.faults.test_fault_conditions import verdict

    part = partition(name, number)
    if part is None:
        return []
    return ["".join(verdict(one, part) for one in (fault.when, fault.certain) if one is not None) for fault in FAULTS]


def partition(name: str, number: int) -> Any:
    """The drawn partition; None if there is none."""
    drawn, g = Random(f"{name} {number}"), og.Graph()
    dtype = drawn.choice(("f32", "f32", "bf16", "f16", "int8"))
    try:
        y = main_op(g, drawn, name, dtype) if name in MAINS else FORMS[name](g, drawn, dtype)
        for _ in range(drawn.choice((1, 1, 2, 3) if name in MAINS else (0, 0, 0, 1))):
            y = joined(g, drawn, y, dtype)
        g.output("y", y)
        found = fused(
            g, **{flag: drawn.random() < 0.6 for flag in ("vnni", "avx2", "avx512", "amx", "openmp", "strict")}
        )
    except (OneGraphError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return None
    ids = sorted({number for use in found.uses for number in (*use.inputs, *use.outputs)})
    share = 0.2 if name in MAINS else drawn.choice((0.2, 0.2, 1.0))
    known = frozenset(one for one in ids if drawn.random() < share)
    return replace(found, constants=known, strided=frozenset(drawn.sample(ids, drawn.choice((0, 0, 0, 1)))))
