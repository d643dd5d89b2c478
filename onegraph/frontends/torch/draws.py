"""Keeps the order in which PyTorch draws random numbers, without waiting for what the numbers do not depend on.

An op such as a Bernoulli reads the shape of a tensor and not its elements. If it waited for them, a part would end in
front of it, and another one begin behind it. But each draw waits for the draw before it, also when the graph is divided
and sorted, so the numbers are those of eager.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from .lowering import is_call
from .node import LOWERINGS

_library = torch.library.Library("onegraph", "FRAGMENT")
_library.define("bernoulli_like(Tensor self, float p) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


def _bernoulli_like(self: Any, p: float) -> Any:
    """1 with a probability, else 0, for each element of a tensor, drawn in the order of its memory.

    ``aten::bernoulli.p`` draws in the order of rows, unlike the dropout of PyTorch.
    """
    return torch.empty_like(self).bernoulli_(p)


_library.impl("bernoulli_like", _bernoulli_like, "CPU")
_library.impl("bernoulli_like", lambda self, _: torch.empty_like(self), "Meta")

# Ops that read the shape, the strides and the data type of their first input alone.
OF_SHAPES = frozenset(
    name if name.startswith("onegraph.") else f"aten.{name}"
    for name in (
        *(
            "onegraph.bernoulli_like.default",
            "bernoulli.p",
            "rand_like.default",
            "randn_like.default",
            "randint_like.default",
            "randint_like.low_dtype",
        ),
        *("uniform.default", "exponential.default", "geometric.default", "cauchy.default", "log_normal.default"),
    )
)


def order_draws(gm: GraphModule) -> None:
    """Let each draw of random numbers depend on the one before it, and on no tensor of which it needs the shape."""
    before: FxNode | None = None
    for node in [*gm.graph.nodes]:
        if not _draws(node):
            continue
        if str(node.target) in OF_SHAPES:
            _with_memory(gm, node)
        if before is not None:
            first: Any = node.args[0]
            with gm.graph.inserting_before(node):
                made = gm.graph.call_function(_behind, (first, before))
            made.meta["val"] = first.meta["val"] if type(first) is FxNode else first
            node.args = (made, *node.args[1:])
        before = node


def _draws(node: FxNode) -> bool:
    """Whether a node takes numbers of PyTorch's generator."""
    target: Any = node.target
    return is_call(node) and torch.Tag.nondeterministic_seeded in target.tags and str(target) not in LOWERINGS


def _with_memory(gm: GraphModule, node: FxNode) -> None:
    """Let a draw read new memory in the place of a tensor whose shape it needs, if the shape is known."""
    source: Any = node.args[0]
    like = source.meta["val"]
    if not all(type(dim) is int for dim in (*like.shape, *like.stride())):
        return
    kind = {"dtype": like.dtype, "device": like.device}
    with gm.graph.inserting_before(node):
        made = gm.graph.call_function(torch.empty_strided, (tuple(like.shape), like.stride()), kind)
    made.meta["val"] = like
    node.args = (made, *node.args[1:])


def _behind(value: Any, before: Any) -> Any:
    """The first argument of a draw, behind another draw."""
    return value
