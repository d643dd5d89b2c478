"""Divides a captured graph into parts that run here and calls that PyTorch runs."""

from __future__ import annotations

import operator
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.infra.partitioner import Partition as Proposed
from torch.fx.passes.operator_support import OperatorSupportBase

from ...errors import UnsupportedError
from ...reference.host import KERNELS
from .lowering import array_of, is_call, lower_graph
from .options import Options
from .saved import with_channels_last
from .statistics import Left, Region, add, products_of
from .support import Verdict, verdicts

PREFIX = "onegraph_"
ALONE_REASON = "PyTorch runs so few ops as fast"
# Ops that are worth a graph of their own.
HEAVY = frozenset(
    [
        *("convolution", "convolution_backward", "mm", "bmm", "addmm", "baddbmm", "linear"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
        *("native_layer_norm", "native_group_norm", "_softmax", "mkldnn_rnn_layer"),
        *("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "native_batch_norm_backward"),
        *("_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional"),
        *("native_layer_norm_backward", "gelu", "gelu_backward", "_log_softmax"),
    ]
)
MULTIPLYING = KERNELS.union(
    f"{family}{part}"
    for family in ("MatMul", "Convolution", "ConvTranspose")
    for part in ("", "BackwardData", "BackwardWeights")
)


class Part:
    """A part of a captured graph that runs here.

    Args:
        gm: the calls of the part.
        known: what is the same in every call, by input of the part.
        options: the options of the backend.
        region: where multiply-adds are counted.
    """

    def __init__(self, gm: GraphModule, known: Mapping[FxNode, Any], options: Options) -> None:
        self.gm, self.options = gm, options
        self.known = known
        self.inputs = [node for node in gm.graph.nodes if node.op == "placeholder" and node not in known]
        (end,) = (node for node in gm.graph.nodes if node.op == "output")
        result = end.args[0]
        self.several = type(result) in (tuple, list)
        self.outputs: list[FxNode] = [*result] if self.several else [result]
        self.calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        likes = [node.meta.get("val") for node in (*self.inputs, *self.calls)]
        self.is_static = all(map(_is_static, likes))
        self.model: Any = None

    def function(self) -> Callable[..., Any]:
        """A function of tensors that runs the part."""
        if self.is_static:
            return self._compiled({node: node.meta["val"] for node in (*self.inputs, *self.calls)}, {})
        cache: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
        capacity, lock = self.options.cache_capacity, threading.Lock()

        def run(*given: Any) -> Any:
            key = tuple([one if type(one) in (int, float, bool) else (one.shape, one.stride()) for one in given])
            with lock:
                found = cache.get(key)
                if found is None:
                    found = cache[key] = self._compiled(*self._measured(given))
                    while len(cache) > capacity:
                        cache.popitem(last=False)
                else:
                    cache.move_to_end(key)
            return found(*given)

        return run

    def _measured(self, given: Sequence[Any]) -> tuple[dict[FxNode, Any], dict[FxNode, Any]]:
        """What each call returns for inputs of these sizes, as fake tensors; and the inputs that are numbers."""
        metas: dict[FxNode, Any] = {}
        numbers: dict[FxNode, Any] = {}
        mode = FakeTensorMode()

        class Recorded(Interpreter):
            def run_node(self, n: FxNode) -> Any:
                metas[n] = super().run_node(n)
                return metas[n]

        arguments = iter(given)
        everything = []
        for node in self.gm.graph.nodes:
            if node.op != "placeholder":
                continue
            one = self.known[node] if node in self.known else next(arguments)
            if hasattr(one, "stride"):
                everything.append(mode.from_tensor(one))
            else:
                everything.append(one)
                numbers[node] = one
        with torch.no_grad(), mode:
            Recorded(self.gm).run(*everything)
        return metas, numbers

    def _compiled(self, metas: Mapping[FxNode, Any], numbers: Mapping[FxNode, Any]) -> Callable[..., Any]:
        known = {node: array_of(one) if hasattr(one, "stride") else one for node, one in self.known.items()}
        known.update(numbers)
        whole = {**self.known, **metas}
        inputs = [node for node in self.inputs if node not in numbers]
        lowered = lower_graph(self.calls, inputs, self.outputs, known, whole)
        threads = self.options.threads or torch.get_num_threads()
        options = self.options
        model = lowered.graph.compile(
            threads=threads, fpmath_mode=options.fpmath_mode, reproducible=options.reproducible
        )
        self.model = model
        places = [place for place, node in enumerate(self.inputs) if node not in numbers]
        return _function(
            model,
            [*zip(places, [one.array() for one in lowered.inputs], strict=True)],
            [one.tensor() for one in lowered.outputs],
            self.several,
        )

    def fallbacks(self) -> set[str]:
        """The names of the calls whose products numpy or a kernel of the package runs."""
        if self.model is None:
            return set()
        found = set()
        for one in self.model.report().partitions:
            if one.executor != "oneDNN":
                found |= {
                    name.split("/")[0] for kind, name in zip(one.ops, one.names, strict=True) if kind in MULTIPLYING
                }
        return found


def _function(
    model: Callable[..., Any],
    inputs: Sequence[tuple[int, Callable[[Any], Any]]],
    outputs: Sequence[Callable[[Any], Any]],
    several: bool,
) -> Callable[..., Any]:
    """A function of tensors."""
    if several and len(outputs) > 1:

        def many(*given: Any) -> Any:
            results = model(*[view(given[place]) for place, view in inputs])
            return [view(one) for view, one in zip(outputs, results, strict=True)]

        return many
    (back,) = outputs

    def one(*given: Any) -> Any:
        result = back(model(*[view(given[place]) for place, view in inputs]))
        return [result] if several else result

    return one


def _is_static(like: Any) -> bool:
    if type(like) in (tuple, list):
        return all(map(_is_static, like))
    if not hasattr(like, "stride"):
        return type(like) is not torch.SymInt
    return all(type(dim) is int for dim in (*like.shape, *like.stride()))


class _Supported(OperatorSupportBase):
    """The calls that run here, as the partitioner asks for them."""

    def __init__(self, taken: Mapping[FxNode, bool]) -> None:
        self.taken = taken

    def is_node_supported(self, submodules: object, node: FxNode) -> bool:
        return self.taken.get(node, False)


def divided(
    gm: GraphModule,
    known: Mapping[FxNode, Any],
    options: Options,
    kind: str,
    saved: frozenset[FxNode] = frozenset(),
) -> tuple[GraphModule, Region]:
    """The graph with parts that run here in the place of the calls of each part.

    Args:
        gm: a graph without mutations.
        known: the results that are the same in every call.
        options: the options of the backend.
        kind: what the graph is, for the statistics.
        saved: the results that only the backward graph reads.

    Raises:
        UnsupportedError: PyTorch would have to run a call, and the options forbid it.
    """
    found = verdicts(gm.graph, known)
    strict = options.fallback == "error"
    taken = {node: bool(node.users) and (not one.reason or (strict and one.host)) for node, one in found.items()}
    refused = {node: one.reason for node, one in found.items() if one.reason and not taken[node] and is_call(node)}
    if strict and refused:
        lines = [f"{node.target}: {reason}" for node, reason in refused.items()]
        raise UnsupportedError(f"ops of the {kind} graph that do not run here:\n  " + "\n  ".join(dict.fromkeys(lines)))
    partitioner = CapabilityBasedPartitioner(gm, _Supported(taken), allows_single_node_partition=True)
    proposed = _whole(gm, known, taken) or partitioner.propose_partitions()
    for one in proposed:
        _trim(one, found)
        _with_results(one)
    kept = []
    for one in proposed:
        if _is_worth(one, found, options.smallest) or (strict and one.nodes):
            kept.append(one)
        else:
            refused.update((node, ALONE_REASON) for node in one.nodes if is_call(node) and not found[node].moves)
    with_channels_last(kept, saved)
    taken_calls = [node for one in kept for node in one.nodes if is_call(node)]
    multiplied = {node.name: products_of(node) for node in gm.graph.nodes if node not in known}
    names = [node.name for node in taken_calls]
    counts = Counter((str(node.target), reason) for node, reason in refused.items() if not _moves(node, found))
    named = {node.name: value for node, value in known.items()}
    partitioner.fuse_partitions(kept, prefix=PREFIX)
    renewed = {node: named[node.name] for node in gm.graph.nodes if node.name in named}  # the nodes are copies
    parts = _with_functions(gm, renewed, options)
    host = set().union(*[part.fallbacks() for part in parts]) if parts else set()
    region = Region(
        kind,
        len(parts),
        len(names),
        [Left(*key, count) for key, count in counts.most_common()],
        (sum(multiplied.values()), sum(multiplied[name] for name in names if name not in host)),
    )
    add(region)
    return gm, region


def _whole(gm: GraphModule, known: Mapping[FxNode, Any], taken: Mapping[FxNode, bool]) -> list[Proposed]:
    """One part with all calls, if all run here: PyTorch's search takes seconds for a thousand calls."""
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and node not in known]
    return [Proposed(0, calls)] if calls and all(taken.get(node) for node in calls) else []


def _moves(node: FxNode, found: Mapping[FxNode, Verdict]) -> bool:
    return node in found and not found[node].reason and found[node].moves


def _trim(part: Proposed, found: Mapping[FxNode, Verdict]) -> None:
    """Take the calls that only rename axes or take a part off the ends: of PyTorch they are views without a copy."""
    before = -1
    while before != len(part.nodes):
        before = len(part.nodes)
        for node in [*part.nodes]:
            if not _is_view(node, found):
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


VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "permute.default", "transpose.int", "t.default", "unsqueeze.default", "squeeze.dim"),
        *("squeeze.dims", "squeeze.default", "expand.default", "slice.Tensor", "select.int", "alias.default"),
        *("detach.default", "split.Tensor", "split_with_sizes.default", "unbind.int", "_unsafe_view.default"),
    )
)


