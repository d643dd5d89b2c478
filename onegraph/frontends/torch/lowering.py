"""Lowers calls of ATen ops to a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node as FxNode
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from ..._util.records import record
from ...graph import Graph
from ...ir.op import Array, LogicalTensor
from ...lowering import layout as layout
from ...lowering.emitter import Emitter, NotLowered, dtype_of, shape_of
from ...lowering.open_values import OpenInputs
from ...lowering.patterns import REWRITES
from ...transform.part import without_unread
from . import tables as tables
from .layouts import Layout
from .node import HIGHER, LOWERINGS, PARTS, PARTS_OF, AtenNode, arguments, is_complex, is_higher_order, is_op
from .types import DTYPES

BODIES = "onegraph_bodies"  # under this key a call that may move has the graphs that are its arguments
Metas = Mapping[FxNode, Any]


@record(frozen=True)
class LoweredGraph:
    """A graph, and how the memory of its inputs and outputs lies in that of tensors."""

    graph: Graph
    inputs: Sequence[Layout]
    outputs: Sequence[Layout]


def concrete(value: Any) -> Any:
    """A size as an integer, or a tensor with such sizes: of a symbolic size its hint, without a guard of PyTorch."""
    if type(value) is LogicalTensor:  # which would look for the op that a missing attribute means
        return value
    if hasattr(value, "stride"):
        shape, strides = concrete(tuple(value.shape)), concrete(tuple(value.stride()))
        if all(type(one) is int for one in (*value.shape, *value.stride())):
            return value
        with _disable_current_modes():
            return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
    if type(value) in (torch.SymInt, torch.SymFloat, torch.SymBool):
        if not value.node.has_hint():
            raise NotLowered("a size that depends on contents")
        return value.node.hint
    if type(value) in (list, tuple):
        return type(value)(concrete(one) for one in value)
    return value


def lower_call(call: FxNode, values: Mapping[FxNode, Any], metas: Metas, emit: Emitter) -> Any:
    """The results of one call: a value, or a list of values.

    Raises:
        NotLowered: no op of a graph computes this form of the call.
    """
    if call.target is operator.getitem:
        source, place = call.args
        return values[source][place]
    name = str(call.target)
    if is_higher_order(call.target):
        return _lower_higher(call, values, emit)
    ends = metas[call], *[metas[source] for source in call.all_input_nodes]
    lowering = (PARTS if any(map(is_complex, ends)) else LOWERINGS).get(name)
    if lowering is None:
        own = "" if name.startswith(("aten.", "prims.")) else "; onegraph.torch.register gives an op a lowering"
        raise NotLowered(f"no op of a graph computes it{own}")
    by_argument = arguments(call.target, call.args, call.kwargs)
    bound = {key: concrete(map_arg(one, values.__getitem__)) for key, one in by_argument.items()}
    fakes = {key: map_arg(one, metas.__getitem__) for key, one in by_argument.items()}
    emit.named(call.name)
    read = frozenset([user.args[1] for user in call.users if user.target is operator.getitem])
    return lowering(AtenNode(call.target, bound, fakes, metas[call], read, emit))


def _lower_higher(call: FxNode, values: Mapping[FxNode, Any], emit: Emitter) -> Any:
    """The results of a call whose arguments are graphs."""
    lowering = HIGHER.get(str(call.target))
    if lowering is None or call.kwargs:
        raise NotLowered("no op of a graph computes it")
    modules = modules_of(call)
    seen = {
        node: modules.get(str(node.target)) if node.op == "get_attr" else values[node] for node in call.all_input_nodes
    }
    operands = [
        modules.get(argument) if type(argument) is str else concrete(map_arg(argument, seen.__getitem__))
        for argument in call.args
    ]
    emit.named(call.name)
    return lowering(emit, lower_module, *operands)


def modules_of(call: FxNode) -> Mapping[str, Any]:
    """The graphs that are arguments of a call, by their names in the module around."""
    if BODIES in call.meta:
        kept: Mapping[str, Any] = call.meta[BODIES]
        return kept
    owner: Any = call.graph.owning_module
    names = [str(node.target) for node in call.all_input_nodes if node.op == "get_attr"]
    return {name: owner.get_submodule(name) for name in names}


def hide_modules(call: FxNode) -> None:
    """Put names in the place of the graphs that are arguments of a call, so that the call can move without them."""
    call.meta[BODIES] = modules_of(call)
    call.args = tuple(
        [
            str(argument.target) if type(argument) is FxNode and argument.op == "get_attr" else argument
            for argument in call.args
        ]
    )


def show_modules(call: FxNode) -> None:
    """Undo ``hide_modules``."""
    names = call.meta.pop(BODIES, {})
    with call.graph.inserting_before(call):
        call.args = tuple(
            [
                call.graph.get_attr(argument) if type(argument) is str and argument in names else argument
                for argument in call.args
            ]
        )


def lower_module(module: Any, values_in: Sequence[Any], emit: Emitter) -> Sequence[Any]:
    """The results of a graph that is an argument of a call.

    Args:
        module: the graph.
        values_in: the values of its arguments.
        emit: adds its ops.

    Raises:
        NotLowered: no op of a graph computes a call in it; the text names the call.
    """
    values: dict[FxNode, Any] = {}
    metas = {node: node.meta.get("val") for node in module.graph.nodes}
    remaining = iter(values_in)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr" and isinstance(result := getattr(module, node.target), torch.Tensor):
            values[node] = array_of(result)
        elif node.op == "call_function":
            try:
                values[node] = lower_call(node, values, metas, emit)
            except NotLowered as error:
                raise NotLowered(f"in a body, {node.target}: {error}") from None
    (end,) = (node for node in module.graph.nodes if node.op == "output")
    result = map_arg(end.args[0], values.__getitem__)
    return [*result] if isinstance(result, (list, tuple)) else [result]


def lower_graph(
    nodes: Iterable[FxNode],
    inputs: Sequence[FxNode],
    outputs: Sequence[FxNode],
    known: Mapping[FxNode, Any],
    metas: Metas,
    *,
    names: Callable[[int], str] | None = None,
    dense: bool = False,
    opened: OpenInputs | None = None,
    labels: Mapping[str, Array] | None = None,
) -> LoweredGraph:
    """The graph of some calls.

    Args:
        nodes: the calls, each behind those that it reads.
        inputs: the tensors that the graph reads.
        outputs: the tensors that it returns.
        known: arrays, and numbers, that are the same in every call.
        metas: what each node returns, as fake tensors of known shapes.
        names: names of the outputs.
        dense: whether inputs and outputs are arrays of their own, with rows behind each other.
        opened: where to keep the values that follow from open sizes.
        labels: arrays in ``known`` by the names of the constants that they become.
    """
    layout_of = Layout.dense if dense else Layout.of
    graph = Graph()
    emit = Emitter(graph, REWRITES)
    emit.opened = opened
    emit.name_arrays(labels or {})
    values: dict[FxNode, Any] = dict(known)
    input_layouts: list[Layout] = []
    for node in inputs:
        layout = layout_of(metas[node])
        input_layouts.append(layout)
        made = graph.input(node.name, layout.dtype, layout.dims, strides=layout.strides)
        values[node] = layout.read(emit, made)
    for node in nodes:
        values[node] = lower_call(node, values, metas, emit)
    layouts: list[Layout] = []
    for place, node in enumerate(outputs):
        layout = layout_of(metas[node])
        layouts.append(layout)
        label = names(place) if names is not None else f"result:{place}"
        graph.output(label, emit.tensor(layout.written(emit, values[node])))
    return LoweredGraph(without_unread(graph), input_layouts, layouts)


def array_of(tensor: Any) -> Array:
    """The memory of a tensor that does not change as an array; a complex one has a last axis for both parts."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    memory = Layout.of(tensor)
    view = memory.array()
    array = view(tensor)
    array_: Array = array.transpose(layout.inverse(memory.order)) if memory.order else array
    if memory.repeated:
        array_ = np.broadcast_to(array_, memory.shape)
    return array_


def result_fits(result: Any, like: Any) -> bool:
    """Whether a result has the shape and the data type that PyTorch gives it."""
    if result is None:
        return True
    shape = shape_of(result)
    dims = tuple(int(concrete(dim)) for dim in like.shape)
    if like.dtype in PARTS_OF:
        return shape == (*dims, 2) and dtype_of(result) is PARTS_OF[like.dtype]
    return shape == dims and dtype_of(result) is DTYPES.get(like.dtype)


def is_call(node: FxNode) -> bool:
    """Whether a node calls an op of PyTorch."""
    return node.op == "call_function" and is_op(node.target)
