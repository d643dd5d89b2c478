"""Fused views, ops that are folded into the op before them, and fused ops with an output beside the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.ops.movement import transposition
from ..fault import NEVER, UNSAFE, Faults
from ..ops.windows import IMAGE
from ..use import BINARY, FOLDED, VIEWS, Fused, Use

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")


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


VIEWS_THAT_SHUFFLE_NOTHING = FAULTS.add(
    "views_that_shuffle_nothing",
    ops=VIEWS,
    when=_views_that_shuffle_nothing,
    seen={(3, 2): "SIGSEGV | SIGABRT | wrong | throws | overrun | right"},
    reason="oneDNN takes every reshape, transpose, reshape for a shuffle of channels, and crashes where it is none",
    instead="views, which cost nothing, or the ops one by one",
)


def _views(g: DataGraph, order: list[int]) -> LogicalTensor:
    split = g.static_reshape(g.input("x", "f32", (2, 6, 3, 3)), shape=[2, 2, 3, 3, 3], special_zero=False)
    return g.static_reshape(g.static_transpose(split, order=order), shape=[2, 6, 3, 3], special_zero=False)


@VIEWS_THAT_SHUFFLE_NOTHING.example()
def transpose_of_four_axes(g: DataGraph) -> LogicalTensor:
    return _views(g, [0, 2, 1, 4, 3])


@VIEWS_THAT_SHUFFLE_NOTHING.example()
def transpose_of_the_batch(g: DataGraph) -> LogicalTensor:
    return _views(g, [2, 0, 1, 3, 4])


def _folds_what_is_read_twice(fused: Fused) -> bool:
    return any(sum(use.inputs[0] in other.inputs for other in fused.uses) > 1 for use in fused.of(*FOLDED))


FOLDED_AND_READ_TWICE = FAULTS.add(
    "folded_and_read_twice",
    ops=FOLDED,
    when=_folds_what_is_read_twice,
    seen={(3, 2): "hang | throws std::bad_alloc"},
    reason="oneDNN takes all the memory to compile a BatchNormInference or BiasAdd whose source is read twice",
)


@FOLDED_AND_READ_TWICE.example()
def batch_norm_and_its_source(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 8, 8, 3)), g.input("w", "f32", (1, 1, 3, 4))
    wide = g.op("Convolution", [x, w], IMAGE)
    vectors = [g.constant(np.array(values, np.float32)) for values in ([1, 2, 3, 4], [1, 0, 1, 0], [0, 1, 0, 1])]
    ends = [wide, *vectors, g.constant(np.ones(4, np.float32))]
    normal = g.op("BatchNormInference", ends, {"epsilon": 0.001})
    return g.maximum(normal, wide)


DROPOUT_MASK = FAULTS.add(
    "dropout_mask",
    ops="Dropout",
    when=lambda fused: any(len(use.outputs) > 1 for use in fused.of("Dropout")),
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="oneDNN leaves the mask of a Dropout unwritten",
    since=(3, 2),
)


@DROPOUT_MASK.example({(3, 2): "absent", (3, 13): "refuses partition_compile: unimplemented"})
def relu_and_a_dropout_with_a_mask(g: DataGraph) -> tuple[LogicalTensor, ...]:
    scalars = g.input("seed", "s64", (1,)), g.input("offset", "s64", (1,)), g.constant(np.array([0.25], np.float32))
    return tuple(g.op("Dropout", [g.relu(g.input("x", "f32", (16, 33))), *scalars], outputs=["mask"]))


def _has_stats(fused: Fused) -> bool:
    return any(len(use.outputs) > 1 for use in fused.of("SoftMax"))


SOFTMAX_STATS = FAULTS.add(
    "quantized_softmax_with_stats",
    ops="SoftMax",
    when=lambda fused: fused.has("Quantize") and _has_stats(fused),
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="oneDNN computes a SoftMax that is quantized, or its stats, wrong where the stats are there",
    since=(3, 2),
)


@SOFTMAX_STATS.example()
def quantized_softmax_and_its_stats(g: DataGraph) -> tuple[LogicalTensor, ...]:
    softmax = g.softmax(g.input("x", "f32", (2, 5)), axis=1, outputs=["stats"])
    return g.quantize(softmax.dst, scales=[1 / 128], zps=[0], dtype="u8"), softmax.stats


SOFTMAX_AND_ITSELF = FAULTS.add(
    "softmax_and_itself",
    ops="SoftMax",
    when=lambda fused: fused.has("Quantize") and any(len({*use.inputs}) == 1 for use in fused.of(*BINARY)),
    seen={(3, 2): "wrong", (3, 6): "right"},
    reason="oneDNN computes SoftMax + Quantize wrong with a binary op of one tensor and itself between them",
    since=(3, 2),
    mended=NEVER,  # right in 3.6.2, which was not tried with other ops
)


@SOFTMAX_AND_ITSELF.example()
def softmax_added_to_itself(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (4, 16))], {"axis": -1}, outputs=["dst"], dtype="f32")
    return g.quantize(g.add(shares, shares), scales=[0.02], zps=[0], dtype="u8")
