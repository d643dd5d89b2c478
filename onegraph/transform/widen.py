"""Makes a graph that keeps f32 numbers between ops of a 16-bit type that the CPU computes in f32 anyway.

Each op of such a type would read its sources as f32 and round its result. The rounding takes time, and it is an error
that the next op takes over. So a value of such a type becomes f32 here, and is rounded where its data type matters: as
an output of the graph, as an operand of a comparison or of a rounding, or for an op that only moves given numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic

import numpy as np

from ..builder.graph import AnyGraph, DataGraph
from ..errors import SpecError
from ..ir.op import LogicalTensor, Op
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST
from ..opset.editions.registry import edition as edition_named
from ..reference.host import CHANGES

FLOATS = frozenset([DataType.f32, DataType.bf16, DataType.f16])
# Ops that follow their sources: they only move numbers, or compute in f32 whatever their data type is.
FOLLOWERS = kinds.MOVES | CHANGES | {"Attention", "Where"}
# Ops whose result jumps where a source changes a little, runs elsewhere, or has the data type as its meaning.
ROUNDED = kinds.JUMPS | kinds.QUANTIZATIONS | kinds.CASTS | kinds.OPAQUE | kinds.PER_RUN | {"AttentionBackward"}
SMALL = 2**8  # elements of a constant that is cast here; larger ones are cast once for all programs of an executable


def widened(graph: AnyGraph, dtypes: Collection[DataType]) -> AnyGraph:
    """The graph with f32 numbers between ops of some 16-bit types; the same graph if it may not have them.

    Args:
        graph: the graph.
        dtypes: the 16-bit types that the CPU has no fast arithmetic of.
    """
    known = graph._roundings
    if known is None or not any(output.dtype in dtypes for op in graph._ops for output in op.outputs):
        return graph
    computed = _computed(graph, dtypes, known)
    return _Widening(graph, dtypes, computed).run() if computed or known else graph


def _computed(graph: DataGraph, dtypes: Collection[DataType], roundings: Collection[str]) -> set[int]:
    """The ids of the ops to compute in f32.

    An op alone, which reads given numbers and whose result is rounded, rounds as often in its own type.
    """
    ops = [op for op in graph._ops if _may_widen(op, dtypes)]
    if not ops:
        return set()
    loose = {op.outputs[0].id for op in graph._ops if op.name in roundings}
    before = _from_wide(ops, loose, dtypes)
    useful: set[int] = set()
    for op in reversed(graph._ops):
        is_read = op.id in before and (op.kind not in FOLLOWERS or op.outputs[0].id in useful)
        if is_read or (op.kind == "TypeCast" and op.outputs[0].dtype is DataType.f32):
            useful.update(input_.id for input_ in op.inputs)
    wide = loose | {output.id for op in ops if op.id in before for output in op.outputs}
    alone = {op.id for op in ops if not useful & {output.id for output in op.outputs} and not wide & _ids(op, dtypes)}
    return _from_wide([op for op in ops if op.id not in alone], loose, dtypes)


def _may_widen(op: Op, dtypes: Collection[DataType]) -> bool:
    """Whether an op takes f32 in the place of the 16-bit types and gives floats alone."""
    if op.kind in ROUNDED or op.edition not in (DEFAULT, HOST) or not op.outputs:
        return False
    return bool(_ids(op, dtypes)) and all(output.dtype in FLOATS for output in op.outputs)


def _ids(op: Op, dtypes: Collection[DataType]) -> set[int]:
    """The ids of the inputs of these data types."""
    return {input_.id for input_ in op.inputs if input_.dtype in dtypes}


def _from_wide(ops: Sequence[Op], loose: Collection[int], dtypes: Collection[DataType]) -> set[int]:
    """The ids of the ops that compute, and of those that follow sources which are all f32, or numbers known here."""
    narrow, wide = set[int](), {*loose}
    for op in ops:
        known = {input_.id for input_ in op.inputs if input_.value is not None}
        followed = _ids(op, dtypes) - known
        if op.kind not in FOLLOWERS or (followed and followed <= wide):
            narrow.add(op.id)
            wide.update(output.id for output in op.outputs)
    return narrow


class _Widening(Generic[AnyGraph]):
    """The new graph, and for each tensor of the old one its own and its f32 form, of which each is made once."""

    def __init__(self, graph: AnyGraph, dtypes: Collection[DataType], computed: Collection[int]) -> None:
        self._graph, self._dtypes, self._computed, self._made = graph, dtypes, computed, graph._empty()
        self._own: dict[int, LogicalTensor] = {}
        self._wide: dict[int, LogicalTensor] = {}
        self._roundings = graph._roundings or frozenset()
        self._labels = {op.name for op in graph._ops}

    def run(self) -> AnyGraph:
        old, made = self._graph, self._made
        for tensor in old._tensors:
            if tensor.constant:
                self._own[tensor.id] = made._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        for name, tensor in old._inputs.items():
            ends = tensor.dtype, tensor.shape, name, tensor.strides, tensor.value
            self._own[tensor.id] = made._inputs[name] = made._tensor(*ends)
        made._constant_inputs = set(old._constant_inputs)
        for op in old._ops:
            self._add(op)
        made._outputs = {name: self._in_own_type(t)._laid_out(t.strides) for name, t in old._outputs.items()}
        made._roundings = frozenset()  # those that it may leave out are gone
        return made

    def _add(self, op: Op) -> None:
        if op.kind == "TypeCast":
            first = op.inputs[0]
            if op.name in self._roundings and op.outputs[0].dtype in self._dtypes:
                self._wide[op.outputs[0].id] = self._in_f32(first)
                return
            if op.outputs[0].dtype is DataType.f32 and first.id in self._wide:
                self._own[op.outputs[0].id] = self._wide[first.id]
                return
        if op.id in self._computed and self._add_in_f32(op):
            return
        sources = [self._in_own_type(input_) for input_ in op.inputs]
        self._own.update(zip((output.id for output in op.outputs), self._made._repeat_op(op, sources), strict=True))

    def _add_in_f32(self, op: Op) -> bool:
        """Add an op with f32 in the place of the 16-bit types; False if the specification has no such op."""
        sources = [self._in_f32(input_) for input_ in op.inputs]
        types = tuple(DataType.f32 if output.dtype in self._dtypes else output.dtype for output in op.outputs)
        names = [output.name for output in op.outputs]
        try:
            wide_results = self._made._add_op(
                edition_named(op.edition), op.kind, dict(op.attrs), sources, types, name=op.name, names=names
            )
        except SpecError:
            return False
        for old, new in zip(op.outputs, wide_results, strict=True):
            (self._wide if old.dtype in self._dtypes else self._own)[old.id] = new
        return True

    def _in_f32(self, tensor: LogicalTensor) -> LogicalTensor:
        """The f32 form of a tensor of one of the 16-bit types; any other tensor as it is."""
        if tensor.dtype not in self._dtypes:
            return self._own[tensor.id]
        if tensor.id not in self._wide:
            value = tensor.value
            if value is not None and value.size <= SMALL:
                exact = value.astype(np.float32)
                exact.flags.writeable = False
                self._wide[tensor.id] = self._made._tensor(DataType.f32, tensor.shape, tensor.name, None, exact)
            else:
                self._wide[tensor.id] = self._cast(self._own[tensor.id], DataType.f32, tensor.name)
        return self._wide[tensor.id]

    def _in_own_type(self, tensor: LogicalTensor) -> LogicalTensor:
        """The tensor in its own data type, rounded to it here if it was computed in f32."""
        if tensor.id not in self._own:
            self._own[tensor.id] = self._cast(self._wide[tensor.id], tensor.dtype, tensor.name)
        return self._own[tensor.id]

    def _cast(self, tensor: LogicalTensor, dtype: DataType, name: str) -> LogicalTensor:
        label = f"{name}/{dtype}"
        while label in self._labels:
            label += "_"
        self._labels.add(label)
        results = self._made._add_op(
            edition_named(DEFAULT), "TypeCast", {}, [tensor], (dtype,), name=label, names=[label]
        )
        return results[0]
