"""From a graph as users write it to what the library is given.

Every op is read in base words and becomes one of three things: a library op, with attributes that this library takes
and computes right; a view, where an edition orders the axes of a tensor in another way than the library (strides are
exchanged, no data moves); or a reference op, which numpy runs. The library sees views and reference ops as Wildcards,
so that it neither fuses across them nor makes a partition that would have to wait for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import capi
from .errors import ArgumentError, OneGraphError, UnsupportedError
from .graph import Graph
from .native import VERSION
from .op import Array, LogicalTensor, Op
from .rewrites import library_form
from .spec.dialect import base_call, channel_swap, format_of, is_swapped
from .spec.dtypes import DataType
from .spec.editions import base_of, edition
from .spec.schema import AttrValue, Schema, TensorType
from .spec.shapes import dense_strides

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor of the lowered graph.

    ``storage`` is the id of the value whose memory it lives in: its own, or that of the value it is a view of.
    ``strides`` are in elements.
    """

    id: int
    dtype: DataType
    shape: Dims
    strides: Dims
    storage: int
    name: str
    constant: Array | None = None

    @property
    def dense(self) -> bool:
        """Whether the strides are those of a dense row-major array."""
        return self.strides == dense_strides(self.shape)


@dataclass(frozen=True)
class Step:
    """An op of the lowered graph. ``executor`` is library, view or reference; ``note`` says what was rewritten."""

    id: int
    executor: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    op: Op
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Lowered:
    """A graph in the library's terms, every shape known."""

    graph: Graph
    values: dict[int, Value]
    steps: tuple[Step, ...]


def lower(graph: Graph) -> Lowered:
    """Lower a graph whose inputs have known shapes.

    Raises:
        ArgumentError: a shape depends on data, so that it is not known before the graph runs.
        UnsupportedError: there is a Wildcard: nothing says what it computes.
    """
    for op in graph.ops:
        if op.kind == "Wildcard" and op.outputs:
            raise UnsupportedError(f"{op.name!r} is a Wildcard, which has no meaning of its own and cannot be run")
    lowering = _Lowering(graph)
    for op in graph.ops:
        lowering.add(op)
    return Lowered(graph, lowering.values, tuple(lowering.steps))


# Ops whose optional outputs are by the way: an older library can run the op without them.
INDEPENDENT_OUTPUTS = frozenset({"SoftMax", "Dropout"})


class _Lowering:
    def __init__(self, graph: Graph) -> None:
        self.values: dict[int, Value] = {}
        self.steps: list[Step] = []
        for tensor in graph._tensors:
            self.values[tensor.id] = _value(tensor)
        self._read = {tensor.id for op in graph.ops for tensor in op.inputs if tensor is not None}
        self._read |= {tensor.id for tensor in graph.outputs.values()}

    def add(self, op: Op) -> None:
        if not op.outputs:
            return  # an End computes nothing
        schema = edition(op.edition).schema(op.kind)
        assert schema is not None
        wanted = self._wanted(schema, op)
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        call = base_call(schema, base_of(schema), op.attrs, types, len(wanted))
        rewrite, reason = library_form(schema, call)
        unknown = [t.dtype for t in (*op.inputs, *wanted) if t is not None and not _expressible(t.dtype)]
        if unknown:
            rewrite, reason = None, f"data type {unknown[0]} needs oneDNN {'.'.join(map(str, unknown[0].since))}"
        if rewrite is None:
            inputs = tuple(tensor.id for tensor in op.inputs if tensor is not None)
            outputs = tuple(tensor.id for tensor in op.outputs)
            self._step("reference", op.kind, inputs, outputs, op, {}, reason)
            return
        ins = [
            self._constant(source) if isinstance(source, np.ndarray) else self._seen(schema, op, source)
            for source in rewrite.inputs
        ]
        outs = []
        views = []
        for port, tensor in zip(schema.outputs, wanted, strict=False):
            seen = self._view(op, tensor) if is_swapped(schema, port.name) else tensor.id
            outs.append(seen)
            if seen != tensor.id:
                views.append((seen, tensor.id))
        outs += [self._fresh(tensor) for tensor in rewrite.dropped]
        self._step("library", rewrite.kind, tuple(ins), tuple(outs), op, rewrite.attrs, rewrite.note)
        for seen, tensor_id in views:
            self._step("view", "Wildcard", (seen,), (tensor_id,), op, {}, "axis order of the edition")

    def _wanted(self, schema: Schema, op: Op) -> tuple[LogicalTensor, ...]:
        """The outputs without the last ones that nobody reads, where leaving them out changes nothing in the others."""
        outputs = op.outputs
        if base_of(schema).kind in INDEPENDENT_OUTPUTS:
            while len(outputs) > 1 and outputs[-1].id not in self._read:
                outputs = outputs[:-1]
        return outputs

    def _step(
        self,
        executor: str,
        kind: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        op: Op,
        attrs: Mapping[str, AttrValue],
        note: str,
    ) -> None:
        self.steps.append(Step(len(self.steps), executor, kind, inputs, outputs, op, attrs, note))

    def _seen(self, schema: Schema, op: Op, index: int) -> int:
        """The id under which the library sees input ``index``: the tensor itself, or a view of it."""
        tensor = op.inputs[index]
        assert tensor is not None
        if not is_swapped(schema, schema.input_port(index).name):
            return tensor.id
        view = self._view(op, tensor)
        self._step("view", "Wildcard", (tensor.id,), (view,), op, {}, "axis order of the edition")
        return view

    def _view(self, op: Op, tensor: LogicalTensor) -> int:
        schema = edition(op.edition).schema(op.kind)
        assert schema is not None
        whole = self.values[tensor.id]
        order = channel_swap(len(whole.shape), format_of(schema, op.attrs))
        number = len(self.values)
        self.values[number] = replace(
            whole,
            id=number,
            shape=tuple(whole.shape[axis] for axis in order),
            strides=tuple(whole.strides[axis] for axis in order),
            storage=whole.storage,
            name=f"{whole.name} (view)",
            constant=None if whole.constant is None else whole.constant.transpose(order),
        )
        return number

    def _constant(self, array: Array) -> int:
        return self._fresh(TensorType(DataType.of(array.dtype), array.shape, array), "constant")

    def _fresh(self, tensor: TensorType, name: str = "dropped") -> int:
        """A value that the graph has not: a constant that a rewrite adds, or an output that nobody asked for."""
        assert tensor.dtype is not None
        shape = tuple(dim or 0 for dim in tensor.shape or ())
        number = len(self.values)
        self.values[number] = Value(number, tensor.dtype, shape, dense_strides(shape), number, name, tensor.value)
        return number


