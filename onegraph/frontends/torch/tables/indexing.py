"""Lowers ATen ops that select elements by indices."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import Value
from ..node import AtenNode, NotLowered, lowers
from .scattering import gathered


@lowers("embedding.default")
def embedding(node: AtenNode) -> Value:
    """The rows of a matrix that the indices name."""
    return node.emit.op("Gather", [node.value("weight"), node.value("indices")], {"axis": 0})


@lowers("index_select.default")
def index_select(node: AtenNode) -> Value:
    """The slices along an axis that the indices name."""
    return node.emit.op("Gather", [node.value("self"), node.value("index")], {"axis": node.axis("dim")})


@lowers("gather.default")
def gather(node: AtenNode) -> Value:
    """Elements by indices along an axis."""
    shape, indices = node.shape("self"), node.shape("index")
    axis = node.axis("dim")
    if any(a != b for place, (a, b) in enumerate(zip(shape, indices, strict=True)) if place != axis):
        raise NotLowered("fewer indices than elements along another axis")
    return node.emit.op("GatherElements", [node.value("self"), node.value("index")], {"axis": axis})


@lowers("index.Tensor")
def index(node: AtenNode) -> Value:
    """The slices along one axis that integers name."""
    indexed = [(place, one) for place, one in enumerate(node["indices"]) if one is not None]
    if len(indexed) != 1:
        return gathered(node)
    axis, indices = indexed[0]
    if np.dtype(getattr(indices.dtype, "numpy", indices.dtype)).kind not in "iu":
        raise NotLowered("a mask in the place of indices")
    return node.emit.op("Gather", [node.value("self"), indices], {"axis": axis})


@lowers("embedding_dense_backward.default", "onegraph.add_rows_.default", "onegraph.embedding_gradient.default")
def rows_of_gradients(node: AtenNode) -> Value:
    """Rows that are added to those that indices name. Without this entry, PyTorch's loop would become twelve ops."""
    raise NotLowered("PyTorch adds rows faster than numpy")


@lowers("topk.default")
def top_k(node: AtenNode) -> list[Value]:
    """The largest or smallest elements along an axis, and their places."""
    count = np.array([node["k"]], np.int64)
    attrs = {"axis": node.axis("dim"), "largest": bool(node["largest"])}
    return [*node.emit.ends("TopK", [node.value("self"), count], attrs)]


@lowers("tril.default", "triu.default")
def triangle(node: AtenNode) -> Value:
    """A triangle of each matrix."""
    attrs = {"upper": "triu" in node.name, "offset": int(node["diagonal"])}
    return node.emit.op("Triangle", [node.value("self")], attrs)
