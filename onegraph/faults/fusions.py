"""Fusions that the library computes wrong, although each of their ops alone is right.

All were seen in the versions that they name, from oneDNN 3.2.0 on. A condition may hold where the library would be
right, never the other way round; what it costs then is that the ops run one by one. The executor lets them do so, and
the one-to-one objects refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from .._util.fork_safety import cached_property
from ..opset.ops.movement import transposition
from ..opset.schema import Version
from .attention import (
    MENDED,
    along_another_axis,
    broadcast_to_queries,
    masked_by_head,
    masked_from_the_left,
    sized_otherwise,
    transposed_at_last,
)
from .conditions import ends_behind_source, in_low_precision, misses_source, unread_as_padded
from .int8_fusions import (
    foreign_residual,
    foreign_scales,
    forgets_zero_point,
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
from .quirk import kinds
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, FOLDED, NORMS, POOLS, PRODUCTS, VIEWS, Use
from .window_quirks import BIAS_MENDED, BIAS_WRONG
from .wrong_operands import wrong_operand


@dataclass(frozen=True)
class Fused:
    """The ops of a partition, in an order in which they can run, and what the CPU lets the library use for them.

    ``vnni``: instructions for sums of products of int8; ``avx2``: those that read memory of any alignment.
    """

    uses: Sequence[Use]
    vnni: bool = True
    avx2: bool = True

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The names of the ops."""
        return frozenset(use.kind for use in self.uses)

    def has(self, *kinds: str) -> bool:
        """Whether there is an op of each of these kinds."""
        return self.kinds.issuperset(kinds)

    def some(self, kinds: frozenset[str]) -> bool:
        """Whether there is an op of one of these kinds."""
        return not self.kinds.isdisjoint(kinds)

    def of(self, *kinds: str) -> list[Use]:
        """The ops of these kinds."""
        return [use for use in self.uses if use.kind in kinds]


@dataclass(frozen=True)
class Fusion:
    """One fusion that the library gets wrong: with one of which ops, what it does, when, and in which versions.

    ``since`` is the first version that may do it, ``mended`` the first that is known to be right.
    """

    kinds: frozenset[str]
    reason: str
    when: Callable[[Fused], bool]
    since: Version = (3, 2)
    mended: Version | None = None


def wrong_fusion(uses: Sequence[Use], version: tuple[int, int, int], *, vnni: bool = True, avx2: bool = True) -> str:
    """Why a library of ``version`` must not run these ops as one kernel; empty where it may.

    Args:
        uses: the ops, in an order in which they can run.
        version: of the library.
        vnni: whether it may use instructions for sums of products of int8.
        avx2: whether it may use instructions that read memory of any alignment.
    """
    fused = Fused(uses, vnni, avx2)
    if reason := wrong_operand(uses, version):
        return reason
    return next((fusion.reason for fusion in _with(fused.kinds, version) if fusion.when(fused)), "")


@cache
def _with(kinds: frozenset[str], version: tuple[int, int, int]) -> list[Fusion]:
    """What a library of ``version`` may get wrong where these are the ops."""
    found = [fusion for fusion in FUSIONS if not kinds.isdisjoint(fusion.kinds)]
    return [one for one in found if one.since <= version and (one.mended is None or version < one.mended)]


# Conditions ----------------------------------------------------------------------------------------------------------


def _views_that_shuffle_nothing(fused: Fused) -> bool:
    return fused.kinds <= VIEWS and not _shuffles(fused.uses)


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


def _folds_what_is_read_twice(fused: Fused) -> bool:
    return any(sum(use.inputs[0] in other.inputs for other in fused.uses) > 1 for use in fused.of(*FOLDED))


def _has_stats(fused: Fused) -> bool:
    return any(len(use.outputs) > 1 for use in fused.of("SoftMax"))


def _has_several_scales(fused: Fused) -> bool:
    return any(n_scales(use) > 1 for use in fused.of("Quantize"))


def _pads_what_is_shifted(fused: Fused) -> bool:
    """Whether a window of a convolution lies in padding, and what it slides over has a zero point."""
    return any(
        (use.kind == "ConvTranspose" or misses_source(use.call)) and shifted_source(use, fused.uses)
        for use in fused.of(*CONVOLUTIONS)
    )


def _is_depthwise(use: Use) -> bool:
    """Whether each group of a convolution has one channel of the source."""
    return use.shape(1)[1 if use.call.string("weights_format") == "OIX" else -2] == 1


def _narrows_to_single_channels(fused: Fused) -> bool:
    """Whether residual blocks have a convolution that the library takes for one of single channels.

    The two convolutions of a partition that is nothing else are right.
    """
    return len(fused.uses) > 2 and any(_gives_single_channels(use) for use in fused.of("Convolution")[1:])


