"""What the library refuses, crashes on, or computes wrong although the specification allows it: data, with reasons.

Every quirk was seen in oneDNN 3.2.0, or in a later version where it says ``since``. ``library``: it refuses, by a
status or an exception; ``unsafe``: it would crash, hang or give wrong numbers without a word. The one-to-one objects
refuse both; the executor takes another way. Those of convolutions and pools, of normalizations and of quantization
stand in files of their own.
"""

from __future__ import annotations

from functools import cache
from math import isinf

from ..errors import LIBRARY, UNSAFE
from ..opset.editions.registry import BASE
from ..opset.ops.reduction import reduced_axes
from ..opset.schema import Call
from .conditions import (
    INTEGRAL,
    batches_of_one_matrix,
    bias_of_many_axes,
    empty,
    has_large_factor,
    has_long_rows,
    has_long_side,
    known_reduction,
    one_column,
    over_one,
    slope_by_reference,
    sums_one_by_one,
    wide_integers,
)
from .coordinates import inexact_coordinates, misjudged_ties
from .normalization_quirks import NORMALIZATION_QUIRKS
from .quantization_quirks import QUANTIZATION_QUIRKS
from .quirk import Quirk, kinds
from .window_quirks import WINDOW_QUIRKS

_CONVOLUTIONS = (
    "Convolution ConvolutionBackwardData ConvolutionBackwardWeights ConvTranspose ConvTransposeBackwardData "
    "ConvTransposeBackwardWeights"
)
_REDUCTIONS = kinds("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")

