"""The backend of torch.compile."""

from __future__ import annotations

import threading
import types
from collections import OrderedDict
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
from .folding import folded, without_empty
from .options import Options, options_of
from .partitions import divided
from .resizing import whole_ops
from .saved import saved_nodes, with_true_strides
from .statistics import log
from .true_types import with_true_types

FRAME_WORDS = 2048  # as many as a block for frames of Python has
MOST_MODULES = 64  # that share a captured graph, each with its parameters as constants
MOST_WRITES = 3  # of parameters that are constants


def onegraph(gm: GraphModule, example_inputs: Sequence[Any], *, options: object = None, mode: object = None) -> Any:
    """The backend ``onegraph``; see :mod:`onegraph.torch`."""
    chosen = options_of(options)

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda graph, inputs: _boxed(Region(graph, chosen, kind).run)

    captured = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=partitioned,
    )
    with whole_ops():
        return captured(gm, example_inputs)


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


class Region:
    """A captured graph, which the first call compiles, because the parameters are seen then.

    Args:
        gm: the graph, without mutations.
        options: the options of the backend.
        kind: ``inference``, ``forward`` or ``backward``.
    """

    def __init__(self, gm: GraphModule, options: Options, kind: str) -> None:
        with_true_types(gm)
        _keep_saved()
        self.gm, self.options, self.kind = gm, options, kind
        self.fixed = self._fixed() if kind == "inference" and options.freeze else []
        self.saved = saved_nodes(gm) if kind == "forward" else frozenset()
        self.made: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self.writes = 0
        self.lock = threading.Lock()

    def _fixed(self) -> list[int]:
        """The places of inputs that are parameters or buffers and are not written."""
        context = TracingContext.try_get()
        metadata = None if context is None else context.fw_metadata
        if metadata is None:
            return []
        written = {place for place, one in enumerate(metadata.input_info) if one.mutates_data}
        return [place for place in metadata.static_input_indices if place not in written]

    def run(self, arguments: list[Any]) -> Any:
        """Run for these inputs."""
        found = self.made.get(self._key(arguments))
        if found is None:
            with self.lock:
                key = self._key(arguments)
                found = self.made.get(key) or self._add(key, arguments)
        return found(*arguments)

    def _key(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """What a compiled graph depends on: PyTorch's number of threads, and the parameters that are constants."""
        try:
            tensors = [arguments[place] for place in self.fixed]
            return torch.get_num_threads(), *[(one.data_ptr(), one._version) for one in tensors]
        except RuntimeError:  # tensors of torch.inference_mode do not count how often they are written
            self.fixed = [place for place in self.fixed if not arguments[place].is_inference()]
            return self._key(arguments)

    def _add(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Callable[..., Any]:
        """Compile for these parameters; after several writes, for parameters that are inputs."""
        older = [one for one in self.made if _places(one) == _places(key)]
        for one in older:
            del self.made[one]
        self.writes += len(older)
        if self.writes > MOST_WRITES:
            log.info("the parameters were written %d times: from now on they are inputs", self.writes)
            self.fixed, key = [], key[:1]
        function = self._compile(arguments)
        self.made[key] = function
        while len(self.made) > MOST_MODULES:
            self.made.popitem(last=False)
        return function

    def _compile(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        graph, copies = _copied(self.gm)
        copied = GraphModule(self.gm, graph)
        inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
        frozen = {inputs[place]: arguments[place].detach() for place in self.fixed}
        if self.kind == "backward":
            with_true_strides(copied, arguments)
            add_rows_in_place(copied)
        without_empty(copied)
        order_draws(copied)
        known = folded(copied, frozen)
        saved = frozenset(copies[node] for node in self.saved)
        made, _ = divided(copied, known, self.options, self.kind, saved)
        return _with_room(made)


def _with_room(made: GraphModule) -> Callable[..., Any]:
    """The function of a module, with so large a frame that Python takes new memory for it, with room behind it.

    Python 3.11 and later keep frames in blocks of 16 KB. If the frame with all tensors of a graph ended close to the
    end of a block, each of its thousands of calls would take a new block from the system and give it back.
    """
    forward: Any = type(made).forward
    code = forward.__code__
    wide = code.replace(co_stacksize=max(code.co_stacksize, FRAME_WORDS))
    return types.MethodType(types.FunctionType(wide, forward.__globals__, forward.__name__, forward.__defaults__), made)


def _places(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key without the counts of writes."""
    return key[0], *[place for place, _ in key[1:]]


def _copied(gm: GraphModule) -> tuple[torch.fx.Graph, dict[FxNode, FxNode]]:
    """A copy of a graph, and the copy of each node."""
    graph = torch.fx.Graph()
    copies: dict[FxNode, FxNode] = {}
    result = graph.graph_copy(gm.graph, copies)
    graph.output(result)
    return graph, copies


__all__ = ["onegraph"]