def _gives_single_channels(use: Use) -> bool:
    """Whether a convolution has a window of 3 by 3, and as many groups as channels of the source and of the result."""
    shape = use.shape(1)
    if use.call.string("weights_format") == "XIO":
        shape = (shape[-1], shape[-2], *shape[:-2])
    return shape == (use.call.s64("groups"), 1, 3, 3)


def _normalizes_last(use: Use) -> bool:
    """Whether the channels of a BatchNormInference are the last of three or more axes."""
    return use.call.string("data_format") == "NXC" and len(use.shape(0)) > 2


def _normalizes_in_another_format(fused: Fused) -> bool:
    both = fused.of("BatchNormInference", *CONVOLUTIONS)
    return len({use.call.string("data_format") for use in both}) > 1


# The table -----------------------------------------------------------------------------------------------------------

SINGLE_CHANNELS = "oneDNN crashes on a Convolution of single channels in one kernel with one before it"
SINGLE_SCALE = "oneDNN quantizes all with the first of several scales"
SUMS_IN_16_BITS = "oneDNN adds products of int8 in 16 bits"
RESIDUAL_OF_ITS_OWN = "oneDNN crashes on a residual that is the source or the weights of its product, or adds it wrong"

FUSIONS = (
    # Attention -------------------------------------------------------------------------------------------------------
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes attention wrong with a SoftMax along another axis than the last",
        lambda fused: fused.has("MatMul") and along_another_axis(fused.uses),
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes or executes int8 attention wrong with zero points, or with a transpose behind it",
        lambda fused: fused.has("MatMul", "Quantize") and (fused.some(VIEWS) or shifted(fused.uses)),
        mended=MENDED,
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN crashes on attention whose mask is the first operand of the Add",
        lambda fused: masked_from_the_left(fused.uses),
        since=(3, 7),  # right in 3.6.2, a signal in 3.13.2
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes attention wrong with a mask that is not one for all heads of each batch",
        lambda fused: masked_by_head(fused.uses),
        mended=MENDED,
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes attention wrong whose keys or values are broadcast to the batch of the queries",
        lambda fused: broadcast_to_queries(fused.uses),
        mended=MENDED,
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes attention wrong whose values are of another size than the queries",
        lambda fused: sized_otherwise(fused.uses),
        mended=MENDED,
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes attention wrong whose result is transposed along its last axis",
        lambda fused: transposed_at_last(fused.uses),
        mended=MENDED,
    ),
    # Views, what is folded, outputs beside the result ----------------------------------------------------------------
    Fusion(
        VIEWS,
        "oneDNN takes every reshape, transpose, reshape for a shuffle of channels, and crashes where it is none",
        _views_that_shuffle_nothing,
    ),
    Fusion(
        FOLDED,
        "oneDNN takes all the memory to compile a BatchNormInference or BiasAdd whose source is read twice",
        _folds_what_is_read_twice,
    ),
    Fusion(
        kinds("Dropout"),
        "oneDNN leaves the mask of a Dropout unwritten",
        lambda fused: any(len(use.outputs) > 1 for use in fused.of("Dropout")),
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes a SoftMax that is quantized, or its stats, wrong where the stats are there",
        lambda fused: fused.has("Quantize") and _has_stats(fused),
    ),
    Fusion(
        kinds("SoftMax"),
        "oneDNN computes SoftMax + Quantize wrong with a binary op of one tensor and itself between them",
        lambda fused: fused.has("Quantize") and any(len({*use.inputs}) == 1 for use in fused.of(*BINARY)),
    ),
    # int8 ------------------------------------------------------------------------------------------------------------
    Fusion(
        kinds("AvgPool"),
        "oneDNN takes the padding of an int8 AvgPool for the zero point",
        lambda fused: any(not use.call.flag("exclude_pad") for use in fused.of("AvgPool")) and shifted(fused.uses),
    ),
    Fusion(
        kinds("AvgPool"),
        "oneDNN lets an int8 AvgPool overflow where its scales are far apart",
        lambda fused: overflows(fused.uses),
    ),
    Fusion(
        POOLS,
        "oneDNN rounds to integers between an int8 pool and a ReLU",
        lambda fused: fused.has("Dequantize", "ReLU"),
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2 and 3.13.2
    ),
    Fusion(
        kinds("Reorder"),
        "oneDNN fails to execute Dequantize + Reorder + Quantize with zero points",
        lambda fused: fused.has("Dequantize", "Quantize") and shifted(fused.uses),
    ),
    Fusion(
        kinds("Reorder"),
        "oneDNN fails on Dequantize + Reorder + Add + Quantize with a scale other than 1",
        lambda fused: fused.kinds == {"Dequantize", "Reorder", "Add", "Quantize"} and scaled(fused.uses),
        mended=(3, 6),
    ),
    Fusion(
        PRODUCTS,
        "oneDNN takes scales along another axis than that of the output channels for theirs",
        lambda fused: foreign_scales(fused.uses),
    ),
    Fusion(
        NORMS | {"SoftMax"},
        SINGLE_SCALE,
        _has_several_scales,
    ),
    Fusion(
        kinds("MatMul"),
        SINGLE_SCALE,
        _has_several_scales,
        since=(3, 7),  # right in 3.6.2, wrong in 3.13.2
    ),
    Fusion(
        kinds("ConvTranspose"),
        "oneDNN computes an int8 ConvTranspose wrong where its strides leave gaps",
        lambda fused: any(has_gaps(use, fused.uses) for use in fused.of("ConvTranspose")),
    ),
    Fusion(
        PRODUCTS,
        "oneDNN takes a residual for s8 where the result is, and for u8 where the result is u8",
        lambda fused: foreign_residual(fused.uses),
    ),
    Fusion(
        kinds("ConvTranspose"),
        f"{SUMS_IN_16_BITS} for a ConvTranspose with such a residual, where they overflow",
        lambda fused: fused.some(DEQUANTIZATIONS) and overflowing_residual(fused.uses),
    ),
    Fusion(
        CONVOLUTIONS,
        "oneDNN computes an int8 convolution wrong where windows lie in padding and the zero point is not 0",
        _pads_what_is_shifted,
        since=(3, 7),  # right in 3.6.2, wrong in 3.13.2
    ),
    Fusion(
        CONVOLUTIONS,
        "oneDNN takes the zero point of the weights of an int8 convolution for 0, or refuses it",
        lambda fused: any(shifted_weights(use, fused.uses) for use in fused.of(*CONVOLUTIONS)),
    ),
    Fusion(
        CONVOLUTIONS,
        "oneDNN may forget the zero point of a Quantize by a scale of 1 behind an operand that goes along the places",
        lambda fused: forgets_zero_point(fused.uses),
    ),
    Fusion(
        PRODUCTS,
        RESIDUAL_OF_ITS_OWN,
        lambda fused: shared_residual(fused.uses, same_op=True),
    ),
    Fusion(
        PRODUCTS,
        RESIDUAL_OF_ITS_OWN,
        lambda fused: shared_residual(fused.uses, same_op=False),
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2
    ),
    # Convolutions ----------------------------------------------------------------------------------------------------
    Fusion(
        kinds("Convolution"),
        SINGLE_CHANNELS,
        lambda fused: any(_is_depthwise(use) for use in fused.of("Convolution")[1:]),
        since=(3, 3),  # right in 3.2.0, a signal in 3.6.2 and 3.13.2
    ),
    Fusion(
        kinds("Convolution"),
        SINGLE_CHANNELS,
        _narrows_to_single_channels,
    ),
    Fusion(
        kinds("Convolution"),
        "oneDNN crashes on a Convolution with a bias whose last windows lie behind the source",
        lambda fused: fused.some(FOLDED) and any(ends_behind_source(use.call) for use in fused.of("Convolution")),
        since=BIAS_WRONG,
        mended=BIAS_MENDED,
    ),
    Fusion(
        CONVOLUTIONS,
        "oneDNN takes the channels of a BatchNormInference for those of the convolution before it",
        lambda fused: fused.has("BatchNormInference") and _normalizes_in_another_format(fused),
    ),
    Fusion(
        kinds("Convolution"),
        "oneDNN computes a Convolution that is added to or quantized wrong where as much is unread at its end as there "
        "is padding before it",
        lambda fused: (
            fused.some(DEQUANTIZATIONS | {"Add"}) and any(unread_as_padded(use.call) for use in fused.of("Convolution"))
        ),
    ),
    Fusion(
        kinds("Convolution"),
        "oneDNN adds to a Convolution of single channels as if all memory were aligned on a CPU without AVX2",
        lambda fused: (
            not fused.avx2 and fused.has("Add") and any(use.call.s64("groups") > 1 for use in fused.of("Convolution"))
        ),
    ),
    # Matrix products -------------------------------------------------------------------------------------------------
    Fusion(
        kinds("MatMul"),
        "oneDNN takes the second axis for the channels of a BatchNormInference behind a MatMul",
        lambda fused: any(map(_normalizes_last, fused.of("BatchNormInference"))),
    ),
    Fusion(
        kinds("MatMul"),
        "oneDNN computes a BatchNormInference with parameters of bf16 wrong behind a MatMul",
        lambda fused: any(in_low_precision(use.call, 1) for use in fused.of("BatchNormInference")),
    ),
    Fusion(
        kinds("MatMul"),
        "oneDNN fails to execute a MatMul of one row whose result is transposed",
        lambda fused: fused.has("StaticTranspose") and any(use.result[-2:-1] == (1,) for use in fused.of("MatMul")),
    ),
    # Last, as it says least of the op.
    Fusion(
        PRODUCTS,
        f"{SUMS_IN_16_BITS} on a CPU without VNNI, where they overflow",
        lambda fused: not fused.vnni and len(fused.of(*DEQUANTIZATIONS)) > 1,
    ),
)
