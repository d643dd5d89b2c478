"""Lowers normalizations."""

from __future__ import annotations

from ....lowering import norms as lowering
from ....lowering.elementwise import add, binary, filled, multiply, unary
from ....lowering.emitter import Value, dtype_of, numbers
from ....lowering.movement import cast, reshape
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, Unsettled, lowers
from .layers import native
from .training import batch_norm_of_batch


def results_wanted(node: Node) -> int:
    """The number of outputs up to the last one that has a name."""
    return max((place + 1 for place, name in enumerate(node.proto.output) if name), default=0)


@lowers("BatchNormalization")
def batch_norm(node: Node) -> Value | tuple[Value, ...]:
    """A normalization with known statistics, or with those of the batch."""
    if dtype_of(node.value(0)) is DataType.float64 and not node.attr("training_mode", 0):
        return _batch_norm_in_double(node)
    native(node)
    if node.attr("training_mode", 0):
        return batch_norm_of_batch(node)
    if node.rank() < 2:
        raise NotLowered("a tensor without channels")
    src, gamma, beta, mean, variance = (node.value(index) for index in range(5))
    return lowering.batch_norm(node.emit, src, gamma, beta, mean, variance, epsilon=node.attr("epsilon", 1e-5))


def _batch_norm_in_double(node: Node) -> Value:
    """A normalization of float64 by known statistics, as a product and a sum."""
    emit, shape = node.emit, numbers(-1, *[1] * (node.rank() - 2))
    if node.rank() < 2:
        raise NotLowered("a tensor without channels")
    gamma, beta, mean, variance = (
        reshape(emit, cast(emit, node.value(index), DataType.float64), shape) for index in range(1, 5)
    )
    deviation = unary(emit, "Sqrt", add(emit, variance, filled(node.attr("epsilon", 1e-5), variance)))
    factor = binary(emit, "Divide", gamma, deviation)
    shift = binary(emit, "Subtract", beta, multiply(emit, mean, factor))
    return add(emit, multiply(emit, node.value(0), factor), shift)


@lowers("InstanceNormalization")
def instance_norm(node: Node) -> Value:
    """A normalization of each channel of each image: a group norm with a group for each channel."""
    native(node)
    channels = node.dims()[1]
    if channels is None:
        raise Unsettled("the number of channels is unknown")
    src, gamma, beta = (node.value(index) for index in range(3))
    return lowering.group_norm(node.emit, src, gamma, beta, channels, node.attr("epsilon", 1e-5))


@lowers("GroupNormalization")
def group_norm(node: Node) -> Value:
    """A normalization of groups of channels; in old op sets gamma and beta have an element for each group."""
    native(node)
    emit, groups, shape = node.emit, node.attr("num_groups"), node.dims()
    src, gamma, beta = (node.value(index) for index in range(3))
    if shape[1] is None:
        raise Unsettled("the number of channels is unknown")
    return lowering.group_norm(emit, src, gamma, beta, groups, node.attr("epsilon", 1e-5))


@lowers("LayerNormalization")
def layer_norm(node: Node) -> tuple[Value, ...]:
    """A normalization of the last axes; further outputs are the mean and the inverse of the standard deviation."""
    native(node)
    emit, epsilon = node.emit, node.attr("epsilon", 1e-5)
    normal = lowering.layer_norm(
        emit, node.value(0), node.optional(1), node.optional(2), node.attr("axis", -1), epsilon
    )
    wanted = results_wanted(node)
    if wanted == 1:
        return (normal[0],)
    wide = DataType.f32 if node.attr("stash_type", 1) == 1 else node.dtype()
    mean, variance = (cast(emit, one, wide) for one in normal[1:])
    inverse = unary(emit, "Reciprocal", unary(emit, "Sqrt", add(emit, variance, filled(epsilon, variance))))
    return (normal[0], mean, inverse)[:wanted]


@lowers("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(node: Node) -> Value:
    """A division by the root of the mean square over the last axes."""
    native(node)
    if results_wanted(node) > 1:
        raise NotLowered("the inverse root of the mean square as an output")
    epsilon = node.attr("epsilon", 1e-5)
    gamma = node.optional(1)
    result = lowering.rms_norm(node.emit, node.value(0), gamma, node.attr("axis", -1), epsilon)
    return result if gamma is None else cast(node.emit, result, dtype_of(gamma))


@lowers("LpNormalization", wide=True)
def lp_norm(node: Node) -> Value:
    """A division by a norm along an axis."""
    return lowering.lp_norm(node.emit, node.value(0), node.attr("axis", -1), node.attr("p", 2))


@lowers("MeanVarianceNormalization", wide=True)
def mean_variance_norm(node: Node) -> Value:
    """A normalization over axes."""
    return lowering.mean_variance_norm(node.emit, node.value(0), node.attr("axes", [0, 2, 3]))


@lowers("LRN", wide=True)
def local_response(node: Node) -> Value:
    """A normalization over neighbouring channels."""
    native(node)
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    return lowering.local_response(node.emit, node.value(0), node.attr("size"), alpha, beta, bias)
