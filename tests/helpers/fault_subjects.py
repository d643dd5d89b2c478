"""The graph of an example of a fault, and what the condition of the fault is asked about there."""

import math

import onegraph as og
from onegraph.faults import slow_fusions, slow_strides
from onegraph.faults.capabilities import CAPABILITIES
from onegraph.faults.constant_inputs import CONSTANTS, Constants, End, WiredOp
from onegraph.faults.cpus import CPU_SUPPORT, EVERY_ISA, OnCpu
from onegraph.faults.depthwise import DEPTHWISE, FAR_PADS, MOST_PADS, Padding
from onegraph.faults.execution import (
    NODES,
    SCRATCH_OF_THE_THREAD,
    SHARED_BLOCKING,
    SINGLE_AXES,
    UNALIGNED,
    UNPRODUCED_WEIGHTS,
)
from onegraph.faults.fusions import FUSIONS, strided
from onegraph.faults.layouts import LAYOUTS, PARTITIONS
from onegraph.faults.leaks import LEAKY
from onegraph.faults.ops import OPS
from onegraph.faults.ops.interpolation import ENDLESS_TABLE
from onegraph.faults.ops.pooling import SLOW_CHANNELS_FIRST, ChannelsFirst
from onegraph.faults.performance import (
    BIASES,
    NUMPY,
    REFERENCE,
    SHORT_ROWS,
    SLOPES,
    SLOW_BROADCAST,
    SLOW_WEIGHTS,
    MatMulUse,
)
from onegraph.faults.precision import PRECISION
from onegraph.faults.support import SUPPORT
from onegraph.faults.use import Fused, Laid, Use
from onegraph.faults.vectors import SLOW_VECTORS
from onegraph.faults.vectors import VectorMatMul as Vectors
from onegraph.faults.without_avx512 import NARROW_GROUPS, SLOW_COLUMNS, Columns, ConvolutionGroups
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

OF_SINGLE_OPS = [*OPS, *PRECISION, *LEAKY, *CAPABILITIES, *SUPPORT, *BIASES, *DEPTHWISE, *SLOPES, *NUMPY, *REFERENCE]


def graph_of(build):
    """The graph of an example."""
    graph = og.Graph()
    found = build(graph)
    for number, tensor in enumerate(found if isinstance(found, tuple) else (found,)):
        if tensor.id not in {output.id for output in graph.outputs.values()}:
            graph.output(f"out{number}", tensor)
    return graph


def types(tensors):
    return [None if tensor is None else TensorType(tensor.dtype, tensor.shape) for tensor in tensors]


def calls(graph):
    return [Call(BASE[op.kind], dict(op.attrs), types(op.inputs), len(op.outputs), [t.dtype for t in op.outputs])
            for op in graph.ops]  # fmt: skip


def fused(graph, **cpu):
    """All ops of a graph as one partition."""
    uses = []
    for op in graph.ops:
        inputs = [tensor for tensor in op.inputs if tensor is not None]
        call = Call(BASE[op.kind], dict(op.attrs), types(inputs), len(op.outputs), [t.dtype for t in op.outputs])
        ids = (tuple(tensor.id for tensor in side) for side in (inputs, op.outputs))
        uses.append(Use(call, *ids, op.outputs[0].dtype))
    ends = [*graph.inputs.values(), *graph.outputs.values()]
    return Fused(uses, strided=frozenset(tensor.id for tensor in ends if tensor.strides is not None), **cpu)


def laid(graph):
    """The inputs and outputs of a graph that are not dense, as its ops meet them."""
    inside = frozenset(op.kind for op in graph.ops)
    for op in graph.ops:
        for tensor in (*graph.inputs.values(), *graph.outputs.values()):
            if tensor.strides is not None:
                rank, is_read = len(op.outputs[0].shape), tensor.id in {one.id for one in op.inputs if one is not None}
                yield Laid(op.kind, rank, tensor.shape, tensor.strides, is_read, inside, op.attrs)


def wired(graph):
    """The ops of a graph with their tensors."""
    ends = {tensor.id: End(tensor.id, tensor.shape) for tensor in graph._tensors}
    sides = ((op.kind, op.inputs, op.outputs) for op in graph.ops)
    return tuple(WiredOp(kind, *(tuple(ends[one.id] for one in side) for side in both)) for kind, *both in sides)


def subjects(fault, graph):
    """What the condition of a fault is asked about in a graph; none for those of compiling and executing."""
    if fault in OF_SINGLE_OPS:
        return [call for call in calls(graph) if call.schema.kind in fault.ops]
    if fault in CPU_SUPPORT:
        return [OnCpu(call, isa) for call in calls(graph) for isa in EVERY_ISA]
    if fault in (*FUSIONS, *strided.FAULTS, *slow_fusions.FAULTS):
        without = {"vnni": False, "avx512": False}
        older = [fused(graph, **without), fused(graph, **without, avx2=False)]
        return [fused(graph), *older, fused(graph, amx=True)]
    if fault in (*LAYOUTS, *PARTITIONS, *slow_strides.FAULTS):
        return [found for found in laid(graph) if found.kind in fault.ops]
    if fault is FAR_PADS:
        return [Padding(call, MOST_PADS) for call in calls(graph)]
    if fault is SLOW_VECTORS:
        return [Vectors(call.shapes[0][0], 4 * math.prod(call.inputs[1].shape)) for call in calls(graph)]
    if fault is SLOW_COLUMNS:
        return [Columns(*call.shapes[0], 4) for call in calls(graph)]
    if fault is NARROW_GROUPS:
        return [
            ConvolutionGroups(count := call.s64("groups"), call.inputs[1].shape[-2], call.inputs[1].shape[-1] // count)
            for call in calls(graph)
        ]
    if fault is SLOW_CHANNELS_FIRST:
        return [ChannelsFirst(call, 2**20) for call in calls(graph)]
    if fault in (SLOW_BROADCAST, SHORT_ROWS):
        return [(op.outputs[0].shape, tensor.shape) for op in graph.ops for tensor in op.inputs]
    if fault in slow_strides.TENSORS:
        return [(tensor.shape, tensor.strides) for tensor in graph.inputs.values() if tensor.strides is not None]
    if fault is SLOW_WEIGHTS:
        shapes = [tuple(tensor.shape for tensor in op.inputs) for op in graph.ops]
        return [MatMulUse(*ends, transposed, constant=False) for ends in shapes for transposed in (True, False)]
    if fault in CONSTANTS or fault in NODES:
        nodes = wired(graph)
        constants = frozenset(end.id for end in graph._tensors if end.value is not None)
        return [Constants(nodes, constants) if fault in CONSTANTS else nodes]
    if fault in (SCRATCH_OF_THE_THREAD, SHARED_BLOCKING):
        return [tuple(op.kind for op in graph.ops)]
    if fault is UNPRODUCED_WEIGHTS:
        return [tuple((node.kind, *(tuple(end.id for end in ends) for ends in node[1:])) for node in wired(graph))]
    if fault is SINGLE_AXES:
        return [tensor.shape for tensor in graph.inputs.values()]
    if fault is UNALIGNED:
        return [True, False]
    if fault is ENDLESS_TABLE:
        return [max(tensor.shape) for op in graph.ops for tensor in (*op.inputs, *op.outputs)]
    return None
