"""Lets writes into inputs take place in their memory, as a decoder writes the keys and values of a token into caches.

A captured graph has no mutations: a write returns a whole new tensor, which PyTorch copies into the input behind the
graph. A cache of thousands of tokens would be read and written twice for each token.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg

from .compiled_part import PART, is_static
from .lowering import concrete
from .node import is_op
from .partitions import renamed
from .results import shares_memory

aten, own = torch.ops.aten, torch.ops.onegraph
_library = torch.library.Library("onegraph", "FRAGMENT")
_library.define(
    "slice_(Tensor(a!) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a!)"
)
_library.define("select_(Tensor(a!) self, Tensor src, int dim, SymInt index) -> Tensor(a!)")


def _slice(self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    aten.slice(self, dim, start, end, step).copy_(src)
    return self


def _select(self: Any, src: Any, dim: int, index: int) -> Any:
    aten.select(self, dim, index).copy_(src)
    return self


for _name, _function in {"slice_": _slice, "select_": _select}.items():
    _library.impl(_name, _function, "CPU")
    _library.impl(_name, lambda self, *_, **__: self, "Meta")
# The op that writes into its first argument, by the op that returns a new tensor.
IN_PLACE: Mapping[Any, Any] = {
    aten.index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
    aten.masked_scatter.default: aten.masked_scatter_.default,
    aten.slice_scatter.default: own.slice_.default,
    aten.select_scatter.default: own.select_.default,
}
# Those that are lowered as a Concat, a copy of the whole: PyTorch writes into inputs of so many bytes.
JOINED, LARGE = (aten.slice_scatter.default, aten.select_scatter.default), 1 << 18
# Those that a part may run, as they are lowered to a host op that changes its first input.
LOWERED = IN_PLACE.keys() - {aten.masked_scatter.default, *JOINED}


def written_inputs(gm: GraphModule) -> dict[int, int]:
    """The place of each input that PyTorch overwrites behind a graph, by the place of the result that it copies."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if metadata is None or len(metadata.input_info) != len(inputs):
        return {}
    return dict(enumerate(metadata.mutated_inp_runtime_indices))


class Write(NamedTuple):
    """A call that writes a result into the memory of a tensor.

    Attributes:
        call: of an op of PyTorch, or of a part that runs here.
        place: of the result among those of the call.
        source: the tensor, an argument of the call.
    """

    call: FxNode
    place: int
    source: FxNode


def op_writes(gm: GraphModule, written: Mapping[int, int]) -> tuple[dict[int, list[FxNode]], frozenset[FxNode]]:
    """The calls that write into inputs: those that parts may run, by the place of the result, and those of PyTorch.

    Parts do so where no size changes from call to call.
    """
    likes = [node.meta.get("val") for node in gm.graph.nodes if node.op in ("placeholder", "call_function")]
    chains = {place: [write.call for write in chain] for place, chain in _chains(gm, written).items()}
    lowered = {place: chain for place, chain in chains.items() if {one.target for one in chain} <= LOWERED}
    lowered = lowered if all(map(is_static, likes)) else {}
    rest = [one for place, chain in chains.items() if place not in lowered for one in chain]
    return lowered, frozenset([one for one in rest if one.target not in JOINED or _is_large(one)])


def _is_large(call: FxNode) -> bool:
    like = concrete(call.meta["val"])
    return bool(like.numel() * like.element_size() >= LARGE)


def write_in_place(gm: GraphModule, written: Mapping[int, int]) -> Set[int]:
    """Replace writes into an input, if PyTorch copies their result into it and nobody reads it later.

    Args:
        gm: the graph, whose calls run in its order.
        written: as of ``written_inputs``.

    Returns:
        The places of the results that lie in an input then.
    """
    chains, overs = _chains(gm, written), dict[FxNode, dict[int, int]]()
    for write in [write for chain in chains.values() for write in chain]:
        if is_op(write.call.target):
            write.call.target = IN_PLACE[write.call.target]
        else:
            overs.setdefault(write.call, {})[write.place] = write.call.args.index(write.source)
    for node in gm.graph.nodes:
        target: Any = node.target
        part: Any = vars(target).pop(PART, None) if isinstance(target, FunctionType) else None
        if node in overs:
            node.target = renamed(part.writing(overs[node]), target.__name__)
    gm.recompile()
    return chains.keys()


def _chains(gm: GraphModule, written: Mapping[int, int]) -> dict[int, list[Write]]:
    """The writes into each input that may be written in place, as they run, by the place of the result."""
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    results: Any = end.args[0]
    order = {node: place for place, node in enumerate(gm.graph.nodes)}
    chains = {}
    for result, place in written.items():
        chain, last = _writes(results[result], inputs[place]), results[result]
        is_last_read = all(
            _reads_once(call, source) and all(order[reader] <= order[call] for reader in _readers(source))
            for call, _, source in chain
        )
        if chain and is_last_read and _is_simple(inputs[place]):
            returned = [one for one in results if one in {last, *_views(last)}]
            if len(returned) == 1:
                chains[result] = chain
    return chains


def _writes(result: Any, source: FxNode) -> list[Write]:
    """The writes that make a result of an input, in the order in which they run; none if another call takes part."""
    chain: list[Write] = []
    while (write := _write_of(result)) is not None:
        chain.insert(0, write)
        result = write.source
    return chain if result is source else []


def _write_of(result: Any) -> Write | None:
    if not isinstance(result, FxNode):
        return None
    if result.target in IN_PLACE:
        source: Any = result.args[0]
        return Write(result, 0, source)
    call, place = result.args if result.target is operator.getitem else (result, 0)
    part: Any = getattr(call.target, PART, None)
    place_of_source = None if part is None else part.overs.get(place)
    return None if place_of_source is None else Write(call, place, call.args[place_of_source])


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
    pairs = zip(like.stride(), like.shape, strict=True)
    return all(type(step) is not int or step or dim == 1 for step, dim in pairs)  # a symbolic stride is not 0


__all__ = ["op_writes", "write_in_place", "written_inputs"]
