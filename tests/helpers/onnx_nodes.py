"""Random nodes of every kind of ONNX, in the form of any op set: inputs, attributes and data types.

A case has its inputs by their newest names. ``model_of`` places them as an op set has them: as inputs or as attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

F32, F64, F16 = np.float32, np.float64, np.float16
FLOATS = (F32, F32, F32, F64, F16)
INTS = (np.int32, np.int64, np.int8, np.uint8)
# Attributes of old op sets, by the names of the inputs that newer ones have.
OLD_NAMES = {"constant_value": "value", "K": "k"}
IR = 10


@dataclass
class Case:
    """A node.

    Attributes:
        inputs: arrays by name; a list of arrays of a variadic input; None for an absent input.
        known: names of inputs that are constants of the model.
        loose: how many units the results may differ by, of integers that are rounded.
    """

    kind: str
    inputs: dict
    attrs: dict = field(default_factory=dict)
    known: tuple = ()
    outputs: int = 1
    loose: int = 0
    scale: float = 1.0
    domain: str = ""


class Draw:
    """Draws sizes, numbers and attributes for a node of a kind and op set."""

    def __init__(self, rng, kind, opset, domain=""):
        self.rng, self.kind, self.opset = rng, kind, opset
        self.schema = onnx.defs.get_schema(kind, opset, domain)

    def size(self, least=1, most=5):
        return int(self.rng.integers(least, most + 1))

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def maybe(self, value, chance=0.5):
        return value if self.rng.random() < chance else None

    def shape(self, least=1, most=4):
        return tuple(self.size(1, 4) for _ in range(self.size(least, most)))

    def dtype(self, *among, place=0):
        """A data type that input ``place`` may have in this op set; f32 if it allows none of those."""
        allowed = self.schema.inputs[min(place, len(self.schema.inputs) - 1)].types
        fits = [one for one in among or FLOATS if _type_name(one) in allowed]
        return self.one(*fits) if fits else F32

    def array(self, shape, dtype=F32, low=-3.0, high=3.0):
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return self.rng.random(shape) < 0.5
        if kind.kind in "iu":
            low = max(low, np.iinfo(kind).min)
            return self.rng.integers(int(low), int(max(high, low + 1)) + 1, shape).astype(kind)
        return self.rng.uniform(low, high, shape).astype(kind)

    def numbers(self, *values):
        return np.array(values, np.int64)

    def axis(self, rank):
        return int(self.rng.integers(0 if self.opset < 11 else -rank, rank))

    def axes(self, rank):
        found = [int(one) for one in self.rng.permutation(rank)[: self.size(1, rank)]]
        return [one - rank * (self.opset >= 11 and self.one(False, True)) for one in found]


def _type_name(dtype):
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return f"tensor({helper.tensor_dtype_to_string(number).rpartition('.')[2].lower()})".replace("bool)", "bool)")


CASES = {}


def case(*kinds):
    def enter(function):
        CASES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def pair(d, dtype, low=-3.0, high=3.0):
    shape = d.shape()
    if d.opset < 7:
        return d.array(shape, dtype, low, high), d.array(shape, dtype, low, high)
    other = tuple(d.one(1, dim, dim) for dim in shape)[d.size(0, len(shape) - 1) :]
    both = d.array(shape, dtype, low, high), d.array(other, dtype, low, high)
    return both if d.one(True, False) else both[::-1]


LIMITS = {
    **dict.fromkeys(["Acos", "Asin", "Atanh"], (-0.9, 0.9)),
    **dict.fromkeys(["Log", "Sqrt", "Reciprocal"], (0.2, 4.0)),
    "Acosh": (1.1, 4.0),
    "Tan": (-1.2, 1.2),
}
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Identity Log Mish Neg Reciprocal Relu "
    "Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
)


@case(*UNARY.split())
def unary(d):
    low, high = LIMITS.get(d.kind, (-3.0, 3.0))
    among = (*FLOATS, *INTS) if d.kind in ("Abs", "Neg", "Relu", "Sign", "Identity") else FLOATS
    return Case(d.kind, {"X": d.array(d.shape(), d.dtype(*among), low, high)})


@case("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "Shrink", "ThresholdedRelu", "Swish", "Gelu")
def activation(d):
    names = ("alpha", "beta", "gamma", "lambd", "bias")
    attrs = {name: float(d.array((), F64, 0.1, 1.5)) for name in names if d.maybe(name)}
    if d.kind == "Gelu" and d.maybe(True):
        attrs["approximate"] = d.one("none", "tanh")
    among = (F32, F32, F16) if d.kind in ("Celu",) else FLOATS
    return Case(d.kind, {"X": d.array(d.shape(), d.dtype(*among))}, attrs)


@case("IsInf", "IsNaN")
def special(d):
    src = d.array(d.shape(), d.dtype(F32, F64, F16))
    src[d.rng.random(src.shape) < 0.5] = d.one(np.inf, -np.inf, np.nan)
    attrs = {name: d.one(0, 1) for name in ("detect_negative", "detect_positive") if d.maybe(name)}
    return Case(d.kind, {"X": src}, attrs)


@case("Not", "And", "Or", "Xor")
def logical(d):
    arrays = pair(d, bool)
    return Case(d.kind, dict(zip("AB", arrays[: 1 if d.kind == "Not" else 2], strict=False)))


@case("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
def bitwise(d):
    arrays = pair(d, d.dtype(*INTS, np.uint16), -100, 100)
    return Case(d.kind, dict(zip("AB", arrays[: 1 if d.kind == "BitwiseNot" else 2], strict=False)))


@case("BitShift")
def shift(d):
    kind = d.dtype(np.uint8, np.uint16, np.uint32, np.uint64)
    shape = d.shape()
    return Case(
        d.kind,
        {"X": d.array(shape, kind, 0, 200), "Y": d.array(shape, kind, 0, 7)},
        {"direction": d.one("LEFT", "RIGHT")},
    )


@case("Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Pow", "Mod", "PRelu")
def binary(d):
    kind = d.dtype(*FLOATS, np.int32, np.int64)
    whole = np.dtype(kind).kind in "iu"
    if d.kind == "Pow":
        first, second = pair(d, kind, 0 if whole else 0.2, 3)
        if d.opset >= 12 and d.maybe(True):
            second = second.astype(d.one(F32, np.int32, np.int64))
        return Case(d.kind, {"X": first, "Y": second}, known=d.one((), ("Y",)))
    if d.kind in ("Div", "Mod"):
        first, second = pair(d, kind, 1 if whole else 0.5, 9)
        sign = d.one(1, -1)
        attrs = {"fmod": 1 if not whole else d.one(0, 1)} if d.kind == "Mod" else {}
        return Case(d.kind, {"A": first * kind(sign), "B": second}, attrs)
    if d.kind == "PRelu":
        shape = d.shape(2, 4)
        slope = tuple(d.one(1, dim) for dim in shape)[d.size(0, len(shape) - 1) :]
        if d.opset < 7:
            slope = d.one((1,), (shape[1],))
        kind = d.dtype(*FLOATS)
        return Case(d.kind, {"X": d.array(shape, kind), "slope": d.array(slope, kind, 0, 1)})
    first, second = pair(d, kind)
    case = Case(d.kind, {"A": first, "B": second})
    if d.opset < 7:
        rank = first.ndim
        case.attrs["broadcast"] = 1
        if d.one(True, False):
            axis = d.size(0, rank - 1)
            case.inputs["B"] = d.array(first.shape[axis : d.size(axis + 1, rank)], kind)
            case.attrs["axis"] = axis
    return case


@case("Max", "Min", "Sum", "Mean")
def several(d):
    kind = d.dtype(*FLOATS)
    first, second = pair(d, kind) if d.opset >= 8 else [d.array((2, 3), kind) for _ in range(2)]
    return Case(d.kind, {"data_0": [first, second, *[d.array(first.shape, kind)] * d.size(0, 1)][: d.size(1, 3)]})


@case("Where")
def where(d):
    shape = d.shape()
    kind = d.dtype(F32, np.int64, place=1)
    other = tuple(d.one(1, dim) for dim in shape)
    arrays = d.array(shape, bool), d.array(other, kind), d.array(shape[d.size(0, len(shape) - 1) :], kind)
    return Case(d.kind, dict(zip(("condition", "X", "Y"), arrays, strict=True)))


@case("Clip")
def clip(d):
    kind = d.dtype(*FLOATS, *(INTS if d.opset >= 12 else ()))
    whole = np.dtype(kind).kind in "iu"
    low = kind(0) if whole else kind(d.array((), F64, -2, 0))
    high = kind(4) if whole else kind(d.array((), F64, 0, 2))
    return Case(
        d.kind,
        {"input": d.array(d.shape(), kind), "min": d.maybe(low, 0.7), "max": d.maybe(high, 0.7)},
        known=("min", "max") if d.opset < 11 else d.one((), ("min", "max"), ("min",)),
    )


@case("Cast")
def cast(d):
    src = d.array(d.shape(), d.dtype(*FLOATS, *INTS, bool), 0, 100)
    wanted = d.one(F32, F64, F16, *INTS, bool, ml_dtypes.bfloat16 if d.opset >= 13 else F32)
    return Case(d.kind, {"input": src}, {"to": helper.np_dtype_to_tensor_dtype(np.dtype(wanted))})


@case("CastLike")
def cast_like(d):
    src = d.array(d.shape(), d.dtype(*FLOATS, *INTS), 0, 100)
    return Case(d.kind, {"input": src, "target_type": d.array((1,), d.one(F32, F16, np.int32, np.uint8))})


@case("Dropout")
def dropout(d):
    attrs = {"ratio": 0.3} if d.maybe(True) else {}
    if d.opset < 7:
        attrs["is_test"] = 1
    return Case(
        d.kind, {"data": d.array(d.shape(), d.dtype(*FLOATS))}, attrs, outputs=d.one(1, 2) if d.opset >= 12 else 1
    )


REDUCE = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"


@case(*(f"Reduce{name}" for name in REDUCE.split()))
def reduce(d):
    among = (*FLOATS[:-1], np.int32) if d.kind not in ("ReduceLogSum", "ReduceLogSumExp") else FLOATS[:-1]
    shape = d.shape()
    low = 0.5 if d.kind == "ReduceLogSum" else -3
    axes = d.maybe(d.numbers(*d.axes(len(shape))), 0.8)
    attrs = {"keepdims": d.one(0, 1)} if d.maybe(True) else {}
    if axes is None and d.maybe(True):
        attrs["noop_with_empty_axes"] = d.one(0, 1)
    return Case(d.kind, {"data": d.array(shape, d.dtype(*among), low), "axes": axes}, attrs, known=("axes",))


@case("Softmax", "LogSoftmax", "Hardmax")
def softmax(d):
    shape = d.shape(1, 4)
    attrs = {"axis": d.axis(len(shape))} if d.maybe(True, 0.8) else {}
    if not attrs and d.opset < 13 and len(shape) < 2:
        attrs = {"axis": 0}
    return Case(d.kind, {"input": d.array(shape, d.dtype(F32, F32, F64))}, attrs)


@case("ArgMax", "ArgMin")
def arg(d):
    shape = d.shape()
    src = np.round(d.array(shape, d.dtype(F32, F64, np.int32, np.int8), -2, 2)).astype(None)
    src = src.astype(d.dtype(F32, np.int32))
    attrs = {"keepdims": d.one(0, 1)} if d.maybe(True) else {}
    if d.maybe(True, 0.8):
        attrs["axis"] = d.axis(len(shape))
    if d.opset >= 12:
        attrs["select_last_index"] = d.one(0, 1)
    return Case(d.kind, {"data": src}, attrs)


@case("Gather")
def gather(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    dim = shape[axis]
    indices = d.array(
        d.shape(1, 2) if d.maybe(True) else (), d.one(np.int64, np.int32), -dim * (d.opset >= 11), dim - 1
    )
    return Case(d.kind, {"data": d.array(shape, d.dtype(F32, np.int64, bool)), "indices": indices}, {"axis": axis})


@case("GatherElements")
def gather_elements(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    indices = d.array(shape, d.one(np.int64, np.int32), -shape[axis], shape[axis] - 1)
    return Case(d.kind, {"data": d.array(shape, d.dtype(F32, np.int64)), "indices": indices}, {"axis": axis})


@case("GatherND")
def gather_nd(d):
    shape = (2, d.size(2, 4), d.size(2, 4), 2)
    batch = d.one(0, 1) if d.opset >= 12 else 0
    count = d.size(1, 3 - batch)
    least = min(shape[batch : batch + count])
    indices = d.array((*shape[:batch], 3, count), np.int64, -least, least - 1)
    return Case(d.kind, {"data": d.array(shape, d.dtype(F32, np.int32)), "indices": indices}, {"batch_dims": batch})


def _distinct(d, shape, axis):
    return np.argsort(d.rng.random(shape), axis).astype(np.int64)


@case("ScatterElements", "Scatter")
def scatter_elements(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    attrs = {"axis": axis}
    kind = d.dtype(F32, F64, np.int32)
    indices = _distinct(d, shape, axis)
    if d.opset >= 16 and d.maybe(True):
        attrs["reduction"] = d.one("none", "add", "mul", *(("min", "max") if d.opset >= 18 else ()))
        if attrs["reduction"] != "none":
            indices = d.array(shape, np.int64, -shape[axis], shape[axis] - 1)
    return Case(d.kind, {"data": d.array(shape, kind), "indices": indices, "updates": d.array(shape, kind)}, attrs)


@case("ScatterND")
def scatter_nd(d):
    rows = d.size(2, 5)
    kind = d.dtype(F32, F64, np.int32)
    attrs = {}
    indices = d.rng.permutation(rows)[: d.size(1, rows)].reshape(-1, 1).astype(np.int64)
    if d.opset >= 16 and d.maybe(True):
        attrs["reduction"] = d.one("none", "add", "mul", *(("min", "max") if d.opset >= 18 else ()))
        if attrs["reduction"] != "none":
            indices = d.array((4, 1), np.int64, -rows, rows - 1)
    inputs = {"data": d.array((rows, 3), kind), "indices": indices, "updates": d.array((len(indices), 3), kind)}
    return Case(d.kind, inputs, attrs, known=d.one((), ("indices",)))


@case("OneHot")
def one_hot(d):
    kind = d.one(np.int64, np.int32, F32)
    indices = d.array(d.shape(1, 2), kind, 0 if d.opset < 11 else -4, 4).round().astype(kind)
    inputs = {"indices": indices, "depth": np.array(5, np.int64), "values": d.array((2,), d.one(F32, np.int64))}
    return Case(d.kind, inputs, {"axis": d.axis(indices.ndim + 1)} if d.maybe(True) else {}, known=("depth",))


@case("TopK")
def top_k(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    src = d.array(shape, d.dtype(F32, F64, *((np.int64, np.int32) if d.opset >= 11 else ())), -50, 50)
    attrs = {"axis": axis}
    if d.opset >= 11 and d.maybe(True):
        attrs["largest"] = d.one(0, 1)
    return Case(d.kind, {"X": src, "K": d.numbers(d.size(1, shape[axis]))}, attrs, known=("K",), outputs=2)


@case("NonZero")
def non_zero(d):
    return Case(d.kind, {"X": d.array(d.shape(), d.dtype(bool, np.int32, F32), 0, 1).round()})


@case("CumSum", "CumProd")
def cum_sum(d):
    shape = d.shape()
    attrs = {name: d.one(0, 1) for name in ("exclusive", "reverse") if d.maybe(name)}
    axis = np.array(d.axis(len(shape)), np.int64)
    return Case(
        d.kind, {"x": d.array(shape, d.dtype(F32, F64, np.int32)), "axis": axis}, attrs, known=d.one((), ("axis",))
    )


@case("Range")
def range_(d):
    kind = d.dtype(F32, np.int64, np.int32, F64)
    inputs = {"start": kind(d.size(0, 3)), "limit": kind(d.size(4, 9)), "delta": kind(d.size(1, 3))}
    return Case(d.kind, inputs, known=d.one((), ("start", "limit", "delta")))


@case("Trilu")
def triangle(d):
    attrs = {"upper": d.one(0, 1)} if d.maybe(True) else {}
    k = d.maybe(np.array(d.size(-3, 3), np.int64))
    return Case(
        d.kind, {"input": d.array((*d.shape(0, 1), 3, 4), d.dtype(F32, np.int64, F64)), "k": k}, attrs, known=("k",)
    )


@case("EyeLike")
def eye(d):
    attrs = {"k": d.size(-2, 2)}
    if d.maybe(True):
        attrs["dtype"] = helper.np_dtype_to_tensor_dtype(np.dtype(d.one(F32, np.int64, F64)))
    return Case(d.kind, {"input": d.array((d.size(), d.size()), d.dtype(F32, np.int32, F64))}, attrs)


@case("NonMaxSuppression")
def suppression(d):
    corner = d.array((2, 6, 2), F32, 0, 1)
    boxes = np.concatenate([corner, corner + d.array((2, 6, 2), F32, 0.1, 1)], -1)
    inputs = {
        "boxes": boxes,
        "scores": d.array((2, 2, 6), F32, 0, 1),
        "max_output_boxes_per_class": d.numbers(d.size(0, 5)),
        "iou_threshold": d.maybe(d.array((1,), F32, 0.1, 0.9)),
        "score_threshold": d.maybe(d.array((1,), F32, 0.1, 0.5)),
    }
    return Case(d.kind, inputs, {"center_point_box": d.one(0, 1)}, known=d.one((), tuple(inputs)[2:]))


def window(d, rank, kernel, with_dilations):
    attrs = {"kernel_shape": kernel}
    if d.maybe(True, 0.7):
        attrs["strides"] = [d.size(1, 3) for _ in range(rank)]
    if with_dilations and d.maybe(True, 0.4):
        attrs["dilations"] = [d.size(1, 2) for _ in range(rank)]
    padding = d.one("pads", "pads", "none", "VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET")
    if padding == "pads":
        attrs["pads"] = [d.size(0, min(kernel) - 1) for _ in range(2 * rank)]
    elif padding != "none":
        attrs["auto_pad"] = padding
        if padding.startswith("SAME"):
            attrs.pop("dilations", None)
    return attrs


@case("Conv")
def convolution(d):
    rank, groups = d.size(1, 3), d.one(1, 1, 2)
    kernel = [d.size(1, 3) for _ in range(rank)]
    attrs = {**window(d, rank, kernel, True), "group": groups}
    kind = d.dtype(F32, F32, F64)
    inputs = {
        "X": d.array((d.size(1, 2), 2 * groups, *[d.size(5, 7) for _ in range(rank)]), kind),
        "W": d.array((4, 2, *kernel), kind),
        "B": d.maybe(d.array((4,), kind)),
    }
    return Case(d.kind, inputs, attrs, known=d.one((), ("W", "B")))


@case("ConvTranspose")
def convolution_transpose(d):
    rank, groups = d.size(1, 2), d.one(1, 1, 2)
    kernel = [d.size(1, 3) for _ in range(rank)]
    attrs = {**window(d, rank, kernel, True), "group": groups}
    strides = attrs.get("strides", [1] * rank)
    if d.maybe(True, 0.3):
        attrs["output_padding"] = [d.size(0, stride - 1) for stride in strides]
    if attrs.get("auto_pad", "")[:4] == "SAME":  # ONNX Runtime makes smaller results than the specification says
        attrs["strides"] = [min(stride, size) for stride, size in zip(strides, kernel, strict=True)]
        strides = attrs["strides"]
        attrs.pop("output_padding", None)
    kind = d.dtype(F32, F32, F64)
    dims = [d.size(2, 5) for _ in range(rank)]
    if d.maybe(True, 0.3):
        attrs.pop("pads", None)
        attrs["output_shape"] = [dim * stride for dim, stride in zip(dims, strides, strict=True)]
    inputs = {
        "X": d.array((1, 2 * groups, *dims), kind),
        "W": d.array((2 * groups, 2, *kernel), kind),
        "B": d.maybe(d.array((2 * groups,), kind)),
    }
    return Case(d.kind, inputs, attrs, known=d.one((), ("W", "B")))


@case("MaxPool", "AveragePool", "LpPool")
def pool(d):
    rank = d.size(1, 3)
    kernel = [d.size(1, 3) for _ in range(rank)]
    with_dilations = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[d.kind] <= d.opset
    attrs = window(d, rank, kernel, with_dilations)
    if "auto_pad" not in attrs and d.maybe(True):
        attrs["ceil_mode"] = d.one(0, 1)
    attrs["count_include_pad"] = d.one(0, 1)
    attrs["storage_order"] = d.one(0, 1)
    attrs["p"] = d.one(1, 2, 3)
    among = (F32, F64, *((np.int8, np.uint8) if d.opset >= 12 else ())) if d.kind == "MaxPool" else (F32, F64)
    if attrs.get("auto_pad", "")[:4] == "SAME":  # ONNX Runtime refuses strides that jump over elements
        attrs["strides"] = [
            min(stride, size) for stride, size in zip(attrs.get("strides", kernel), kernel, strict=True)
        ]
    src = d.array((d.size(1, 2), 2, *[d.size(5, 8) for _ in range(rank)]), d.dtype(*among), -50, 50)
    outputs = d.one(1, 2) if d.kind == "MaxPool" and d.opset >= 8 else 1
    return Case(d.kind, {"X": src}, attrs, outputs=outputs, scale=10)


@case("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d):
    attrs = {"p": d.one(1, 2, 3)} if d.maybe(True) else {}
    return Case(d.kind, {"X": d.array((2, 3, *d.shape(1, 3)), d.dtype(F32, F64))}, attrs)


@case("MaxUnpool")
def max_unpool(d):
    src = d.array((1, 2, 2, 3), F32)
    places = np.stack([d.rng.permutation(24)[:6] + 24 * channel for channel in range(2)]).reshape(src.shape)
    return Case(d.kind, {"X": src, "I": places.astype(np.int64)}, {"kernel_shape": [2, 2], "strides": [2, 2]})


@case("MaxRoiPool")
def max_roi_pool(d):
    boxes = np.concatenate(
        [d.array((3, 1), F32, 0, 1).round(), d.array((3, 2), F32, 0, 3), d.array((3, 2), F32, 3, 7)], 1
    )
    attrs = {"pooled_shape": [d.size(1, 3), d.size(1, 3)], "spatial_scale": d.one(1.0, 0.5)}
    return Case(d.kind, {"X": d.array((2, 2, 6, 7)), "rois": boxes}, attrs)


@case("RoiAlign")
def roi_align(d):
    boxes = np.concatenate([d.array((3, 2), F32, -1, 4), d.array((3, 2), F32, 3, 9)], 1)
    attrs = {"output_height": d.size(1, 3), "output_width": d.size(1, 3), "sampling_ratio": d.size(0, 3)}
    attrs |= {"spatial_scale": d.one(1.0, 0.5), "mode": d.one("avg", "avg", "max")}
    if d.opset >= 16 and d.maybe(True):
        attrs["coordinate_transformation_mode"] = d.one("half_pixel", "output_half_pixel")
    return Case(
        d.kind, {"X": d.array((2, 2, 6, 7), F32), "rois": boxes, "batch_indices": d.array((3,), np.int64, 0, 1)}, attrs
    )


@case("DeformConv")
def deformable(d):
    groups, parts, kernel = d.one(1, 2), d.one(1, 2), [d.size(1, 3), d.size(1, 3)]
    attrs = {"group": groups, "offset_group": parts, "kernel_shape": kernel}
    attrs |= {"strides": [d.size(1, 2)] * 2, "pads": [d.size(0, 1) for _ in range(4)], "dilations": [d.size(1, 2)] * 2}
    sizes = [
        (6 + attrs["pads"][axis] + attrs["pads"][axis + 2] - (kernel[axis] - 1) * attrs["dilations"][axis] - 1)
        // attrs["strides"][axis]
        + 1
        for axis in range(2)
    ]
    taps = parts * kernel[0] * kernel[1]
    inputs = {
        "X": d.array((2, 4, 6, 6)),
        "W": d.array((4, 4 // groups, *kernel)),
        "offset": d.array((2, 2 * taps, *sizes), F32, -1.5, 1.5),
        "B": d.maybe(d.array((4,))),
        "mask": d.maybe(d.array((2, taps, *sizes), F32, 0, 1)),
    }
    return Case(d.kind, inputs, attrs)


@case("MatMul")
def matmul(d):
    kind = d.dtype(F32, F32, F64, np.int32)
    batch, (m, k, n) = d.shape(0, 2), (d.size(), d.size(), d.size())
    first = d.array(d.one((*batch, m, k), (*batch, m, k), (k,)), kind)
    second = d.array(d.one((*batch, k, n), (k, n), (k,)), kind)
    return Case(d.kind, {"A": first, "B": second}, known=d.one((), ("B",)))


@case("Gemm")
def gemm(d):
    m, k, n, flip, turn = d.size(), d.size(), d.size(), d.one(0, 1), d.one(0, 1)
    kind = d.dtype(F32, F32, F64)
    bias = d.array(d.one((n,), (m, n), (1, n), (m, 1), (1,)), kind)
    bias = d.maybe(bias, 0.7) if d.opset >= 11 else bias
    attrs = {"transA": flip, "transB": turn}
    attrs |= {name: d.one(0.5, 2.0) for name in ("alpha", "beta") if d.maybe(name)}
    if d.opset < 7:
        attrs["broadcast"] = 1
    inputs = {"A": d.array((k, m) if flip else (m, k), kind), "B": d.array((n, k) if turn else (k, n), kind), "C": bias}
    return Case(d.kind, inputs, attrs, known=d.one((), ("B", "C")))


@case("Einsum")
def einsum(d):
    equation = d.one(
        "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "i,j->ij", "bhqd,bhkd->bhqk", "...ij,...jk", "ii->i", "ii"
    )
    dims = {name: d.size(2, 4) for name in "abijkhqd"}
    terms = [term.replace("...", "ab") for term in equation.split("->")[0].split(",")]
    kind = d.dtype(F32, F64)
    return Case(
        d.kind, {"Inputs": [d.array([dims[name] for name in term], kind) for term in terms]}, {"equation": equation}
    )


@case("BatchNormalization")
def batch_norm(d):
    kind = d.dtype(F32, F32, F64)
    src = d.array((2, 3, *d.shape(0, 3)), kind)
    inputs = {"X": src, **{name: d.array((3,), kind, 0.2, 2) for name in ("scale", "B", "input_mean", "input_var")}}
    attrs = {"epsilon": d.one(1e-5, 1e-2)} if d.maybe(True) else {}
    outputs = 1
    if d.opset < 7:
        attrs["is_test"] = 1
    if d.opset >= 14 and d.maybe(True, 0.3):
        attrs |= {"training_mode": 1, "momentum": d.one(0.9, 0.5)}
        outputs = 3
    return Case(d.kind, inputs, attrs, known=d.one((), tuple(inputs)[1:]), outputs=outputs)


@case("InstanceNormalization", "GroupNormalization")
def group_norm(d):
    kind = d.dtype(F32, F32, F64 if d.kind[0] == "I" else F32)
    groups = d.one(1, 2, 4)
    src = d.array((2, 4, *d.shape(1, 2)), kind)
    count = groups if d.kind == "GroupNormalization" and d.opset < 21 else 4
    attrs = {"epsilon": d.one(1e-5, 1e-2)} if d.maybe(True) else {}
    if d.kind == "GroupNormalization":
        attrs["num_groups"] = groups
    names = ("input", "scale", "B") if d.kind[0] == "I" else ("X", "scale", "bias")
    arrays = (src, d.array((count,), kind, 0.2, 2), d.array((count,), kind))
    return Case(d.kind, dict(zip(names, arrays, strict=True)), attrs, known=d.one((), names[1:]), scale=10)


@case("LayerNormalization", "RMSNormalization")
def layer_norm(d):
    shape = (*d.shape(0, 2), d.size(2, 5))
    axis = int(d.rng.integers(-len(shape), len(shape)))
    kind = F32  # ONNX takes the statistics of float64 in f32, ONNX Runtime in float64
    inputs = {"X": d.array(shape, kind), "Scale": d.array(shape[axis:], kind), "scale": None}
    if d.kind == "LayerNormalization":
        inputs["B"] = d.maybe(d.array(shape[axis:], kind))
    else:
        inputs["scale"] = inputs.pop("Scale")
    attrs = {"axis": axis, "epsilon": d.one(1e-5, 1e-2)}
    outputs = d.one(1, 3) if d.kind == "LayerNormalization" else 1
    return Case(
        d.kind,
        {name: one for name, one in inputs.items() if one is not None or name == "B"},
        attrs,
        outputs=outputs,
        scale=10,
    )


@case("LRN")
def local_response(d):
    attrs = {"size": d.one(1, 3, 5)}
    attrs |= {name: d.one(0.1, 0.7) for name in ("alpha", "beta", "bias") if d.maybe(name)}
    return Case(d.kind, {"X": d.array((2, 5, *d.shape(2, 2)), d.dtype(F32))}, attrs)


@case("LpNormalization")
def lp_norm(d):
    shape = d.shape()
    attrs = {"axis": d.axis(len(shape)), "p": d.one(1, 2)}
    return Case(d.kind, {"input": d.array(shape, d.dtype(F32, F64), 0.2, 3)}, attrs)


@case("MeanVarianceNormalization")
def mean_variance(d):
    attrs = {"axes": d.one([0, 2, 3], [2, 3], [0, 1, 2, 3])} if d.maybe(True) else {}
    return Case(d.kind, {"X": d.array((2, 3, 3, 4), F32)}, attrs)


@case("LSTM", "GRU", "RNN")
def recurrent(d):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[d.kind]
    steps, batch, width, size = d.size(1, 3), d.size(1, 3), d.size(1, 3), d.size(1, 4)
    direction = d.one("forward", "reverse", "bidirectional")
    way = 2 if direction == "bidirectional" else 1
    layout = 0
    kind = F32
    src = (batch, steps, width) if layout else (steps, batch, width)
    state = (batch, way, size) if layout else (way, batch, size)
    inputs = {
        "X": d.array(src, kind),
        "W": d.array((way, gates * size, width), kind, -1, 1),
        "R": d.array((way, gates * size, size), kind, -1, 1),
        "B": d.maybe(d.array((way, 2 * gates * size), kind, -1, 1)),
        "sequence_lens": d.maybe(d.array((batch,), np.int32, 1, steps), 0.2),
        "initial_h": d.maybe(d.array(state, kind, -1, 1)),
    }
    if d.kind == "LSTM":
        inputs["initial_c"] = d.maybe(d.array(state, kind, -1, 1))
        inputs["P"] = d.maybe(d.array((way, 3 * size), kind, -1, 1), 0.2)
    attrs = {"hidden_size": size, "direction": direction}
    if d.maybe(True, 0.2):
        attrs["clip"] = 0.8
    if d.kind == "GRU":
        attrs["linear_before_reset"] = d.one(0, 1)
    if d.kind == "RNN" and d.maybe(True):
        attrs["activations"] = [d.one("Tanh", "Relu", "Sigmoid")] * way
    known = d.one((), ("W", "R", "B"))
    return Case(d.kind, inputs, attrs, known=known, outputs=3 if d.kind == "LSTM" else 2)


@case("Resize")
def resize(d):
    if d.opset < 11:
        scales = np.array([1, 1, d.one(0.5, 1, 2, 1.5), d.one(0.6, 1, 2, 3)], F32)
        attrs = {"mode": d.one("nearest", "linear")} if d.maybe(True) else {}
        if attrs.get("mode") == "linear":
            scales = np.maximum(scales, 1)
        return Case(
            d.kind,
            {"X": d.array((1, 2, d.size(2, 5), d.size(2, 5))), "scales": scales},
            attrs,
            known=d.one((), ("scales",)),
        )
    rank = d.one(3, 4, 4, 4, 5)
    mode = d.one("nearest", "linear", "cubic" if rank == 4 else "linear")
    attrs = {"mode": mode} if mode != "nearest" or d.maybe(True) else {}
    places = [
        "half_pixel",
        "align_corners",
        "asymmetric",
        "pytorch_half_pixel",
        *["half_pixel_symmetric"] * (d.opset >= 19),
    ]
    if d.maybe(True, 0.8):
        attrs["coordinate_transformation_mode"] = d.one(*places)
    if mode == "nearest" and d.maybe(True):
        attrs["nearest_mode"] = d.one("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": d.one(-0.75, -0.5), "exclude_outside": d.one(0, 1)}
    if mode != "nearest" and rank == 4 and d.opset >= 18 and d.maybe(True, 0.3):
        attrs["antialias"] = 1
        if attrs.get("coordinate_transformation_mode") == "pytorch_half_pixel":
            # ONNX Runtime forgets that the only element along an axis lies at 0.
            attrs["coordinate_transformation_mode"] = "half_pixel"
    src = d.array((1, 2, *[d.size(2, 6) for _ in range(rank - 2)]))
    inputs, axes = {"X": src, "roi": None, "scales": None, "sizes": None}, [*range(rank)]
    if d.opset >= 18 and d.maybe(True, 0.3):
        axes = [*range(2, rank)]
        attrs["axes"] = axes
    if d.maybe(True):
        sizes = {axis: d.size(1, 9) if axis > 1 else src.shape[axis] for axis in axes}
        inputs["sizes"] = d.numbers(*[sizes[axis] for axis in axes])
        if len(axes) == rank - 2 and d.maybe(True, 0.4):
            attrs["keep_aspect_ratio_policy"] = d.one("stretch", "not_larger", "not_smaller")
    else:
        # Of aligned corners and broken sizes, ONNX Runtime takes the whole size where ONNX's own tests do not.
        factors = (1, 2, 3) if attrs.get("coordinate_transformation_mode") == "align_corners" else (0.5, 1, 1.5, 2, 2.6)
        inputs["scales"] = np.array([d.one(*factors) if axis > 1 else 1 for axis in axes], F32)
    if d.opset < 13:  # these inputs are not optional yet
        inputs["roi"] = np.zeros(0, F32)
        inputs["scales"] = np.zeros(0, F32) if inputs["scales"] is None else inputs["scales"]
        return Case(d.kind, inputs, attrs, known=("roi", "scales", "sizes"))
    return Case(d.kind, inputs, attrs, known=d.one(("scales", "sizes"), ("scales", "sizes"), ()))


@case("Upsample")
def upsample(d):
    scales = np.array([1, 1, d.one(1, 2, 3), d.one(1, 2, 1.5)], F32)
    attrs = {"mode": d.one("nearest", "linear")} if d.maybe(True) else {}
    return Case(d.kind, {"X": d.array((1, 2, d.size(2, 4), d.size(2, 4))), "scales": scales}, attrs, known=("scales",))


@case("GridSample")
def grid_sample(d):
    rank = d.one(2, 2, 3) if d.opset >= 20 else 2
    names = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    mode = d.one(*names[: 3 if rank == 2 else 2])
    attrs = {"mode": mode} if d.maybe(True, 0.8) else {}
    attrs |= {"padding_mode": d.one("zeros", "border", "reflection"), "align_corners": d.one(0, 1)}
    src = d.array((2, 2, *[d.size(2, 4) for _ in range(rank)]))
    return Case(
        d.kind, {"X": src, "grid": d.array((2, *[d.size(1, 3) for _ in range(rank)], rank), F32, -1.4, 1.4)}, attrs
    )


@case("AffineGrid")
def affine_grid(d):
    rank = d.one(2, 3)
    inputs = {"theta": d.array((2, rank, rank + 1)), "size": d.numbers(2, 3, *[d.size(2, 4) for _ in range(rank)])}
    return Case(d.kind, inputs, {"align_corners": d.one(0, 1)}, known=("size",))


@case("QuantizeLinear", "DequantizeLinear")
def quantize(d):
    axis = d.one(None, 1) if d.opset >= 13 else None
    shape, kind = () if axis is None else (3,), d.one(np.uint8, np.int8)
    scale = d.array(shape, F32, 0.01, 0.1)
    point = d.maybe(d.array(shape, kind, 0, 100), 0.8)
    if point is None:
        kind = np.uint8
    src = d.array((2, 3, 4), F32, -5, 5) if d.kind == "QuantizeLinear" else d.array((2, 3, 4), kind, 0, 120)
    names = ("x", "y_scale", "y_zero_point") if d.kind == "QuantizeLinear" else ("x", "x_scale", "x_zero_point")
    attrs = {} if axis is None else {"axis": axis}
    return Case(d.kind, dict(zip(names, (src, scale, point), strict=True)), attrs, known=d.one((), names[1:]))


@case("DynamicQuantizeLinear")
def dynamic(d):
    return Case(d.kind, {"x": d.array(d.shape(), F32)}, outputs=3, loose=1)


@case("MatMulInteger")
def matmul_integer(d):
    kind = d.one(np.int8, np.uint8)
    inputs = {"A": d.array((3, 5), np.uint8, 0, 255), "B": d.array((5, 4), kind, -128, 127)}
    inputs |= {
        "a_zero_point": d.maybe(np.array(d.size(0, 255), np.uint8)),
        "b_zero_point": d.maybe(np.array(d.size(0, 9), kind)),
    }
    return Case(d.kind, inputs, known=d.one((), ("B", "b_zero_point")))


@case("ConvInteger")
def conv_integer(d):
    inputs = {"x": d.array((1, 2, 5, 6), np.uint8, 0, 255), "w": d.array((3, 2, 2, 3), np.uint8, 0, 255)}
    inputs |= {"x_zero_point": d.maybe(np.array(d.size(0, 255), np.uint8)), "w_zero_point": None}
    inputs["w_zero_point"] = d.maybe(d.array(d.one((), (3,)), np.uint8, 0, 9))
    return Case(d.kind, inputs, window(d, 2, [2, 3], True), known=d.one((), ("w", "w_zero_point")))


def _quantity(d, kind=np.uint8, low=0.02, high=0.1):
    return np.float32(d.array((), F32, low, high)), np.array(d.size(0, 40), kind)


@case("QLinearConv")
def qlinear_conv(d):
    first, last = _quantity(d), _quantity(d, low=0.2, high=0.4)
    scale = d.one(np.float32(0.02), d.array((3,), F32, 0.01, 0.03))
    point = np.zeros(np.shape(scale), np.int8)
    arrays = (
        d.array((1, 2, 5, 6), np.uint8, 0, 255),
        *first,
        d.array((3, 2, 2, 3), np.int8, -127, 127),
        scale,
        point,
        *last,
    )
    names = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
    inputs = {**dict(zip(names, arrays, strict=True)), "B": d.maybe(d.array((3,), np.int32, -9, 9))}
    return Case(d.kind, inputs, window(d, 2, [2, 3], True), known=(*names[1:], "B"), loose=1)


@case("QLinearMatMul")
def qlinear_matmul(d):
    names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
    arrays = (
        *(d.array((3, 5), np.uint8, 0, 255), *_quantity(d)),
        *(d.array((5, 4), np.uint8, 0, 255), *_quantity(d)),
        *_quantity(d, low=0.5, high=1.0),
    )
    return Case(d.kind, dict(zip(names, arrays, strict=True)), known=d.one(names[1:], ()), loose=1)


@case("Reshape")
def reshape(d):
    shape = d.shape(1, 4)
    wanted = d.one((-1,), (0, -1), (1, -1, 1), shape[::-1])
    return Case(
        d.kind,
        {"data": d.array(shape, d.dtype(F32, np.int64)), "shape": d.numbers(*wanted)},
        known=("shape",) if d.opset < 5 else d.one((), ("shape",)),
    )


@case("Transpose")
def transpose(d):
    shape = d.shape()
    attrs = {"perm": [int(one) for one in d.rng.permutation(len(shape))]} if d.maybe(True, 0.8) else {}
    return Case(d.kind, {"data": d.array(shape, d.dtype(F32, np.int64, bool))}, attrs)


@case("Flatten")
def flatten(d):
    shape = d.shape()
    attrs = (
        {"axis": int(d.rng.integers(0 if d.opset < 11 else -len(shape), len(shape) + 1))} if d.maybe(True, 0.8) else {}
    )
    return Case(d.kind, {"input": d.array(shape, d.dtype(F32, np.int64))}, attrs)


@case("Squeeze")
def squeeze(d):
    axes = d.maybe(d.numbers(*d.one((0,), (2,), (0, 2), (0, -1) if d.opset >= 11 else (0,))))
    return Case(d.kind, {"data": d.array((1, d.size(2), 1), d.dtype(F32, np.int64)), "axes": axes}, known=("axes",))


@case("Unsqueeze")
def unsqueeze(d):
    axes = d.numbers(*d.one((0,), (1,), (0, 2), (0, -1) if d.opset >= 11 else (0,)))
    return Case(d.kind, {"data": d.array((2, 3), d.dtype(F32, np.int64)), "axes": axes}, known=("axes",))


@case("Slice")
def slice_(d):
    shape = d.shape(2, 3)
    inputs = {
        "data": d.array(shape, d.dtype(F32, np.int64)),
        "starts": d.numbers(d.size(0, 1), -3),
        "ends": d.numbers(9, d.size(1, 3)),
    }
    inputs["axes"] = d.maybe(d.numbers(0, 1), 0.7)
    if d.opset >= 10 and inputs["axes"] is not None:
        inputs["steps"] = d.maybe(d.numbers(1, d.size(1, 2)))
    return Case(d.kind, inputs, known=tuple(inputs)[1:] if d.opset < 10 else d.one((), tuple(inputs)[1:]))


@case("Split")
def split(d):
    count = d.size(1, 3)
    dim = 2 * count if d.opset < 18 else d.size(count, 7)
    sizes = d.maybe(d.numbers(*[1] * (count - 1), dim - count + 1))
    attrs = {"axis": d.axis(2)}
    if sizes is None:
        attrs["num_outputs"] = count
    shape = [3, 3]
    shape[attrs["axis"]] = dim
    return Case(
        d.kind,
        {"input": d.array(shape, d.dtype(F32, np.int64)), "split": sizes},
        attrs,
        known=("split",),
        outputs=count,
    )


@case("Concat")
def concat(d):
    shape = [*d.shape(1, 3)]
    axis, arrays, kind = d.axis(len(shape)), [], d.dtype(F32, np.int64)
    for _ in range(d.size(1, 3)):
        shape[axis] = d.size()
        arrays.append(d.array(shape, kind))
    return Case(d.kind, {"inputs": arrays}, {"axis": axis})


@case("Expand")
def expand(d):
    return Case(
        d.kind,
        {"input": d.array((3, 1), d.dtype(F32, np.int64)), "shape": d.numbers(2, 1, d.size())},
        known=d.one((), ("shape",)),
    )


@case("Tile")
def tile(d):
    shape = d.shape(1, 3)
    if d.opset < 6:
        return Case(
            d.kind, {"input": d.array(shape), "tiles": np.float32(2), "axis": np.float32(0)}, known=("tiles", "axis")
        )
    return Case(
        d.kind,
        {"input": d.array(shape, d.dtype(F32, np.int64)), "repeats": d.numbers(*[d.size(1, 2) for _ in shape])},
        known=d.one((), ("repeats",)),
    )


@case("Pad")
def pad(d):
    shape = [d.size(3, 5) for _ in range(d.size(1, 3))]
    kind = d.dtype(F32, F64)
    pads = d.array((2 * len(shape),), np.int64, 0 if d.maybe(True, 0.8) else -1, 2)
    modes = ["constant", "reflect", "edge", *["wrap"] * (d.opset >= 19)]
    attrs = {"mode": d.one(*modes)} if d.maybe(True) else {}
    if attrs.get("mode", "constant") != "constant":
        pads = np.maximum(pads, 0)
    value = d.maybe(kind(1.5)) if attrs.get("mode", "constant") == "constant" else None
    inputs = {"data": d.array(shape, kind), "pads": pads, "constant_value": value}
    if d.opset >= 18 and d.maybe(True, 0.3):
        inputs["axes"] = d.numbers(*d.axes(len(shape)))
        inputs["pads"] = pads[: 2 * len(inputs["axes"])]
    known = ("pads", "constant_value", "axes")
    return Case(d.kind, inputs, attrs, known=known if d.opset < 11 else d.one(known, known, ()))


@case("Shape", "Size")
def shape(d):
    attrs = (
        {"start": d.one(0, 1, -1), "end": d.one(2, -1, 3)}
        if d.kind == "Shape" and d.opset >= 15 and d.maybe(True)
        else {}
    )
    return Case(d.kind, {"data": d.array(d.shape(2), d.dtype(F32, np.int64))}, attrs)


@case("ConstantOfShape")
def constant_of_shape(d):
    value = numpy_helper.from_array(np.array([d.size()], d.one(F32, np.int64, np.uint8)))
    return Case(
        d.kind,
        {"input": d.numbers(2, d.size())},
        {"value": value} if d.maybe(True) else {},
        known=d.one((), ("input",)),
    )


@case("Constant")
def constant(d):
    if d.opset >= 12 and d.maybe(True):
        return Case(
            d.kind,
            {},
            d.one({"value_floats": [1.0, 2.0]}, {"value_int": 3}, {"value_ints": [3, 4]}, {"value_float": 2.0}),
        )
    return Case(d.kind, {}, {"value": numpy_helper.from_array(d.array((2, 3), d.one(F32, np.int64)))})


@case("DepthToSpace", "SpaceToDepth")
def blocks(d):
    block = d.size(1, 2)
    attrs = {"blocksize": block}
    if d.kind == "DepthToSpace":
        attrs["mode"] = d.one("DCR", "CRD")
    return Case(d.kind, {"input": d.array((d.size(1, 2), 2 * block**2, 2 * block, block), d.dtype(F32, F64))}, attrs)


@case("Compress")
def compress(d):
    shape = d.shape(2, 3)
    axis = d.maybe(d.axis(len(shape)))
    count = int(np.prod(shape)) if axis is None else shape[axis]
    inputs = {"input": d.array(shape, d.dtype(F32, np.int64)), "condition": d.array((d.size(1, count),), bool)}
    return Case(d.kind, inputs, {} if axis is None else {"axis": axis}, known=d.one((), ("condition",)))


@case("ReverseSequence")
def reverse_sequence(d):
    batch = d.one(0, 1)
    shape = d.size(2, 4), d.size(2, 4), 2
    inputs = {"input": d.array(shape), "sequence_lens": d.array((shape[batch],), np.int64, 1, shape[1 - batch])}
    return Case(d.kind, inputs, {"batch_axis": batch, "time_axis": 1 - batch})


@case("Unique")
def unique(d):
    shape = d.shape(1, 3)
    attrs = {} if d.maybe(True) else {"axis": d.axis(len(shape))}
    if d.maybe(True):
        attrs["sorted"] = d.one(0, 1)
    return Case(d.kind, {"X": d.array(shape, d.dtype(F32, np.int64), 0, 2).round()}, attrs, outputs=d.one(1, 4))


@case("Det")
def determinant(d):
    size = d.size(1, 4)
    return Case(d.kind, {"X": d.array((*d.shape(0, 2), size, size))}, scale=10)


@case("TensorScatter")
def tensor_scatter(d):
    cache = d.array((2, 2, 5, 3))
    inputs = {
        "past_cache": cache,
        "update": d.array((2, 2, d.size(1, 3), 3)),
        "write_indices": d.maybe(d.array((2,), np.int64, 0, 2)),
    }
    return Case(d.kind, inputs, {"mode": d.one("linear", "circular")} if d.maybe(True) else {})


@case("DFT")
def dft(d):
    complex_ = d.one(1, 2)
    inputs = {
        "input": d.array((2, d.size(2, 6), d.size(2, 6), complex_)),
        "dft_length": d.maybe(np.array(d.size(2, 7), np.int64), 0.4),
    }
    attrs = {"inverse": d.one(0, 1), "onesided": d.one(0, 1) if complex_ == 1 else 0}
    if attrs["onesided"]:
        attrs["inverse"] = 0
    axis = d.maybe(d.one(1, 2), 0.8)
    if d.opset < 20:
        attrs |= {} if axis is None else {"axis": axis}
    else:
        inputs["axis"] = None if axis is None else np.array(axis, np.int64)
    return Case(d.kind, inputs, attrs, known=("dft_length", "axis"), scale=10)


@case("STFT")
def stft(d):
    size = d.one(4, 6, 8)
    inputs = {"signal": d.array((2, 16, 1)), "frame_step": np.array(d.size(1, 4), np.int64)}
    inputs |= {"window": d.maybe(d.array((size,), F32, 0, 1)), "frame_length": np.array(size, np.int64)}
    return Case(
        d.kind,
        inputs,
        {"onesided": d.one(0, 1)} if d.maybe(True) else {},
        known=("frame_step", "frame_length"),
        scale=10,
    )


@case("MelWeightMatrix")
def mel(d):
    arrays = (np.array(d.size(3, 8), np.int64), np.array(d.one(16, 64, 4096), np.int64), np.array(16000, np.int64))
    arrays = (*arrays, np.float32(d.one(0.0, 100.0)), np.float32(7600))
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    return Case(d.kind, dict(zip(names, arrays, strict=True)), known=d.one((), names))


@case("HannWindow", "HammingWindow", "BlackmanWindow")
def window_(d):
    return Case(
        d.kind, {"size": np.array(d.size(2, 9), np.int64)}, {"periodic": d.one(0, 1)}, known=d.one((), ("size",))
    )


@case("Col2Im")
def col2im(d):
    attrs = {"strides": [2, 1], "pads": [1, 0, 0, 1]}
    inputs = {"input": d.array((2, 6, 12)), "image_shape": d.numbers(6, 5), "block_shape": d.numbers(2, 3)}
    return Case(d.kind, inputs, attrs, known=("image_shape", "block_shape"))


@case("CenterCropPad")
def center(d):
    attrs = {"axes": [1, 0]} if d.maybe(True) else {}
    return Case(
        d.kind,
        {"input_data": d.array((d.size(), d.size())), "shape": d.numbers(d.size(), d.size())},
        attrs,
        known=("shape",),
    )


@case("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d):
    rest = d.shape(0, 2)
    names = ("input", "target") if d.kind[0] == "N" else ("scores", "labels")
    inputs = {names[0]: d.array((3, 4, *rest)), names[1]: d.array((3, *rest), np.int64, 0, 3)}
    if d.maybe(True, 0.4):
        inputs["weight" if d.kind[0] == "N" else "weights"] = d.array((4,), F32, 0.2, 2)
    attrs = {"reduction": d.one("none", "mean", "sum")} if d.maybe(True) else {}
    if d.maybe(True, 0.3):
        attrs["ignore_index"] = d.size(0, 3)
    return Case(d.kind, inputs, attrs)


@case("Attention")
def attention(d):
    group, heads, tokens, keys, size = d.one(1, 2), d.size(1, 2), d.size(1, 4), d.size(1, 5), d.size(1, 4)
    inputs = {
        "Q": d.array((2, group * heads, tokens, size)),
        "K": d.array((2, heads, keys, size)),
        "V": d.array((2, heads, keys, 3)),
    }
    inputs["attn_mask"] = d.maybe(d.array((tokens, keys)))
    attrs = {"is_causal": d.one(0, 1)}
    attrs |= {name: 0.5 for name in ("scale", "softcap") if d.maybe(name, 0.3)}
    return Case(d.kind, inputs, attrs)


@case("RotaryEmbedding")
def rotary(d):
    size = d.one(4, 8)
    inputs = {
        "X": d.array((2, 3, 4, size)),
        "cos_cache": d.array((10, size // 2)),
        "sin_cache": d.array((10, size // 2)),
        "position_ids": d.array((2, 4), np.int64, 0, 9),
    }
    return Case(d.kind, inputs, {"interleaved": d.one(0, 1)} if d.maybe(True) else {})


def model_of(case, opset, *, is_open=False, has_ranks=True):
    """A model of the node, and the arrays of its inputs, which may have open dims or no known rank."""
    schema = onnx.defs.get_schema(case.kind, opset, case.domain)
    formal = [one.name for one in schema.inputs]
    names, attrs, infos, known, feeds = [""] * len(formal), {}, [], [], {}
    attrs.update({name: value for name, value in case.attrs.items() if name in schema.attributes})
    for place, (name, given) in enumerate(case.inputs.items()):
        old = OLD_NAMES.get(name, name)
        if name not in formal and old in schema.attributes:
            if given is not None:
                attrs[old] = given.tolist() if given.size != 1 or name != "K" else int(given.reshape(-1)[0])
            continue
        at = formal.index(name) if name in formal else place
        arrays = given if isinstance(given, list) else [given]
        for number, array in enumerate(arrays):
            if array is None or at >= len(formal):
                continue
            label = f"{name}_{number}" if isinstance(given, list) else name
            while len(names) <= at + number:
                names.append("")
            names[at + number] = label
            array = np.asarray(array)
            if name in case.known:
                known.append(numpy_helper.from_array(array, label))
                continue
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            dims = [f"{label}_{axis}" for axis in range(array.ndim)] if is_open else array.shape
            infos.append(helper.make_tensor_value_info(label, kind, dims if has_ranks else None))
            feeds[label] = array
    while names and not names[-1]:
        names.pop()
    results = [f"y{place}" for place in range(case.outputs)]
    node = helper.make_node(case.kind, names, results, domain=case.domain, **attrs)
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], "model", infos, outputs, known)
    opsets = [helper.make_opsetid(case.domain, opset)]
    opsets += [helper.make_opsetid("", 21)] if case.domain else []
    version = max(IR, helper.find_min_ir_version_for(opsets, ignore_unknown=True))
    return helper.make_model(graph, opset_imports=opsets, ir_version=version), feeds
