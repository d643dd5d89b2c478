"""Captures graphs whose ops are those that are lowered: other decompositions than PyTorch's, and less that is saved."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions
from torch._decomp.decompositions import upsample_compute_output_size
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from . import tables as tables
from .joint import with_true_types, without_aliases, without_indices, without_statistics
from .node import LOWERINGS
from .parts import join_parts
from .tables.resizing import RESIZING

aten = torch.ops.aten
_lock = threading.RLock()


def _dropout(source: Any, p: float, train: bool | None) -> Any:
    """Dropout by the random numbers that PyTorch draws without compilation."""
    if not train or p == 0:
        return source, torch.ones_like(source, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(source), torch.zeros_like(source, dtype=torch.bool)
    kept = aten.bernoulli.p(source, 1 - p)
    return source * (kept / (1 - p)), kept != 0


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The core decompositions, without the ops that are lowered as they are, and those that draw random numbers."""
    found = {
        op: function
        for op, function in core_aten_decompositions().items()
        if str(op) not in LOWERINGS and torch.Tag.nondeterministic_seeded not in op.tags
    }
    sized = {getattr(aten, name).vec: _sized(getattr(aten, name).default) for name in RESIZING}
    return {**found, **sized, aten.native_dropout.default: _dropout}


def _sized(op: Any) -> Callable[..., Any]:
    """The form of a resizing op that takes a size or factors, as the form that takes both."""

    def call(src: Any, output_size: Any, *rest: Any) -> Any:
        *corners, factors = rest
        sizes = upsample_compute_output_size(src.size(), output_size, factors)
        return op(src, sizes, *corners, *(factors or [None] * len(sizes)))

    return call


@contextmanager
def whole_ops() -> Iterator[None]:
    """Keep PyTorch from decomposing, before any table of decompositions is asked, ops that are lowered as they are."""
    changed: list[tuple[Any, dict[Any, Any]]] = []
    with _lock:
        try:
            for name in RESIZING:
                packet = getattr(aten, name)
                for op in (packet.default, packet.vec):
                    changed.append((op, dict(op.py_kernels)))
                    for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
                        op.py_kernels.pop(key, None)
                        if op is packet.vec:
                            op.py_kernels[key] = _sized(packet.default)
                    op._dispatch_cache.clear()
            yield
        finally:
            for op, kernels in changed:
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()


def partitioned(joint: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """The forward and the backward graph of a joint one."""
    with_true_types(joint)
    without_aliases(joint)
    without_indices(joint)
    without_statistics(joint)
    join_parts(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)
