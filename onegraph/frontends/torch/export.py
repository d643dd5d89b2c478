"""Turns a module into one graph, which needs PyTorch no more."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ..._util.exact_types import elements, entries, has_type
from ..._util.paths import path_of
from ...errors import ArgumentError, FormatError, OneGraphError, UnsupportedError, class_of
from ...graph import Graph
from ...ir.op import Array
from ...lowering.open_values import OpenInputs
from .capture import decompositions
from .folding import folded, without_empty
from .lowering import array_of, lower_graph
from .node import NotLowered, is_complex
from .open_export import OpenDims, with_unknown_dims
from .open_part import marks
from .resizing import whole_ops
from .results import shares_memory
from .support import verdicts

aten = torch.ops.aten
# A program keeps these ops whole unless a decomposition is given, unlike torch.compile.
ATTENTION = (aten.scaled_dot_product_attention, aten._scaled_dot_product_attention_math)
REAL = "its parts, as torch.view_as_real returns them"
CHECKS = frozenset(["aten._assert_tensor_metadata.default", "aten._assert_scalar.default"])  # compute nothing


def export(module: object, args: object, kwargs: object = None, dynamic_shapes: object = None) -> Graph:
    """The graph of a module or of a program; see :func:`onegraph.torch.export`."""
    program, buffers = _program(module, args, kwargs, dynamic_shapes)
    ranges = dict(program.range_constraints)
    with torch.no_grad(), whole_ops(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance.treespec", FutureWarning)  # PyTorch warns of a call of its own
        usual = torch.export.default_decompositions()
        attention = {packet.default: usual[packet.default] for packet in ATTENTION}
        program = program.run_decompositions({**decompositions(), **attention})
    gm: Any = program.graph_module
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    frozen: dict[Any, Any] = {}
    targets: dict[str, Any] = {}
    inputs = []
    stored = {**program.state_dict, **program.constants, **buffers}
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            if hasattr(node.meta.get("val"), "stride"):
                inputs.append(node)
        elif spec.target is not None:
            frozen[node], targets[spec.target] = stored[spec.target].detach(), node
    without_empty(gm)
    for node in gm.graph.nodes:
        if str(node.target) in CHECKS:
            gm.graph.erase_node(node)
    known = folded(gm, frozen)
    ranges |= program.range_constraints  # decompositions may drop those that no call names
    open_dims = OpenDims(inputs, ranges) if any(map(_is_number, marks(inputs))) else None
    if open_dims is not None:
        known |= _opened(open_dims, [node for node in gm.graph.nodes if _is_number(node.meta.get("val"))])
    refused = {
        f"{node.target}: {verdict.reason}"
        for node, verdict in verdicts(gm.graph, known, by_parts=True).items()
        if verdict.reason and not verdict.host and node.target is not operator.getitem
    }
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    outputs = [
        node
        for node, spec in zip(end.args[0], program.graph_signature.output_specs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT and node is not None
    ]
    refused |= {f"{node}: {problem}" for node in (*inputs, *outputs) if (problem := _problem(node))}
    if refused:
        raise UnsupportedError("export: ops that no graph computes:\n  " + "\n  ".join(sorted(refused)))
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and node not in known]
    metas = {node: node.meta.get("val") for node in gm.graph.nodes}
    if open_dims is not None:
        metas |= _opened(open_dims, [*inputs, *calls])
    read = {*outputs, *[source for node in calls for source in node.all_input_nodes]}
    arrays = _arrays({node: one for node, one in known.items() if node in read})
    more: Any = {"dense": True, "labels": {name: arrays[node] for name, node in targets.items() if node in arrays}}
    names = (lambda _: "output") if len(outputs) == 1 else (lambda place: f"output_{place}")
    try:
        if open_dims is None:
            return lower_graph(calls, inputs, outputs, arrays, metas, names=names, **more).graph
        watched = open_dims.watched(calls)
        opened = OpenInputs()
        graph = lower_graph(watched, inputs, outputs, arrays, metas, names=names, opened=opened, **more).graph
        open_dims.expect_same("a result")
        return with_unknown_dims(graph, opened)
    except (NotLowered, OneGraphError) as error:
        raise UnsupportedError(f"export: {error}") from None


def _problem(node: Any) -> str:
    """Why a graph has no such input or result; empty if it has."""
    stated = node.meta.get("val") if hasattr(node, "meta") else node
    if not hasattr(stated, "stride"):
        return "a result that is no tensor; expected tensors"
    return f"a complex tensor; expected {REAL}" if is_complex(stated) else ""


def _opened(open_dims: OpenDims, nodes: Sequence[Any]) -> dict[Any, Any]:
    """What nodes return, with open sizes."""
    try:
        return {node: open_dims.of(node) for node in nodes}
    except NotLowered as error:
        raise UnsupportedError(f"export: {error}") from None


def _is_number(stated: object) -> bool:
    """Whether PyTorch states a size, or another number that follows from sizes."""
    return has_type(stated, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _program(module: object, args: object, kwargs: object, dynamic_shapes: object) -> tuple[Any, Mapping[str, Any]]:
    """The program of a module, or the one that is given or in a file; and buffers by name."""
    if has_type(module, (str, os.PathLike)) or has_type(module, torch.export.ExportedProgram):
        if args is not None or kwargs is not None or dynamic_shapes is not None:
            raise ArgumentError("export: a program has its own example inputs and dynamic shapes; expected no others")
        made: Any = _loaded(module) if has_type(module, (str, os.PathLike)) else module
        return made, {}
    if not has_type(module, torch.nn.Module):
        raise ArgumentError(f"export: {class_of(module)}; expected a torch.nn.Module, an ExportedProgram or its file")
    examples: Sequence[object] | None = elements(args)
    named: Mapping[str, object] | None = {} if kwargs is None else entries(kwargs)
    if examples is None or named is None:
        raise ArgumentError("export: the example inputs are a tuple, and those by name a dictionary")
    own: Any = module
    shapes: Any = dynamic_shapes
    with torch.no_grad(), whole_ops(divides=False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance.treespec", FutureWarning)
        made = torch.export.export(own, tuple(examples), dict(named), dynamic_shapes=shapes, strict=False)
        return made, dict(own.named_buffers())


def _loaded(path: Any) -> Any:
    """The program in a file, as torch.export.save writes it."""
    place = path_of("module", path, "the path of a program")
    try:
        return torch.export.load(str(place))
    except Exception as error:  # PyTorch raises errors of many classes
        raise FormatError(str(place), f"{type(error).__name__}: {error}", "a file of torch.export.save") from None


def _arrays(known: Mapping[Any, Any]) -> dict[Any, Any]:
    """The arrays of known tensors, and other known values as they are."""
    copies: dict[int, Any] = {}  # of memory, so that a transposition of a weight stays one
    return {node: _own(node, one, copies) if hasattr(one, "stride") else one for node, one in known.items()}


def _own(node: Any, tensor: Any, copies: dict[int, Any]) -> Array:
    """An array that stays as it is when the module changes; views of one memory are views of one copy."""
    if node.op == "call_function" and not shares_memory(node):
        return array_of(tensor)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.numel():
        return array_of(tensor).copy(order="K")
    memory = tensor.untyped_storage()
    if memory.nbytes() > 2 * tensor.nbytes:  # a part of a memory that others may not need
        return array_of(tensor).copy(order="K")
    if memory.data_ptr() not in copies:
        copies[memory.data_ptr()] = memory.clone()
    copy = copies[memory.data_ptr()]
    own = torch.empty(0, dtype=tensor.dtype).set_(copy, tensor.storage_offset(), tensor.shape, tensor.stride())
    return array_of(own)
