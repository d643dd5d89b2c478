"""Mends captured graphs: data types that PyTorch states wrongly, and what the backward graph need not read."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

aten = torch.ops.aten
TRAINED_NORMS = (
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.no_stats,
    aten._batch_norm_with_update_functional.default,
)
ROW_NORMS = (aten.native_layer_norm.default, aten.native_group_norm.default)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # data types of the op
_library = torch.library.Library("onegraph", "DEF")
_library.define(
    "max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
    "int[2] dilation, bool ceil_mode) -> Tensor"
)


def _max_pool_backward(grad_output: Any, self: Any, *window: Any) -> Any:
    """The gradient of a max pool, which runs the pool again for the places of the largest elements."""
    _, places = aten.max_pool2d_with_indices(self, *window)
    return aten.max_pool2d_with_indices_backward(grad_output, self, *window, places)


def _max_pool_backward_like(grad_output: Any, self: Any, *window: Any) -> Any:
    return torch.empty_like(self)


_library.impl("max_pool2d_backward", _max_pool_backward, "CPU")
_library.impl("max_pool2d_backward", _max_pool_backward_like, "Meta")


def with_true_types(gm: GraphModule) -> None:
    """State the data types that normalizations by the statistics of their input have when PyTorch runs them.

    PyTorch states those of its decomposition. In 16 bits, kernels for CPUs keep statistics in f32 beside parameters
    in f32, and return running statistics in their own data type.
    """
    for node in gm.graph.nodes:
        if node.target not in (*TRAINED_NORMS, *ROW_NORMS):
            continue
        given = [one.meta["val"] if hasattr(one, "meta") else one for one in node.args]
        source, *parameters = [getattr(one, "dtype", None) for one in given[:5]]
        kept = torch.float32 if torch.float32 in parameters else source
        results = node.meta["val"]
        dtypes = [source, kept, kept]
        if node.target in TRAINED_NORMS:
            reserved = [one.dtype for one in results[3:-2]]  # memory for the backward pass
            dtypes += [*reserved, *parameters[2:]]
        _restate(node, [one.to(dtype) for one, dtype in zip(results, dtypes, strict=False)])


def _restate(node: FxNode, likes: list[Any]) -> None:
    node.meta["val"] = tuple(likes)
    for user in node.users:
        if user.target is operator.getitem:
            user.meta["val"] = likes[user.args[1]]


def without_indices(joint: GraphModule) -> None:
    """Take the indices from the gradients of max pools, because the op that computes them finds the places again."""
    for node in [*joint.graph.nodes]:
        if node.target is not aten.max_pool2d_with_indices_backward.default:
            continue
        gradient, source, *window, places = node.args
        like = source.meta["val"]
        if places.target is not operator.getitem or like.dim() != 4 or like.dtype not in FLOATS:
            continue
        node.target = torch.ops.onegraph.max_pool2d_backward.default
        node.args = (gradient, source, *window)


def without_aliases(joint: GraphModule) -> None:
    """Let calls read the tensor that a detach names again, which would be saved twice for the backward graph."""
    for node in joint.graph.nodes:
        if node.target in (aten.detach.default, aten.alias.default):
            node.replace_all_uses_with(node.args[0], lambda user: user.op != "output")


def without_statistics(joint: GraphModule) -> None:
    """Take the statistics of the batch, which are empty, from gradients by running statistics."""
    for node in joint.graph.nodes:
        if node.target is aten.native_batch_norm_backward.default and not node.args[7]:
            node.args = (*node.args[:5], None, None, *node.args[7:])
