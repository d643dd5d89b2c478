"""Shows an op of a graph in the base vocabulary, for the rules of gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from .._util.records import record
from ..errors import UnsupportedError
from ..ir.op import LogicalTensor, Op, schema_of
from ..lowering.emitter import Emitter, Value, numbers
from ..lowering.movement import cast, dims_of, expand, reshape, scalar, squeeze, transpose
from ..lowering.reduction import reduce
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, channel_swap, format_of, is_swapped
from ..opset.editions.registry import DEFAULT, base_of, edition
from ..opset.schema import Schema
from ..opset.shapes import known, known_dims, show
from ..opset.signature import AttrValue, Shape
from ..opset.traits import Trait

BROADCASTING = frozenset(["binary", "matmul"])  # categories, for inputs of which the sizes tell nothing
OTHER_SIZE = 7  # of open dims of other inputs; no size that an attribute or a divisor is likely to ask for
# The data types of tensors that have gradients.
FLOATS = frozenset([DataType.f32, DataType.bf16, DataType.f16, DataType.float64])


@record(frozen=True)
class Piece:
    """The gradient of some elements of a tensor along one axis, from ``begin`` on; that of the others is zero."""

    value: Value
    axis: int
    begin: int

    @property
    def end(self) -> int:
        """The place behind the last element."""
        return self.begin + known_dims(self.value.shape)[self.axis]


@record(frozen=True)
class MatrixGradient:
    """The gradient of a matrix that few rows meet: ``first`` (rows, M), transposed, times ``second`` (rows, N).

    Those of all ops that read the matrix become one product of all rows: a sum of matrices takes longer than these.
    """

    first: Value
    second: Value


@record(frozen=True)
class Scattered:
    """The gradient of the elements at some indices; that of the others is zero.

    An op of this kind adds ``value`` at the indices to what is known of the gradient already.
    """

    value: Value
    kind: str
    indices: Value
    attrs: Mapping[str, object]


Part = Value | Piece | MatrixGradient | Scattered


class GradientUse:
    """One op: its attributes and tensors in the base vocabulary, with the order of axes that it has there.

    Attributes:
        op: the op, in its edition.
        call: its attributes, with defaults, and the types of its inputs.
        wanted, indices: the names and the indices of the inputs whose gradients are asked for.
    """

    def __init__(self, emit: Emitter, op: Op, ports: Mapping[str, Collection[int]]) -> None:
        self.emit, self.op, self.wanted = emit, op, frozenset(ports)
        self.indices = frozenset(index for indices in ports.values() for index in indices)
        self.schema = schema_of(op)
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        dtypes = [tensor.dtype for tensor in op.outputs]
        self.call = base_call(self.schema, base_of(self.schema), op.attrs, types, len(op.outputs), dtypes)

    @property
    def base(self) -> Schema:
        """The schema of the op in the base vocabulary."""
        return self.call.schema

    @property
    def dtype(self) -> DataType:
        """The data type of the first output."""
        return self.op.outputs[0].dtype

    def __getitem__(self, port: str) -> Value:
        """The input at a port, which is given."""
        index = self.base.input_index(port)
        tensor = self.op.inputs[index]
        assert tensor is not None
        return self.in_base_order(tensor, self.schema.inputs[index].name)

    def has(self, port: str) -> bool:
        """Whether an optional input is given."""
        index = self.base.input_index(port)
        return index < len(self.op.inputs) and self.op.inputs[index] is not None

    def result(self, port: str) -> Value:
        """The output at a port, which the op has in this use."""
        index = [output.name for output in self.base.outputs].index(port)
        return self.in_base_order(self.op.outputs[index], self.schema.outputs[index].name)

    def gives(self, port: str) -> bool:
        """Whether the op has an optional output in this use."""
        return port in [output.name for output in self.base.outputs][: len(self.op.outputs)]

    @property
    def source(self) -> Value:
        """The first input."""
        return self[self.base.inputs[0].name]

    def value(self, port: str) -> tuple[int, ...]:
        """The contents of an integer input.

        Raises:
            UnsupportedError: they are unknown when the graph is built.
        """
        tensor = self.call.value(port)
        if tensor is None:
            raise UnsupportedError(f"gradient: {self.op.kind} {self.op.name!r}: {port} is unknown; expected a constant")
        return tensor

    def dims(self, port: str) -> tuple[int, ...]:
        """The shape of an input.

        Raises:
            UnsupportedError: a dim is unknown.
        """
        shape = self.call.shape(port)
        if not known(shape):
            raise UnsupportedError(
                f"gradient: {self.op.kind} {self.op.name!r}: {port} has the shape {show(shape)}; expected known dims"
            )
        return known_dims(shape)

    def dim(self, port: str, axis: int) -> int:
        """The size of an input along an axis.

        Raises:
            UnsupportedError: it is unknown.
        """
        shape = self.call.shape(port)
        dim = None if shape is None else shape[axis]
        return self.dims(port)[axis] if dim is None else dim

    def rank(self, port: str) -> int:
        """The number of axes of an input.

        Raises:
            UnsupportedError: it is unknown.
        """
        rank = self.call.rank(port)
        if rank is None:
            raise UnsupportedError(
                f"gradient: {self.op.kind} {self.op.name!r}: {port} has an unknown rank; expected a known one"
            )
        return rank

    def in_base_order(self, value: Value, port: str) -> Value:
        """A value of a port of the edition with its axes in the base order, or back: the change undoes itself."""
        shape = value.shape
        if not is_swapped(self.schema, port) or shape is None:
            return value
        return transpose(self.emit, value, channel_swap(len(shape), format_of(self.schema, self.op.attrs)))

    def shared(self, kind: str) -> dict[str, AttrValue]:
        """The given attributes that another op of the base vocabulary has too."""
        schema = edition(DEFAULT).schemas[kind]
        return {name: value for name, value in self.call.given.items() if schema.has_attribute(name)}


def shape_for(emit: Emitter, name: str, like: Value) -> tuple[dict[str, object], list[Value]]:
    """The shape of a value for an op that takes it as attribute ``name`` or, with unknown dims, as its last input."""
    if known(like.shape):
        return {name: [*like.shape]}, []
    return {}, [cast(emit, dims_of(emit, like), DataType.s32)]


def has_gradient(value: Value | None) -> bool:
    """Whether a value is a tensor of floating-point numbers."""
    return isinstance(value, LogicalTensor) and value.dtype in FLOATS


def ones_like(emit: Emitter, like: LogicalTensor, number: float = 1) -> Value:
    """A value of the same shape and data type that is the same number everywhere."""
    unit = scalar(number, like.dtype)
    return (
        np.broadcast_to(unit, known_dims(like.shape)) if known(like.shape) else expand(emit, unit, dims_of(emit, like))
    )


def may_repeat(use: GradientUse, index: int) -> bool:
    """Whether an op may broadcast an input along an axis whose size is unknown before a call.

    The op is asked: its shape function is given this input with size 1 along the open axes, and the others with
    another size. A result that is longer there repeats the input.
    """
    types = [None if tensor is None else tensor.type for tensor in use.op.inputs]
    operand = types[index]
    assert operand is not None
    if sum(type_ is not None for type_ in types) < 2 or known(operand.shape):
        return False
    if operand.shape is None:
        return True
    dims = operand.shape  # an open dim beside a known one may be that one
    alone = replace(operand, shape=tuple([1 if dim is None else dim for dim in operand.shape]))
    tried = [
        alone if place == index else type_ and replace(type_, shape=_filled(type_.shape, dims))
        for place, type_ in enumerate(types)
    ]
    dtypes = [tensor.dtype for tensor in use.op.outputs]
    call = base_call(use.schema, use.base, use.op.attrs, tried, len(dtypes), dtypes)
    if any(not finding.note for rule in (*use.base.rules, *use.base.shape_rules) for finding in rule(call)):
        return use.base.category in BROADCASTING or Trait.POINTWISE in (use.base.traits or Trait.NONE)
    shape = use.base.shape(call)[0]
    if shape is None:
        return True
    pairs = zip(use.call.inputs[index].shape[::-1], shape[::-1], strict=False)  # type: ignore[union-attr, index]
    return any(dim is None and size != 1 for dim, size in pairs)


def _filled(shape: Shape, beside: tuple[int | None, ...]) -> Shape:
    """A shape whose open dims have the sizes of the axes of another input beside them, or :data:`OTHER_SIZE`."""
    if shape is None:
        return None
    sizes = [OTHER_SIZE if dim is None else dim for dim in beside[::-1]] + [OTHER_SIZE] * len(shape)
    pairs = zip(shape[::-1], sizes, strict=False)
    return tuple([size if dim is None else dim for dim, size in pairs])[::-1]


def summed_where_open(emit: Emitter, value: Value, tensor: LogicalTensor) -> Value:
    """The sum over the axes along which a call has broadcast a tensor of open dims."""
    dims = () if tensor.shape is None else tuple(-1 if dim is None else dim for dim in tensor.shape)
    return emit.op("SumTo", [value, dims_of(emit, tensor)], {"dims": [*dims]})


def summed_to(emit: Emitter, value: Value, shape: Shape) -> Value:
    """The sum over the axes along which a tensor of a shape was broadcast."""
    if shape is None or value.shape is None or shape == value.shape:
        return value
    added = len(value.shape) - len(shape)
    pairs = zip(shape, value.shape[added:], strict=True)
    axes = [*range(added), *(added + axis for axis, (dim, now) in enumerate(pairs) if dim == 1 != now)]
    if not axes:
        return value
    total = reduce(emit, "ReduceSum", value, axes, keep=len(axes) > added)
    if not added or len(axes) == added:
        return total
    return reshape(emit, total, numbers(*known_dims(shape))) if known(shape) else squeeze(emit, total, [*range(added)])
