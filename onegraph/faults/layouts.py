"""Which partitions and ops take tensors that are not dense row-major. A condition that holds costs a dense copy."""

from __future__ import annotations

from math import prod

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import BASE
from ..opset.shapes import has_gaps
from .fault import NEVER, UNSAFE, Fault, Faults, Release
from .strided_ops import COPY, FAULTS
from .use import Dims, Laid

EVERY = frozenset(BASE)


# Of whole partitions -------------------------------------------------------------------------------------------------

PARTITIONS = Faults[Laid]()


def _loses_batches(laid: Laid) -> str:
    is_lossy = laid.inside >= {"MatMul", "SoftMax"} and has_gaps(laid.shape, laid.strides)
    return "attention does not honour such strides" if is_lossy else ""


FLAT_BATCHES = PARTITIONS.add(
    "attention_of_batches_apart",
    ops="SoftMax",
    where="strides",
    severity=UNSAFE,
    when=_loses_batches,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    reason="Attention looks for a tensor without its gaps, where the batches lie further apart than each of them is "
    "long, or "
    "within each other",
    instead=COPY,
)


@FLAT_BATCHES.example(on={"no AVX-512": "right"}, policy="fusion")
def attention_of_queries_that_lie_apart(g: DataGraph) -> LogicalTensor:
    q = g.input("q", "f32", (2, 2, 16, 8), strides=(512, 128, 8, 1))
    k, v = (g.input(name, "f32", (2, 2, 16, 8)) for name in "kv")
    scores = g.divide(g.matmul(q, k, transpose_b=True), g.constant(np.array([2], np.float32)))
    return g.matmul(g.op("SoftMax", [scores], {"axis": -1}, outputs=["dst"], dtype="f32"), v)


def _loses_sums(laid: Laid) -> str:
    if not laid.inside >= {"Add", "Interpolate"}:
        return ""
    wide = [axis for axis, dim in enumerate(laid.shape) if dim > 1]
    by_stride = sorted(wide, key=lambda axis: -laid.strides[axis])
    is_odd = by_stride not in (wide, sorted(wide, key=lambda axis: axis == 1))
    return "Interpolate + Add does not honour such strides" if is_odd else ""


RESIZED_SUMS = PARTITIONS.add(
    "sum_behind_interpolate_of_turned_axes",
    ops="Interpolate",
    where="strides",
    severity=UNSAFE,
    when=_loses_sums,
    seen={(3, 2): "wrong", (3, 6): "right"},
    reason="For an Interpolate of axes that lie neither row-major nor channels last there is a reference kernel alone, "
    "which "
    "takes single bytes for what it adds to",
    instead=COPY,
    mended=(3, 2, 1),
)


@RESIZED_SUMS.example(policy="fusion")
def interpolate_of_columns_before_rows_and_a_sum(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (1, 2, 3, 4), strides=(24, 12, 1, 3))
    resized = g.op("Interpolate", [x], {"mode": "nearest", "sizes": [5, 4], "data_format": "NCX"})
    return g.add(resized, g.input("y", "f32", (1, 2, 5, 4)))


# Of any single op ----------------------------------------------------------------------------------------------------

EVERY_OP = Faults[Laid]()
STRIDED_EMPTY = EVERY_OP.add(
    "strided_empty",
    ops=EVERY,
    where="strides",
    severity=UNSAFE,
    when=lambda laid: 0 in laid.shape,
    seen={(3, 2): "SIGFPE", (3, 6): "right"},
    reason="Elementwise kernels divide by the number of elements of an empty tensor that is not dense",
    instead=COPY,
    mended=NEVER,
)


@STRIDED_EMPTY.example()
def exp_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.exp(g.input("x", "f32", (0, 3))), strides=(5, 1))


@STRIDED_EMPTY.example()
def reorder_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.reorder(g.input("x", "f32", (0, 3))), strides=(5, 1))


@STRIDED_EMPTY.example()
def relu_gradient_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (0, 3)), g.input("d", "f32", (0, 3))
    return g.output("out", g.op("ReLUBackward", ends), strides=(5, 1))


def is_scattered(shape: Dims, strides: Dims) -> bool:
    """Whether the elements lie in one row, a multiple of 4 places apart, such as one channel of four."""
    step = min((step for dim, step in zip(shape, strides, strict=True) if dim > 1), default=1)
    return step % 4 == 0 and prod(shape) % 16 != 0 and not has_gaps(shape, strides, step)


SCATTERED = EVERY_OP.add(
    "scattered_elements",
    ops=EVERY,
    where="strides",
    severity=UNSAFE,
    when=lambda laid: not laid.is_read and is_scattered(laid.shape, laid.strides),
    seen={(3, 2): "wrong"},
    reason="A Reorder of a dense row of more bytes than three quarters of the L1 data cache into elements that lie a "
    "multiple "
    "of 4 places apart writes the first elements only, unless 16 divides their number: it moves the one axis of its "
    "loop behind the axes that there are",
    instead=COPY,
)


# Longer than three quarters of an L1 data cache of 96 KiB: a cache of 32 KiB needs 6,144 elements, of 48 KiB 9,216.
@SCATTERED.example()
def reorder_into_every_fourth_element(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.reorder(g.input("x", "f32", (300, 63))), strides=(252, 4))


@SCATTERED.example()
def relu_into_every_fourth_element(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.relu(g.input("x", "f32", (300, 63))), strides=(252, 4))


LAYOUTS = Faults[Laid](EVERY_OP, FAULTS)


def wrong_layout(laid: Laid, version: Release) -> str:
    """What does not honour the strides of a tensor, in words; empty where a library of ``version`` does."""
    if told := PARTITIONS.reason(laid.inside, laid, version):
        return told
    return f"{laid.kind} does not honour strides" if layout_faults(laid, version) else ""


def layout_faults(laid: Laid, version: Release) -> list[Fault[Laid]]:
    """The faults of a single op that reads or writes a tensor with these strides."""
    return LAYOUTS.of(frozenset([laid.kind]), laid, version)
