"""States the data types and the strides that results have when PyTorch runs a captured graph.

PyTorch states those of its decompositions, which differ from those of its kernels for CPUs.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg

from .lowering import is_call
from .strides import with_kernel_strides

aten = torch.ops.aten
TRAINED_NORMS = (
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.no_stats,
    aten._batch_norm_with_update_functional.default,
)
ROW_NORMS = (aten.native_layer_norm.default, aten.native_group_norm.default)
# Ops whose result has rows behind each other unless an input is channels last, with the number of these inputs.
FORMATS: Mapping[Any, int] = {
    **dict.fromkeys((*TRAINED_NORMS, aten._native_batch_norm_legit_no_training.default), 1),
    aten.im2col.default: 0,
}


def with_true_types(gm: GraphModule) -> None:
    """State true data types and strides.

    In 16 bits, PyTorch's kernels keep statistics in f32 beside parameters in f32, and return running statistics in
    their own data type. Batch normalizations return rows, or channels last, whatever the order of the axes of their
    source. Ops on elements and indexing order axes by strides, those of axes of one element too (``strides``).
    """
    _restate_all(gm.graph)


def true_forms(gm: GraphModule, metas: Mapping[FxNode, Any]) -> dict[FxNode, Any]:
    """What each node returns, with true data types and strides, for fake tensors of known sizes."""
    graph = FxGraph()
    copies: dict[FxNode, FxNode] = {}
    graph.graph_copy(gm.graph, copies)
    for node, copy in copies.items():
        copy.meta = {"val": metas[node]}
    _restate_all(graph)
    return {**metas, **{node: copy.meta["val"] for node, copy in copies.items()}}


def _restate_all(graph: FxGraph) -> None:
    changed: set[FxNode] = set()
    for node in graph.nodes:
        if not changed.isdisjoint(node.all_input_nodes) and _repeated(node):
            changed.add(node)
        if node.target in (*TRAINED_NORMS, *ROW_NORMS):
            _restate(node, _likes_of_norm(node))
        if _with_format(node) or with_kernel_strides(node):
            changed.add(node)


def _repeated(node: FxNode) -> bool:
    """State the strides that a call has for the strides of its inputs; whether they are others than before."""
    before, target = node.meta.get("val"), node.target
    if target is operator.getitem:
        node.meta["val"] = node.args[0].meta["val"][node.args[1]]
        return True
    if not is_call(node):
        return False
    args, kwargs = (map_arg(given, lambda one: one.meta["val"]) for given in (node.args, node.kwargs))
    try:
        with torch.no_grad():
            now = target(*args, **kwargs)
    except (RuntimeError, ValueError):  # PyTorch has no such view of the true strides; a graph computes it all the same
        return False
    node.meta["val"] = now
    return not _alike(before, now)


def _alike(first: Any, second: Any) -> bool:
    if type(first) in (list, tuple):
        return all(map(_alike, first, second))
    return not hasattr(first, "stride") or first.stride() == second.stride()


def _with_format(node: FxNode) -> bool:
    """State that a result has rows behind each other, or channels last; whether it had another layout before."""
    if node.target not in FORMATS:
        return False
    like, rest = node.meta["val"], ()
    if type(like) in (list, tuple):
        like, *rest = like
    sources = [argument.meta["val"] for argument in node.args[: FORMATS[node.target]] if isinstance(argument, FxNode)]
    formats = {*map(_format_of, sources)} - {torch.contiguous_format}
    true = torch.empty_like(like, memory_format=next(iter(formats), torch.contiguous_format))
    if _alike(like, true):
        return False
    if type(node.meta["val"]) in (list, tuple):
        _restate(node, [true, *rest])
    else:
        node.meta["val"] = true
    return True


def _format_of(source: Any) -> Any:
    """The format in which kernels of normalizations take a tensor; strides of axes of one element do not matter."""
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(source.dim())
    if order is not None and not source.is_contiguous() and source.is_contiguous(memory_format=order):
        return order
    return suggest_memory_format(source)


def _likes_of_norm(node: FxNode) -> list[Any]:
    """The results of a normalization in the data types of PyTorch's kernel."""
    examples = [argument.meta["val"] if hasattr(argument, "meta") else argument for argument in node.args]
    source, *parameters = [getattr(one, "dtype", None) for one in examples[:5]]
    kept = torch.float32 if torch.float32 in parameters else source
    results = node.meta["val"]
    dtypes = [source, kept, kept]
    if node.target in TRAINED_NORMS:
        reserved = [result.dtype for result in results[3:-2]]  # memory for the backward pass
        dtypes += [*reserved, *parameters[2:]]
    return [result.to(dtype) for result, dtype in zip(results, dtypes, strict=False)]


def _restate(node: FxNode, likes: Sequence[Any]) -> None:
    node.meta["val"] = tuple(likes)
    for user in node.users:
        if user.target is operator.getitem:
            user.meta["val"] = likes[user.args[1]]
