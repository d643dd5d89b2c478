"""Keeps what a backward graph reads of the forward graph in the order of axes that convolutions compute.

PyTorch expects the order of eager, channels before pixels, which costs a copy at the end of the forward graph and one
at the start of the backward graph. Nobody else sees these tensors, so their strides are free.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import Partition

from .results import shares_memory

aten = torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
RESHAPES = ("aten._unsafe_view.default",)
ON_IMAGES = (
    *(aten.convolution, aten.convolution_backward, aten.max_pool2d_with_indices, aten.avg_pool2d),
    *(aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten._batch_norm_with_update_functional),
    *(aten._native_batch_norm_legit_no_training, aten.native_batch_norm_backward),
)


def saved_nodes(gm: GraphModule) -> frozenset[FxNode]:
    """The results of a forward graph that only its backward graph reads."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return frozenset()
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    results: Any = end.args[0]
    returned, saved = results[: metadata.num_forward], results[metadata.num_forward :]
    return frozenset(one for one in saved if type(one) is FxNode) - {*returned}


def without_written(gm: GraphModule) -> None:
    """Let a forward graph save copies of the inputs that PyTorch overwrites behind it.

    A backward graph may compute again what follows from inputs, and PyTorch refuses inputs that have changed meanwhile.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = {inputs[place] for place, one in enumerate(metadata.input_info) if one.mutates_data}
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    results: Any = end.args[0]
    saved = [_copied(gm, one, end) if _memory(one) in written else one for one in results[metadata.num_forward :]]
    end.args = ((*results[: metadata.num_forward], *saved),)


def _memory(node: Any) -> Any:
    """The node in whose memory the result of a node lies."""
    while type(node) is FxNode and shares_memory(node):
        node = node.all_input_nodes[0]
    return node


def _copied(gm: GraphModule, node: FxNode, end: FxNode) -> FxNode:
    with gm.graph.inserting_before(end):
        made = gm.graph.call_function(aten.clone.default, (node,))
    made.meta["val"] = node.meta["val"].clone()
    return made


def with_channels_last(parts: Iterable[Partition], saved: frozenset[FxNode]) -> None:
    """State that parts return saved pictures with the channels last."""
    for part in parts:
        for node in saved.intersection(part.nodes):
            like = node.meta["val"]
            is_read_outside = any(user.op != "output" and user not in part.nodes for user in node.users)
            if is_read_outside or not _is_picture(like) or not _is_of_images(node):
                continue
            node.meta["val"] = like.contiguous(memory_format=torch.channels_last)


def _is_picture(like: Any) -> bool:
    if not hasattr(like, "stride") or like.dim() != 4 or like.dtype not in FLOATS:
        return False
    return all(type(dim) is int for dim in like.shape) and like.is_contiguous()


def _is_of_images(node: FxNode) -> bool:
    """Whether ops that keep four axes make a tensor of the result of an op on images."""
    left, seen = [node], {node}
    while left:
        source_node = left.pop()
        target: Any = source_node.target
        if getattr(target, "overloadpacket", None) in ON_IMAGES:
            return True
        if str(target) in RESHAPES or getattr(target, "is_view", False):
            continue
        new = [source for source in source_node.all_input_nodes if source not in seen]
        seen.update(new)
        left += [source for source in new if target is operator.getitem or _rank(source) == 4]
    return False


def _rank(node: FxNode) -> int:
    like = node.meta.get("val")
    return like.dim() if hasattr(like, "dim") else -1


def with_true_forms(gm: GraphModule, arguments: Sequence[Any]) -> None:
    """State the strides and the data types that the inputs of a backward graph have.

    Gradients have the data type of their results, which is that of PyTorch's kernels (``kernel_forms``).
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, argument in zip(inputs, arguments, strict=True):
        like = node.meta.get("val")
        if hasattr(argument, "stride") and hasattr(like, "stride") and argument.dtype != like.dtype:
            _cast(gm, node, argument.dtype)
            continue
        if not hasattr(argument, "stride") or not _is_picture(like) or argument.stride() == like.stride():
            continue
        node.meta["val"] = like.new_empty_strided(argument.shape, argument.stride())
        for user in [*node.users]:
            if str(user.target) in RESHAPES or getattr(user.target, "is_view", False):
                _insert_dense(gm, node, user, like)


def _cast(gm: GraphModule, node: FxNode, dtype: Any) -> None:
    """Let calls read an input, which has another data type than stated, in the stated one."""
    like = node.meta["val"]
    node.meta["val"] = like.to(dtype)
    with gm.graph.inserting_after(node):
        made = gm.graph.call_function(aten._to_copy.default, (node,), {"dtype": like.dtype})
    made.meta["val"] = like
    node.replace_all_uses_with(made, lambda user: user is not made)


def _insert_dense(gm: GraphModule, node: FxNode, user: FxNode, like: Any) -> None:
    """Copy a tensor for a call whose result depends on the strides, or that only takes rows behind each other."""
    with gm.graph.inserting_before(user):
        made = gm.graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
    made.meta["val"] = like
    user.replace_input_with(node, made)
