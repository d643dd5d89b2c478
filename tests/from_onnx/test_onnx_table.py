"""Every entry of the table of ONNX nodes: random shapes and attributes, compared with another implementation.

The oracle of most of ONNX's own nodes is onnx.reference, that of the others is ONNX Runtime.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from conftest import draws
from helpers.onnx_session import session_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onegraph.capi  # noqa: F401 - its graphs run in the library
from onegraph.errors import FormatError

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
load = pytest.importorskip("onegraph.onnx").load
LOWERINGS = pytest.importorskip("onegraph.frontends.onnx.importer").LOWERINGS

OPSET, IR = 23, 10


@dataclass
class Case:
    """Inputs of a node, any of which may be None, its attributes, and which inputs are constants of the model."""

    inputs: list
    attrs: dict = field(default_factory=dict)
    known: tuple = ()
    outputs: int = 1
    opset: int = OPSET
    tolerance: float = 2e-5


class Draw:
    """Draws shapes, numbers and attributes."""

    def __init__(self, data):
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))

    def size(self, least=1, most=6):
        return self.data.draw(st.integers(least, most))

    def one(self, *choices):
        return self.data.draw(st.sampled_from(choices))

    def shape(self, least=1, most=4):
        return tuple(self.size(1, 4) for _ in range(self.size(least, most)))

    def floats(self, *shape, low=-2.0, high=2.0, dtype=np.float32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def integers(self, *shape, low=-9, high=10, dtype=np.int64):
        return self.rng.integers(low, high, shape).astype(dtype)

    def permutation(self, count):
        return [int(one) for one in self.rng.permutation(count)]


def ints(*values):
    return np.array(values, np.int64)


def unary(low=-2.0, high=2.0, **attrs):
    return lambda draw: Case([draw.floats(*draw.shape(), low=low, high=high)], attrs)


def pair(draw, make):
    """Two arrays that broadcast."""
    shape = draw.shape()
    other = tuple(draw.one(1, dim) for dim in shape)[draw.size(0, len(shape) - 1) :]
    return [make(*shape), make(*other)]


def binary(**limits):
    return lambda draw: Case(pair(draw, lambda *shape: draw.floats(*shape, **limits)))


def of_integers(count=2, low=0, high=6, dtype=np.int32):
    return lambda draw: Case(pair(draw, lambda *shape: draw.integers(*shape, low=low, high=high, dtype=dtype))[:count])


def of_booleans(count=2):
    return lambda draw: Case(pair(draw, lambda *shape: draw.integers(*shape, low=0, high=2, dtype=bool))[:count])


def several(draw):
    return Case([*pair(draw, draw.floats), draw.floats(1)][: draw.size(1, 3)])


def reduction(low=-2.0, high=2.0):
    def case(draw):
        shape = draw.shape()
        axes = draw.permutation(len(shape))[: draw.size(1, len(shape))]
        return Case([draw.floats(*shape, low=low, high=high), ints(*axes)], {"keepdims": draw.one(0, 1)}, known=(1,))

    return case


def of_indices(draw):
    shape = draw.shape(1, 3)
    axis = draw.size(0, len(shape) - 1)
    dim = shape[axis]
    return Case([draw.floats(*shape), draw.integers(*draw.shape(1, 2), low=-dim, high=dim)], {"axis": axis})


def elements(draw, updates=False):
    shape = draw.shape(1, 3)
    axis = draw.size(0, len(shape) - 1)
    indices = np.argsort(draw.floats(*shape), axis).astype(np.int64)
    inputs = [draw.floats(*shape), indices]
    return Case([*inputs, draw.floats(*shape)] if updates else inputs, {"axis": axis})


def conv(draw, transposed=False, integers=False):
    rank, groups = draw.size(1, 2), draw.one(1, 2)
    channels, outputs = 2 * groups, 2 * groups
    kernel = [draw.size(1, 3) for _ in range(rank)]
    src = [draw.size(5, 8) for _ in range(rank)]
    attrs = {
        "group": groups,
        "strides": [draw.size(1, 2) for _ in range(rank)],
        "dilations": [draw.size(1, 2) for _ in range(rank)],
        "pads": [draw.size(0, 1) for _ in range(2 * rank)],
        "kernel_shape": kernel,
    }
    weights = (channels, outputs // groups, *kernel) if transposed else (outputs, channels // groups, *kernel)
    if integers:
        weights = (outputs, channels, *kernel)
        image = draw.integers(1, channels, *src, low=0, high=256, dtype=np.uint8)
        points = [np.array(draw.size(0, 255), np.uint8), np.array(0, np.int8)]
        attrs |= {"group": 1}
        return Case(
            [image, draw.integers(*weights, low=-127, high=128, dtype=np.int8), *points], attrs, known=(1, 2, 3)
        )
    inputs = [draw.floats(draw.size(1, 2), channels, *src), draw.floats(*weights)]
    if draw.one(True, False):
        inputs.append(draw.floats(outputs))
    return Case(inputs, attrs, known=(1, 2)[: len(inputs) - 1])


def window(draw, **attrs):
    rank = draw.size(1, 2)
    kernel = [draw.size(2, 3) for _ in range(rank)]
    attrs = {
        "kernel_shape": kernel,
        "strides": [draw.size(1, 3) for _ in range(rank)],
        "dilations": [draw.size(1, 2) for _ in range(rank)],
        "pads": [draw.size(0, 1) for _ in range(2 * rank)],
        "ceil_mode": draw.one(0, 1),
        **attrs,
    }
    return Case([draw.floats(1, 3, *[draw.size(6, 9) for _ in range(rank)])], attrs)


def average(draw):
    return window(draw, count_include_pad=draw.one(0, 1))


def image(draw, *vectors, **attrs):
    channels = 4
    rest = [draw.floats(channels, low=0.1) for _ in range(vectors[0] if vectors else 0)]
    return Case([draw.floats(2, channels, draw.size(1, 5), draw.size(1, 5)), *rest], attrs, known=tuple(range(1, 5)))


def last_axes(draw, count, **attrs):
    shape = draw.shape(1, 3)
    axis = draw.size(0, len(shape) - 1)
    rest = [draw.floats(*shape[axis:], low=0.5) for _ in range(count)]
    return Case([draw.floats(*shape, low=-3, high=5), *rest], {"axis": axis, **attrs}, known=(1, 2), tolerance=1e-4)


def matmul(draw):
    batch, (m, k, n) = draw.shape(0, 2), (draw.size(), draw.size(), draw.size())
    return Case([draw.floats(*batch, m, k), draw.floats(*draw.one(batch, ()), k, n)])


def gemm(draw):
    m, k, n, flip, turn = draw.size(), draw.size(), draw.size(), draw.one(0, 1), draw.one(0, 1)
    bias = draw.floats(*draw.one((n,), (m, n), (1, n), (m, 1), ()))
    inputs = [draw.floats(*((k, m) if flip else (m, k))), draw.floats(*((n, k) if turn else (k, n))), bias]
    attrs = {"transA": flip, "transB": turn, "alpha": draw.one(1.0, 0.5), "beta": draw.one(1.0, 2.0)}
    return Case(inputs, attrs, known=draw.one((), (1, 2)))


def attention(draw):
    group, heads, tokens, keys, size = (
        draw.one(1, 2),
        draw.size(1, 2),
        draw.size(1, 4),
        draw.size(1, 5),
        draw.size(1, 4),
    )
    query = draw.floats(2, group * heads, tokens, size)
    key, value = draw.floats(2, heads, keys, size), draw.floats(2, heads, keys, 3)
    mask = draw.one(None, draw.floats(tokens, keys), draw.integers(tokens, keys, low=0, high=2, dtype=bool))
    attrs = {"is_causal": draw.one(0, 1), "softcap": draw.one(0.0, 1.5)}
    if draw.one(True, False):
        attrs["scale"] = 0.3
    return Case([query, key, value, mask], attrs, tolerance=1e-4, known=draw.one((), (3,)))


def recurrent(gates):
    def case(draw):
        steps, batch, inputs, size, way = (
            draw.size(1, 3),
            draw.size(1, 3),
            draw.size(1, 3),
            draw.size(1, 4),
            draw.one(1, 2),
        )
        direction = draw.one("forward", "reverse") if way == 1 else "bidirectional"
        arrays = [
            draw.floats(steps, batch, inputs),
            draw.floats(way, gates * size, inputs),
            draw.floats(way, gates * size, size),
            draw.floats(way, 2 * gates * size),
            None,
            draw.floats(way, batch, size),
        ]
        attrs = {"hidden_size": size, "direction": direction}
        if gates == 4:
            arrays += [draw.floats(way, batch, size), draw.one(None, draw.floats(way, 3 * size))]
        if gates == 3:
            attrs["linear_before_reset"] = draw.one(0, 1)
        known = draw.one((), (1, 2, 3))
        return Case(arrays, attrs, known=known, outputs=3 if gates == 4 else 2, tolerance=1e-4)

    return case


def resize(draw):
    sizes = [draw.size(3, 6), draw.size(3, 6)]
    mode = draw.one("nearest", "linear", "cubic")
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": draw.one("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"),
    }
    if mode == "nearest":
        attrs["nearest_mode"] = draw.one("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    elif draw.one(True, False):
        attrs |= {"antialias": 1} if mode == "linear" else {"exclude_outside": 1}
    wanted = draw.one(ints(1, 2, draw.size(2, 9), draw.size(2, 9)), np.array([1, 1, 2, 1.5], np.float32))
    scales, counts = (None, wanted) if wanted.dtype == np.int64 else (wanted, None)
    return Case([draw.floats(1, 2, *sizes), None, scales, counts], attrs, known=(2, 3), tolerance=1e-4)


def grid_sample(draw):
    mode, rank = draw.one("nearest", "linear", "cubic"), draw.one(2, 3)
    if mode == "cubic":
        rank = 2
    padding = draw.one("zeros", "border", "reflection")
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": draw.one(0, 1)}
    batch, channels = draw.size(1, 2), draw.size(1, 3)
    src = draw.floats(batch, channels, *[draw.size(2, 4) for _ in range(rank)])
    grid = draw.floats(batch, *[draw.size(1, 3) for _ in range(rank)], rank, low=-1.5, high=1.5)
    return Case([src, grid], attrs, tolerance=1e-4)


def quantize(draw):
    channels = draw.size(2, 4)
    axis = draw.one(None, 1)
    shape = () if axis is None else (channels,)
    kind = draw.one(np.uint8, np.int8)
    zero = draw.integers(*shape, low=0, high=100, dtype=kind)
    inputs = [draw.floats(2, channels, 3, high=5), draw.floats(*shape, low=0.01, high=0.1), zero]
    return Case(inputs, {} if axis is None else {"axis": axis}, known=draw.one((), (1, 2)))


def dequantize(draw):
    case = quantize(draw)
    limits = np.iinfo(case.inputs[2].dtype)
    low, high, shape = limits.min, limits.max + 1, case.inputs[0].shape
    case.inputs[0] = draw.integers(*shape, low=low, high=high, dtype=case.inputs[2].dtype)
    return case


def bytes_of(draw, *shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return draw.integers(*shape, low=limits.min, high=limits.max + 1, dtype=dtype)


def quantity(draw, dtype=np.uint8, low=0.01, high=0.05):
    """A scale and a zero point."""
    return [np.float32(draw.rng.uniform(low, high)), np.array(draw.size(0, 40), dtype)]


def qlinear_conv(draw):
    weights = [bytes_of(draw, 4, 2, 3, 3, dtype=np.int8), draw.floats(4, low=0.01, high=0.02), np.zeros(4, np.int8)]
    inputs = [bytes_of(draw, 1, 2, 6, 6), *quantity(draw), *weights, *quantity(draw, low=0.1, high=0.2)]
    return Case(
        [*inputs, draw.integers(4, dtype=np.int32)], {"pads": [1] * 4}, known=tuple(range(1, 9)), tolerance=1.01
    )


def qlinear_matmul(draw):
    inputs = [bytes_of(draw, 3, 5), *quantity(draw), bytes_of(draw, 5, 4), *quantity(draw)]
    return Case([*inputs, *quantity(draw, low=0.05, high=0.1)], known=tuple(range(1, 8)), tolerance=1.01)


def qlinear_binary(draw):
    inputs = [bytes_of(draw, 2, 5), *quantity(draw), bytes_of(draw, 2, 5), *quantity(draw)]
    return Case([*inputs, *quantity(draw, low=0.05, high=0.1)], known=(1, 2, 4, 5, 6, 7), tolerance=1.01)


def qlinear_unary(draw, **attrs):
    inputs = [bytes_of(draw, 2, 3, 4, 4), *quantity(draw), *quantity(draw)]
    return Case(inputs, attrs, known=(1, 2, 3, 4), tolerance=1.01)


def qlinear_pool(draw):
    attrs = {"kernel_shape": [3, 2], "strides": [draw.one(1, 2), 1], "ceil_mode": draw.one(0, 1)}
    attrs |= {"pads": [1, 0, 1, 1], "count_include_pad": draw.one(0, 1), "channels_last": draw.one(0, 1)}
    return qlinear_unary(draw, **attrs)


def qlinear_where(draw):
    chosen = draw.integers(2, 3, 4, low=0, high=2, dtype=bool)
    parts = [one for _ in range(2) for one in (bytes_of(draw, 2, 3, 4), *quantity(draw))]
    inputs = [chosen, *parts, *quantity(draw, low=0.05, high=0.1)]
    return Case(inputs, known=(2, 3, 5, 6, 7, 8), tolerance=1.01)


def qlinear_concat(draw):
    parts = [one for _ in range(2) for one in (bytes_of(draw, 2, 3), *quantity(draw))]
    return Case([*quantity(draw, low=0.05, high=0.1), *parts], {"axis": 1}, known=(0, 1, 3, 4, 6, 7), tolerance=1.01)


def q_gemm(draw):
    left = [bytes_of(draw, 3, 5), *quantity(draw)]
    right = [bytes_of(draw, 5, 4, dtype=np.int8), np.float32(0.01), np.int8(0), draw.integers(4, dtype=np.int32)]
    inputs = [*left, *right, *quantity(draw, low=0.05, high=0.1)]
    return Case(inputs, {"alpha": 1.0}, known=tuple(range(1, 9)), tolerance=1.01)


def integer_matmul(draw):
    kind = draw.one(np.int8, np.uint8)
    inputs = [bytes_of(draw, 2, 3, 300), bytes_of(draw, 300, 4, dtype=kind)]
    points = [np.array(draw.size(0, 255), np.uint8), np.array(draw.size(0, 9), kind)]
    return Case([*inputs, *points], known=draw.one((), (1, 3), (1, 2, 3)))


def dynamic_quantize(draw):
    return Case([draw.floats(*draw.shape(1, 4), low=-2, high=5)], outputs=3, tolerance=1.01)


def einsum(draw):
    equation = draw.one(
        "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "i,j->ij", "bhqd,bhkd->bhqk", "...ij,...jk", "ij,ij"
    )
    dims = {name: draw.size(2, 4) for name in "abijkhqd"}
    terms = [term.replace("...", "ab") for term in equation.split("->")[0].split(",")]
    return Case([draw.floats(*[dims[name] for name in term]) for term in terms], {"equation": equation})


def reshape(draw):
    shape = draw.shape(1, 4)
    return Case(
        [draw.floats(*shape), ints(*draw.one((-1,), (0, -1), (1, -1, 1), shape[::-1]))], known=draw.one((), (1,))
    )


def slice_(draw):
    shape = draw.shape(2, 3)
    inputs = [
        draw.floats(*shape),
        ints(draw.size(0, 1), -3),
        ints(9, draw.size(1, 3)),
        ints(0, -1),
        ints(1, draw.size(1, 2)),
    ]
    return Case(inputs, known=draw.one((), (1, 2, 3, 4)))


def split(draw):
    return Case([draw.floats(3, 7)], {"axis": 1, "num_outputs": 3}, outputs=3)


def pad(draw):
    shape = draw.shape(1, 3)
    pads = draw.integers(2 * len(shape), low=0, high=3)
    return Case([draw.floats(*shape), pads, np.float32(1.5)], known=draw.one((), (1, 2)))


def squeezed(draw):
    return Case([draw.floats(1, draw.size(), 1), ints(0, -1)], known=(1,))


def top_k(draw):
    return Case([draw.floats(3, 5), ints(draw.size(1, 5))], {"largest": draw.one(0, 1)}, outputs=2)


def suppression(draw):
    inputs = [draw.floats(2, 12, 4, low=0, high=1), draw.floats(2, 2, 12, low=0, high=1)]
    limits = [ints(draw.size(1, 6)), np.array([draw.one(0.1, 0.5)], np.float32), np.array([0.3], np.float32)]
    return Case([*inputs, *limits], {"center_point_box": draw.one(0, 1)}, known=draw.one((), (2, 3, 4)))


def blocks(draw, **attrs):
    block = draw.size(1, 2)
    size = block * draw.size(1, 3)
    return Case([draw.floats(1, 2 * block**2, size, size)], {"blocksize": block, **attrs})


def cast(draw):
    wanted = draw.one(onnx.TensorProto.FLOAT16, onnx.TensorProto.INT32, onnx.TensorProto.DOUBLE)
    return Case([draw.floats(*draw.shape(), low=-99, high=99)], {"to": wanted})


def skip_norm(draw):
    width = draw.size(2, 6)
    rows = [draw.floats(2, 3, width), draw.floats(2, 3, width)]
    return Case([*rows, *[draw.floats(width) for _ in range(3)]], {"epsilon": 1e-5}, known=(2, 3, 4), tolerance=1e-4)


def simple_skip_norm(draw):
    width = draw.size(2, 6)
    rows = [draw.floats(2, 3, width), draw.floats(2, 3, width)]
    return Case([*rows, draw.floats(width)], {"epsilon": 1e-5}, known=(2,), tolerance=1e-4)


def fused_matmul(draw):
    turn = draw.one(0, 1)
    inputs = [draw.floats(3, 4), draw.floats(*((5, 4) if turn else (4, 5)))]
    return Case(inputs, {"transB": turn, "alpha": 0.5})


PER_CHANNEL = {"BatchNormalization": 4, "InstanceNormalization": 2}
CASES = {
    **dict.fromkeys(["Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Neg", "Relu", "Round", "Sigmoid"], unary()),
    **dict.fromkeys(["Sign", "Sin", "Tan", "Tanh", "Atan", "Sinh", "Cosh", "Asinh", "Softsign", "Mish"], unary()),
    **dict.fromkeys(["HardSwish", "Identity", "Softplus"], unary()),
    **dict.fromkeys(["Acos", "Asin", "Atanh"], unary(-0.9, 0.9)),
    **dict.fromkeys(["Log", "Sqrt", "Reciprocal"], unary(0.1, 4)),
    "Acosh": unary(1.1, 4),
    "Celu": unary(alpha=1.5),
    "Elu": unary(alpha=0.7),
    "HardSigmoid": unary(alpha=0.3, beta=0.4),
    "LeakyRelu": unary(alpha=0.1),
    "Selu": unary(),
    "Shrink": unary(lambd=0.5, bias=0.3),
    "Swish": lambda draw: Case(unary()(draw).inputs, {"alpha": 1.5}, opset=24),
    "ThresholdedRelu": unary(alpha=0.5),
    "Gelu": lambda draw: Case(unary()(draw).inputs, {"approximate": draw.one("none", "tanh")}),
    "IsInf": lambda draw: Case([np.array([1, np.inf, -np.inf], np.float32)], {"detect_negative": draw.one(0, 1)}),
    "IsNaN": lambda draw: Case([np.array([1, np.nan, np.inf], np.float32)]),
    "Clip": lambda draw: Case([draw.floats(3, 4), np.float32(-0.5), draw.one(None, np.float32(1))], known=(1, 2)),
    "Dropout": lambda draw: Case([draw.floats(3, 4)], outputs=draw.one(1, 2)),
    "PRelu": lambda draw: Case([draw.floats(2, 3, 4), draw.floats(*draw.one((4,), (3, 1), (1,)), low=0)]),
    "Pow": lambda draw: Case(
        [draw.floats(2, 3, low=0.1), np.float32(draw.one(2, 0.5, 3, -1))], known=draw.one((), (1,))
    ),
    "Cast": cast,
    "CastLike": lambda draw: Case([draw.floats(3), draw.integers(1, dtype=np.int32)]),
    **dict.fromkeys(["Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"], binary()),
    "Div": binary(low=0.5),
    "Mod": lambda draw: Case(binary(low=0.5)(draw).inputs, {"fmod": 1}),
    **dict.fromkeys(["And", "Or", "Xor"], of_booleans()),
    "Not": of_booleans(1),
    **dict.fromkeys(["BitwiseAnd", "BitwiseOr", "BitwiseXor"], of_integers()),
    "BitwiseNot": of_integers(1),
    "BitShift": lambda draw: Case(of_integers(dtype=np.uint8)(draw).inputs, {"direction": draw.one("LEFT", "RIGHT")}),
    **dict.fromkeys(["Max", "Min", "Sum", "Mean"], several),
    "Where": lambda draw: Case(
        [draw.integers(2, 3, low=0, high=2, dtype=bool), *pair(draw, lambda *_: draw.floats(3))]
    ),
    **dict.fromkeys(["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1"], reduction()),
    **dict.fromkeys(["ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"], reduction()),
    "ReduceLogSum": reduction(0.1, 2),
    **dict.fromkeys(["Softmax", "LogSoftmax"], lambda draw: Case([draw.floats(2, 3, 4)], {"axis": draw.one(0, 1, -1)})),
    **dict.fromkeys(["ArgMax", "ArgMin"], lambda draw: Case([draw.floats(3, 4)], {"axis": draw.one(0, 1)})),
    "Gather": of_indices,
    "GatherElements": elements,
    "GatherND": lambda draw: Case([draw.floats(3, 4, 2), draw.integers(5, draw.size(1, 2), low=0, high=3)]),
    "ScatterElements": lambda draw: elements(draw, updates=True),
    "Col2Im": lambda draw: Case(
        [draw.floats(2, 6, 12), ints(6, 5), ints(2, 3)], {"strides": [2, 1], "pads": [1, 0, 0, 1]}, known=(1, 2)
    ),
    "ScatterND": lambda draw: Case([draw.floats(4, 3), ints(2, 0).reshape(2, 1), draw.floats(2, 3)]),
    "OneHot": lambda draw: Case([ints(0, 2, -1), ints(3), np.array([0, 5], np.float32)], {"axis": draw.one(0, -1)}),
    "TopK": top_k,
    "NonMaxSuppression": suppression,
    "NonZero": lambda draw: Case([draw.integers(3, 4, low=0, high=2).astype(np.float32)]),
    "CumSum": lambda draw: Case([draw.floats(3, 4), np.array(1)], {"exclusive": draw.one(0, 1)}, known=(1,)),
    "Range": lambda draw: Case([np.array(0), np.array(draw.size(1, 9)), np.array(2)], known=(0, 1, 2)),
    "Trilu": lambda draw: Case([draw.floats(4, 5), np.array(draw.size(-2, 2))], {"upper": draw.one(0, 1)}, known=(1,)),
    "EyeLike": lambda draw: Case([draw.floats(3, 4)], {"k": draw.size(-1, 1)}),
    "Conv": conv,
    "ConvInteger": lambda draw: conv(draw, integers=True),
    "ConvTranspose": lambda draw: conv(draw, transposed=True),
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "MaxPool": window,
    "AveragePool": average,
    "LpPool": lambda draw: window(draw, p=draw.one(1, 2, 3)),
    **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool"], image),
    "GlobalLpPool": lambda draw: Case(image(draw).inputs, {"p": draw.one(1, 2)}, opset=21),
    "BatchNormalization": lambda draw: image(draw, 4),
    "InstanceNormalization": lambda draw: image(draw, 2),
    "GroupNormalization": lambda draw: image(draw, 2, num_groups=draw.one(1, 2, 4)),
    "LRN": lambda draw: image(draw, size=draw.one(1, 3), alpha=0.1),
    "LpNormalization": lambda draw: image(draw, axis=draw.one(1, -1), p=draw.one(1, 2)),
    "MeanVarianceNormalization": lambda draw: Case([draw.floats(2, 3, 4, 5)]),
    "LayerNormalization": lambda draw: last_axes(draw, draw.one(1, 2)),
    "RMSNormalization": lambda draw: last_axes(draw, 1),
    "Attention": attention,
    "LSTM": recurrent(4),
    "GRU": recurrent(3),
    "RNN": recurrent(1),
    "Resize": resize,
    "GridSample": grid_sample,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": integer_matmul,
    "Reshape": reshape,
    "Transpose": lambda draw: Case([draw.floats(2, 3, 4)], {"perm": draw.permutation(3)}),
    "Flatten": lambda draw: Case([draw.floats(2, 3, 4)], {"axis": draw.size(0, 3)}),
    "Squeeze": squeezed,
    "Unsqueeze": lambda draw: Case([draw.floats(2, 3), ints(0, -1)], known=(1,)),
    "Slice": slice_,
    "Split": split,
    "Concat": lambda draw: Case([draw.floats(2, draw.size()), draw.floats(2, draw.size())], {"axis": 1}),
    "Expand": lambda draw: Case([draw.floats(3, 1), ints(2, 1, 4)], known=draw.one((), (1,))),
    "Tile": lambda draw: Case([draw.floats(2, 3), ints(draw.size(1, 2), 2)], known=draw.one((), (1,))),
    "Pad": pad,
    "Shape": lambda draw: Case([draw.floats(2, 3, 4)], {"start": draw.one(0, 1)}),
    "Size": lambda draw: Case([draw.floats(2, 3)]),
    "ConstantOfShape": lambda draw: Case([ints(2, draw.size())], known=draw.one((), (0,))),
    "Constant": lambda draw: Case([], {"value_floats": [1.0, draw.size()]}),
    "DepthToSpace": lambda draw: blocks(draw, mode=draw.one("DCR", "CRD")),
    "SpaceToDepth": blocks,
}
CONTRIB = {
    "Gelu": unary(),
    "QuickGelu": unary(alpha=1.5),
    "BiasGelu": lambda draw: Case([draw.floats(2, 3, 8), draw.floats(8)], known=(1,)),
    "FastGelu": lambda draw: Case([draw.floats(2, 3, 8), draw.floats(8)], known=(1,), tolerance=1e-3),
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedGemm": lambda draw: Case([draw.floats(2, 3), draw.floats(3, 4), draw.floats(4)], {"activation": "Relu"}),
    "SkipLayerNormalization": skip_norm,
    "SkipSimplifiedLayerNormalization": simple_skip_norm,
    "QLinearAdd": qlinear_binary,
    "QLinearMul": qlinear_binary,
    "QLinearConcat": qlinear_concat,
    "QLinearSigmoid": qlinear_unary,
    "QLinearLeakyRelu": lambda draw: qlinear_unary(draw, alpha=0.1),
    "QLinearGlobalAveragePool": lambda draw: qlinear_unary(draw, channels_last=0),
    "QLinearAveragePool": qlinear_pool,
    "QLinearWhere": qlinear_where,
    "QGemm": q_gemm,
}
DOMAIN = "com.microsoft"
CASES |= {f"{DOMAIN}::{kind}": case for kind, case in CONTRIB.items()}
# onnx.reference lacks these nodes, refuses them, or mistakes some of their attributes.
BY_RUNTIME = {"AveragePool", "ConvTranspose", "GlobalLpPool", "LRN", "LpNormalization", "LpPool", "MaxPool"}
BY_RUNTIME |= {"GridSample", "OneHot"}
# Sequences and control flow have tests of their own; what numpy computes has cases in test_onnx_meanings,
# test_onnx_learned and test_onnx_proven; the other names are those of an entry that has a case.
APART = (".control", ".sequences", ".selection", ".signal", ".regions", ".random", ".training", ".ml")
APART += (".decoders", ".states", ".experts", ".packed", ".trees", ".svm", ".fused", ".blocked")
ELSEWHERE = {kind for kind, entry in LOWERINGS.items() if entry.__module__.endswith(APART)} - CASES.keys()
ELSEWHERE |= {kind for kind in LOWERINGS if kind.startswith("com.microsoft.nchwc")}  # test_onnx_fused.py
ELSEWHERE |= {"SimplifiedLayerNormalization", f"{DOMAIN}::SimplifiedLayerNormalization"}


def model_of(name, case):
    """The model with one node."""
    domain, _, kind = name.rpartition("::")
    names = ["" if array is None else f"x{place}" for place, array in enumerate(case.inputs)]
    results = [f"y{place}" for place in range(case.outputs)]
    node = helper.make_node(kind, names, results, domain=domain, **case.attrs)
    kinds = [helper.np_dtype_to_tensor_dtype(np.asarray(one).dtype) if one is not None else 0 for one in case.inputs]
    inputs = [
        helper.make_tensor_value_info(names[place], kinds[place], np.asarray(array).shape)
        for place, array in enumerate(case.inputs)
        if array is not None and place not in case.known
    ]
    known = [
        numpy_helper.from_array(np.asarray(array), names[place])
        for place, array in enumerate(case.inputs)
        if array is not None and place in case.known
    ]
    outputs = [onnx.ValueInfoProto(name=result) for result in results]
    graph = helper.make_graph([node], "model", inputs, outputs, known)
    opsets = [helper.make_opsetid("", case.opset)] + [helper.make_opsetid(DOMAIN, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR)


def expected(name, model, feeds):
    """What another implementation computes."""
    if "::" not in name and name not in BY_RUNTIME:
        return ReferenceEvaluator(model).run(None, feeds)
    return session_of(model).run(None, feeds)


def test_every_entry_of_the_table_has_a_case():
    assert LOWERINGS.keys() - ELSEWHERE == CASES.keys()


@pytest.mark.parametrize("name", sorted(CASES))
@settings(
    max_examples=draws(2, 5), deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck]
)
@given(data=st.data())
def test_entry_agrees_with_another_implementation(name, data):
    case = CASES[name](Draw(data))
    model = model_of(name, case)
    feeds = {f"x{place}": one for place, one in enumerate(case.inputs) if one is not None and place not in case.known}
    with np.errstate(all="ignore"):
        wanted = expected(name, model, {key: np.asarray(value) for key, value in feeds.items()})
    graph = load(model)
    found = graph.compile()(*[feeds[key] for key in graph.inputs])
    found = found if isinstance(found, tuple) else (found,)
    for got, want in zip(found, wanted, strict=True):
        want = np.asarray(want)
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=case.tolerance, atol=case.tolerance
        )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 3), (1, 2), (3, 3), (3, 2)])
def test_windows_that_leave_gaps_need_a_stated_size(kernel, stride, auto_pad):
    """The text of ONNX, ONNX Runtime and frameworks disagree about the sizes and places of such images."""
    attrs = {"strides": [stride], "auto_pad": auto_pad}
    inputs = [np.float32([[[1, 10, 100]]]), np.arange(1, kernel + 1, dtype=np.float32).reshape(1, 1, -1)]
    if stride > kernel:
        with pytest.raises(FormatError, match=f"{auto_pad} with the stride {stride} above a window of {kernel}.*"):
            load(model_of("ConvTranspose", Case(inputs, attrs, known=(1,))))
        attrs["output_shape"] = [3 * stride]
    model = model_of("ConvTranspose", Case(inputs, attrs, known=(1,)))
    (wanted,) = expected("ConvTranspose", model, {"x0": inputs[0]})
    np.testing.assert_array_equal(load(model).compile()(inputs[0]), wanted)
