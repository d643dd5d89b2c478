"""Which ops take tensors that are not dense row-major.

All but what says otherwise were seen in oneDNN 3.2.0. A condition may say no where the library would be right, never
the other way round; what it costs then is a copy.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from math import prod

from ..opset.schema import Schema
from ..opset.shapes import has_gaps
from .attention import MENDED
from .library import DENSE_ONLY
from .use import BINARY, PRODUCTS, WILD_RANK, Dims

# Ops that take the axes in any order, but not with gaps between the rows: pools and quantizations leave the end of the
# result unwritten, an operand behind an Interpolate is read elsewhere, and what a BatchNormForwardTraining notes for a
# ReLU behind it lies beyond its memory.
GAPLESS = frozenset(
    ["AvgPoolBackward", "BatchNormForwardTraining", "Dequantize", "Interpolate", "MaxPoolBackward", "Quantize"]
)
ATTENTION = frozenset(["MatMul", "SoftMax"])
FLAT_BATCHES = (3, 3)  # from here on, until attention is mended: right in 3.2.0, wrong in 3.6.2
SUMS = frozenset(["Add", "Interpolate"])
SUMS_MENDED = (3, 2, 1)  # wrong in 3.2.0, right in 3.6.2
# Ops with vectors along the channels, or statistics, that they take for dense.
STATISTICAL = frozenset(["BatchNormForwardTraining", "BatchNormInference", "BatchNormTrainingBackward", "GroupNorm"])


def honours_strides(
    schema: Schema, rank: int, shape: Dims, strides: Dims, *, is_read: bool, zero_points: bool = False
) -> bool:
    """Whether an op, alone or in a fusion, takes a tensor that is not dense row-major.

    Args:
        schema: the op.
        rank: of its first result.
        shape, strides: of the tensor.
        is_read: whether the op itself reads it, and not another op of the fusion.
        zero_points: what ``loses_zero_points`` says of it.
    """
    if 0 in shape:  # elementwise kernels divide by the number of elements
        return False
    if not is_read and is_scattered(shape, strides):
        return False
    if schema.kind in DENSE_ONLY or (schema.category == "elementwise" and len(shape) >= WILD_RANK):
        return False
    if schema.kind in STATISTICAL and len(shape) < rank:
        return False
    if schema.kind == "RMSNorm" and set(shape[:-1]) <= {1}:  # as its gamma is; seen in 3.13.2
        return False
    if schema.kind in ("Quantize", "Dequantize") and zero_points:
        return False
    if schema.kind in GAPLESS and has_gaps(shape, strides):
        return False
    if schema.kind == "Interpolate" and 1 in shape[1:]:  # right in 3.2.0; 3.6.2 takes the order of the axes for another
        return False
    if schema.kind == "SoftMax" and 1 in shape:  # where those axes have other strides in the source than in the result
        return False
    # Binary ops were seen to compute wrong with gaps or permuted axes together with an axis of size 1, and behind
    # another op with those of an operand of lower rank, whose strides are lost where it is given leading axes.
    return schema.kind not in BINARY or not (1 in shape or (is_read and len(shape) < rank))


def is_scattered(shape: Dims, strides: Dims) -> bool:
    """Whether the elements lie in one row, a multiple of 4 places apart, such as one channel of four.

    Of a long dense tensor that is brought into this layout, a Reorder of every version writes the first elements only:
    it moves the one axis of its loop behind those that there are, unless 16 divides it.
    """
    stride = min((stride for dim, stride in zip(shape, strides, strict=True) if dim > 1), default=1)
    return stride % 4 == 0 and prod(shape) % 16 != 0 and not has_gaps(shape, strides, stride)


def loses_zero_points(kinds: Container[str], attrs: Mapping[str, object]) -> bool:
    """Whether an op with these attributes, among ops of these kinds, loses zero points where axes are permuted.

    That is seen with large tensors only.
    """
    zero_points = attrs.get("zps")
    return isinstance(zero_points, tuple) and any(zero_points) and not any(kind in kinds for kind in PRODUCTS)


def loses_batches(kinds: Set[str], shape: Dims, strides: Dims, version: tuple[int, int, int]) -> bool:
    """Whether a library of ``version`` looks for a tensor of attention, of ops of these kinds, without its gaps.

    It does so where the batches lie further apart than each of them is long, or within each other.
    """
    return FLAT_BATCHES <= version < MENDED and kinds >= ATTENTION and has_gaps(shape, strides)


def loses_sums(kinds: Set[str], shape: Dims, strides: Dims, version: tuple[int, int, int]) -> bool:
    """Whether a library of ``version`` adds the wrong numbers where one of ops of these kinds has such a tensor.

    For an Interpolate of axes that lie neither row-major nor channels last it has a reference kernel alone, which takes
    single bytes for what it adds to.
    """
    if version >= SUMS_MENDED or not kinds >= SUMS:
        return False
    wide = [axis for axis, dim in enumerate(shape) if dim > 1]
    found = sorted(wide, key=lambda axis: -strides[axis])
    return found not in (wide, sorted(wide, key=lambda axis: axis == 1))
