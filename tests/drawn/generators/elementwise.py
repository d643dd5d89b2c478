"""Kernels that compute each element of a result from those at its place."""

from __future__ import annotations

import numpy as np

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels.elementwise import BY_NAME, KERNELS
from onegraph.compiler.passes.open_steps import ELEMENTWISE
from onegraph.opset.editions.registry import edition
from tests.helpers.drawn import SIZES, TYPES, Array, drawn_array
from tests.helpers.wide_reference import run_wide

from ..draw import Draw
from ..entry import draws

# Largest error, relative and absolute; near the middle of two numbers of 16 bits, either is right.
ERRORS = {"f32": (1e-5, 1e-37), "bf16": (2**-7, 1e-37), "f16": (2**-10, 2**-24)}
TINY = 2.0**-126  # a derivative that is less may be 0
# From 0: derivatives there may be less than f32 can tell, and NaN or infinite times infinity.
FAR, FAR_OF = 60.0, {"gelu_tanh_backward": 9.5}
# Kernels whose error is absolute, as that of the formula in f32 is.
ABSOLUTE = {
    "gelu_tanh": 4e-7,
    "gelu_tanh_backward": 1e-6,
    "hard_sigmoid": 2e-7,
    "hard_swish": 4e-7,
    "hard_swish_backward": 4e-7,
    "mish_backward": 1e-6,
}
# Attributes of ops and, where several kernels compute an op, which one.
ATTRS = {
    "clamp": {"min": -1.0, "max": 2.0},
    "clamp_backward": {"min": -1.0, "max": 2.0},
    "elu": {"alpha": 0.75},
    "elu_backward_by_dst": {"alpha": 0.75, "use_dst": True},
    "elu_backward_by_src": {"alpha": 0.75, "use_dst": False},
    "fake_quantize": {"step": 0.125, "low": -20.0, "high": 30.0},
    "gelu_erf": {"mode": "gelu_erf"},
    "gelu_tanh": {"mode": "gelu_tanh"},
    "gelu_tanh_backward": {"mode": "gelu_tanh"},
    "leaky_relu": {"alpha": 0.125},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "hard_sigmoid_backward": {"alpha": 0.2, "beta": 0.5},
    "relu_backward": {"use_dst": False},
    "softplus": {"beta": 1.0},
}
OF_F32 = {"fake_quantize"}
OPEN = {name: kind for kind, name in ELEMENTWISE.items()}  # kernels of ops that the library computes for known sizes
# Kernels of parts of ops, and of operands that are both broadcast, as functions of f32 that round their result once,
# and which operands are broadcast.
FORMULAS = {
    "spread_add": (np.add, "01"),
    "spread_divide": (np.divide, "01"),
    "spread_multiply": (np.multiply, "01"),
    "spread_squared_difference": (lambda a, b: (a - b) * (a - b), "01"),
    "spread_subtract": (np.subtract, "01"),
    "keep_nan": (lambda src, dst: np.where(np.isnan(src), np.float32(np.nan), dst), ""),
    "prelu": (lambda src, slope: np.where(src > 0, src, src * slope), "1"),
    "prelu_backward_src": (lambda src, slope, diff: np.where(src > 0, diff, diff * slope), "1"),
    "prelu_backward_slope": (lambda src, diff: np.where(src > 0, np.float32(0), src * diff), ""),
}
KINDS = {kernel.name: kernel.kinds[0] for kernel in KERNELS if kernel.kinds} | OPEN
DRAWN = [kernel.name for kernel in KERNELS if kernel.name not in FORMULAS]


def drawn_shape(draw: Draw, *, least: int = 1) -> tuple[int, ...]:
    """A size beside one of vectors among others that are small; in a few uses as many elements as threads share."""
    if draw.flag(0.01):
        return (67, 257)
    dims = [draw.of(SIZES), *(draw.between(1, 3) for _ in range(draw.between(0, 3)))]
    if least == 0 and draw.flag(0.01):
        dims[-1] = 0
    draw.rng.shuffle(dims)
    return tuple(dims)


