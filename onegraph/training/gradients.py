"""Changes gradients before an optimizer uses them, and the precision in which a step computes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from .._util.validation import choice, number
from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..ir.op import LogicalTensor
from ..lowering.emitter import Emitter
from ..lowering.movement import cast
from ..lowering.reduction import reduce
from ..opset.dtypes import DataType
from .arguments import expect_rank, tensors_of

EPSILON = 1e-6  # PyTorch's, which keeps the quotient finite


@atomic
def global_norm(graph: DataGraph, tensors: Sequence[LogicalTensor]) -> LogicalTensor:
    """The Euclidean norm of all elements of some tensors, as an f32 scalar.

    Raises:
        ArgumentError: a tensor is not of this graph, does not hold floating-point numbers, or has an unknown rank.
    """
    listed, emit = tensors_of(graph, "global_norm: tensors", tensors), Emitter(graph)
    for place, tensor in enumerate(listed):
        expect_rank(f"global_norm: tensors[{place}]", tensor)
    wide = [emit.tensor(cast(emit, one, DataType.f32)) for one in listed]
    squares = [emit.tensor(reduce(emit, "ReduceSum", one * one, None, keep=False)) for one in wide]
    return graph.sqrt(sum(squares[1:], squares[0]))


@atomic
def clip_by_norm(graph: DataGraph, gradients: Sequence[LogicalTensor], max_norm: float) -> tuple[LogicalTensor, ...]:
    """The gradients, all made smaller by one factor if the norm of all of them is larger than ``max_norm``.

    Like PyTorch's ``clip_grad_norm_``.

    Args:
        graph: the graph to add ops to.
        gradients: the tensors, f32.
        max_norm: the largest norm, above 0.

    Raises:
        ArgumentError: a gradient is not an f32 tensor of this graph or has an unknown rank, or ``max_norm`` is not
            above 0.
    """
    listed = tensors_of(graph, "clip_by_norm: gradients", gradients, [DataType.f32])
    most = number("clip_by_norm: max_norm", max_norm, sys.float_info.min, sys.float_info.max)
    share = most / (global_norm(graph, listed) + EPSILON)
    factor = graph.minimum(share, graph.constant(np.float32(1)))
    return tuple(one * factor for one in listed)


@atomic
def low_precision(
    graph: DataGraph, tensors: Sequence[LogicalTensor], dtype: object = DataType.bf16
) -> tuple[LogicalTensor, ...]:
    """The tensors in bf16 or f16, for a forward pass whose variables stay f32: their gradients come back in f32.

    Args:
        graph: the graph to add ops to.
        tensors: f32 variables and inputs.
        dtype: ``og.bf16`` or ``og.f16``.

    Raises:
        ArgumentError: a tensor is not an f32 tensor of this graph, or ``dtype`` is another data type.
    """
    listed = tensors_of(graph, "low_precision: tensors", tensors, [DataType.f32])
    target = DataType[choice("low_precision: dtype", DataType.of(dtype).name, ["bf16", "f16"])]
    return tuple(graph.type_cast(one, dtype=target) for one in listed)