def _is_view(node: FxNode, found: Mapping[FxNode, Verdict]) -> bool:
    if node.target is operator.getitem:
        return str(node.args[0].target) in VIEWS
    return str(node.target) in VIEWS


def _is_worth(part: Proposed, found: Mapping[FxNode, Verdict], smallest: int) -> bool:
    work = [node for node in part.nodes if is_call(node) and not found[node].moves]
    names = {str(node.target).split(".")[1] for node in work}
    return bool(names & HEAVY) or (len(work) >= smallest and bool(part.nodes))


def _with_functions(gm: GraphModule, known: Mapping[FxNode, Any], options: Options) -> list[Part]:
    """Put a function in the place of each fused module, and known tensors in the place of known calls."""
    parts: list[Part] = []
    for node in [*gm.graph.nodes]:
        if node.op != "call_module" or not str(node.target).startswith(PREFIX):
            continue
        inner: Any = getattr(gm, str(node.target))
        own = [one for one in inner.graph.nodes if one.op == "placeholder"]
        fixed = {one: known[outer] for one, outer in zip(own, node.args, strict=True) if outer in known}
        part = Part(inner, fixed, options)
        function = part.function()
        function.__name__ = function.__qualname__ = str(node.target)
        function.__module__ = "onegraph.frontends.torch"
        rest = tuple(outer for outer in node.args if outer not in known)
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(function, rest)
        call.meta = dict(node.meta)
        node.replace_all_uses_with(call)
        gm.graph.erase_node(node)
        delattr(gm, str(node.target))
        parts.append(part)
    for node in reversed([*gm.graph.nodes]):
        if not node.users and node.op in ("call_function", "get_attr") and not str(node.target).startswith("<function"):
            gm.graph.erase_node(node)
    for number, node in enumerate([*gm.graph.nodes]):
        if node in known and node.op == "call_function" and hasattr(known[node], "stride"):
            name = f"_folded_{number}"
            setattr(gm, name, torch.nn.Buffer(known[node], persistent=False))
            with gm.graph.inserting_before(node):
                made = gm.graph.get_attr(name)
            node.replace_all_uses_with(made)
    for node in reversed([*gm.graph.nodes]):
        if not node.users and node.op in ("call_function", "get_attr") and is_call(node):
            gm.graph.erase_node(node)
    gm.recompile()
    return parts
