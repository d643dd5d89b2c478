"""Takes what the backward graph need not read out of joint graphs."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from .results import shares_memory

aten = torch.ops.aten
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
    """Let calls read the tensor that a detach names again, which would be saved twice for the backward graph.

    Results keep it, and views that are results, because PyTorch would take these for views that require a gradient.
    """
    returned: set[FxNode] = set()
    for node in reversed(joint.graph.nodes):
        if any(user.op == "output" or (user in returned and shares_memory(user)) for user in node.users):
            returned.add(node)
    for node in joint.graph.nodes:
        if node.target in (aten.detach.default, aten.alias.default):
            source = node.args[0]
            while source.target in (aten.detach.default, aten.alias.default):  # one that a result keeps
                source = source.args[0]
            node.replace_all_uses_with(
                source,
                lambda user: user.op != "output" and not (user in returned and shares_memory(user)),
            )


def without_statistics(joint: GraphModule) -> None:
    """Take the statistics of the batch, which are empty, from gradients by running statistics."""
    for node in joint.graph.nodes:
        if node.target is aten.native_batch_norm_backward.default and not node.args[7]:
            node.args = (*node.args[:5], None, None, *node.args[7:])
