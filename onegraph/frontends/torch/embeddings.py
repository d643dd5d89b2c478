"""Adds the rows of the gradient of an embedding in place: to memory that was used before, or to the other gradient.

PyTorch takes new memory for a gradient as large as the table, fills it with zeros, and adds the rows that were read.
The table of a GPT-2 is also the weight of the last layer, so it adds two such tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from ...native import library
from .layouts import Layout
from .lowering import is_call

aten = torch.ops.aten
_library = torch.library.Library("onegraph", "FRAGMENT")
_library.define("add_rows_(Tensor(a!) self, Tensor rows, Tensor indices, int padding_idx) -> Tensor(a!)")
_library.define("embedding_gradient(Tensor rows, Tensor indices, SymInt num_weights, int padding_idx) -> Tensor")


def _add_rows(self: Any, rows: Any, indices: Any, padding_idx: int) -> Any:
    """Add rows to those rows of a matrix that the indices name; the rows of ``padding_idx`` count as 0."""
    rows, places = rows.reshape(-1, self.shape[1]), indices.reshape(-1)
    if padding_idx >= 0:
        rows = rows.masked_fill((places == padding_idx).unsqueeze(1), 0)
    return self.index_add_(0, places, rows)


def _embedding_gradient(rows: Any, indices: Any, num_weights: int, padding_idx: int) -> Any:
    """The gradient of a table of which the indices name the rows that were read."""
    width = rows.shape[-1]
    memory = torch.from_numpy(library.new_bytes(num_weights * width * rows.element_size()))
    return _add_rows(memory.view(rows.dtype).view(num_weights, width).zero_(), rows, indices, padding_idx)


_library.impl("add_rows_", _add_rows, "CPU")
_library.impl("add_rows_", lambda self, *_: self, "Meta")
_library.impl("embedding_gradient", _embedding_gradient, "CPU")
_library.impl("embedding_gradient", lambda rows, _, count, __: rows.new_empty((count, rows.shape[-1])), "Meta")


def add_rows_in_place(gm: GraphModule) -> None:
    """Replace the gradients of embeddings, and their sums with other gradients of the tables."""
    for node in [*gm.graph.nodes]:
        if node.target is aten.add.Tensor and not node.kwargs:
            for total, gradient in (node.args, node.args[::-1]):
                if _is_gradient(gradient) and [*gradient.users] == [node] and _can_take(total, gradient, node):
                    rows, indices, _, padding_idx, _ = gradient.args
                    _replace(gm, node, torch.ops.onegraph.add_rows_.default, (total, rows, indices, padding_idx))
                    gm.graph.erase_node(gradient)
                    break
    for node in [*gm.graph.nodes]:
        if _is_gradient(node):
            _replace(gm, node, torch.ops.onegraph.embedding_gradient.default, node.args[:4])


def _replace(gm: GraphModule, node: FxNode, target: Any, args: tuple[Any, ...]) -> None:
    with gm.graph.inserting_before(node):
        made = gm.graph.call_function(target, args)
    made.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(made)
    gm.graph.erase_node(node)


def _is_gradient(value: Any) -> bool:
    """Whether a value is the gradient of an embedding on the CPU that counts each row once."""
    if type(value) is not FxNode or value.target is not aten.embedding_dense_backward.default or value.args[4]:
        return False
    return bool(value.meta["val"].device.type == "cpu")


def _can_take(value: Any, gradient: FxNode, reader: FxNode) -> bool:
    """Whether rows may be added to a value: memory that a call wrote, of one place for each element, and read once."""
    if type(value) is not FxNode:
        return False
    like, gradient_like = value.meta.get("val"), gradient.meta["val"]
    is_alike = hasattr(like, "stride") and (like.shape, like.dtype) == (gradient_like.shape, gradient_like.dtype)
    if not is_alike or not all(type(dim) is int for dim in (*like.shape, *like.stride())):
        return False
    layout = Layout.of(like)
    if layout.repeated or layout.overlaps:  # such as the gradient of a sum
        return False
    return all(is_call(one) and [*one.users] == [user] for one, user in _views(value, reader))


def _views(value: FxNode, reader: FxNode) -> Iterator[tuple[FxNode, FxNode]]:
    """A value and what it is a view of, each with its expected reader."""
    while True:
        yield value, reader
        target: Any = value.target
        if not getattr(target, "is_view", False):
            return
        value, reader = value.all_input_nodes[0], value
