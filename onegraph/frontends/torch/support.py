"""Finds the calls that run here: each is lowered alone, to a graph of its own."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch.fx import Graph as FxGraph
from torch.fx import Node as FxNode

from ..._util.records import record
from ...builder.graph import DataGraph
from ...compiler.kernels.arrays import RECORDS
from ...compiler.kernels.cast_integers import TYPES
from ...compiler.kernels.elements import OPS, why_not
from ...errors import OneGraphError
from ...graph import Graph
from ...ir.op import LogicalTensor, Op
from ...lowering.emitter import Emitter
from ...opset.dtypes import DataType
from ...opset.editions.registry import HOST
from ...opset.host.control import BODIES
from ...reference.host import KERNELS, VIEWS
from .compiled_part import is_static
from .lowering import array_of, concrete, is_call, lower_call, modules_of, result_fits
from .node import DEQUANTIZES, HIGHER, NotLowered, is_higher_order, is_op
from .results import shares_memory
from .types import DTYPES, PARTS_OF

HIGHER_ORDER_REASON = "PyTorch runs an op whose arguments are graphs, op by op"
# Ops that are lowered in another way for known scales, or known weights of integers.
READS_KNOWN = (*DEQUANTIZES, "aten._int_mm")
# Ops that are joined of others here, and have kernels in PyTorch.
JOINED = (
    *("aten._cdist_forward", "aten._pdist_forward", "aten._grouped_mm", "transformers.grouped_mm_fallback"),
    *("aten.histc", "aten._adaptive_avg_pool2d_backward"),
)
# The data types for which the kernel of elementwise host ops has vectors, as PyTorch has.
COMMON = frozenset([DataType.f32, DataType.float64, DataType.s64, DataType.s32, DataType.u8, DataType.boolean])
HOST_REASON = "PyTorch runs it faster than numpy"
SELECTING = RECORDS.keys() - {"MatMul"}
FEW = 1 << 12  # elements that a kernel of the package moves in less time than PyTorch takes to begin
GROUPED = ("aten._grouped_mm", "transformers.grouped_mm_fallback")  # a kernel reads the matrices where they lie
FEW_ROWS = 32  # of such a product
# Ops that refuse the negative indices with which the kernels count from the end.
UNSIGNED = ("aten.gather.", "aten.scatter", "aten.embedding.", "aten.index_select.")
# Ops whose results are places in a tensor.
PLACING = ("aten.topk.default", "aten.sort.default", "aten.sort.stable", "aten.argmax.default", "aten.argmin.default")


@record(frozen=True)
class Verdict:
    """Whether a call runs here.

    Attributes:
        reason: why it does not; empty if it does.
        host: whether numpy could run it.
        moves: whether it only rearranges elements.
        few: whether kernels of the package could run it, on so few elements that PyTorch takes longer to begin.
    """

    reason: str = ""
    host: bool = False
    moves: bool = False
    few: bool = False


def verdicts(graph: FxGraph, known: Mapping[FxNode, Any], *, by_parts: bool = False) -> dict[FxNode, Verdict]:
    """A verdict for each call of a graph that is not known.

    Args:
        graph: the graph.
        known: what is the same in every call.
        by_parts: whether complex tensors may be real ones with an axis for both parts, as inside of one graph.
    """
    verdict_of: dict[FxNode, Verdict] = {}
    seen: dict[object, Verdict] = {}
    for node in graph.nodes:
        if node.op == "call_function" and is_higher_order(node.target) and not _is_check(node):
            is_taken = str(node.target) in HIGHER
            verdict_of[node] = _verdict(node, known, by_parts) if is_taken else Verdict(HIGHER_ORDER_REASON)
        if node in known or not is_call(node):
            continue
        key = _key(node)
        if key not in seen:
            seen[key] = _verdict(node, known, by_parts)
        verdict_of[node] = seen[key]
        if seen[key].few and str(node.target).startswith(UNSIGNED) and not _has_found_places(node):
            verdict_of[node] = replace(seen[key], few=False)
    for node in graph.nodes:  # a result of a call is taken with the call
        if node.target is operator.getitem and node.args[0] in verdict_of:
            verdict_of[node] = verdict_of[node.args[0]]
    return verdict_of


def _has_found_places(node: FxNode) -> bool:
    """Whether another call has found the indices that a call gets, so that none is negative."""
    index: Any = node.args[2] if len(node.args) > 2 else None
    while isinstance(index, FxNode) and str(index.target) not in PLACING and shares_memory(index):
        index = index.all_input_nodes[0]
    return isinstance(index, FxNode) and str(index.target) in PLACING


def _is_check(node: FxNode) -> bool:
    """Whether a higher-order op only keeps the order of a call that returns nothing, such as a check or a print."""
    called = [argument for argument in node.args if is_op(argument)]
    return str(node.target) == "with_effects" and not any(one._schema.returns for one in called)


def _key(node: FxNode) -> object:
    """What a verdict depends on."""
    used = sorted({place for user in node.users for place in _places(user)})
    text = [_described(argument) for argument in (*node.args, *node.kwargs.items())]
    return str(node.target), *text, _described(node.meta.get("val")), *used


def _described(value: Any) -> str:
    if type(value) is FxNode:
        return _described(value.meta.get("val"))
    if hasattr(value, "stride"):
        return f"{value.dtype}{tuple(value.shape)}{value.layout}{value.device.type}"
    if type(value) in (list, tuple):
        return f"[{','.join(map(_described, value))}]"
    return repr(value)


def _used(node: FxNode) -> Any:
    """The results that are read, as fake tensors."""
    like = node.meta.get("val")
    if type(like) not in (tuple, list):
        return like
    return [like[place] for place in sorted({place for user in node.users for place in _places(user)})]


def _places(user: FxNode) -> list[int]:
    return [user.args[1]] if user.target is operator.getitem else []


def _refusal(value: Any, by_parts: bool) -> str:
    """Why a tensor cannot be a tensor of a graph; empty if it can."""
    if type(value) in (list, tuple):
        return next((text for one in value if (text := _refusal(one, by_parts))), "")
    if not hasattr(value, "stride"):
        return ""
    if value.layout is not torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.is_quantized:
        return "a quantized tensor"
    if value.device.type != "cpu":
        return f"a tensor on the device {value.device.type}"
    if value.dtype not in DTYPES and not (by_parts and value.dtype in PARTS_OF):
        return f"data type {value.dtype}"
    if 0 in [concrete(dim) for dim in value.shape]:
        return "a tensor without elements"
    return ""


def _verdict(node: FxNode, known: Mapping[FxNode, Any], by_parts: bool) -> Verdict:
    if node.meta.get("val") is None:
        return Verdict("it returns no tensor")
    sources = _sources(node)
    if not all("val" in source.meta for source in sources):
        return Verdict("PyTorch does not state the shape of an input")
    if is_higher_order(node.target) and not _are_static(node):
        return Verdict("PyTorch runs a body whose sizes change from call to call")
    try:
        for example in (*[source.meta.get("val") for source in sources], _used(node)):
            text = _refusal(example, by_parts)
            if text:
                return Verdict(text)
        return _tried(node, known)
    except NotLowered as error:
        return Verdict(str(error))
    except OneGraphError as error:  # the specification refuses this form
        return Verdict(str(error).splitlines()[0])


def _are_static(node: FxNode) -> bool:
    """Whether no size in the bodies of a call, or of what it reads and returns, is symbolic."""
    inside = [one for module in modules_of(node).values() for one in module.graph.nodes]
    examples = [one.meta.get("val") for one in (node, *_sources(node), *inside)]
    flat = [one for value in examples for one in (value if type(value) in (tuple, list) else [value])]
    dims = [dim for one in flat for dim in (one.shape if hasattr(one, "stride") else [one])]
    return not any(isinstance(dim, (torch.SymInt, torch.SymFloat, torch.SymBool)) for dim in dims)


def _sources(node: FxNode) -> list[FxNode]:
    """The nodes whose results a call reads, without graphs that are its arguments."""
    return [source for source in node.all_input_nodes if not is_higher_order(node.target) or source.op != "get_attr"]


def _tried(node: FxNode, known: Mapping[FxNode, Any]) -> Verdict:
    graph = Graph()
    emit = Emitter(graph)
    metas: dict[FxNode, Any] = {}
    values: dict[FxNode, Any] = {}
    for source in _sources(node):
        metas[source] = concrete(source.meta["val"])
        is_parameter = source in known and str(node.target).startswith(READS_KNOWN)
        values[source] = array_of(known[source]) if is_parameter else _stand_in(graph, source.name, metas[source])
    metas[node] = concrete(node.meta["val"])
    lowered = lower_call(node, values, metas, emit)
    like = metas[node]
    if type(like) in (tuple, list):
        used = {place for user in node.users for place in _places(user)}
        if any(lowered[place] is None for place in used):
            return Verdict("a result that no op computes")
        pairs = [(lowered[place], like[place]) for place in used]
    else:
        pairs = [(lowered, like)]
    if not all(result_fits(result, fake) for result, fake in pairs):
        return Verdict("the lowered ops have another shape or data type")
    kinds = [op.kind for op in graph.ops if op.edition == HOST and not _is_free(op)]
    moves = all(op.kind in ("StaticReshape", "StaticTranspose", *VIEWS) for op in graph.ops)
    if str(node.target).startswith(JOINED):
        return Verdict("PyTorch has a kernel for it", host=True, few=_are_few(node, graph))
    if kinds:
        return Verdict(f"{HOST_REASON}: {', '.join(dict.fromkeys(kinds))}", host=True, few=_are_few(node, graph))
    return Verdict(moves=moves)


def _are_few(node: FxNode, graph: DataGraph) -> bool:
    """Whether kernels of the package compute the ops of a call of known sizes, and make few elements."""
    likes = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    if not all(map(is_static, likes)):
        return False
    host = [op for op in graph.ops if op.edition == HOST and not _is_free(op)]
    if any(op.kind not in SELECTING or DataType.float64 in [end.dtype for end in op.outputs] for op in host):
        return False
    if str(node.target).startswith(GROUPED):
        return len(likes[0].shape) == 2 and bool(likes[0].shape[0] <= FEW_ROWS)
    made = [end.shape for op in graph.ops if op.kind not in VIEWS for end in op.outputs]
    return all(shape is not None and prod([dim or 0 for dim in shape]) <= FEW for shape in made)


def _is_free(op: Op) -> bool:
    """Whether a host op takes no time in numpy, or has a kernel."""
    ends = [end for end in (*op.inputs, *op.outputs) if end is not None]
    if op.kind == "Cast" and {end.dtype for end in ends} <= TYPES:
        return True
    if op.kind in OPS and {end.dtype for end in ends} <= COMMON:
        return not why_not(op.kind, ends[len(op.inputs) - 1].dtype, ends[-1].dtype)
    return op.kind in VIEWS | KERNELS | BODIES.keys() or all(end.shape in ((), (1,)) for end in ends)


def _stand_in(graph: DataGraph, name: str, fake: Any) -> Any:
    if type(fake) in (tuple, list):
        return [_stand_in(graph, f"{name}.{place}", one) for place, one in enumerate(fake)]
    if not hasattr(fake, "stride"):
        return concrete(fake)
    dims = [concrete(dim) for dim in fake.shape]
    if fake.dtype in PARTS_OF:
        return graph.input(name, PARTS_OF[fake.dtype], [*dims, 2])
    made: LogicalTensor = graph.input(name, DTYPES[fake.dtype], dims)
    return made