def operands(draw: Draw, name: str, *, of_f32: bool = False, least: int = 1) -> tuple[str, list[Array]]:
    dtype, shape = "f32" if of_f32 or name in OF_F32 else draw.dtype(), drawn_shape(draw, least=least)
    schema = edition("onednn-3.13").schema(KINDS[name]) or edition("host").schema(KINDS[name])
    assert schema is not None
    return dtype, [drawn_array(draw.rng, shape, dtype) for _ in range(schema.required_inputs)]


def graph_of(name: str, arrays: list[Array], *, is_open: bool = False) -> tuple[og.Graph, dict[str, Array]]:
    g, kind = og.Graph(), KINDS[name]
    ends = []
    for place, array in enumerate(arrays):
        strides = tuple(stride // array.itemsize for stride in array.strides)
        layout = {} if is_open else {"strides": strides}
        shape = (None,) * array.ndim if is_open else array.shape
        ends.append(g.input(f"x{place}", og.DataType.of(array.dtype), shape, **layout))
    home = {} if edition("onednn-3.13").schema(kind) else {"edition": "host"}
    g.output("y", g.op(kind, ends, ATTRS.get(name, {}), **home))
    return g, {f"x{place}": array for place, array in enumerate(arrays)}


def check(draw: Draw, name: str, dtype: str, arrays: list[Array], result: Array) -> None:
    """Compare with the op in float64."""
    g, given = graph_of(name, arrays)
    found, (wide,) = result.astype(np.float64), run_wide(g, given, [g.outputs["y"]])
    wanted, rounded = (y.astype(TYPES[dtype]).astype(np.float64) for y in (wide, reference.run(g, given)["y"]))
    # Where f32 underflows, and float64 does not, a product with infinity is NaN in one of both.
    is_same = (np.isnan(wanted) == np.isnan(rounded)) & (np.isinf(wanted) == np.isinf(rounded))
    relative, absolute = ERRORS[dtype]
    if name.endswith("backward") or "_backward_" in name:  # the derivative has this error, and may underflow
        gradient = np.abs(arrays[-1].astype(np.float64))
        is_same &= np.isfinite(gradient) | (np.abs(arrays[0].astype(np.float64)) < FAR_OF.get(name, FAR))
        absolute = absolute + (ABSOLUTE.get(name, 0) + TINY) * np.where(np.isfinite(gradient), gradient, 1)
    found, wanted = np.where(is_same, found, 0), np.where(is_same, wanted, 0)
    absolute = np.maximum(absolute, ABSOLUTE.get(name, 0))
    is_near = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    is_near |= np.abs(found - wanted) <= relative * np.abs(wanted) + absolute
    assert is_near.all(), f"{draw}: {found[~is_near][:5]}, not {wanted[~is_near][:5]}"


@draws(*DRAWN)
def elementwise(draw: Draw) -> None:
    dtype, arrays = operands(draw, draw.kernel, least=0)
    attrs = [
        np.full((1,) * arrays[0].ndim, ATTRS[draw.kernel][attr], np.float32) for attr in BY_NAME[draw.kernel].attrs
    ]
    found = draw.result(arrays[0].shape, dtype)
    if draw.flag(0.3):  # with the strides of an input, as steps have them
        found = arrays[0].copy(order="K")
        found[...] = np.nan
    draw.said, draw.path = f"{dtype} {arrays[0].shape}", dtype
    draw.run(*arrays, *attrs, found)
    check(draw, draw.kernel, dtype, arrays, found)


@draws(*DRAWN, graph=True)
def elementwise_in_a_graph(draw: Draw) -> None:
    dtype, arrays = operands(draw, draw.kernel, of_f32=draw.kernel in OPEN)
    draw.said = f"{dtype} {arrays[0].shape}"
    g, given = graph_of(draw.kernel, arrays, is_open=draw.kernel in OPEN)
    others = [
        {name: np.ones([n + more for n in array.shape], array.dtype) for name, array in given.items()}
        for more in (2, 1)
    ]
    (found,) = draw.run_graph(g, *(others if draw.kernel in OPEN else ()), given)
    check(draw, draw.kernel, dtype, arrays, found)


@draws(*FORMULAS)
def formula(draw: Draw) -> None:
    function, spread = FORMULAS[draw.kernel]
    dtype, shape = draw.dtype(), drawn_shape(draw, least=0)
    arrays = []
    for place in range(function.nin if isinstance(function, np.ufunc) else function.__code__.co_argcount):
        dims = [1 if str(place) in spread and draw.flag() else n for n in shape]
        arrays.append(draw.array(dims[draw.between(0, len(dims) - 1) if str(place) in spread else 0 :], dtype))
    found = draw.result(shape, dtype)
    draw.said, draw.path = f"{dtype} {[array.shape for array in arrays]} to {shape}", dtype
    draw.run(*arrays, found)
    whole = np.broadcast_to(function(*(array.astype(np.float32) for array in arrays)), shape)
    wanted = whole.astype(TYPES[dtype])
    is_near = (found == wanted) | (np.isnan(found.astype(np.float32)) & np.isnan(whole))
    if draw.kernel == "prelu_backward_slope":  # 0 times infinity
        is_near |= np.isnan(whole)
    assert is_near.all(), f"{draw}: {found[~is_near][:5]}, not {wanted[~is_near][:5]}"


@draws(*(name for name in FORMULAS if name.startswith("spread_")), graph=True)
def spread_in_a_graph(draw: Draw) -> None:
    function, _ = FORMULAS[draw.kernel]
    rows, columns, g = draw.between(16, 40), draw.size(65, 16), og.Graph()
    given = {"a": draw.dense((rows, 1)), "b": draw.dense((1, columns))}
    ends = [g.input(name, "f32", array.shape) for name, array in given.items()]
    g.output("y", getattr(g, draw.kernel.removeprefix("spread_"))(*ends))
    draw.said = f"{rows}, {columns}"
    (found,) = draw.run_graph(g, given)
    np.testing.assert_array_equal(found, function(given["a"], given["b"]), err_msg=str(draw))


@draws("prelu", graph=True)
def prelu_in_a_graph(draw: Draw) -> None:
    shape, g = (draw.between(1, 3), draw.size(33), draw.size(17)), og.Graph()
    given = {"x": draw.dense(shape), "slope": draw.dense((shape[1],))}
    ends = [g.input(name, "f32", array.shape) for name, array in given.items()]
    g.output("y", g.op("PReLU", ends, {"data_format": "NCX"}))
    draw.said = f"{shape}"
    (found,) = draw.run_graph(g, given)
    wanted = FORMULAS["prelu"][0](given["x"], given["slope"][:, None])
    np.testing.assert_array_equal(found, wanted, err_msg=str(draw))


@draws("prelu_backward_src", "prelu_backward_slope", graph=True)
def prelu_backward_in_a_graph(draw: Draw) -> None:
    shape, g = (draw.between(1, 3), draw.size(33), draw.size(17)), og.Graph()
    given = {"x": draw.mild(shape), "slope": draw.mild((1, shape[1], 1)), "diff": draw.mild(shape)}
    ends = [g.input(name, "f32", array.shape) for name, array in given.items()]
    by_src, by_slope = g.op("PReLUBackward", ends, {"data_format": "NCX"})
    g.output("src", by_src)
    g.output("slopes", by_slope)
    draw.said = f"{shape}"
    founds = draw.run_graph(g, given)
    x, slope, diff = given.values()
    np.testing.assert_array_equal(founds[0], np.where(x > 0, diff, diff * slope), err_msg=str(draw))
    products = np.where(x > 0, 0, x.astype(np.float64) * diff)
    error = 2.0**-23 * products.size * np.abs(products).sum((0, 2), keepdims=True)
    assert (np.abs(founds[1] - products.sum((0, 2), keepdims=True)) <= error).all(), f"{draw}, slopes"


@draws("keep_nan", graph=True)
def keep_nan_in_a_graph(draw: Draw) -> None:
    shape, g = (draw.size(33), draw.size(33)), og.Graph()
    given = {"diff": draw.mild(shape), "y": draw.mild(shape)}
    given["y"][draw.rng.random(shape) < 0.1] = np.nan
    ends = [g.input(name, "f32", array.shape) for name, array in given.items()]
    g.output("x", g.op("LogSoftmaxBackward", ends, {"axis": 1}))
    draw.said = f"{shape}"
    (found,) = draw.run_graph(g, given)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(given["y"]), err_msg=str(draw))
