"""Captures graphs whose ops are those that are lowered: other decompositions than PyTorch's, and less that is saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from . import draws as draws
from . import tables as tables
from .fast_paths import FAST_PATHS
from .joint import without_aliases, without_indices, without_statistics
from .kernel_forms import as_kernels
from .node import LOWERINGS
from .parts import join_parts
from .true_types import with_true_types

aten = torch.ops.aten


def _dropout(source: Any, p: float, train: bool | None) -> Any:
    """Dropout by the random numbers that PyTorch draws without compilation, in the order of the memory."""
    if train is False:
        return aten.clone(source), torch.ones_like(source, dtype=torch.bool)
    if p == 1:  # without compilation, PyTorch draws nothing
        return source * torch.zeros_like(source), torch.zeros_like(source, dtype=torch.bool)
    kept = torch.ops.onegraph.bernoulli_like(source, 1 - p)
    return source * (kept / (1 - p)), kept != 0


@cache  # PyTorch takes a quarter of a second to collect its table
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The core decompositions, without the ops that are lowered as they are, and those that draw random numbers."""
    table = {
        op: function
        for op, function in core_aten_decompositions().items()
        if str(op) not in LOWERINGS and torch.Tag.nondeterministic_seeded not in op.tags
    }
    return {**as_kernels(table), aten.native_dropout.default: _dropout, **FAST_PATHS}


def partitioned(joint: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """The forward and the backward graph of a joint one."""
    with_true_types(joint)
    without_aliases(joint)
    without_indices(joint)
    without_statistics(joint)
    join_parts(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)
