"""The backend of torch.compile."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from .capture import decompositions, partitioned
from .draws import order_draws
from .embeddings import add_rows_in_place
from .folding import folded, without_empty, without_returns, without_sources
from .in_place import op_writes, write_in_place, written_inputs
from .options import BackendOptions, options_of
from .partitions import divided
from .programs import Programs
from .registration import register
from .resizing import whole_ops
from .results import with_own_results
from .saved import saved_nodes, with_true_forms, without_written
from .statistics import add
from .true_types import with_true_types

# What a program does with weights, for the statistics.
PREPARED, READING = "prepared for the weights of one module", "reading the weights in each call"
FRAME_WORDS = 2048  # as many as a block for frames of Python has


def onegraph(gm: GraphModule, example_inputs: Sequence[Any], *, options: object = None, mode: object = None) -> Any:
    """The backend ``onegraph``; see :mod:`onegraph.torch`."""
    captured = aot_autograd(**capture_settings(options_of(options)))
    with whole_ops():
        return captured(gm, example_inputs)


def capture_settings(options: BackendOptions) -> dict[str, Any]:
    """The compilers and decompositions that AOTAutograd gets, by its names of arguments."""

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda graph, inputs: _boxed(CapturedRegion(graph, options, kind).programs.run)

    return {
        "fw_compiler": compiler("forward"),
        "bw_compiler": compiler("backward"),
        "inference_compiler": compiler("inference"),
        "decompositions": decompositions(),
        "partition_fn": partitioned,
    }


def _keep_saved() -> None:
    """Tell PyTorch that the backward graph overwrites no saved tensor, so that it may run again (``retain_graph``)."""
    context = TracingContext.try_get()
    donated = getattr(context and context.fw_metadata, "bw_donated_idxs", None)
    if donated:
        donated.clear()  # all metadata of a captured graph share the list


def _boxed(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(arguments: list[Any]) -> Any:
        return function(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class CapturedRegion:
    """A captured graph, which the first call compiles, because the weights are seen then.

    Args:
        gm: the graph, without mutations.
        options: the options of the backend.
        kind: ``inference``, ``forward`` or ``backward``.

    Attributes:
        programs: runs the graph.
    """

    def __init__(self, gm: GraphModule, options: BackendOptions, kind: str) -> None:
        with_true_types(gm)
        _keep_saved()
        self.gm, self.options, self.kind = gm, options, kind
        if kind == "forward":
            without_written(gm)
        self.saved = saved_nodes(gm) if kind == "forward" else frozenset()
        is_prepared = kind == "inference" and (options.prepare or options.frozen)
        self.weights = _weights() if is_prepared else []
        self.written = written_inputs(gm) if kind == "inference" else {}
        self.programs = Programs(self._compiled, [*self.weights], options)

    def _compiled(self, arguments: Sequence[Any], places: Sequence[int]) -> Callable[..., Any]:
        """The function of the graph, for the weights at these places."""
        made = self._divided(arguments, places, writes=bool(self.written)) or self._divided(arguments, places)
        assert made is not None
        return _with_room(made)

    def _divided(self, arguments: Sequence[Any], places: Sequence[int], *, writes: bool = False) -> GraphModule | None:
        """The graph, divided into parts and calls of PyTorch.

        Args:
            arguments, places: as of ``_compiled``.
            writes: whether parts run writes into inputs; None is returned if one of these would copy the whole tensor.
        """
        graph, copies = _copied(self.gm)
        copied = GraphModule(self.gm, graph)
        inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
        prepared = {inputs[place]: arguments[place].detach() for place in places}
        if self.kind == "backward":
            with_true_forms(copied, arguments)
            add_rows_in_place(copied)
        without_empty(copied)
        without_returns(copied)
        order_draws(copied)
        known = folded(copied, prepared)
        saved = frozenset(copies[node] for node in self.saved)
        made_anew = with_own_results(copied, known, saved)
        without_sources(known)
        weights = (PREPARED if places else READING) if self.weights else ""
        wanted, written_again = op_writes(copied, self.written)
        in_parts = {call for chain in wanted.values() for call in chain}
        calls = in_parts if writes else set[FxNode]()
        made_anew |= written_again | (in_parts - calls)
        made, region = divided(copied, known, self.options, self.kind, saved, made_anew, self, weights, calls)
        in_place = write_in_place(made, self.written)
        if calls and not wanted.keys() <= in_place:
            return None
        add(region)
        return made


def _weights() -> list[int]:
    """The places of inputs that are parameters or buffers and are not written."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return []
    written = {place for place, one in enumerate(metadata.input_info) if one.mutates_data}
    return [place for place in metadata.static_input_indices if place not in written]


def _with_room(made: GraphModule) -> Callable[..., Any]:
    """The function of a module, with so large a frame that Python takes new memory for it, with room behind it.

    Python 3.11 and later keep frames in blocks of 16 KB. If the frame with all tensors of a graph ended close to the
    end of a block, each of its thousands of calls would take a new block from the system and give it back.
    """
    forward: Any = type(made).forward
    code = forward.__code__
    wide = code.replace(co_stacksize=max(code.co_stacksize, FRAME_WORDS))
    return types.MethodType(types.FunctionType(wide, forward.__globals__, forward.__name__, forward.__defaults__), made)


def _copied(gm: GraphModule) -> tuple[torch.fx.Graph, dict[FxNode, FxNode]]:
    """A copy of a graph, and the copy of each node."""
    graph = torch.fx.Graph()
    copies: dict[FxNode, FxNode] = {}
    result = graph.graph_copy(gm.graph, copies)
    graph.output(result)
    return graph, copies


register(onegraph)
__all__ = ["onegraph"]
