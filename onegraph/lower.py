"""From a graph as users write it to what the library is given.

Every op is read in base words and becomes one of three things: a library op, with attributes that this library takes
and computes right; a view, where an edition orders the axes of a tensor in another way than the library (strides are
exchanged, no data moves); or a reference op, which numpy runs. The library sees views and reference ops as Wildcards,
so that it neither fuses across them nor makes a partition that would have to wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import capi
from .errors import ArgumentError, OneGraphError
from .graph import Graph
from .native import DTYPE_SINCE, VERSION
from .op import Array, LogicalTensor, Op
from .partition import dense_strides
from .spec.convolution import SHAPE_SOURCE, Geometry, geometry, given_shape
from .spec.dialect import base_call, channel_swap, format_of, is_swapped
from .spec.dtypes import DataType
from .spec.editions import BASE, base_of, edition
from .spec.library import quirks
from .spec.reduction import reduced_axes
from .spec.schema import AttrValue, Call, Schema, TensorType
from .spec.window import spatial

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


@dataclass(frozen=True)
class Rewrite:
    """What the library is given for an op: kind, attributes, which inputs, and why where it is not the op itself."""

    kind: str
    attrs: Mapping[str, AttrValue]
    inputs: Sequence[int | Array]
    note: str = ""


def lower(graph: Graph) -> Lowered:
    """Lower a graph whose inputs have known shapes.

    Raises:
        ArgumentError: a shape depends on data, so that it is not known before the graph runs.
    """
    lowering = _Lowering(graph)
    for op in graph.ops:
        lowering.add(op)
    return Lowered(graph, lowering.values, tuple(lowering.steps))


class _Lowering:
    def __init__(self, graph: Graph) -> None:
        self.values: dict[int, Value] = {}
        self.steps: list[Step] = []
        for tensor in graph._tensors:
            self.values[tensor.id] = _value(tensor)

    def add(self, op: Op) -> None:
        schema = edition(op.edition).schema(op.kind)
        assert schema is not None
        call = base_call(
            schema,
            base_of(schema),
            op.attrs,
            [None if tensor is None else tensor.type for tensor in op.inputs],
            len(op.outputs),
        )
        rewrite, reason = _library_form(schema, call)
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
        for port, tensor in zip(schema.outputs, op.outputs, strict=False):
            seen = self._view(op, tensor) if is_swapped(schema, port.name) else tensor.id
            outs.append(seen)
            if seen != tensor.id:
                views.append((seen, tensor.id))
        self._step("library", rewrite.kind, tuple(ins), tuple(outs), op, rewrite.attrs, rewrite.note)
        for seen, tensor_id in views:
            self._step("view", "Wildcard", (seen,), (tensor_id,), op, {}, "axis order of the edition")

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
        number = len(self.values)
        self.values[number] = Value(
            number, DataType.of(array.dtype), array.shape, dense_strides(array.shape), number, "one", array
        )
        return number


def _value(tensor: LogicalTensor) -> Value:
    shape = tensor.shape
    if shape is None or None in shape:
        raise ArgumentError(f"the shape of {tensor.name!r} is not known before the graph runs")
    dims = tuple(dim or 0 for dim in shape)
    strides = tensor.strides or dense_strides(dims)
    return Value(tensor.id, tensor.dtype, dims, strides, tensor.id, tensor.name, tensor.value)


# Rewrites: an op of the base vocabulary as this library takes it -----------------------------------------------------


def _library_form(schema: Schema, call: Call) -> tuple[Rewrite | None, str]:
    """The op as this library takes it and computes it right, or None and the reason why it cannot."""
    if schema.dialect is None and schema.kind != call.schema.kind:
        return None, f"{schema.kind} is not an op of the library"
    if call.schema.since > VERSION:
        return None, f"{call.schema.kind} needs oneDNN {'.'.join(map(str, call.schema.since))}"
    if not call.schema.outputs:
        return None, ""
    rewrite = REWRITES.get(call.schema.kind, _as_it_is)(call)
    if rewrite is None:
        return None, f"no form of {call.schema.kind} that the library takes"
    inputs = [
        TensorType(DataType.of(source.dtype), source.shape) if isinstance(source, np.ndarray) else call.inputs[source]
        for source in rewrite.inputs
    ]
    found = quirks(Call(BASE[rewrite.kind], rewrite.attrs, inputs, call.n_outputs), VERSION)
    if found:
        return None, found[0].reason
    return rewrite, ""


def _given(call: Call, *left_out: str) -> dict[str, AttrValue]:
    """The attributes that were given, without those that are newer than the library or in ``left_out``."""
    return {
        name: value
        for name, value in call.given.items()
        if name not in left_out and call.schema.attribute(name).since <= VERSION
    }


def _all_inputs(call: Call) -> list[int | Array]:
    return [index for index, tensor in enumerate(call.inputs) if tensor is not None]


def _as_it_is(call: Call) -> Rewrite | None:
    for name, value in call.given.items():
        attribute = call.schema.attribute(name)
        if attribute.since > VERSION and value != attribute.default:
            return None
    return Rewrite(call.schema.kind, _given(call), _all_inputs(call))


def _explicit_pads(call: Call) -> tuple[Geometry, dict[str, AttrValue]]:
    """The attributes of a convolution with the padding as numbers: auto_pad is wrong in some of the gradients."""
    found = geometry(call)
    assert found is not None
    assert found.pads_begin is not None
    assert found.pads_end is not None
    attrs = _given(call, "auto_pad", "output_padding", *SHAPE_SOURCE.values())
    return found, {**attrs, "pads_begin": found.pads_begin, "pads_end": found.pads_end}


def _convolution(call: Call) -> Rewrite:
    _, attrs = _explicit_pads(call)
    return Rewrite("Convolution", attrs, _all_inputs(call))


def _conv_transpose(call: Call) -> Rewrite:
    found, attrs = _explicit_pads(call)
    return Rewrite("ConvTranspose", {**attrs, "output_padding": found.output_padding}, _all_inputs(call))


_AS_TRANSPOSED = {"OIX": "IOX", "XIO": "XOI"}
_AS_CONVOLUTION = {"IOX": "OIX", "XOI": "XIO"}


def _convolution_backward_data(call: Call) -> Rewrite | None:
    found, attrs = _explicit_pads(call)
    shape = given_shape(call)
    assert shape is not None
    if found.groups == 1:
        return Rewrite(call.schema.kind, {**attrs, "dst_shape": tuple(dim or 0 for dim in shape)}, (0, 1))
    # Groups never compile; the op is the ConvTranspose whose weights are the same memory under another name.
    wide = spatial(shape, found.data_format)
    least = replace(found, output_padding=(0,) * len(wide)).backward()
    added = tuple((size or 0) - (base or 0) for size, base in zip(wide, least, strict=True))
    if any(extra < 0 for extra in added):
        return None
    attrs["weights_format"] = _AS_TRANSPOSED[found.weights_format]
    attrs["output_padding"] = added
    return Rewrite("ConvTranspose", attrs, (0, 1), "ConvTranspose: groups do not compile otherwise")


def _weights_gradient(call: Call) -> Rewrite:
    _, attrs = _explicit_pads(call)
    shape = given_shape(call)
    assert shape is not None
    return Rewrite(call.schema.kind, {**attrs, "weights_shape": tuple(dim or 0 for dim in shape)}, (0, 1))


def _conv_transpose_backward_data(call: Call) -> Rewrite:
    found, attrs = _explicit_pads(call)
    if all(dilation == 1 for dilation in found.dilations):
        return Rewrite(call.schema.kind, attrs, (0, 1))
    attrs["weights_format"] = _AS_CONVOLUTION[found.weights_format]
    return Rewrite("Convolution", attrs, (0, 1), "Convolution: dilations do not compile otherwise")


def _reduction(call: Call) -> Rewrite:
    axes = reduced_axes(call)
    assert axes is not None
    return Rewrite(call.schema.kind, {**_given(call, "axes"), "axes": axes}, (0,))


def _bias_add_backward(call: Call) -> Rewrite:
    rank = call.rank("diff_dst") or 0
    channel = rank - 1 if call.string("data_format") == "NXC" else 1
    axes = tuple(axis for axis in range(rank) if axis != channel)
    return Rewrite("ReduceSum", {"axes": axes, "keep_dims": False}, (0,), "ReduceSum: BiasAddBackward is unsupported")


def _reciprocal(call: Call) -> Rewrite:
    source = call.inputs[0]
    assert source is not None
    assert source.dtype is not None
    one = np.ones((1,) * len(source.shape or ()), source.dtype.numpy)
    return Rewrite("Divide", {}, (one, 0), "Divide: Reciprocal is unsupported")


REWRITES: dict[str, Callable[[Call], Rewrite | None]] = {
    "Convolution": _convolution,
    "ConvolutionBackwardData": _convolution_backward_data,
    "ConvolutionBackwardWeights": _weights_gradient,
    "ConvTranspose": _conv_transpose,
    "ConvTransposeBackwardData": _conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": _weights_gradient,
    "BiasAddBackward": _bias_add_backward,
    "Reciprocal": _reciprocal,
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _reduction
    ),
}


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


def capi_graph(lowered: Lowered, fpmath_mode: str) -> tuple[capi.Graph, dict[int, str]]:
    """The finalized graph, and for each step that the library refused the reason; that step is a Wildcard there."""
    graph = capi.Graph(fpmath_mode=fpmath_mode)
    refused: dict[int, str] = {}
    tensors = {number: capi_tensor(value) for number, value in lowered.values.items() if _expressible(value)}
    for step in lowered.steps:
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
    read = {number for step in lowered.steps for number in step.inputs}
    produced = {number for step in lowered.steps for number in step.outputs}
    for offset, tensor in enumerate(lowered.graph.outputs.values()):
        if tensor.id in read and tensor.id in produced and tensor.id in tensors:
            graph.add_op(capi.Op(len(lowered.steps) + offset, "End", "output", inputs=[tensors[tensor.id]]))
    graph.finalize()
    return graph, refused


def _expressible(value: Value) -> bool:
    return DTYPE_SINCE.get(value.dtype, (0, 0)) <= VERSION


def library_partitions(graph: Graph, policy: str) -> list[capi.Partition]:
    """The partitions that the library makes of a graph, views and reference ops among them as unsupported ones."""
    return capi_graph(lower(graph), "strict")[0].partitions(policy)
