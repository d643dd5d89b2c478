"""The backend of torch.compile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.fx import GraphModule

from . import tables as tables
from .folding import folded, without_empty
from .node import LOWERINGS
from .options import Options, options_of
from .partitions import divided
from .statistics import log

MOST_MODULES = 64  # that share a captured graph, each with its parameters as constants
MOST_WRITES = 3  # of parameters that are constants


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The core decompositions, without the ops that are lowered as they are."""
    return {op: function for op, function in core_aten_decompositions().items() if str(op) not in LOWERINGS}


def onegraph(gm: GraphModule, example_inputs: Sequence[Any], *, options: object = None, mode: object = None) -> Any:
    """The backend ``onegraph``; see :mod:`onegraph.torch`."""
    chosen = options_of(options)

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda graph, inputs: _boxed(Region(graph, chosen, kind).run)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )(gm, example_inputs)


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
        self.gm, self.options, self.kind = gm, options, kind
        self.fixed = self._fixed() if kind == "inference" and options.freeze else []
        self.made: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self.writes = 0

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
        tensors = [arguments[place] for place in self.fixed]
        try:
            key = tuple([(one.data_ptr(), one._version) for one in tensors])
        except RuntimeError:  # tensors of torch.inference_mode do not count how often they are written
            self.fixed = [place for place in self.fixed if not arguments[place].is_inference()]
            return self.run(arguments)
        function = self.made.get(key)
        if function is None:
            function = self._add(key, tensors)
        return function(*arguments)

    def _add(self, key: Any, tensors: Sequence[Any]) -> Callable[..., Any]:
        """Compile for these parameters; after several writes, for parameters that are inputs."""
        places = [place for place, _ in key]
        older = [one for one in self.made if [place for place, _ in one] == places]
        for one in older:
            del self.made[one]
        self.writes += len(older)
        if self.writes > MOST_WRITES:
            log.info("the parameters were written %d times: from now on they are inputs", self.writes)
            self.fixed, key, tensors = [], (), []
        function = self._compile(dict(zip(self.fixed, tensors, strict=True)))
        self.made[key] = function
        while len(self.made) > MOST_MODULES:
            self.made.popitem(last=False)
        return function

    def _compile(self, fixed: dict[int, Any]) -> Callable[..., Any]:
        copied = GraphModule(self.gm, _copied(self.gm))
        inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
        frozen = {inputs[place]: tensor.detach() for place, tensor in fixed.items()}
        without_empty(copied)
        known = folded(copied, frozen)
        made, _ = divided(copied, known, self.options, self.kind)
        function: Callable[..., Any] = made.forward
        return function


def _copied(gm: GraphModule) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    values: dict[Any, Any] = {}
    result = graph.graph_copy(gm.graph, values)
    graph.output(result)
    return graph


__all__ = ["onegraph"]
