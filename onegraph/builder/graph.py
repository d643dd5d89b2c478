"""Defines graphs as data: their ops and tensors, copies and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast
from weakref import ref

from .._util.exact_types import has_type
from .._util.init_once import once
from ..errors import ArgumentError, shown
from ..ir.op import brief
from ..opset.shapes import show
from .compression import CompressedWeights, QuantizedOp
from .rewriting import Rewriting

AnyGraph = TypeVar("AnyGraph", bound="DataGraph")


class DataGraph(Rewriting):
    """The ops, tensors, inputs and outputs of a graph. :class:`onegraph.Graph` adds compiling, files and more."""

    compression: Sequence[CompressedWeights] = ()  # the weights that compress_weights has compressed
    quantization: Sequence[QuantizedOp] = ()  # what quantize has made of convolutions and products
    _dims: Mapping[str, Sequence[str]] | None = None  # by input, names of its dims in a model; "" for none

    def copy(self: AnyGraph) -> AnyGraph:
        """A copy of the graph with the same records; adding to one graph does not change the other."""
        twin = self._empty()
        # Another thread may add to this graph. Each container is copied in one interpreter step, and before the
        # containers that it refers to.
        twin._outputs, twin._ops = dict(self._outputs), list(self._ops)
        twin._inputs, twin._by_id = dict(self._inputs), dict(self._by_id)
        twin._op_ids, twin._names, twin._file = self._op_ids.copy(), dict(self._names), self._file
        twin._constant_inputs, twin._n_read = set(self._constant_inputs), self._n_read
        twin._initial, twin._next = dict(self._initial), dict(self._next)
        twin._roundings, twin.compression = self._roundings, self.compression
        twin.quantization = self.quantization
        return twin

    __copy__ = copy

    def _is_as_read(self) -> bool:
        """Whether a front end has made the graph, and no op was added since."""
        return 0 < self._n_read == len(self._ops)

    def _note_reading(self, roundings: frozenset[str] | None, *, as_read: bool) -> None:
        """Note the TypeCasts that round where a model rounds, and whether all ops are those that its reader made."""
        self._roundings, self._n_read = roundings, len(self._ops) if as_read else 0

    def _as_step(self: AnyGraph) -> AnyGraph:
        """The graph of one call: variables are inputs and their next values outputs, after all others."""
        step = DataGraph.copy(self)
        if step._initial:
            step._inputs = {**self.inputs, **self.variables}
            hidden = {output: step._outputs[output] for output in step._next.values()}
            step._outputs = {**self.outputs, **hidden}
            step._initial, step._next = {}, {}
        return step

    def _with_variables_of(self: AnyGraph, source: DataGraph) -> AnyGraph:
        """This graph, in which inputs and outputs are variables and their next values as in ``source``."""
        self._initial = {name: array for name, array in source._initial.items() if name in self._inputs}
        left = ((name, output) for name, output in source._next.items() if name in self._initial)
        self._next = {name: output for name, output in left if output in self._outputs}
        lost = {*source._next.values()} - {*self._next.values()}  # of variables that have become constants
        self._outputs = {name: tensor for name, tensor in self._outputs.items() if name not in lost}
        return self

    def __repr__(self) -> str:
        graph = DataGraph.copy(self)
        lines = [f"Graph(edition={self.edition!r})"]
        kinds = ((graph.inputs, "input"), (graph.variables, "variable"))
        lines += [f"  {t.name}: {t.dtype} {show(t.shape)} {kind}" for named, kind in kinds for t in named.values()]
        for op in graph._ops:
            ins = ", ".join(tensor.name for tensor in op.inputs)
            outs = ", ".join(f"{t.name}: {t.dtype} {show(t.shape)}" for t in op.outputs)
            attrs = ", ".join(f"{key}={brief(value)}" for key, value in op.attrs.items())
            lines.append(f"  {outs} = {op.kind}({ins}{'; ' + attrs if attrs else ''})")
        lines += [f"  {name}: {t.name} output" for name, t in graph.outputs.items()]
        lines += [f"  {name}: {t.name} assigned" for name, t in graph.assignments.items()]
        return "\n".join(lines)

    @once("_ops")
    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Unpickle or copy: the operators of the tensors add to the new graph."""
        vars(self).update(state)
        for tensor in (*self._by_id.values(), *self._outputs.values()):
            object.__setattr__(tensor, "_graph", ref(self))

    @staticmethod
    def _kind() -> type[DataGraph]:
        """The class of graphs that are made from this one; a user's subclass is not used."""
        return DataGraph

    def _empty(self: AnyGraph, edition: str | None = None, *, strict: bool | None = None) -> AnyGraph:
        """A graph without ops; by default of the same edition and strictness."""
        strict = self.strict if strict is None else strict
        made = cast("AnyGraph", self._kind()(edition or self.edition, strict=strict))
        made._dims, made._model_values = self._dims, self._model_values
        return made


def snapshot(graph: AnyGraph) -> AnyGraph:
    """A copy of a graph to read from, because other threads or signal handlers may add to the graph.

    Raises:
        ArgumentError: ``graph`` is not a graph.
    """
    expect_graph(graph)
    return DataGraph.copy(graph)


def expect_graph(value: object) -> None:
    """Raise ArgumentError if ``value`` is not a graph."""
    if not has_type(value, DataGraph):
        raise ArgumentError(f"graph: {shown(value)}; expected a Graph")
