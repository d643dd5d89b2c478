"""Defines the elementwise category: ops that compute each element of one tensor separately, and their gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..schema import Call, RuleFinding, Schema, same_shape
from ..shapes import inputs_alike
from ..signature import FLOATS, NON_NEGATIVE, Attribute, ports
from ..traits import Trait

ALPHA = Attribute("alpha", "f32", "", required=True)
BETA = Attribute("beta", "f32", "", required=True)


def described(attribute: Attribute, doc: str) -> Attribute:
    """A copy of the attribute with another doc text."""
    return replace(attribute, doc=doc)


def use_dst(default: bool = True) -> Attribute:
    """The attribute use_dst of gradient ops."""
    return Attribute(
        "use_dst", "bool", "True: the first input is dst of the forward op; False: it is src.", default=default
    )


def bounds_in_order(call: Call) -> Iterable[RuleFinding]:
    """min is at most max."""
    if call.f32("min") > call.f32("max"):
        yield RuleFinding("min", call.f32("min"), f"at most max = {call.f32('max')}")


def unary(
    kind: str, name: str, doc: str, *attributes: Attribute, traits: Trait = Trait.NONE, **fields: object
) -> Schema:
    """Schema of an op with one input and one output of the same data type and shape."""
    return Schema(
        kind,
        name,
        "elementwise",
        doc,
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        same_shape,
        attributes,
        traits=Trait.POINTWISE | traits,
        **fields,  # type: ignore[arg-type]
    )


def gradient(kind: str, name: str, doc: str, *attributes: Attribute, **fields: object) -> Schema:
    """Schema of the gradient of a unary op; its inputs are src (dst with use_dst) and diff_dst."""
    return Schema(
        kind,
        name,
        "elementwise",
        doc,
        ports("src:T diff_dst:T"),
        ports("diff_src:T"),
        FLOATS,
        same_shape,
        attributes,
        shape_rules=(inputs_alike,),
        traits=Trait.POINTWISE,
        **fields,  # type: ignore[arg-type]
    )


ELU_ALPHA = Attribute("alpha", "f32", "Scale of the negative part.", required=True, range=NON_NEGATIVE)
SLOPE = described(ALPHA, "Slope of the linear part of hard_sigmoid(src) = clip(alpha * src + beta, 0, 1).")
OFFSET = described(BETA, "Offset of the linear part.")
SOFTPLUS_BETA = Attribute("beta", "f32", "Sharpness: a larger beta is nearer to ReLU.", default=1.0)
CLAMP = (
    Attribute("min", "f32", "Lower bound.", required=True),
    Attribute("max", "f32", "Upper bound.", required=True),
)
GELU_MODE = Attribute(
    "mode",
    "str",
    "gelu_erf: exact, with the error function; gelu_tanh: approximated with tanh.",
    default="gelu_erf",
    values=("gelu_erf", "gelu_tanh"),
    since=(3, 9),
)

OPS = (
    unary("Abs", "abs", "dst = |src|", traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary(
        "Clamp",
        "clamp",
        "dst = min(max(src, min), max)",
        *CLAMP,
        rules=(bounds_in_order,),
        traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS,
    ),
    unary("Elu", "elu", "dst = src where src > 0, else alpha * (exp(src) - 1)", ELU_ALPHA, traits=Trait.KEEPS_ERRORS),
    unary("Exp", "exp", "dst = exp(src)"),
    unary(
        "GELU",
        "gelu",
        "dst = src * Phi(src), Phi the distribution function of the normal distribution",
        GELU_MODE,
        traits=Trait.KEEPS_ERRORS | Trait.BOUNDED,
    ),
    unary(
        "HardSigmoid",
        "hard_sigmoid",
        "dst = min(max(alpha * src + beta, 0), 1)",
        SLOPE,
        OFFSET,
        since=(3, 1),
        traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED,
    ),
    unary(
        "HardSwish",
        "hard_swish",
        "dst = src * min(max(src + 3, 0), 6) / 6",
        traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS | Trait.BOUNDED,
    ),
    unary(
        "LeakyReLU",
        "leaky_relu",
        "dst = src where src >= 0, else alpha * src",
        described(ALPHA, "Slope of the negative part."),
        traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS,
    ),
    unary("Log", "log", "dst = ln(src)"),
    unary("Mish", "mish", "dst = src * tanh(ln(1 + exp(src)))", traits=Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Pow", "pow", "dst = src ** beta", described(BETA, "The exponent."), since=(3, 2)),
    unary("ReLU", "relu", "dst = max(src, 0)", traits=Trait.POLYNOMIAL | Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Reciprocal", "reciprocal", "dst = 1 / src"),
    unary(
        "Round",
        "round",
        "dst = src rounded to the nearest integer, halves to the even one",
        traits=Trait.POLYNOMIAL | Trait.JUMPS,
    ),
    unary("Sigmoid", "sigmoid", "dst = 1 / (1 + exp(-src))", traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED),
    unary("SoftPlus", "softplus", "dst = ln(1 + exp(beta * src)) / beta", SOFTPLUS_BETA, traits=Trait.KEEPS_ERRORS),
    unary("Sqrt", "sqrt", "dst = src ** 0.5"),
    unary("Square", "square", "dst = src ** 2", traits=Trait.POLYNOMIAL),
    unary("Tanh", "tanh", "dst = tanh(src)", traits=Trait.KEEPS_ERRORS | Trait.BOUNDED | Trait.UNIT_BOUNDED),
    gradient("AbsBackward", "abs_backward", "diff_src = diff_dst * sign(src)"),
    gradient(
        "ClampBackward",
        "clamp_backward",
        "diff_src = diff_dst where min < src < max, else 0",
        *CLAMP,
        use_dst(),
        rules=(bounds_in_order,),
    ),
    gradient(
        "EluBackward",
        "elu_backward",
        "diff_src = diff_dst where src > 0, else diff_dst * alpha * exp(src), which is diff_dst * (dst + alpha)",
        ELU_ALPHA,
        use_dst(),
    ),
    gradient("GELUBackward", "gelu_backward", "diff_src = diff_dst * (Phi(src) + src * Phi'(src))", GELU_MODE),
    gradient(
        "HardSigmoidBackward",
        "hard_sigmoid_backward",
        "diff_src = diff_dst * alpha where 0 < alpha * src + beta < 1, else 0",
        SLOPE,
        OFFSET,
        since=(3, 1),
    ),
    gradient(
        "HardSwishBackward",
        "hard_swish_backward",
        "diff_src = diff_dst where src >= 3, 0 where src <= -3, else diff_dst * (2 * src + 3) / 6",
    ),
    gradient("MishBackward", "mish_backward", "diff_src = diff_dst times the derivative of Mish at src"),
    gradient("ReLUBackward", "relu_backward", "diff_src = diff_dst where src > 0, else 0", use_dst()),
    gradient(
        "SigmoidBackward",
        "sigmoid_backward",
        "diff_src = diff_dst * dst * (1 - dst), dst = sigmoid(src)",
        use_dst(),
    ),
    gradient("SoftPlusBackward", "softplus_backward", "diff_src = diff_dst / (1 + exp(-beta * src))", SOFTPLUS_BETA),
    gradient("SqrtBackward", "sqrt_backward", "diff_src = diff_dst / (2 * dst), dst = sqrt(src)", use_dst()),
    gradient("TanhBackward", "tanh_backward", "diff_src = diff_dst * (1 - dst ** 2), dst = tanh(src)", use_dst()),
)
