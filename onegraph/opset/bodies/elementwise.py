"""Bodies of ops on single elements: GELU by tanh, and gradients."""

from __future__ import annotations

from math import pi, sqrt

from ...errors import UnsupportedError
from ..ops.binary import slope_target
from ..schema import Call
from ..signature import Shape
from .expression import Expression, body

# 2 u of GELU by tanh is GELU_SLOPE * (x + GELU_CUBE * x ** 3), where u is the argument of the tanh.
GELU_SLOPE, GELU_CUBE = 2 * sqrt(2 / pi), 0.044715


def _of(call: Call, kind: str, src: Expression) -> Expression:
    """The result of the op: the source of the gradient op if it is that of ``use_dst``."""
    return src if call.flag("use_dst") else src.op(kind)


def _gelu_share(x: Expression) -> tuple[Expression, Expression]:
    """sigmoid(2 u), and the square of x."""
    square = x.square()
    return (x * (square * (GELU_CUBE * GELU_SLOPE) + GELU_SLOPE)).op("Sigmoid"), square


@body("GELU")
def gelu(call: Call, x: Expression) -> Expression:
    """0.5 * x * (1 + tanh(u)) as x * sigmoid(2 u); x * phi(x) of the normal distribution."""
    return x * (_gelu_share(x)[0] if call.string("mode") == "gelu_tanh" else _phi(x))


def _phi(x: Expression) -> Expression:
    return ((x * sqrt(0.5)).op("Erf") + 1.0) * 0.5


@body("GELUBackward")
def gelu_backward(call: Call, x: Expression, diff: Expression) -> Expression:
    """The gradient of x * s with s = sigmoid(2 u): diff * (s + x * (s - s ** 2) * 2 u')."""
    if call.string("mode") == "gelu_tanh":
        share, square = _gelu_share(x)
        steep = x * (square * (3 * GELU_CUBE * GELU_SLOPE) + GELU_SLOPE)
        return diff * (share + (share - share.square()) * steep)
    return diff * (_phi(x) + x * ((x.square() * -0.5).op("Exp") * (1 / sqrt(2 * pi))))


@body("AbsBackward")
def abs_backward(_: Call, src: Expression, diff: Expression) -> Expression:
    return diff * src.op("Sign")


@body("ClampBackward")
def clamp_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    return (src > call.f32("min")).where((src < call.f32("max")).where(diff, 0.0), 0.0)


@body("EluBackward")
def elu_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    alpha = call.f32("alpha")
    # exp of large numbers, which are not chosen, would make the next gradient NaN.
    slope = src + alpha if call.flag("use_dst") else src.op("Minimum", 0.0).op("Exp") * alpha
    return (src > 0.0).where(diff, diff * slope)


@body("HardSigmoidBackward")
def hard_sigmoid_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    alpha = call.f32("alpha")
    line = src * alpha + call.f32("beta")
    return (line > 0.0).where((line < 1.0).where(diff * alpha, 0.0), 0.0)


@body("HardSwishBackward")
def hard_swish_backward(_: Call, src: Expression, diff: Expression) -> Expression:
    middle = (src <= -3.0).where(0.0, diff * ((src * 2.0 + 3.0) / 6.0))
    return (src >= 3.0).where(diff, middle)


@body("MishBackward")
def mish_backward(_: Call, src: Expression, diff: Expression) -> Expression:
    t = src.op("SoftPlus").op("Tanh")
    return diff * (t + src * src.op("Sigmoid") * t.square().one_minus())


@body("ReLUBackward")
def relu_backward(_: Call, src: Expression, diff: Expression) -> Expression:
    return (src > 0.0).where(diff, 0.0)


@body("SigmoidBackward")
def sigmoid_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    dst = _of(call, "Sigmoid", src)
    return diff * (dst * dst.one_minus())


@body("SoftPlusBackward")
def softplus_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    return diff * (src * call.f32("beta")).op("Sigmoid")


@body("SqrtBackward")
def sqrt_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    return diff / (_of(call, "Sqrt", src) * 2.0)


@body("TanhBackward")
def tanh_backward(call: Call, src: Expression, diff: Expression) -> Expression:
    return diff * _of(call, "Tanh", src).square().one_minus()


def _dims(call: Call, port: str, shape: Shape) -> tuple[int, ...]:
    """The dims of an input, all of which are known."""
    if shape is None or None in shape:
        raise UnsupportedError(f"{call.schema.kind}: dims of {port} are unknown; specialise the graph first")
    return tuple(dim for dim in shape if dim is not None)


@body("PReLUBackward")
def prelu_backward(call: Call, src: Expression, slope: Expression, diff: Expression) -> tuple[Expression, Expression]:
    if call.rank("src") is None:
        raise UnsupportedError(f"{call.schema.kind}: the rank of src is unknown; specialise the graph first")
    own = _dims(call, "slope", call.shape("slope"))
    shape = _dims(call, "slope", slope_target(call, own, call.shape("src")))
    spread = slope if shape[len(shape) - len(own) :] == own else slope.reshape(shape)
    positive = src > 0.0
    shared = [axis for axis, dim in enumerate(shape) if dim == 1]
    summed = positive.where(0.0, diff * src).reduce("ReduceSum", shared)
    return positive.where(diff, spread * diff), summed.reshape(own)


@body("PowBackprop-1")
def pow_backprop(call: Call, source: Expression, delta: Expression, exponent: Expression) -> Expression:
    slope = exponent.op("Equal", 0.0).where(0.0, exponent * source.op("Pow", exponent - 1.0))
    return _summed(call, "input_forward", delta * slope)


@body("PowBackpropExponent-1")
def pow_backprop_exponent(
    call: Call, source: Expression, delta: Expression, result: Expression, exponent: Expression
) -> Expression:
    slope = result * source.op("Log")
    slope = source.op("Equal", 0.0).where((exponent >= 0.0).where(0.0, slope), slope)
    return _summed(call, "exponent", delta * slope)


def _summed(call: Call, port: str, value: Expression) -> Expression:
    """The sum over the axes along which an input was broadcast, in the shape of that input."""
    shape = _dims(call, port, call.shape(port))
    added = len(_dims(call, "output_delta", call.shape("output_delta"))) - len(shape)
    axes = [axis + added for axis, dim in enumerate(shape) if dim == 1]
    return value.reduce("ReduceSum", [*range(added), *axes]).reshape(shape)
