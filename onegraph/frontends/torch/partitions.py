"""Divides a captured graph into parts that run here and calls that PyTorch runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set
from typing import Any

import torch
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.infra.partitioner import Partition as Proposed
from torch.fx.passes.operator_support import OperatorSupportBase

from ...errors import UnsupportedError
from .compiled_part import CompiledPart
from .lowering import hide_modules, is_call, show_modules
from .multiply_adds import products_of
from .node import is_higher_order, is_op
from .options import BackendOptions
from .results import shares_memory
from .saved import with_channels_last
from .sizes import Work
from .statistics import Left, RegionStatistics, joined
from .support import Verdict, verdicts

PREFIX = "onegraph_"
ALONE_REASON = "PyTorch runs so few ops as fast"
# Ops that are worth a graph of their own.
HEAVY = frozenset(
    [
        *("convolution", "convolution_backward", "mm", "bmm", "addmm", "baddbmm", "linear", "_int_mm"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
        *("native_layer_norm", "native_group_norm", "_softmax", "mkldnn_rnn_layer"),
        *("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "native_batch_norm_backward"),
        *("_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional"),
        *("native_layer_norm_backward", "gelu", "gelu_backward", "_log_softmax"),
    ]
)


class _Supported(OperatorSupportBase):
    """The calls that run here, as the partitioner asks for them."""

    def __init__(self, taken: Mapping[FxNode, bool]) -> None:
        self.taken = taken

    def is_node_supported(self, submodules: object, node: FxNode) -> bool:
        return self.taken.get(node, False)


def divided(
    gm: GraphModule,
    known: Mapping[FxNode, Any],
    options: BackendOptions,
    kind: str,
    saved: frozenset[FxNode] = frozenset(),
    made_anew: frozenset[FxNode] = frozenset(),
    captured: object = None,
    weights: str = "",
    writes: Set[FxNode] = frozenset(),
) -> tuple[GraphModule, RegionStatistics]:
    """The graph with parts that run here in the place of the calls of each part.

    Args:
        gm: a graph without mutations.
        known: the results that are the same in every call.
        options: the options of the backend.
        kind: what the graph is, for the statistics.
        saved: the results that only the backward graph reads.
        made_anew: the calls that PyTorch runs so that each call returns new memory.
        captured, weights: for the statistics, as in ``CapturedRegion``.
        writes: the calls of host ops that run here nevertheless, as they change an input.

    Raises:
        UnsupportedError: PyTorch would have to run a call, and the options forbid it.
    """
    without_dead(gm.graph)
    verdict_of = verdicts(gm.graph, known)
    for node in made_anew:
        verdict_of.pop(node, None)
    strict = options.fallback == "error"
    taken = {
        node: bool(node.users) and _runs_here(one, kind, strict or node in writes) for node, one in verdict_of.items()
    }
    refused = {
        node: one.reason for node, one in verdict_of.items() if one.reason and not taken[node] and not _is_result(node)
    }
    if strict and refused:
        lines = [f"{name_of(node)}: {reason}" for node, reason in refused.items()]
        raise UnsupportedError(f"ops of the {kind} graph that do not run here:\n  " + "\n  ".join(dict.fromkeys(lines)))
    bodies = [node for node in taken if taken[node] and is_higher_order(node.target)]
    for node in bodies:
        hide_modules(node)
    partitioner = CapabilityBasedPartitioner(gm, _Supported(taken), allows_single_node_partition=True)
    proposed = _whole(gm, known, taken) or partitioner.propose_partitions()
    for proposal in proposed:
        _trim(proposal)
        _with_results(proposal)
    kept = []
    for proposal in proposed:
        if _is_worth(proposal, verdict_of, options.smallest) or (strict and proposal.nodes):
            kept.append(proposal)
        else:
            refused.update(
                (node, ALONE_REASON) for node in proposal.nodes if is_call(node) and not verdict_of[node].moves
            )
    with_channels_last(kept, saved)
    taken_calls = [node for one in kept for node in one.nodes if is_call(node)]
    multiplied = {node.name: products_of(node) for node in gm.graph.nodes if node not in known}
    names = [node.name for node in taken_calls]
    left = joined(Left(name_of(node), reason, 1, multiplied.get(node.name, 0)) for node, reason in refused.items())
    named = {node.name: value for node, value in known.items()}
    partitioner.fuse_partitions(kept, prefix=PREFIX)
    for node in gm.graph.nodes:
        if is_higher_order(node.target):
            show_modules(node)
    renewed = {node: named[node.name] for node in gm.graph.nodes if node.name in named}  # the nodes are copies
    work = Work()
    parts = _with_functions(gm, renewed, options, work)
    host = set().union(*[part.fallbacks() for part in parts]) if parts else set()
    region = RegionStatistics(
        kind,
        len(parts),
        len(names),
        left,
        (sum(multiplied.values()), sum(multiplied[name] for name in names if name not in host)),
        work,
        captured,
        weights,
    )
    return gm, region


def _runs_here(verdict: Verdict, kind: str, is_forced: bool) -> bool:
    return not verdict.reason or (verdict.host and (is_forced or (verdict.few and kind == "inference")))


def without_dead(graph: FxGraph) -> None:
    """Erase calls whose results nobody reads, but those that draw random numbers, which move PyTorch's generator."""
    for node in reversed([*graph.nodes]):
        if not node.users and (node.op == "get_attr" or _is_pure(node)):
            graph.erase_node(node)


