"""Lowers a graph to steps that the library or numpy can run.

Every op is translated to the base vocabulary and becomes steps of four kinds: library ops, with attributes that this
library takes and computes right; views, where an edition orders the axes of a tensor in another way than the library
(strides are exchanged, no data moves); copies, which cast data types that the CPU does not compute in; and reference
ops, which numpy runs. The library gets Wildcards for the last three kinds, so that it neither fuses across
them nor makes a partition that depends on its own result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from .._util.fork_safety import cached_property
from ..builder.graph import DataGraph
from ..builder.signature_cache import MAX_SIGNATURES
from ..capi.settings import is_native
from ..errors import ArgumentError, UnsupportedError
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, channel_swap, format_of, is_swapped
from ..opset.editions.registry import base_of
from ..opset.ops.quantization import misplaced_scales, scale_axis
from ..opset.schema import Call, Schema, TensorType
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue, Shape
from .integer_bounds import IntegerBounds
from .ir.lowered import Lowered
from .ir.part import Part
from .ir.step import NO_ATTRS, Step
from .ir.value import Dims, Value, Values, dense_of
from .rewrites import Form, library_form, signature_form
from .rewrites.open_forms import OPEN_KINDS, open_form
from .rewrites.precision import rounded
from .runnable import shape_tensors
from .shared_constants import Key, SharedConstants, derived


def lower(
    graph: DataGraph,
    *,
    fallback: bool = True,
    shared: SharedConstants | None = None,
    finite_math: bool = False,
    opens: bool = False,
) -> Lowered:
    """Lower a graph without Wildcards whose inputs have known shapes.

    Args:
        graph: the graph.
        fallback: whether numpy may run ops that the library runs too, but slower.
        shared: the constants of the executable; those of this graph alone by default.
        finite_math: whether an op may take a form that loses NaN and infinities.
        opens: whether the steps are for any of several sizes.

    Raises:
        ArgumentError: a shape or the axes of a reduction depend on data, so they are unknown before the graph runs; or
            a tensor is too large.
    """
    for tensor in shape_tensors(graph):
        if tensor.value is None:
            raise ArgumentError(f"{tensor.name!r} gives a shape or axes, and is not known before the graph runs")
    lowering = _Lowering(graph, fallback, shared or SharedConstants.of(graph), finite_math, opens)
    for op in graph.ops:
        lowering.add(op)
    return Lowered(graph, lowering.values, tuple(lowering.steps), lowering.shared, lowering.keys)


# Ops whose first output does not depend on the optional outputs, which an older library lacks.
INDEPENDENT_OUTPUTS = frozenset({"SoftMax", "Dropout"})


class _Lowering:
    def __init__(
        self, graph: DataGraph, fallback: bool, shared: SharedConstants, finite_math: bool, opens: bool
    ) -> None:
        self._fallback, self.shared, self._finite_math, self._opens = fallback, shared, finite_math, opens
        self.keys: dict[int, Key] = {}
        self.values = Values({tensor.id: _value(tensor) for tensor in graph._tensors})
        graph_inputs = {tensor.id for tensor in graph.inputs.values()}
        for tensor in graph.outputs.values():  # a value with several names gets the last, as in programs
            value = self.values[tensor.id]
            if tensor.id not in graph_inputs and value.constant is None:
                self.values[tensor.id] = value._replace(strides=tensor.strides or dense_of(value.shape))
        self.steps: list[Step] = []
        self._graph = graph
        self._casts: dict[tuple[int, DataType | None], int] = {}
        self._bounds = IntegerBounds()

    def add(self, op: Op) -> None:
        """Add the steps of an op; an End has no output and computes nothing."""
        if not op.outputs:
            return
        schema = schema_of(op) if op.signature is None else op.signature.schema
        outputs = op.outputs[: self._count_outputs(op, schema)]
        form, reason = self._form(op, schema, outputs)
        if form is not None and form.slow and self._fallback:
            reason, form = form.slow, None
        if form is None:
            inputs = tuple([tensor.id for tensor in op.inputs if tensor is not None])
            self._step("reference", op.kind, inputs, tuple([tensor.id for tensor in op.outputs]), op, note=reason)
        elif schema.dialect is not None and schema.dialect.swapped:
            self._add_swapped(op, schema, form, len(outputs))
        elif (ports := form.direct) is not None:
            (part,) = form.parts
            ins = tuple([tensor.id for port in ports if (tensor := op.inputs[port]) is not None])
            outs = tuple([tensor.id for tensor in outputs])
            self._step(_executor(part), part.kind, ins, outs, op, part.attrs, form.note, part)
        else:
            sources = [-1 if tensor is None else tensor.id for tensor in op.inputs]
            self._add_form(op, form, sources, [tensor.id for tensor in outputs])

    def _count_outputs(self, op: Op, schema: Schema) -> int:
        """Number of outputs to compute: unused optional outputs at the end are dropped if the others stay the same."""
        count = len(op.outputs)
        if count > 1 and base_of(schema).kind in INDEPENDENT_OUTPUTS:
            while count > 1 and op.outputs[count - 1].id not in self._read:
                count -= 1
        return count

    def _form(self, op: Op, schema: Schema, outputs: Sequence[LogicalTensor]) -> tuple[Form | None, str]:
        """The form of an op that the library computes right, or None and the reason why there is none."""
        if self._opens and base_of(schema).kind in OPEN_KINDS and (form := _open_form(op, schema)) is not None:
            return form, ""
        bounds = self._bounds.of(op, base_of(schema).kind)
        if op.signature is not None:
            return signature_form(op.signature, len(outputs), bounds, self._finite_math)
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        dtypes = [tensor.dtype for tensor in outputs]
        call = base_call(schema, base_of(schema), op.attrs, types, len(outputs), dtypes)
        call = base_call(schema, base_of(schema), _with_scale_axis(op, call), types, len(outputs), dtypes)
        return library_form(schema, call, finite_math=self._finite_math)

    @cached_property
    def _read(self) -> set[int]:
        """Ids of the tensors that an op reads or the graph returns."""
        read = {tensor.id for op in self._graph.ops for tensor in op.inputs if tensor is not None}
        return read | {tensor.id for tensor in self._graph.outputs.values()}

    def _add_swapped(self, op: Op, schema: Schema, form: Form, n_outputs: int) -> None:
        """Add a form of an op with views of the tensors whose axis order differs from the library's."""
        used = {source for part in form.parts for source in part.inputs if isinstance(source, int)}
        sources = []
        for index, tensor in enumerate(op.inputs):
            operand_id = -1 if tensor is None else tensor.id
            if tensor is not None and index in used and is_swapped(schema, schema.input_port(index).name):
                operand_id = self._view(op, schema, tensor)
                self._step("view", "Wildcard", (tensor.id,), (operand_id,), op, note="axis order of the edition")
            sources.append(operand_id)
        results = [
            self._view(op, schema, tensor) if is_swapped(schema, port.name) else tensor.id
            for port, tensor in zip(schema.outputs, op.outputs[:n_outputs], strict=False)
        ]
        self._add_form(op, form, sources, results)
        for tensor, operand_id in zip(op.outputs, results, strict=False):
            if operand_id != tensor.id:
                self._step("view", "Wildcard", (operand_id,), (tensor.id,), op, note="axis order of the edition")

    def _add_form(self, op: Op, form: Form, sources: list[int], results: list[int]) -> None:
        """Add the steps of a form that reads ``sources`` and writes ``results``."""
        is_single = len(form.parts) == 1
        # An edition and the base vocabulary may have different numbers of input ports.
        numbers = [*sources, *[-1] * form.n_inputs][: form.n_inputs]
        targets = dict(zip(form.results, results, strict=True))
        for part in form.parts:
            ins = [numbers[source] if isinstance(source, int) else self._constant(source) for source in part.inputs]
            if part.kind == "TypeCast" and not is_single:
                cast_value = self._casts.get((ins[0], part.outputs[0].dtype))
                if cast_value is None and self.values[ins[0]].constant is not None and len(numbers) not in targets:
                    cast_value = self._cast_constant(self.values[ins[0]], part.outputs[0].dtype)
                if cast_value is not None and len(numbers) not in targets:
                    numbers.append(cast_value)
                    continue
            first = len(numbers)
            for index, tensor in enumerate(part.outputs, first):
                numbers.append(
                    targets[index] if index in targets else self._new_value(tensor, f"{op.name} ({part.kind})")
                )
            outs = tuple(numbers[first:])
            if part.kind == "TypeCast" and not is_single:
                self._casts[ins[0], part.outputs[0].dtype] = outs[0]
            self._step(_executor(part), part.kind, tuple(ins), outs, op, part.attrs, form.note, part, is_single)

    def _step(
        self,
        executor: str,
        kind: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        op: Op,
        attrs: Mapping[str, AttrValue] = NO_ATTRS,
        note: str = "",
        part: Part | None = None,
        whole: bool = True,
    ) -> None:
        self.steps.append(Step(len(self.steps), executor, kind, inputs, outputs, op, attrs, note, part, whole))

    def _view(self, op: Op, schema: Schema, tensor: LogicalTensor) -> int:
        """A new view of the tensor with the library's axis order; returns its id."""
        base = self.values[tensor.id]
        order = channel_swap(len(base.shape), format_of(schema, op.attrs))
        constant = None if base.constant is None else base.constant.transpose(order)
        shape, strides = (tuple([dims[axis] for axis in order]) for dims in (base.shape, base.strides))
        view = self.values.part(base, "view", shape, strides, base.offset)
        self.values[view] = self.values[view]._replace(constant=constant)
        return view

    def _constant(self, array: Array) -> int:
        return self._new_value(TensorType(DataType.of(array.dtype), array.shape, array), "constant")

    def _cast_constant(self, value: Value, dtype: DataType | None) -> int:
        """The constant cast to another data type, made once; returns its id."""
        source = value.constant
        assert source is not None
        assert dtype is not None
        key = derived(("cast", dtype.value), self.shared.key(source))
        array = self.shared.once(key, lambda: np.ascontiguousarray(rounded(source, dtype)).reshape(value.shape))
        number = self._new_value(TensorType(dtype, value.shape, array), f"{value.name} ({dtype})")
        self.keys[number] = key
        self._casts[value.id, dtype] = number
        return number

    def _new_value(self, tensor: TensorType, name: str) -> int:
        """Add a value that is not in the graph: a constant of a rewrite, or a value between two parts of a form."""
        assert tensor.dtype is not None
        return self.values.new(tensor.dtype, known_dims(tensor.shape), name, tensor.value)


