"""Lists the elementwise ops for which the library loses NaN or an infinity, with the kernel of the package for each.

The library takes the larger of two numbers with an instruction that returns the second one if one of them is NaN. So a
ReLU of NaN is 0, alone and fused with the op before it, in every version. It multiplies by 0 where it should select, so
that an infinite gradient becomes NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...opset.dtypes import DataType
from ...opset.schema import Call

FLOATS = frozenset([DataType.f32, DataType.f16, DataType.bf16])


class Own(NamedTuple):
    """A kernel of the package that computes an op: its name, and the attributes that are inputs of the kernel."""

    kernel: str
    attrs: tuple[str, ...] = ()


def _by_mode(erf: Own | None, tanh: Own) -> Callable[[Call], Own | None]:
    def choose(call: Call) -> Own | None:
        by_tanh = call.schema.has_attribute("mode") and call.string("mode") == "gelu_tanh"
        return tanh if by_tanh else erf

    return choose


def _elu_backward(call: Call) -> Own:
    return Own("elu_backward_by_dst" if call.flag("use_dst") else "elu_backward_by_src", ("alpha",))


Choice = Own | Callable[[Call], Own | None]
# The ops that kernels of the package compute, in every version of the library; a function chooses by attributes, and
# returns None for a use that the library computes right.
ELEMENTWISE: Mapping[str, Choice] = {
    "AbsBackward": Own("abs_backward"),
    "Clamp": Own("clamp", ("min", "max")),
    "ClampBackward": Own("clamp_backward", ("min", "max")),
    "EluBackward": _elu_backward,
    "Exp": Own("exp"),
    "GELU": _by_mode(Own("gelu_erf"), Own("gelu_tanh")),
    "GELUBackward": _by_mode(None, Own("gelu_tanh_backward")),
    "GreaterEqual": Own("greater_equal"),
    "HardSigmoid": Own("hard_sigmoid", ("alpha", "beta")),
    "HardSigmoidBackward": Own("hard_sigmoid_backward", ("alpha", "beta")),
    "HardSwishBackward": Own("hard_swish_backward"),
    "Maximum": Own("maximum"),
    "Minimum": Own("minimum"),
    "MishBackward": Own("mish_backward"),
    "PReLU": Own("prelu"),
    "ReLU": Own("relu"),
    "ReLUBackward": Own("relu_backward"),
}


def own_kernel(call: Call) -> Own | None:
    """The kernel of the package for an op for which the library's loses NaN or an infinity; None for others."""
    choice = ELEMENTWISE.get(call.schema.kind)
    if choice is None:
        return None
    found = choice if isinstance(choice, Own) else choice(call)
    dtypes = {None if tensor is None else tensor.dtype for tensor in call.inputs}
    return found if FLOATS.issuperset(dtypes) and not any(0 in (shape or ()) for shape in call.shapes) else None
