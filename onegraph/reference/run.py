"""Runs one op or a whole graph in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._util.counted import counted
from .._util.validation import as_dict, as_list, expect
from ..arrays.ndarrays import is_numpy, numpy_array
from ..builder.graph import DataGraph, snapshot
from ..builder.signature_cache import signature
from ..errors import ArgumentError, OutOfMemoryError, shown
from ..ir.op import Op, schema_of, shape_inputs_of
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, channel_swap, format_of, is_swapped
from ..opset.editions.registry import HOST, base_of, edition
from ..opset.schema import Call, Schema, TensorType
from ..opset.shapes import compatible, known, show
from . import (
    binary,
    convolution,
    elementwise,
    interpolation,
    legacy_ops,
    matmul,
    misc,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
)
from .by_element import ByElement, widened
from .host import computed_on_host, host_function

Array = NDArray[np.generic]
ReferenceFunction = Callable[..., object]
HostFunction = Callable[[str, ReferenceFunction], ReferenceFunction]
# Ops that move elements and compute nothing: they run in the data type of the tensors, which keeps every bit.
MOVES = frozenset(["Concat", "Reorder", "Select", "StaticReshape", "StaticTranspose"])
# Categories of ops whose functions return formulas, which convert their inputs block by block.
BY_ELEMENT = frozenset(["quantization"])

NUMBERS = frozenset([*(dtype.numpy for dtype in DataType), np.dtype(np.float64)])
MODULES = (
    elementwise,
    binary,
    matmul,
    convolution,
    reduction,
    pooling,
    normalization,
    quantization,
    movement,
    interpolation,
    misc,
    legacy_ops,
)


def reference_function(schema: Schema) -> ReferenceFunction:
    """The numpy function of a base op; KeyError if there is none."""
    if schema.category == HOST:
        return host_function(schema)
    for module in MODULES:
        function = getattr(module, schema.name, None)
        if function is not None:
            return function
    raise KeyError(schema.kind)


def run_op(
    op: Op, inputs: Sequence[Array | None], *, rounded: bool = True, host: HostFunction | None = None
) -> tuple[Array, ...]:
    """Compute the outputs of one op, in the axis order and data types of its edition.

    Args:
        op: an op of a graph.
        inputs: one array for each input of the op, None for an absent one.
        rounded: False leaves out the last step, the rounding to the data types of the outputs; :func:`narrow` does it.
        host: for the kind of a host op and its numpy function, the function that computes it; None takes the latter.

    Raises:
        OutOfMemoryError: there is not enough memory.
        ArgumentError: ``op`` is not an op, or the inputs do not match its inputs in number or shape.
        SpecError: the op has unknown shapes, and the shapes of these arrays are not allowed.
        UnsupportedError: the op is a Wildcard, or its number of scales fits no axis.
    """
    expect("op", op, Op)
    schema = edition(op.edition).schema(op.kind)
    if schema is None:
        raise ArgumentError(f"op: {shown(op)}; expected an op of edition {op.edition}")
    arrays = as_list("inputs", inputs, object, "a list of numpy arrays")
    if not all(array is None or _is_numbers(array) for array in arrays):
        raise ArgumentError(f"inputs: {shown(inputs)}; expected a list of numpy arrays")
    if len(arrays) != len(op.inputs):
        raise ArgumentError(f"inputs: {counted(len(arrays), 'array')}; expected {len(op.inputs)}")
    for index, (array, tensor) in enumerate(zip(arrays, op.inputs, strict=True)):
        if array is None or tensor is None:
            if array is not tensor:
                raise ArgumentError(f"inputs[{index}]: {shown(array)}; expected {'None' if tensor is None else tensor}")
        elif not compatible(array.shape, tensor.shape):
            raise ArgumentError(f"inputs[{index}]: shape {array.shape}; expected {show(tensor.shape)}")
    if not _is_examined(op):
        _refuse_shapes(op, arrays, lenient=True)
    return computed(op, schema, arrays, rounded, host)


def computed(
    op: Op,
    schema: Schema,
    inputs: Sequence[Array | None],
    rounded: bool = True,
    host: HostFunction | None = None,
) -> tuple[Array, ...]:
    """As :func:`run_op`, for an op of a schema and arrays that its rules allow."""
    base = base_of(schema)
    types = [
        None if array is None or tensor is None else TensorType(tensor.dtype, array.shape, array)
        for tensor, array in zip(op.inputs, inputs, strict=True)
    ]
    call = base_call(schema, base, op.attrs, types, len(op.outputs), [tensor.dtype for tensor in op.outputs])
    if base.category == HOST:
        function = host_function(schema) if host is None else host(op.kind, host_function(schema))
        with np.errstate(all="ignore"):
            return computed_on_host(op, partial(_host_results, function, op), call, inputs)
    ordered = [
        None if array is None else _swapped(schema, schema.input_port(index).name, array, op)
        for index, array in enumerate(inputs[: len(call.inputs)])
    ]
    is_wide = base.kind not in MOVES and base.category not in BY_ELEMENT
    try:
        arrays = [_widen(array) if is_wide and array is not None else array for array in ordered]
        with np.errstate(all="ignore"):
            result = reference_function(base)(call, *arrays)
        results = result if isinstance(result, tuple) else (result,)
        arrays_made = [
            _swapped(schema, port.name, narrow(value, tensor.dtype) if rounded else unrounded(value), op)
            for port, value, tensor in zip(schema.outputs, results, op.outputs, strict=False)
        ]
    except MemoryError as error:
        raise OutOfMemoryError("numpy", "out_of_memory", f"{op.kind} {op.name!r}: {error}") from None
    # ascontiguousarray turns a scalar into a vector, so the shape is restored.
    return tuple(np.ascontiguousarray(array).reshape(array.shape) for array in arrays_made)


def _host_results(function: ReferenceFunction, op: Op, call: Call, *arrays: Array | None) -> tuple[Array, ...]:
    """The results of a host op as contiguous arrays in their data types."""
    returned = function(call, *arrays)
    results = returned if isinstance(returned, tuple) else (returned,)
    return tuple(
        np.ascontiguousarray(array).reshape(np.shape(array)).astype(tensor.dtype.numpy, copy=False)
        for array, tensor in zip(results, op.outputs, strict=False)
    )


def _is_numbers(array: object) -> bool:
    return is_numpy(array) and np.asarray(array).dtype in NUMBERS


def run(graph: DataGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run any graph in numpy.

    Args:
        graph: the graph; it may have any op of any edition, except Wildcard. Variables have their first contents.
        inputs: an array for each graph input, by name.

    Returns:
        The graph outputs, by name.

    Raises:
        OutOfMemoryError: there is not enough memory.
        ArgumentError: an input is missing or unknown, or has the wrong data type or shape.
        SpecError: an op does not allow shapes that were unknown until now.
        UnsupportedError: an op is a Wildcard, or its number of scales fits no axis, as in some files.
    """
    graph = snapshot(graph)
    by_name = as_dict("inputs", inputs, "a dictionary of arrays by names of inputs")
    values: dict[int, Array] = {graph._inputs[name].id: array for name, array in graph._initial.items()}
    for name, tensor in graph.inputs.items():
        if name not in by_name:
            raise ArgumentError(f"input {name!r} is missing; the inputs are {', '.join(graph.inputs)}")
        array = numpy_array(f"input {name!r}", by_name[name], "a numpy array")
        if not compatible(array.shape, tensor.shape):
            raise ArgumentError(f"input {name!r}: shape {array.shape}; expected {show(tensor.shape)}")
        if array.dtype != tensor.dtype.numpy:
            raise ArgumentError(f"input {name!r}: {array.dtype}; expected {tensor.dtype}")
        values[tensor.id] = array
    for name in by_name:
        if name not in graph.inputs:
            raise ArgumentError(f"unknown input {shown(name)}; the inputs are {', '.join(graph.inputs)}")
    # The given arrays override contents of inputs that ``specialise`` has stored.
    is_specialised = any(tensor.value is not None for tensor in graph.inputs.values())
    values = {tensor.id: tensor.value for tensor in graph._tensors if tensor.value is not None} | values
    for op in graph.ops:
        arrays = [values[source.id] for source in op.inputs]
        if is_specialised or not _is_examined(op):
            _refuse_shapes(op, arrays, lenient=not graph.strict)
        for tensor, array in zip(op.outputs, computed(op, schema_of(op), arrays), strict=True):
            values[tensor.id] = array
    return {name: values[tensor.id] for name, tensor in graph.outputs.items()}