def _open_form(op: Op, schema: Schema) -> Form | None:
    """The form of an op for open sizes."""
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    dtypes = [tensor.dtype for tensor in op.outputs]
    return open_form(base_call(schema, base_of(schema), op.attrs, types, len(op.outputs), dtypes))


def _with_scale_axis(op: Op, call: Call) -> Mapping[str, AttrValue]:
    """The attributes of an op from a file that may break the specification, with the axis counted as for its scales."""
    if call.schema.kind not in ("Quantize", "Dequantize"):
        return op.attrs
    for scale in misplaced_scales(call):
        raise UnsupportedError(f"{op.kind} {op.name!r}: {scale.where}: {scale.given}; expected {scale.expected}")
    axis = scale_axis(call, call.shape("src"), len(call.f32s("scales")))
    return op.attrs if axis == call.s64("axis") else {**op.attrs, "axis": axis}


def _executor(part: Part) -> str:
    """The executor of a part; the library casts types that the CPU lacks element by element."""
    if part.kind != "TypeCast" or all(is_native(t.dtype) for t in (*part.types, *part.outputs)):
        return "library"
    return "copy"


def _value(tensor: LogicalTensor) -> Value:
    dtype, shape = tensor.dtype, tensor.shape
    strides = _dense_strides(shape, dtype)
    if strides is None:
        if shape is None or None in shape:
            raise ArgumentError(f"the shape of {tensor.name!r} is not known before the graph runs")
        raise ArgumentError(f"{tensor.name!r}: shape {shape}; expected a tensor of less than 2**63 bytes")
    dims: Dims = shape  # type: ignore[assignment]
    return Value(tensor.id, dtype, dims, tensor.strides or strides, tensor.id, tensor.name, tensor.value)


@lru_cache(maxsize=MAX_SIGNATURES)
def _dense_strides(shape: Shape, dtype: DataType) -> Dims | None:
    """Strides of a dense tensor in elements; None if a dim is unknown or the tensor is too large."""
    if shape is None:
        return None
    dims = tuple([dim for dim in shape if dim is not None])
    if len(dims) < len(shape) or prod([dim or 1 for dim in dims]) * dtype.numpy.itemsize >= 2**63:
        return None
    return dense_of(dims)