def _value(tensor: LogicalTensor) -> Value:
    shape = tensor.shape
    if shape is None or None in shape:
        raise ArgumentError(f"the shape of {tensor.name!r} is not known before the graph runs")
    dims = tuple(dim or 0 for dim in shape)
    strides = tensor.strides or dense_strides(dims)
    return Value(tensor.id, tensor.dtype, dims, strides, tensor.id, tensor.name, tensor.value)


# The lowered graph as an object of the C API -------------------------------------------------------------------------


def capi_tensor(value: Value) -> capi.LogicalTensor:
    """A value as the library is told of it."""
    return capi.LogicalTensor(
        value.id,
        value.dtype,
        value.shape,
        strides=None if value.dense else value.strides,
        property="constant" if value.constant is not None else "variable",
    )


def capi_graph(
    lowered: Lowered, fpmath_mode: str, steps: Sequence[Step] | None = None
) -> tuple[capi.Graph, dict[int, str]]:
    """The finalized graph, and for each step that the library refused the reason; that step is a Wildcard there.

    ``steps``: only these ones; all by default.
    """
    graph = capi.Graph(fpmath_mode=fpmath_mode)
    refused: dict[int, str] = {}
    steps = lowered.steps if steps is None else steps
    used = {number for step in steps for number in (*step.inputs, *step.outputs)}
    tensors = {n: capi_tensor(lowered.values[n]) for n in sorted(used) if _expressible(lowered.values[n].dtype)}
    for step in steps:
        ins = [tensors[number] for number in step.inputs if number in tensors]
        outs = [tensors[number] for number in step.outputs if number in tensors]
        if step.executor == "library":
            try:
                op = capi.Op(step.id, step.kind, f"{step.op.name}", inputs=ins, outputs=outs, attrs=step.attrs)
                graph.add_op(op)
                continue
            except OneGraphError as error:
                refused[step.id] = str(error)
        graph.add_op(capi.Op(step.id, "Wildcard", step.op.name, inputs=ins, outputs=outs))
    # A graph output that other ops read too must not vanish inside a partition.
    read = {number for step in steps for number in step.inputs}
    produced = {number for step in steps for number in step.outputs}
    first_free = len(lowered.steps)  # the first of the ids that no step has
    for offset, number in enumerate(dict.fromkeys(tensor.id for tensor in lowered.graph.outputs.values())):
        if number in read and number in produced and number in tensors:
            graph.add_op(capi.Op(first_free + offset, "End", "output", inputs=[tensors[number]]))
    graph.finalize()
    return graph, refused


def _expressible(dtype: DataType) -> bool:
    return dtype.since <= VERSION


def library_partitions(graph: Graph, policy: str) -> list[capi.Partition]:
    """The partitions that the library makes of a graph, views and reference ops among them as unsupported ones."""
    return capi_graph(lower(graph), "strict")[0].partitions(policy)
