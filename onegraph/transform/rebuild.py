"""Builds a changed copy of a graph: with fewer ops, or other shapes, attributes or data types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Generic, cast

import numpy as np

from .._util.records import record
from ..builder.graph import AnyGraph
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import edition
from ..opset.ops.quantization import fit_channels
from ..opset.shapes import dim_at, known_dims
from ..opset.signature import AttrValue, Shape

Attrs = Mapping[str, AttrValue]


def same(dtype: DataType) -> DataType:
    """The same data type; the default of ``Change.dtype``."""
    return dtype


@record(frozen=True)
class Change:
    """The changes to make to a graph.

    Attributes:
        ops: indices of the ops to keep; None keeps all. Results of removed ops that a kept op reads become graph
            inputs; results that no kept op reads become graph outputs.
        outputs: names of the graph outputs to keep; None keeps all.
        shapes: new shapes of graph inputs, of constants, and of tensors that become inputs, by tensor id.
        attrs: new attributes of ops, by index of the op.
        values: new contents of constants, by tensor id.
        dtype: function from the old data type to the new one.
        freed: ids of constants that become graph inputs.
        plain: True gives ops and inputs generated names.
    """

    ops: Collection[int] | None = None
    outputs: Collection[str] | None = None
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    attrs: Mapping[int, Attrs] = field(default_factory=dict)
    values: Mapping[int, Array] = field(default_factory=dict)
    dtype: Callable[[DataType], DataType] = same
    freed: Collection[int] = ()
    plain: bool = False


def rebuild(graph: AnyGraph, change: Change) -> AnyGraph:
    """A new graph with the changes; ``graph`` stays unchanged.

    Raises:
        SpecError: a changed op breaks the specification.
        ArgumentError: a new shape is invalid.
    """
    return _Rebuilder(graph._as_step(), change).graph()._with_variables_of(graph)


class _Rebuilder(Generic[AnyGraph]):
    def __init__(self, graph: AnyGraph, change: Change) -> None:
        self.old, self.change, self.new = graph, change, graph._empty()
        self.renewed: dict[int, LogicalTensor] = {}
        self.kept = [(place, op) for place, op in enumerate(graph.ops) if change.ops is None or place in change.ops]

    def graph(self) -> AnyGraph:
        """Create inputs and constants, then ops, then outputs."""
        produced = {tensor.id for _, op in self.kept for tensor in op.outputs}
        read = {tensor.id for _, op in self.kept for tensor in op.inputs}
        sources = read - produced
        if self.change.ops is None:  # also keep inputs that no op reads
            sources |= {tensor.id for tensor in (*self.old.inputs.values(), *self.old.outputs.values())} - produced
        names = {tensor.id: name for name, tensor in self.old.inputs.items()}
        for tensor in self.old._tensors:
            if tensor.id in sources:
                self.renewed[tensor.id] = self._source(tensor, names.get(tensor.id))
        for place, op in self.kept:
            self._op(op, dict(self.change.attrs.get(place, op.attrs)))
        self._outputs(produced, read)
        return self.new

    def _source(self, tensor: LogicalTensor, name: str | None) -> LogicalTensor:
        new, change = self.new, self.change
        dtype, shape = change.dtype(tensor.dtype), change.shapes.get(tensor.id, tensor.shape)
        if tensor.value is not None and tensor.id not in change.freed:
            value = change.values.get(tensor.id, tensor.value)
            if shape != tensor.shape:
                value = _cut(value, known_dims(shape))
            return new._tensor(dtype, value.shape, tensor.name, None, _kept(value, dtype))
        wish = f"in_{len(new.inputs)}" if change.plain else name or tensor.name
        while wish in new.inputs or wish in self.old.outputs or wish == "out":
            wish += "_"
        strides = tensor.strides if shape == tensor.shape else None
        return new.input(wish, dtype, shape, strides=strides, constant=name in self.old.constant_inputs)

    def _op(self, op: Op, attrs: dict[str, AttrValue]) -> None:
        inputs = [self.renewed[tensor.id] for tensor in op.inputs]
        dtypes = tuple(self.change.dtype(tensor.dtype) for tensor in op.outputs)
        chosen = edition(op.edition)
        schema = chosen.schema(op.kind)
        assert schema is not None
        attrs = _fitted(attrs, inputs[0].shape if inputs else None)
        name = f"{schema.name}_{len(self.new.ops)}" if self.change.plain else op.name
        names = [f"{name}.{port.name}" for port in schema.outputs][: len(dtypes)]
        if attrs == dict(op.attrs) and [_type(t) for t in inputs] == [_type(t) for t in op.inputs]:
            # Copy an unchanged op without a check, because an op from a file may break the specification.
            results = tuple(
                self.new._tensor(tensor.dtype, tensor.shape, f"{name}.{tensor.name.rpartition('.')[2]}")
                for tensor in op.outputs
            )
            made = Op(next(self.new._op_ids), op.kind, tuple(inputs), results, op.attrs, name, op.edition)
            self.new._append(made)
        else:
            results = self.new._add_op(chosen, op.kind, attrs, inputs, dtypes, name=name, names=names)
        self.renewed.update(zip((tensor.id for tensor in op.outputs), results, strict=True))

    def _outputs(self, produced: set[int], read: set[int]) -> None:
        new, wanted = self.new, self.change.outputs
        for name, tensor in self.old.outputs.items():
            made = self.change.ops is None or tensor.id in produced
            if made and (wanted is None or name in wanted):
                renewed = self.renewed[tensor.id]
                new.output(name, renewed, strides=tensor.strides if renewed.shape == tensor.shape else None)
        if self.change.ops is None:
            return
        held = {tensor.id for tensor in new.outputs.values()}
        for _, op in self.kept:
            for tensor in op.outputs:
                if tensor.id not in read and self.renewed[tensor.id].id not in held:
                    number = len(new.outputs)
                    while f"out_{number}" in new._inputs or f"out_{number}" in new._outputs:
                        number += 1
                    new.output(f"out_{number}", self.renewed[tensor.id])


def _type(tensor: LogicalTensor) -> tuple[DataType, Shape, bytes | None]:
    return tensor.dtype, tensor.shape, None if tensor.value is None else tensor.value.tobytes()


def _cut(value: Array, dims: tuple[int, ...]) -> Array:
    """``value`` cut to ``dims``; if it has too few elements, they are repeated."""
    if value.ndim == len(dims) and all(new <= old for new, old in zip(dims, value.shape, strict=True)):
        return value[tuple(slice(dim) for dim in dims)].copy()
    return np.resize(value, dims)


def _kept(value: Array, dtype: DataType) -> Array:
    kept = np.ascontiguousarray(value.astype(dtype.numpy)).reshape(value.shape)
    kept.flags.writeable = False
    return kept


def _fitted(attrs: dict[str, AttrValue], shape: Shape) -> dict[str, AttrValue]:
    """The attributes of an op; those of a per_channel op get one scale and one zero point for each channel."""
    scales, axis = attrs.get("scales"), cast("int", attrs.get("axis", 1))
    if attrs.get("qtype") != "per_channel" or not isinstance(scales, tuple):
        return attrs
    count = dim_at(shape, axis)
    if count is None:
        return attrs
    zps = attrs.get("zps")
    fit_scales, fit_zps = fit_channels(scales, [*map(int, zps)] if isinstance(zps, tuple) else (), count)
    return {**attrs, "scales": tuple(fit_scales)} | ({"zps": tuple(fit_zps)} if isinstance(zps, tuple) else {})
