"""Lowers distances between rows."""

from __future__ import annotations

import numpy as np

from ....lowering.elementwise import binary, unary
from ....lowering.emitter import Value, known_rank
from ....lowering.reduction import reduce
from ..node import AtenNode, NotLowered, lowers
from .elementwise import native
from .movement import reshape

NORMS = {1: "ReduceL1", 2: "ReduceL2", np.inf: "ReduceMax"}


def _distances(node: AtenNode, first: Value, second: Value) -> Value:
    order = node["p"]
    if order not in NORMS:
        raise NotLowered(f"the norm of order {order}")
    apart = binary(node.emit, "Subtract", first, second)
    apart = unary(node.emit, "Abs", apart) if order == np.inf else apart
    return reduce(node.emit, NORMS[order], apart, [known_rank(apart) - 1], False)


@lowers("_cdist_forward.default")
def distances(node: AtenNode) -> Value:
    """The distance of each row of one tensor from each row of another one."""
    (*batch, count, width), (*other_batch, other_count, _) = node.shape("x1"), node.shape("x2")
    first = reshape(node, native(node, "x1"), [*batch, count, 1, width])
    return _distances(node, first, reshape(node, native(node, "x2"), [*other_batch, 1, other_count, width]))


@lowers("_pdist_forward.default")
def pairs(node: AtenNode) -> Value:
    """The distances of each two rows of a matrix."""
    src = native(node)
    first, second = np.triu_indices(node.shape("self")[0], 1)
    ends = [node.emit.op("Gather", [src, places.astype(np.int64)], {"axis": 0}) for places in (first, second)]
    return _distances(node, *ends)
