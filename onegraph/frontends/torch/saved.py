"""Keeps what a backward graph reads of the forward graph in the order of axes that convolutions compute.

PyTorch expects the order of eager, channels before pixels, which costs a copy at the end of the forward graph and one
at the start of the backward graph. Nobody else sees these tensors, so their strides are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import Partition

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
RESHAPES = ("aten.view.default", "aten._unsafe_view.default")


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


def with_channels_last(parts: Iterable[Partition], saved: frozenset[FxNode]) -> None:
    """State that parts return saved pictures with the channels last."""
    for part in parts:
        for node in saved.intersection(part.nodes):
            like = node.meta["val"]
            if not _is_picture(like) or any(user.op != "output" and user not in part.nodes for user in node.users):
                continue
            node.meta["val"] = like.contiguous(memory_format=torch.channels_last)


def _is_picture(like: Any) -> bool:
    if not hasattr(like, "stride") or like.dim() != 4 or like.dtype not in FLOATS:
        return False
    return all(type(dim) is int for dim in like.shape) and like.is_contiguous()


def with_true_strides(gm: GraphModule, arguments: Sequence[Any]) -> None:
    """State the strides that the inputs of a backward graph have."""
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, given in zip(inputs, arguments, strict=True):
        like = node.meta.get("val")
        if not hasattr(given, "stride") or not _is_picture(like) or given.stride() == like.stride():
            continue
        node.meta["val"] = like.new_empty_strided(given.shape, given.stride())
        for user in [*node.users]:
            if str(user.target) in RESHAPES:
                _insert_dense(gm, node, user, like)


def _insert_dense(gm: GraphModule, node: FxNode, user: FxNode, like: Any) -> None:
    """Copy a tensor for a call that only takes rows behind each other."""
    with gm.graph.inserting_before(user):
        made = gm.graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
    made.meta["val"] = like
    user.replace_input_with(node, made)