def _is_pure(node: FxNode) -> bool:
    """Whether a call does nothing but return its result."""
    target: Any = node.target
    if is_call(node):
        return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags
    return getattr(target, "__module__", "") in ("_operator", "math")


def name_of(node: FxNode) -> str:
    """The name of an op; of an op that PyTorch wraps because it writes into tensors, that of the wrapped one."""
    wrapped = [argument for argument in node.args if is_op(argument)] if is_higher_order(node.target) else []
    return str(wrapped[0] if wrapped else node.target)


def _is_result(node: FxNode) -> bool:
    """Whether a node takes one of the results of a call."""
    return node.target is operator.getitem


def _whole(gm: GraphModule, known: Mapping[FxNode, Any], taken: Mapping[FxNode, bool]) -> list[Proposed]:
    """One part with all calls, if all run here: PyTorch's search takes seconds for a thousand calls."""
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and node not in known]
    return [Proposed(0, calls)] if all(taken.get(node) for node in calls) else []


def _trim(part: Proposed) -> None:
    """Take the calls that only rename axes or take a part off the ends: of PyTorch they are views without a copy."""
    before = -1
    while before != len(part.nodes):
        before = len(part.nodes)
        for node in [*part.nodes]:
            if not _is_view(node):
                continue
            first = all(one not in part.nodes for one in node.all_input_nodes)
            last = all(one not in part.nodes for one in node.users)
            if first or last:
                part.remove_node(node)


def _with_results(part: Proposed) -> None:
    """Put the results of a call into the part of the call, because no part takes or returns a list of tensors."""
    for node in [*part.nodes]:
        if node.target is operator.getitem and node.args[0] not in part.nodes:
            part.remove_node(node)
        for user in node.users:
            if user.target is operator.getitem and user not in part.nodes:
                part.add_node(user)


def _is_view(node: FxNode) -> bool:
    """Whether a node names memory of its input, or is a part of such a result."""
    source: Any = node.args[0] if _is_result(node) else node
    return is_call(source) and shares_memory(source)


def _is_worth(part: Proposed, verdict_of: Mapping[FxNode, Verdict], smallest: int) -> bool:
    work = [node for node in part.nodes if is_call(node) and not (verdict_of[node].moves or verdict_of[node].few)]
    names = {str(node.target).split(".")[1] for node in work}
    return bool(names & HEAVY) or (len(work) >= smallest and bool(part.nodes))


def renamed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of a part, under the name that a graph shows."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "onegraph.frontends.torch"
    return function


def _with_functions(
    gm: GraphModule, known: Mapping[FxNode, Any], options: BackendOptions, work: Work
) -> list[CompiledPart]:
    """Put a function in the place of each fused module, and known tensors in the place of known calls."""
    parts: list[CompiledPart] = []
    for node in [*gm.graph.nodes]:
        if node.op != "call_module":  # no captured graph has such a call
            continue
        inner: Any = getattr(gm, str(node.target))
        own = [node for node in inner.graph.nodes if node.op == "placeholder"]
        fixed = {one: known[outer] for one, outer in zip(own, node.args, strict=True) if outer in known}
        part = CompiledPart(inner, fixed, options, work)
        function = part.function()
        rest = tuple(outer for outer in node.args if outer not in known)
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(renamed(function, str(node.target)), rest)
        call.meta = dict(node.meta)
        node.replace_all_uses_with(call)
        gm.graph.erase_node(node)
        delattr(gm, str(node.target))
        parts.append(part)
    without_dead(gm.graph)
    for number, node in enumerate([*gm.graph.nodes]):
        if node in known and node.op == "call_function" and hasattr(known[node], "stride"):
            name = f"_folded_{number}"
            setattr(gm, name, torch.nn.Buffer(known[node], persistent=False))
            with gm.graph.inserting_before(node):
                made = gm.graph.get_attr(name)
            node.replace_all_uses_with(made)
    without_dead(gm.graph)
    gm.recompile()
    return parts
