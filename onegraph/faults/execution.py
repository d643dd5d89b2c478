"""What oneDNN gets wrong between search, compile and execute: memory, threads and caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import BASE
from .constant_inputs import WiredOp
from .fault import UNSAFE, Faults, Release
from .ops.windows import AVERAGE, IMAGE

EVERY = frozenset(BASE)
Ends = tuple[str, Sequence[int], Sequence[int]]  # of an op: its kind, and the ids of its inputs and outputs

# Memory and threads --------------------------------------------------------------------------------------------------

NODES = Faults[Sequence[WiredOp]]()

STATS_IN_PLACE = NODES.add(
    "stats_in_place",
    ops="SoftMax",
    where="outputs",
    severity=UNSAFE,
    when=lambda nodes: any(node.kind == "SoftMax" and len(node.outputs) > 1 for node in nodes),
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="a SoftMax that may write over its source makes its stats of what it has written there",
    instead="memory of its own for the result",
    since=(3, 2),
)


@STATS_IN_PLACE.example({(3, 2): "absent", (3, 13): "right"})  # with memory of its own
def softmax_and_its_stats(g: DataGraph) -> tuple[LogicalTensor, ...]:
    return tuple(g.softmax(g.relu(g.input("x", "f32", (2, 5))), axis=1, outputs=["stats"]))


def _is_of_the_thread(kinds: Sequence[str]) -> bool:
    # Additions alone become one primitive of that sort too.
    alone = SCRATCH_OF_THE_THREAD.ops - {"Add"}
    return not alone.isdisjoint(kinds) or (len(kinds) > 1 and set(kinds) == {"Add"})


SCRATCH_OF_THE_THREAD = Faults[Sequence[str]]().add(
    "scratch_of_the_thread",
    # The ops whose primitives oneDNN creates without the attribute that makes the caller own the scratch memory
    # (src/graph/backend/dnnl/op_executable.cpp).
    ops="Add AvgPoolBackward BatchNormTrainingBackward ConvTransposeBackwardData ConvTransposeBackwardWeights "
    "ConvolutionBackwardData ConvolutionBackwardWeights MaxPoolBackward",
    where="",
    severity=UNSAFE,
    when=_is_of_the_thread,
    seen={(3, 2): "SIGSEGV"},
    reason="kernels of these ops have scratch memory of the thread that compiles them: in another thread they write to "
    "memory "
    "that may be too small or not there",
    instead="one compilation for each thread",
)


@SCRATCH_OF_THE_THREAD.example({(3, 2): "right"})  # in the thread that compiles it
def gradient_of_a_pool(g: DataGraph) -> LogicalTensor:
    attrs = {**AVERAGE, "src_shape": [1, 2, 4, 4], "data_format": "NCX"}
    return g.op("AvgPoolBackward", [g.input("d", "f32", (1, 2, 2, 2))], attrs)


STRIDED = frozenset(["ConvTranspose", "ConvolutionBackwardData"])
SHARED_BLOCKING = Faults[Sequence[str]]().add(
    "blocking_shared_by_threads",
    ops=STRIDED,
    where="",
    severity=UNSAFE,
    when=lambda kinds: not STRIDED.isdisjoint(kinds),
    seen={(3, 2): "wrong | right", (3, 6): "right"},
    reason="while a thread creates a kernel of these ops, a static variable holds how many channels the weights pack "
    "(src/cpu/x64/jit_brgemm_conv_bwd_utils.cpp): a thread that creates one of another data type changes it, and the "
    "kernel reads the weights at wrong places",
    instead="compilations of these ops wait for each other",
    mended=(3, 5),
)


@SHARED_BLOCKING.example({(3, 2): "right"})  # compiled by one thread
def pixels_two_apart_in_two_groups(g: DataGraph) -> LogicalTensor:
    attrs = {**IMAGE, "strides": [2, 2], "groups": 2, "data_format": "NCX", "weights_format": "IOX"}
    return g.op("ConvTranspose", [g.input("x", "f32", (1, 4, 5, 5)), g.input("w", "f32", (4, 3, 3, 3))], attrs)


ALIGNMENT = 16  # bytes

UNALIGNED = Faults[bool]().add(
    "unaligned_without_avx2",
    ops="AvgPool Convolution ConvTranspose",
    where="",
    severity=UNSAFE,
    when=lambda avx2: not avx2,
    seen={(3, 2): "SIGSEGV"},
    reason="kernels for CPUs without AVX2 add some memory to a register of 16 bytes where it lies: the source of an "
    "AvgPool, "
    "and the bias and the result of a Convolution that something is added to",
    instead="a copy at a multiple of 16 bytes",
)


@UNALIGNED.example({(3, 2): "right"}, on={"no AVX2": "SIGSEGV | right"})
def average_of_memory_at_any_address(g: DataGraph) -> LogicalTensor:
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2], "exclude_pad": False}
    return g.op("AvgPool", [g.input("x", "f32", (2, 5, 5, 9))], window)


# The search for fusions ----------------------------------------------------------------------------------------------


def _unproduced(ops: Sequence[Ends]) -> list[int]:
    """The weights that no op produces, of a Convolution whose src comes from a Dequantize."""
    producers = {number: kind for kind, _, outputs in ops for number in outputs}
    convolutions = [
        inputs for kind, inputs, _ in ops if kind == "Convolution" and producers.get(inputs[0]) == "Dequantize"
    ]
    return [*dict.fromkeys(inputs[1] for inputs in convolutions if inputs[1] not in producers)]


UNPRODUCED_WEIGHTS = Faults[Sequence[Ends]]().add(
    "unproduced_weights",
    ops="Convolution",
    where="weights",
    severity=UNSAFE,
    when=lambda ops: bool(_unproduced(ops)),
    seen={(3, 2): "right", (3, 6): "SIGSEGV"},
    reason="the search for fusions asks who produced the weights of a Convolution whose src a Dequantize does, and "
    "crashes "
    "where nobody did",
    instead="a Wildcard that produces the weights, or the ops one by one",
    since=(3, 6),
)


@UNPRODUCED_WEIGHTS.example(policy="fusion")
def dequantized_source_and_weights_of_f32(g: DataGraph) -> LogicalTensor:
    src, weights = g.input("x", "u8", (1, 5, 5, 4)), g.input("w", "f32", (1, 1, 4, 3))
    return g.relu(g.op("Convolution", [g.dequantize(src, scales=[0.5], zps=[0]), weights], IMAGE))


def unproduced_weights(ops: Sequence[Ends], version: Release) -> list[int]:
    """The weights on which the search of a library of ``version`` crashes."""
    return _unproduced(ops) if UNPRODUCED_WEIGHTS.affects(version) else []


# Strides of axes of size 1 -------------------------------------------------------------------------------------------

SINGLE_AXES = Faults[Sequence[int]]().add(
    "stride_of_a_single_axis",
    ops=EVERY,
    where="strides",
    severity=UNSAFE,
    when=lambda dims: 1 in dims,
    seen={(3, 2): "throws | right", (3, 3): "wrong"},
    reason="the stride of an axis of size 1 matters: a MatMul of 3.2 fails with one that is too small for a matrix, "
    "and from "
    "3.3 on kernels step along such axes, whose strides the library's own cache of kernels does not look at",
    instead="the same tensor with the one stride that onegraph gives to an axis of size 1",
)


@SINGLE_AXES.example({(3, 2): "right"})
def product_with_a_batch_of_one(g: DataGraph) -> LogicalTensor:
    right = g.input("b", "f32", (1, 2, 33, 16), strides=(1056, 16, 32, 1))
    return g.matmul(g.input("a", "f32", (1, 2, 5, 33)), right)


# Caches of the process, which native.library sets before anything is compiled ----------------------------------------

COLLIDING_CONSTANTS = Faults[None]().add(
    "colliding_constants",
    ops=EVERY,
    where="property",
    severity=UNSAFE,
    when=lambda _: True,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="constants of partitions are told apart by a hash that collides, so that one partition may run with the "
    "weights or "
    "scales of another",
    instead="executables check what the library takes in the first execution; constants of capi are prepared in every "
    "run",
)


@COLLIDING_CONSTANTS.example({(3, 2): "right"})
def product_with_constant_weights(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (4, 16)), g.constant(np.ones((16, 16), np.float32)))


FEW_PRIMITIVES = Faults[None]().add(
    "few_primitives",
    ops=EVERY,
    where="",
    severity=UNSAFE,
    when=lambda _: True,
    seen={(3, 2): "SIGSEGV", (3, 6): "right"},
    reason="a cache of few primitives gives up one that another primitive is still made from",
    instead="a capacity of 0, or of 1024 and more",
)


@FEW_PRIMITIVES.example({(3, 2): "right"})  # with the default capacity
def sum_of_two_tensors(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (4,)), g.input("y", "f32", (4,)))
