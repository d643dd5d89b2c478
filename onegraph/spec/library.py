"""What the library refuses, crashes on, or computes wrong although the specification allows it: data, with reasons.

Every quirk was seen in oneDNN 3.2.0. ``library``: it refuses, by a status or an exception; ``unsafe``: it would crash,
hang or give wrong numbers without a word. The one-to-one objects refuse both; the executor takes another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .convolution import SHAPE_SOURCE
from .reduction import reduced_axes
from .schema import Call, Version

LIBRARY, UNSAFE = "library", "unsafe"

# The texts and the C header spell these one way, the library takes only the other.
LIBRARY_VALUES = {
    "auto_pad": {"none": "None", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
}
# Ops that read or write dense row-major tensors only, whatever strides they are told.
DENSE_ONLY = frozenset(
    [
        "LayerNorm",
        "LayerNormBackward",
        "SoftMaxBackward",
        "LogSoftmax",
        "LogSoftmaxBackward",
        "PReLU",
        "PReLUBackward",
        "Quantize",
        "Dequantize",
        "DynamicQuantize",
        "DynamicDequantize",
    ]
)


@dataclass(frozen=True)
class Quirk:
    """One thing that the library gets wrong: for which ops, when, since which version it is right."""

    name: str
    severity: str
    kinds: frozenset[str]
    when: Callable[[Call], bool]
    reason: str
    mended: Version | None = None

    def applies(self, call: Call, version: tuple[int, int, int]) -> bool:
        """Whether a library of ``version`` gets this call wrong."""
        if call.schema.kind not in self.kinds or (self.mended is not None and version >= self.mended):
            return False
        return self.when(call)


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _empty(call: Call) -> bool:
    return any(tensor is not None and tensor.shape is not None and 0 in tensor.shape for tensor in call.inputs)


def _known_reduction(call: Call) -> tuple[int | None, ...]:
    axes, shape = reduced_axes(call), call.shape("src")
    return () if axes is None or shape is None else tuple(shape[axis] for axis in axes)


_CONVOLUTIONS = (
    "Convolution ConvolutionBackwardData ConvolutionBackwardWeights ConvTranspose ConvTransposeBackwardData "
    "ConvTransposeBackwardWeights"
)
_REDUCTIONS = _kinds("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")

QUIRKS = (
    Quirk(
        "grouped_gradient",
        LIBRARY,
        _kinds("ConvolutionBackwardData"),
        lambda call: call.s64("groups") > 1,
        "groups > 1 never compiles (invalid_shape); ConvTranspose with the same weights is the same op",
    ),
    Quirk(
        "dilated_gradient",
        LIBRARY,
        _kinds("ConvTransposeBackwardData"),
        lambda call: any(dilation != 1 for dilation in call.s64s("dilations")),
        "dilations other than 1 throw at compile; Convolution with the same weights is the same op",
    ),
    Quirk(
        "gradient_auto_pad",
        UNSAFE,
        _kinds(
            "ConvolutionBackwardData ConvolutionBackwardWeights ConvTransposeBackwardData "
            "ConvTransposeBackwardWeights AvgPoolBackward MaxPoolBackward"
        ),
        lambda call: call.attr("auto_pad") != "none",
        "auto_pad of a gradient op is computed from the wrong tensor; pads_begin and pads_end are right",
    ),
    Quirk(
        "gradient_output_padding",
        LIBRARY,
        _kinds("ConvTransposeBackwardData ConvTransposeBackwardWeights"),
        lambda call: call.has("output_padding"),
        "output_padding is documented for this op but not in its schema; it can be left out",
    ),
    Quirk(
        "shape_tensor",
        LIBRARY,
        frozenset(SHAPE_SOURCE) | _kinds("AvgPoolBackward"),
        lambda call: len(call.inputs) > len(call.schema.inputs) - 1 and call.inputs[-1] is not None,
        "a shape that is given as a tensor never compiles; the attribute of the same name does",
    ),
    Quirk(
        "axes_tensor",
        LIBRARY,
        _REDUCTIONS,
        lambda call: call.input("axes") is not None,
        "axes as an input are always rejected; the attribute of the same name is not",
    ),
    Quirk(
        "size_one_reduction",
        LIBRARY,
        _REDUCTIONS,
        lambda call: all(dim == 1 for dim in _known_reduction(call)),
        "a reduction over axes that all have size 1 throws at compile",
    ),
    Quirk(
        "empty_tensor",
        UNSAFE,
        _kinds(
            _CONVOLUTIONS + " MatMul AvgPool AvgPoolBackward MaxPool MaxPoolBackward Quantize Dequantize "
            "DynamicQuantize DynamicDequantize Concat Interpolate InterpolateBackward LayerNorm "
            "LayerNormBackward BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward "
            "PReLU PReLUBackward SoftMax SoftMaxBackward LogSoftmax LogSoftmaxBackward"
        )
        | _REDUCTIONS,
        _empty,
        "an empty tensor divides by zero, or leaves the result unwritten, in some of the kernels",
    ),
)


def quirks(call: Call, version: tuple[int, int, int]) -> list[Quirk]:
    """What a library of ``version`` gets wrong in this call, in base words."""
    return [quirk for quirk in QUIRKS if quirk.applies(call, version)]
