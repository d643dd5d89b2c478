"""Averages gradients over the processes of a group, in buckets that travel while the backward pass still runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from .._util.validation import integer
from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..ir.op import LogicalTensor, Op
from ..lowering.emitter import Emitter, numbers
from ..lowering.movement import reshape, slice_
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from ..training.arguments import tensors_of

BUCKET_BYTES = 4 << 20
START = "AllReduceStart"


@atomic
def average(
    graph: DataGraph, tensors: Sequence[LogicalTensor], *, bucket_bytes: int = BUCKET_BYTES
) -> tuple[LogicalTensor, ...]:
    """Average tensors over the processes of the group, such as the gradients of the variables, or the loss.

    The tensors travel in buckets, in the order in which the graph computes them. A bucket starts to travel when its
    last tensor is there, while the ops behind it run. Every process must run the same graph. An executable of the graph
    needs a group (:func:`join`) when it runs, not when it is compiled.

    Args:
        graph: the graph to add ops to.
        tensors: f32 tensors of the graph with known shapes.
        bucket_bytes: a bucket that has so many bytes takes no further tensor. Larger buckets use the network better;
            smaller ones start earlier.

    Returns:
        the averages, in the order of ``tensors``.

    Raises:
        ArgumentError: a tensor is not an f32 tensor of this graph.
    """
    listed = tensors_of(graph, "average: tensors", tensors, [DataType.f32])
    most = integer("average: bucket_bytes", bucket_bytes, 1, 2**40)
    made = {tensor.id: -1 for tensor in listed}
    made |= {tensor.id: place for place, op in enumerate(graph._ops) for tensor in op.outputs}
    averaged = {tensor.id: tensor for tensor in listed if tensor.value is not None}  # the same in every process
    moving = {tensor.id: tensor for tensor in listed if tensor.id not in averaged}
    buckets = [*_buckets(sorted(moving.values(), key=lambda one: made[one.id]), most)]
    emit, count = Emitter(graph), len(graph._ops)
    before = [op.outputs[0] for op in graph._ops if op.kind == START][-1:]
    started = [*before]
    for bucket in buckets:
        sources, order = [*started[-1:], *bucket], {"after": bool(started)}
        started.append(emit.tensor(emit.op(START, sources, order, edition="host")))
    _start_early(graph, count, [max(made[end.id] for end in (*before, bucket[-1])) for bucket in buckets])
    for bucket, sums in zip(buckets, started[len(before) :], strict=True):
        whole, at = emit.op("AllReduceDone", [sums, started[-1]], edition="host"), 0
        for tensor in bucket:
            dims = known_dims(tensor.shape)
            part = slice_(emit, whole, [at], [at + prod(dims)], [0])
            averaged[tensor.id] = emit.tensor(reshape(emit, part, numbers(*dims)))
            at += prod(dims)
    return tuple(averaged[tensor.id] for tensor in listed)


def _buckets(tensors: Sequence[LogicalTensor], most: int) -> Iterator[list[LogicalTensor]]:
    """The tensors in groups that have at least ``most`` bytes, except for the last one."""
    bucket: list[LogicalTensor] = []
    size = 0
    for tensor in tensors:
        bucket.append(tensor)
        size += prod(known_dims(tensor.shape)) * tensor.dtype.numpy.itemsize
        if size >= most:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def _start_early(graph: DataGraph, count: int, places: Sequence[int]) -> None:
    """Move the last ops of a graph, from index ``count`` on, behind those at ``places``: ops run in their order."""
    moved: dict[int, list[Op]] = {}
    for place, op in zip(places, graph._ops[count:], strict=True):
        moved.setdefault(place, []).append(op)
    ordered = [*moved.get(-1, [])]
    for place, op in enumerate(graph._ops[:count]):
        ordered += [op, *moved.get(place, [])]
    graph._ops = ordered
