"""Lets PyTorch write into inputs in place, as a decoder writes the keys and values of a token into its caches.

A captured graph has no mutations: a write returns a whole new tensor, which PyTorch copies into the input behind the
graph. A cache of thousands of tokens would be read and written twice for each token.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg

from .results import shares_memory

aten = torch.ops.aten
# The op that writes into its first argument, by the op that returns a new tensor.
IN_PLACE: Mapping[Any, Any] = {
    aten.index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
    aten.masked_scatter.default: aten.masked_scatter_.default,
}


def written_inputs(gm: GraphModule) -> dict[int, int]:
    """The place of each input that PyTorch overwrites behind a graph, by the place of the result that it copies."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if metadata is None or len(metadata.input_info) != len(inputs):
        return {}
    return dict(enumerate(metadata.mutated_inp_runtime_indices))


def write_in_place(gm: GraphModule, written: Mapping[int, int]) -> None:
    """Replace writes into an input, if PyTorch copies their result into it and nobody reads it later.

    Args:
        gm: the graph, whose calls run in its order.
        written: as of ``written_inputs``.
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    results: Any = end.args[0]
    order = {node: place for place, node in enumerate(gm.graph.nodes)}
    for result, place in written.items():
        chain = [inputs[place], *_writes(results[result], inputs[place])]
        is_last_read = all(
            _reads_once(write, source) and all(order[reader] <= order[write] for reader in _readers(source))
            for source, write in pairwise(chain)
        )
        returned = [result for result in results if result in {chain[-1], *_views(chain[-1])}]
        if is_last_read and len(returned) == 1 and _is_simple(inputs[place]):
            for write in chain[1:]:
                write.target = IN_PLACE[write.target]
    gm.recompile()


def _writes(result: Any, source: FxNode) -> list[FxNode]:
    """The writes that make a result of an input, in the order in which they run; none if another call takes part."""
    chain: list[FxNode] = []
    while isinstance(result, FxNode) and result.target in IN_PLACE:
        chain.insert(0, result)
        result = result.args[0]
    return chain if result is source else []


def _reads_once(write: FxNode, source: FxNode) -> bool:
    """Whether a write reads the tensor that it changes as its first argument alone."""
    read: list[FxNode] = []
    map_arg((write.args, write.kwargs), read.append)
    return read.count(source) == 1 and not _views(source) & {*read}


def _views(source: FxNode) -> set[FxNode]:
    """The results that lie in the memory of another one."""
    direct = {user for user in source.users if shares_memory(user)}
    return direct.union(*map(_views, direct))


def _readers(source: FxNode) -> set[FxNode]:
    """The calls that read a tensor or its views."""
    return {*source.users}.union(*[view.users for view in _views(source)])


def _is_simple(source: FxNode) -> bool:
    """Whether each element of an input has memory of its own."""
    like = source.meta["val"]
    return all(type(step) is int and (step or dim == 1) for step, dim in zip(like.stride(), like.shape, strict=True))


__all__ = ["write_in_place", "written_inputs"]