QUIRKS = (
    *WINDOW_QUIRKS,
    Quirk(
        "axes_tensor",
        "axes",
        LIBRARY,
        _REDUCTIONS,
        lambda call: call.input("axes") is not None,
        "axes as an input are always rejected; the attribute of the same name is not",
    ),
    Quirk(
        "infinite_slope",
        "alpha",
        UNSAFE,
        kinds("HardSigmoid HardSigmoidBackward LeakyReLU"),
        lambda call: isinf(call.f32("alpha")),
        "an infinite alpha is multiplied by 0 where it has no part in the result, and a result that is NaN is a number",
    ),
    Quirk(
        "size_one_reduction",
        "axes",
        LIBRARY,
        _REDUCTIONS,
        lambda call: set(known_reduction(call)) == {1},
        "a reduction over axes that all have size 1 throws at compile",
    ),
    Quirk(
        "empty_reduction",
        "axes",
        LIBRARY,
        _REDUCTIONS,
        lambda call: reduced_axes(call) == (),
        "a reduction over no axes has no kernel",
    ),
    Quirk(
        "huge_product",
        "shape",
        UNSAFE,
        kinds("MatMul Convolution ConvTranspose ConvolutionBackwardData ConvTransposeBackwardData")
        | kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        has_long_side,
        "2**31 - 1 or more rows, columns or places of an image divide by zero at compile",
    ),
    Quirk(
        "large_factor",
        "shape",
        UNSAFE,
        frozenset(BASE) - kinds("End Wildcard"),  # as any of them may read or write another layout than its kernel's
        has_large_factor,
        "where elements are moved, compiling looks for a divisor of an axis among all numbers: a prime factor of "
        "2**31 - 1 or more takes minutes, or for ever",
    ),
    Quirk(
        "long_rows",
        "shape",
        UNSAFE,
        kinds("LayerNorm"),
        has_long_rows,
        "code is made for each element of the last axis: more than 2**24 take minutes and gigabytes to compile",
    ),
    Quirk(
        "long_sums",
        "src",
        UNSAFE,
        kinds("BatchNormForwardTraining BatchNormTrainingBackward SoftMax LogSoftmax InterpolateBackward")
        | kinds("ConvTransposeBackwardWeights"),
        sums_one_by_one,
        "more than 2**24 numbers are added up one by one in f32, so that the sum stands still",
    ),
    *NORMALIZATION_QUIRKS,
    *QUANTIZATION_QUIRKS,
    Quirk(
        "select_products",
        "cond",
        UNSAFE,
        kinds("Select"),
        lambda call: True,
        "what is not selected is multiplied by 0, which infinities survive; from rank 6 on it is a signal",
        mended=(3, 13),
        since=(3, 3),
    ),
    Quirk(
        "wide_integers",
        "src_0",
        UNSAFE,
        INTEGRAL,
        wide_integers,
        "s32 is computed in f32, which does not hold every integer above 2**24, and one of them is taken for another",
        since=(3, 7),  # seen in 3.13.2
    ),
    Quirk(
        "sizes_tensor",
        "sizes",
        LIBRARY,
        kinds("Interpolate InterpolateBackward"),
        lambda call: call.input("sizes") is not None,
        "sizes as an input are rejected, or ignored beside the attribute; the attribute alone is right",
    ),
    Quirk(
        "align_corners",
        "coordinate_transformation_mode",
        LIBRARY,
        kinds("Interpolate InterpolateBackward"),
        lambda call: call.string("coordinate_transformation_mode") == "align_corners",
        "align_corners is unsupported",
    ),
    Quirk(
        "one_column",
        "src",
        UNSAFE,
        kinds("Interpolate InterpolateBackward"),
        one_column,
        "where the last spatial axis of src has size 1, its stride is that of the result, or of another op that was "
        "compiled before: wrong values, some of them written beyond the result",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2 and 3.13.2
    ),
    Quirk(
        "inexact_coordinates",
        "src",
        UNSAFE,
        kinds("Interpolate InterpolateBackward"),
        inexact_coordinates,
        "coordinates along axes as long as these are not exact in f32: other elements are taken for the nearest, and "
        "gradients added to more or fewer than there are",
    ),
    Quirk(
        "misjudged_ties",
        "sizes",
        UNSAFE,
        kinds("InterpolateBackward"),
        misjudged_ties,
        "what is as near to one element as to the next may be added to neither or to both of them",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2 and 3.13.2
    ),
    Quirk(
        "matmul_over_one",
        "src",
        UNSAFE,
        kinds("MatMul"),
        over_one,
        "a sum over one element leaves the result unwritten where the rank is 4 or more",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2
        mended=(3, 13),
    ),
    Quirk(
        "matmul_batches",
        "src",
        UNSAFE,
        kinds("MatMul"),
        batches_of_one_matrix,
        "the rows of batches along the first axis of four, where the second has size 1 and all meet one matrix, are "
        "looked for a whole matrix apart: wrong values, or a crash",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2
        mended=(3, 13),
    ),
    Quirk(
        "matmul_bias",
        "bias",
        UNSAFE,
        kinds("MatMul"),
        bias_of_many_axes,
        "a bias of more than two axes is an endless loop where a batch of matrices meets one matrix; one of more than "
        "one axis is added along other axes beside a vector",
    ),
    Quirk(
        "prelu_rank",
        "src",
        UNSAFE,
        kinds("PReLU PReLUBackward"),
        lambda call: call.rank("src") in (0, 1),
        "a src without a channel axis crashes at compile",
    ),
    Quirk(
        "prelu_by_reference",
        "slope",
        UNSAFE,
        kinds("PReLU PReLUBackward"),
        slope_by_reference,
        "the kernel for a slope that is neither one for each element nor one for each channel reads five dims of src, "
        "and with fewer axes that is whatever lies in memory",
    ),
    Quirk(
        "concat_limits",
        "inputs",
        LIBRARY,
        kinds("Concat"),
        lambda call: len(call.inputs) > 64 or any(t is not None and (t.rank or 0) > 6 for t in call.inputs),
        "at most 64 inputs of at most 6 axes are taken",
    ),
    Quirk(
        "empty_tensor",
        "inputs",
        UNSAFE,
        kinds(
            _CONVOLUTIONS + " MatMul AvgPool AvgPoolBackward MaxPool MaxPoolBackward Quantize Dequantize "
            "DynamicQuantize DynamicDequantize Concat Interpolate InterpolateBackward GroupNorm LayerNorm "
            "LayerNormBackward BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward "
            "PReLU PReLUBackward SoftMax SoftMaxBackward LogSoftmax LogSoftmaxBackward"
        )
        | _REDUCTIONS,
        empty,
        "an empty tensor divides by zero, or leaves the result unwritten, in some of the kernels",
    ),
)


@cache
def _of_kind(kind: str) -> tuple[Quirk, ...]:
    return tuple(quirk for quirk in QUIRKS if kind in quirk.kinds)


def quirks(call: Call, version: tuple[int, int, int]) -> list[Quirk]:
    """What a library of ``version`` gets wrong in this call, in base words."""
    return [quirk for quirk in _of_kind(call.schema.kind) if quirk.applies(call, version)]
