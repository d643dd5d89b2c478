"""Adds the vector-Jacobian product of a graph to the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..errors import UnsupportedError
from ..ir.op import LogicalTensor, Op, schema_of
from ..lowering.elementwise import add
from ..lowering.emitter import Emitter
from ..opset.editions.registry import base_of
from .arguments import differentiable, seeds_of, tensors_of
from .repeats import repetitions
from .reverse import Reverse, active_ports
from .rules import FLAT, refusal
from .rules.table import entry
from .transplant import Transplant
from .use import has_gradient, ones_like


@atomic
def gradient(
    graph: DataGraph, outputs: object, wrt: object, grad_outputs: object = None, checkpoint: object = None
) -> tuple[LogicalTensor, ...]:
    """The gradients with respect to ``wrt``; see :meth:`onegraph.Graph.gradient`."""
    results, sources = differentiable(graph, "outputs", outputs), differentiable(graph, "wrt", wrt)
    seeds = seeds_of(graph, results, grad_outputs)
    checkpoints = None if checkpoint is None else tensors_of(graph, "checkpoint", checkpoint)
    # The ops are added to a copy, so that an error leaves the graph as it is, and ops without a reader stay out of it.
    scratch = DataGraph.copy(graph)
    again = repetitions(graph.ops)
    copies = [again.get(source.id, []) for source in sources]
    emit, between = (
        Emitter(scratch),
        _between(graph.ops, results, [*sources, *(op_ for some in copies for op_ in some)]),
    )
    reverse = Reverse(emit, between, _label(graph.ops))
    emit.named(reverse.label)
    for result, seed in zip(results, seeds, strict=True):
        if seed is None or (isinstance(seed, np.ndarray) and seed.ndim == 0):
            seed = ones_like(emit, result, 1 if seed is None else float(seed))
        reverse.give(result, seed)
    reverse.take(graph.ops[::-1])
    gradients = []
    for source, repeated in zip(sources, copies, strict=True):
        emit.named(f"{source.name}/{reverse.label}")
        parts = [part for op_ in (source, *repeated) if (part := reverse.gradient(op_)) is not None]
        while len(parts) > 1:
            parts[:2] = [add(emit, parts[0], parts[1])]
        op_ = parts[0] if parts else None
        gradients.append(emit.tensor(ones_like(emit, source, 0) if op_ is None else op_))
    return Transplant(graph, scratch, checkpoints).moved(gradients)


def _between(ops: Sequence[Op], results: Sequence[LogicalTensor], sources: Sequence[LogicalTensor]) -> set[int]:
    """Ids of the tensors that depend on a source and that a result depends on; both may be among them.

    Raises:
        UnsupportedError: one of the ops between has no gradient.
    """
    dependent = {tensor.id for tensor in sources}
    for op in ops:
        ports = active_ports(op, dependent)
        if not ports or entry(FLAT, base_of(schema_of(op))) is not None:
            continue
        # Integers depend on a source through an op that rounds it, whose refusal is due where they become numbers.
        rounds = refusal(base_of(schema_of(op)), frozenset(ports)) or not _floating(op, ports)
        dependent.update(tensor.id for tensor in op.outputs if rounds or has_gradient(tensor))
    needed = {tensor.id for tensor in results} & dependent
    for op in reversed(ops):
        ports = active_ports(op, dependent)
        base = base_of(schema_of(op))
        if not ports or entry(FLAT, base) is not None or not any(tensor.id in needed for tensor in op.outputs):
            continue
        floating = _floating(op, ports)
        reason = refusal(base, floating) if floating else ""
        if reason:
            raise UnsupportedError(_refused(op, reason, ops, results, sources))
        needed.update(op.inputs[index].id for indices in ports.values() for index in indices)
    return needed


def _floating(op: Op, ports: Mapping[str, Sequence[int]]) -> frozenset[str]:
    """Those of the ports that have tensors of floating-point numbers."""
    return frozenset(port for port, places in ports.items() if any(has_gradient(op.inputs[place]) for place in places))


def _refused(
    op: Op, reason: str, ops: Sequence[Op], results: Sequence[LogicalTensor], sources: Sequence[LogicalTensor]
) -> str:
    """The message for an op without a gradient, with the path from a result through the op to a source."""
    makers = {tensor.id: maker for maker in ops for tensor in maker.outputs}
    readers: dict[int, list[Op]] = {}
    for maker in ops:
        for tensor in maker.inputs:
            if tensor is not None:
                readers.setdefault(tensor.id, []).append(maker)
    up = _chain(
        op.outputs, results, lambda maker: ((consumer, consumer.outputs) for consumer in readers.get(maker.id, ()))
    )
    down = _chain(
        op.inputs, sources, lambda maker: ((consumer, consumer.inputs) for consumer in _listed(makers.get(maker.id)))
    )
    path = " <- ".join([*reversed(up), op.name, *down])
    return f"gradient: {op.kind} {op.name!r}: {reason}; the path is {path}"


def _listed(op: Op | None) -> tuple[Op, ...]:
    return () if op is None else (op,)


def _chain(
    starts: Sequence[LogicalTensor | None],
    ends: Sequence[LogicalTensor],
    steps: Callable[[LogicalTensor], Iterable[tuple[Op, Sequence[LogicalTensor | None]]]],
) -> list[str]:
    """The names of the ops on a shortest path from a tensor of ``starts`` to one of ``ends``, and that of the end."""
    last = {tensor.id for tensor in ends}
    paths: list[tuple[LogicalTensor, list[str]]] = [(tensor, []) for tensor in starts if tensor is not None]
    visited: set[int] = set()
    for tensor, names in paths:  # the list grows
        if tensor.id in last:
            return [*names, tensor.name]
        if tensor.id not in visited:
            visited.add(tensor.id)
            paths += [(end, [*names, op.name]) for op, to in steps(tensor) for end in to if end is not None]
    return []


def _label(ops: Sequence[Op]) -> str:
    """The end of the names of the new ops; no op has it yet."""
    used = {name for op in ops for name in op.name.split("/")[1:]}
    number = 1
    while (label := "gradient" if number == 1 else f"gradient_{number}") in used:
        number += 1
    return label
