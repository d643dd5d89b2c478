"""What is joined to the result of another op, where the library reads it wrong as one kernel with that op."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from math import prod

from ..opset.window import channel_axis
from .strides import SUMS_MENDED
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, NORMS, POOLS, WILD_RANK, Operand, Use

Release = tuple[int, int, int]  # of the library
# From here on, a vector along the last axis behind a binary op of tensors that lie channels last is read out of bounds.
WILD_VECTORS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# From here on, so is an operand behind a MatMul whose result lies with its axes in another order.
STRIDED_PRODUCTS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# From here on, what a BatchNormInference multiplies weights by meets other elements where they are not dense.
FOLDED_WEIGHTS = (3, 7)  # right in 3.6.2, wrong in 3.13.2
# LayerNorm and what follows it are fused since 3.3 or later; an operand of the same shape is right in 3.13.
LAYER_NORM_MENDED = (3, 13)
# From here on, what a norm is joined to may become integers before the scale of a Quantize.
ROUNDED_OPERANDS = (3, 7)  # right in 3.6.2, wrong in 3.13.2


def wrong_operand(uses: Sequence[Use], version: Release) -> str:
    """Why a library of ``version`` must not run these ops as one kernel, whatever their strides; empty where it may.

    Args:
        uses: in an order in which they can run.
        version: of the library.
    """
    is_rounded = version >= ROUNDED_OPERANDS and any(use.kind == "Quantize" for use in uses)
    made = set[int]()
    for number, main in enumerate(uses):
        for operand in _operands(main, uses[number + 1 :]):
            reason = _wrong(main, operand, version)
            if reason:
                return reason
            # It lies as the op before it chose to, which nothing here sees: a kernel of permuted axes.
            if main.kind in BINARY and made.issuperset(main.inputs) and _is_partial(operand):
                where = f"behind {main.kind} of what the same kernel computed"
                return f"oneDNN reads an operand of shape {list(operand.shape)} wrong {where}"
            if is_rounded and _rounds(main, operand):
                what = f"{main.kind} + {operand.binary.kind} + Quantize"
                return f"oneDNN rounds {what} before the scale for an operand of shape {list(operand.shape)}"
        if main.kind not in DEQUANTIZATIONS or made.intersection(main.inputs):  # a residual is none of its results
            made.update(main.outputs)
    return ""


def _is_partial(operand: Operand) -> bool:
    """Whether it is neither one element nor as large as what it is joined to."""
    return not operand.single and operand.shape != operand.result


def _rounds(main: Use, operand: Operand) -> bool:
    """Whether what a binary op joins to a norm is neither whole nor goes along the channels, which lie last."""
    if main.kind not in NORMS or operand.single or operand.shape == operand.result:
        return False
    channels_last = main.kind == "LayerNorm" or main.call.string("data_format") == "NXC"
    return not (channels_last and operand.along_last)


def wrong_strides(uses: Sequence[Use], strided: Container[int], version: Release) -> str:
    """Why a library must not run these ops as one kernel on values that are not dense; empty where it may.

    Args:
        uses: in an order in which they can run.
        strided: the values that are not dense.
        version: of the library.
    """
    if version >= STRIDED_PRODUCTS and any(number in strided for use in uses for number in use.outputs):
        for number, main in enumerate(uses):
            for operand in _operands(main, uses[number + 1 :]) if main.kind == "MatMul" else ():
                if _is_partial(operand):
                    where = "behind a MatMul whose result is not dense"
                    return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    if version >= FOLDED_WEIGHTS and any(use.kind == "BatchNormInference" for use in uses):
        for main in uses:  # right with OIX in any order
            if main.kind == "Convolution" and main.inputs[1] in strided and main.call.string("weights_format") == "XIO":
                return "oneDNN folds a BatchNormInference into other elements of weights that are not dense"
    main = uses[0]
    if main.kind not in BINARY or not any(number in strided for number in main.inputs):
        return ""
    for operand in _operands(main, uses[1:]):
        if _is_partial(operand):
            where = f"behind {main.kind} of permuted axes"
            return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    return ""


def _operands(main: Use, later: Sequence[Use]) -> Iterator[Operand]:
    """What the binary ops after ``main`` join to its result."""
    elementwise = main.call.schema.category == "elementwise"
    if main.kind not in RIGHT and not elementwise:
        return
    result = main.result
    if elementwise and len(result) < WILD_RANK:
        return
    derived = set(main.outputs)
    for use in later:
        if use.kind in CONVOLUTIONS or not derived.intersection(use.inputs):
            continue  # what another convolution computes is no longer in this kernel
        derived.update(use.outputs)
        if use.kind in BINARY:
            others = [index for index, number in enumerate(use.inputs) if number not in derived]
            for index in others or range(len(use.inputs)):
                yield Operand(use, result, use.shape(index))


def _wrong(main: Use, operand: Operand, version: Release) -> str:
    if main.call.schema.category == "elementwise":
        return f"oneDNN computes {main.kind} + {operand.binary.kind} of rank {len(operand.result)} wrong"
    if RIGHT[main.kind](main, operand, version):
        return ""
    return f"oneDNN computes {main.kind} + {operand.binary.kind} wrong for an operand of shape {list(operand.shape)}"


# What the library reads right ----------------------------------------------------------------------------------------


def _behind_convolution(main: Use, operand: Operand, _: Release) -> bool:
    channels = channel_axis(len(operand.result), main.call.string("data_format"))
    return operand.binary.kind != "BiasAdd" or operand.bias_axis == channels


def _behind_binary(main: Use, operand: Operand, version: Release) -> bool:
    whole = len(operand.result) >= 3 and all(prod(main.shape(index)) == prod(operand.result) for index in (0, 1))
    wild = version >= WILD_VECTORS and whole and operand.along_last and not operand.single
    return not operand.along_bare_channels and not wild


def _behind_interpolate(main: Use, operand: Operand, version: Release) -> bool:
    data_format, result = main.call.string("data_format"), operand.result
    is_sum = operand.binary.kind == "Add" and operand.shape == result
    if is_sum and version < SUMS_MENDED and 1 in main.shape(0)[1:]:  # the axes may be taken to lie in any order
        return False
    if prod(result) == result[channel_axis(len(result), data_format)]:  # one pixel: read out of bounds
        return operand.single
    return data_format == "NCX" or operand.single or operand.along_last


def _behind_pool(main: Use, operand: Operand, _: Release) -> bool:
    along = len(operand.shape) == len(operand.result) and prod(operand.shape) == operand.shape[1]
    return operand.single or (along and main.call.string("data_format") == "NCX")


def _behind_layer_norm(_: Use, operand: Operand, version: Release) -> bool:
    return version >= LAYER_NORM_MENDED or prod(operand.shape) != prod(operand.result)


def _behind_softmax(_: Use, operand: Operand, __: Release) -> bool:
    same_rank = len(operand.shape) == len(operand.result) and operand.binary.kind != "BiasAdd"
    return same_rank and (operand.shape == operand.result or operand.along_last)


def _behind_matmul(main: Use, operand: Operand, _: Release) -> bool:
    first, second = len(main.shape(0)), len(main.shape(1))
    if 1 in (first, second):  # a vector has an axis more in the kernel than in the result
        return operand.single or (second > 1 and operand.along_last)
    if operand.along_last or operand.shape == operand.result:
        return True
    flat = first >= 3 and second == 2
    return not flat and operand.binary.kind != "BiasAdd" and not operand.in_columns


Right = Callable[[Use, Operand, Release], bool]
# For each op that binary ops are joined to, whether an operand of these is read right.
RIGHT: dict[str, Right] = {
    **dict.fromkeys(CONVOLUTIONS, _behind_convolution),
    **dict.fromkeys(BINARY, _behind_binary),
    **dict.fromkeys(POOLS, _behind_pool),
    "GroupNorm": lambda *_: True,
    "Interpolate": _behind_interpolate,
    "LayerNorm": _behind_layer_norm,
    "MatMul": _behind_matmul,
    "SoftMax": _behind_softmax,
}
