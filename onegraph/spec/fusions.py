"""Fusions that the library computes wrong, although each of their ops alone is right.

All were seen in oneDNN 3.2.0. A condition may hold where the library would be right, never the other way round; what it
costs then is that the ops run one by one. The executor lets them do so, and the one-to-one objects refuse.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod

from .attention import wrong_attention
from .conditions import ends_behind_source, in_low_precision, misses_source, unread_as_padded
from .int8_fusions import (
    foreign_residual,
    foreign_scales,
    has_gaps,
    n_scales,
    overflowing_residual,
    overflows,
    scaled,
    shared_residual,
    shifted,
    shifted_source,
    shifted_weights,
)
from .movement import transposition
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, FOLDED, MAINS, POOLS, PRODUCTS, VIEWS, WILD_RANK, Operand, Use
from .window_quirks import BIAS_MENDED, BIAS_WRONG

# From here on, a vector along the last axis behind a binary op of tensors that lie channels last is read out of bounds.
WILD_VECTORS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# From here on, so is an operand behind a MatMul whose result lies with its axes in another order.
STRIDED_PRODUCTS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# LayerNorm and what follows it are fused since 3.3 or later; an operand of the same shape is right in 3.13.
LAYER_NORM_MENDED = (3, 13)
# From here on, a Quantize of several scales behind a MatMul takes the first for all: right in 3.6.2, wrong in 3.13.2.
WRONG_SCALES = (3, 7)
# From here on, a residual of the int8 that its product reads is added wrong: right in 3.2.0, wrong in 3.6.2.
WRONG_RESIDUAL = (3, 3)
# A Reorder that is added to and quantized by a scale fails in 3.2.0, and is right in 3.6.2.
REORDERED_SUM_MENDED = (3, 6)
# From here on, a convolution and one of single channels behind it are a signal: right in 3.2.0, not in 3.6.2.
WILD_DEPTHWISE = (3, 3)
# From here on, an int8 convolution is wrong where a window lies in padding: right in 3.6.2, wrong in 3.13.2.
WRONG_PADDING = (3, 7)


def wrong_fusion(uses: Sequence[Use], version: tuple[int, int, int], *, vnni: bool = True, avx2: bool = True) -> str:
    """Why a library of ``version`` must not run these ops, in an order in which they can run, as one kernel.

    Empty where it may.

    Args:
        uses: the ops.
        version: of the library.
        vnni: whether it may use instructions for sums of products of int8.
        avx2: whether it may use instructions that read memory of any alignment.
    """
    if all(use.kind in VIEWS for use in uses) and not _shuffles(uses):
        return "oneDNN takes every reshape, transpose, reshape for a shuffle of channels, and crashes where it is none"
    for number, main in enumerate(uses):
        for operand in _operands(main, uses[number + 1 :]):
            reason = _wrong_operand(main, operand, version)
            if reason:
                return reason
    for use in uses:
        if use.kind in FOLDED and sum(use.inputs[0] in other.inputs for other in uses) > 1:
            return f"oneDNN takes all the memory to compile a {use.kind} whose source is read twice"
    if any(use.kind == "Dropout" and len(use.outputs) > 1 for use in uses):
        return "oneDNN leaves the mask of a Dropout unwritten"
    kinds = {use.kind for use in uses}
    if "Quantize" in kinds and any(use.kind == "SoftMax" and len(use.outputs) > 1 for use in uses):
        return "oneDNN computes a SoftMax that is quantized, or its stats, wrong where the stats are there"
    if any(use.kind == "AvgPool" and not use.call.flag("exclude_pad") for use in uses) and shifted(uses):
        return "oneDNN takes the padding of an int8 AvgPool for the zero point"
    if "AvgPool" in kinds and overflows(uses):
        return "oneDNN lets an int8 AvgPool overflow where its scales are far apart"
    if {"Dequantize", "Reorder", "Quantize"} <= kinds and shifted(uses):
        return "oneDNN fails to execute Dequantize + Reorder + Quantize with zero points"
    if version < REORDERED_SUM_MENDED and kinds == {"Dequantize", "Reorder", "Add", "Quantize"} and scaled(uses):
        return "oneDNN fails on Dequantize + Reorder + Add + Quantize with a scale other than 1"
    if kinds & PRODUCTS and foreign_scales(uses):
        return "oneDNN takes scales along another axis than that of the output channels for theirs"
    if any(use.kind == "Quantize" and n_scales(use) > 1 for use in uses) and (
        kinds & {"SoftMax", "LayerNorm", "GroupNorm"} or (version >= WRONG_SCALES and "MatMul" in kinds)
    ):
        return "oneDNN quantizes all with the first of several scales"
    if any(use.kind == "ConvTranspose" and has_gaps(use, uses) for use in uses):
        return "oneDNN computes an int8 ConvTranspose wrong where its strides leave gaps"
    if {"SoftMax", "MatMul"} <= kinds and (reason := wrong_attention(uses, version)):
        return reason
    if kinds & PRODUCTS and foreign_residual(uses):
        return "oneDNN takes a residual for s8 where the result is, and for u8 where the result is u8"
    if "ConvTranspose" in kinds and kinds & DEQUANTIZATIONS and overflowing_residual(uses):
        return "oneDNN adds products of int8 in 16 bits for a ConvTranspose with such a residual, where they overflow"
    for use in uses if version >= WRONG_PADDING else ():
        pads = use.kind == "ConvTranspose" or (use.kind == "Convolution" and misses_source(use.call))
        if pads and shifted_source(use, uses):
            return f"oneDNN computes an int8 {use.kind} wrong where windows lie in padding and the zero point is not 0"
    if any(use.kind in CONVOLUTIONS and shifted_weights(use, uses) for use in uses):
        return "oneDNN takes the zero point of the weights of an int8 convolution for 0, or refuses it"
    convolutions = [use for use in uses if use.kind == "Convolution"]
    if version >= WILD_DEPTHWISE and any(_is_depthwise(use) for use in convolutions[1:]):
        return "oneDNN crashes on a Convolution of single channels in one kernel with one before it"
    for use in uses if BIAS_WRONG <= version < BIAS_MENDED and kinds & FOLDED else ():
        if use.kind == "Convolution" and ends_behind_source(use.call):
            return "oneDNN crashes on a Convolution with a bias whose last windows lie behind the source"
    if kinds & PRODUCTS and shared_residual(uses, same_op=version < WRONG_RESIDUAL):
        return "oneDNN crashes on a residual that is the source or the weights of its product, or adds it wrong"
    if {"SoftMax", "Quantize"} <= kinds and any(use.kind in BINARY and len({*use.inputs}) == 1 for use in uses):
        return "oneDNN computes SoftMax + Quantize wrong with a binary op of one tensor and itself between them"
    if "MatMul" in kinds and any(_normalizes_last(use) for use in uses):
        return "oneDNN takes the second axis for the channels of a BatchNormInference behind a MatMul"
    if "MatMul" in kinds and any(_normalizes_by_bf16(use) for use in uses):
        return "oneDNN computes a BatchNormInference with parameters of bf16 wrong behind a MatMul"
    if "StaticTranspose" in kinds and any(use.kind == "MatMul" and use.result[-2:-1] == (1,) for use in uses):
        return "oneDNN fails to execute a MatMul of one row whose result is transposed"
    formats = {use.call.string("data_format") for use in uses if use.kind in CONVOLUTIONS | {"BatchNormInference"}}
    if kinds & CONVOLUTIONS and "BatchNormInference" in kinds and len(formats) > 1:
        return "oneDNN takes the channels of a BatchNormInference for those of the convolution before it"
    if kinds & (DEQUANTIZATIONS | {"Add"}):
        if any(unread_as_padded(use.call) for use in convolutions):
            where = "where as much is unread at its end as there is padding before it"
            return f"oneDNN computes a Convolution that is added to or quantized wrong {where}"
        if not avx2 and "Add" in kinds and any(use.call.s64("groups") > 1 for use in convolutions):
            return "oneDNN adds to a Convolution of single channels as if all memory were aligned on a CPU without AVX2"
    if not vnni and kinds & PRODUCTS and sum(use.kind in DEQUANTIZATIONS for use in uses) > 1:
        return "oneDNN adds products of int8 in 16 bits on a CPU without VNNI, where they overflow"
    return ""


def _is_depthwise(use: Use) -> bool:
    """Whether each group of a convolution has one channel of the source."""
    return use.shape(1)[1 if use.call.string("weights_format") == "OIX" else -2] == 1


def _normalizes_last(use: Use) -> bool:
    """Whether it is a BatchNormInference whose channels are the last of three or more axes."""
    return use.kind == "BatchNormInference" and use.call.string("data_format") == "NXC" and len(use.shape(0)) > 2


def _normalizes_by_bf16(use: Use) -> bool:
    """Whether it is a BatchNormInference whose parameters and statistics are of bf16."""
    return use.kind == "BatchNormInference" and in_low_precision(use.call, 1)


def _shuffles(uses: Sequence[Use]) -> bool:
    """Whether a reshape splits an axis in two, a transpose swaps the two, and a reshape makes them one again."""
    if [use.kind for use in uses] != ["StaticReshape", "StaticTranspose", "StaticReshape"]:
        return False
    whole, split, order = uses[0].shape(0), uses[1].shape(0), transposition(uses[1].call)
    if len(whole) < 2 or len(split) != len(whole) + 1 or uses[2].result != whole:
        return False
    return any(
        order == (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
        and split == (*whole[:axis], split[axis], split[axis + 1], *whole[axis + 1 :])
        for axis in range(len(whole))
    )


def wrong_strides(uses: Sequence[Use], strided: Container[int], version: tuple[int, int, int]) -> str:
    """Why a library must not run these ops as one kernel on values that are not dense; empty where it may.

    Args:
        uses: in an order in which they can run.
        strided: the values that are not dense.
        version: of the library.
    """
    if version >= STRIDED_PRODUCTS and any(number in strided for use in uses for number in use.outputs):
        for number, main in enumerate(uses):
            for operand in _operands(main, uses[number + 1 :]) if main.kind == "MatMul" else ():
                if not operand.single and operand.shape != operand.result:
                    where = "behind a MatMul whose result is not dense"
                    return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    main = uses[0]
    if main.kind not in BINARY or not any(number in strided for number in main.inputs):
        return ""
    for operand in _operands(main, uses[1:]):
        if not operand.single and operand.shape != operand.result:
            where = f"behind {main.kind} of permuted axes"
            return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    return ""


def _operands(main: Use, later: Sequence[Use]) -> Iterator[Operand]:
    """What the binary ops after ``main`` join to its result."""
    elementwise = main.call.schema.category == "elementwise"
    if main.kind not in MAINS and not elementwise:
        return
    result = main.result
    if elementwise and len(result) < WILD_RANK:
        return
    derived = set(main.outputs)
    for use in later:
        if not derived.intersection(use.inputs):
            continue
        derived.update(use.outputs)
        if use.kind in BINARY:
            others = [index for index, number in enumerate(use.inputs) if number not in derived]
            for index in others or range(len(use.inputs)):
                yield Operand(use, result, use.shape(index))


def _wrong_operand(main: Use, operand: Operand, version: tuple[int, int, int]) -> str:
    what = f"oneDNN computes {main.kind} + {operand.binary.kind} wrong for an operand of shape {list(operand.shape)}"
    if main.call.schema.category == "elementwise":
        return f"oneDNN computes {main.kind} + {operand.binary.kind} of rank {len(operand.result)} wrong"
    if main.kind in CONVOLUTIONS:
        nxc = main.call.string("data_format") == "NXC"
        right = operand.binary.kind != "BiasAdd" or operand.bias_axis == (len(operand.result) - 1 if nxc else 1)
    elif main.kind in BINARY:
        whole = len(operand.result) >= 3 and all(prod(main.shape(index)) == prod(operand.result) for index in (0, 1))
        wild = version >= WILD_VECTORS and whole and operand.along_last and not operand.single
        right = not operand.along_bare_channels and not wild
    elif main.kind == "Interpolate":
        right = main.call.string("data_format") == "NCX" or operand.single or operand.along_last
    elif main.kind in POOLS:
        channels = len(operand.shape) == len(operand.result) and prod(operand.shape) == operand.shape[1]
        right = operand.single or (channels and main.call.string("data_format") == "NCX")
    elif main.kind == "LayerNorm":
        right = version >= LAYER_NORM_MENDED or prod(operand.shape) != prod(operand.result)
    elif main.kind == "SoftMax":
        same_rank = len(operand.shape) == len(operand.result) and operand.binary.kind != "BiasAdd"
        right = same_rank and (operand.shape == operand.result or operand.along_last)
    elif 1 in (len(main.shape(0)), len(main.shape(1))):  # a vector has an axis more in the kernel than in the result
        right = operand.single or (len(main.shape(1)) > 1 and operand.along_last)
    else:
        flat = len(main.shape(0)) >= 3 and len(main.shape(1)) == 2
        right = operand.along_last or (not flat and operand.binary.kind != "BiasAdd" and not operand.in_columns)
        right = right or operand.shape == operand.result
    return "" if right else what