def _is_examined(op: Op) -> bool:
    """Whether the builder knew all shapes of the op, and all contents that decide output shapes."""
    shape_inputs = [op.inputs[index] for index in shape_inputs_of(op) if index < len(op.inputs)]
    if any(tensor is not None and tensor.value is None for tensor in shape_inputs):
        return False
    return all(tensor is None or known(tensor.shape) for tensor in (*op.inputs, *op.outputs))


def _refuse_shapes(op: Op, arrays: Sequence[Array | None], *, lenient: bool) -> None:
    """Raise SpecError if the op does not allow the shapes and contents of these arrays, unknown to the builder."""
    inputs = [
        None if tensor is None or array is None else replace(tensor, shape=array.shape, value=array)
        for tensor, array in zip(op.inputs, arrays, strict=True)
    ]
    dtypes = tuple(tensor.dtype for tensor in op.outputs)
    attrs, count = dict(op.attrs), len(dtypes)
    signature(
        edition(op.edition), op.kind, attrs, inputs, name=op.name, n_outputs=count, dtypes=dtypes, lenient=lenient
    )


def _widen(array: Array) -> Array:
    dtype = widened(array.dtype)
    return array if dtype == np.bool_ else array.astype(dtype)


def narrow(value: object, dtype: DataType) -> Array:
    """Convert ``value`` to ``dtype``.

    A formula is computed here. Floats are rounded to the nearest, and also saturated if ``dtype`` is an integer type;
    integers wrap around.
    """
    if isinstance(value, ByElement):
        return value.compute(dtype.numpy, lambda block: narrow(block, dtype))
    array = np.asarray(value)
    with np.errstate(all="ignore"):  # no integer is NaN
        if dtype in (DataType.s8, DataType.u8, DataType.s32) and array.dtype.kind == "f":
            whole: Array = np.clip(np.rint(array), *integer_limits(dtype)).astype(dtype.numpy)
            return whole
        return array.astype(dtype.numpy)


def unrounded(value: object) -> Array:
    """The result of a reference function before it is rounded to a data type."""
    if isinstance(value, ByElement):
        return value.compute(np.dtype(np.float64), lambda block: block)
    return np.asarray(value)


def integer_limits(dtype: DataType) -> tuple[int, int]:
    """The smallest and the largest number of an integer data type."""
    bits = int(dtype.value[1:])
    return (0, 2**bits - 1) if dtype.value[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _swapped(schema: Schema, port: str, array: Array, op: Op) -> Array:
    """Convert the channel axes of an array from the edition's order to the base's or back (the same exchange)."""
    if not is_swapped(schema, port) or array.ndim == 1:  # the call has what a vector says of a shape
        return array
    return array.transpose(channel_swap(array.ndim, format_of(schema, op.attrs)))
