"""Makes the steps that numpy runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from .._util.open_numbers import has_open_numbers, numbers_at
from .._util.open_sizes import is_open, present
from ..errors import ArgumentError
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST, base_of
from ..opset.schema import Call
from ..opset.traits import Trait
from ..reference import run_op
from ..reference.host import INTO, computed_on_host, host_function
from .array_kernels import with_kernel
from .ir.step import Step
from .ir.value import Value
from .open_values import At, attrs_at, step_at
from .steps import NumpyStep, Run, nothing

# By the kind of an op of control flow, what makes its run; the stage that compiles the bodies enters it.
CONTROL: dict[str, Callable[[Op], Run]] = {}


# Host ops that refuse no contents of what they read.
PLAIN = frozenset(["Concat", "Tile"]).union(
    *map(kinds.host_kinds, (Trait.POINTWISE, Trait.CASTS, Trait.SUMS, Trait.VIEW))
)


def numpy_step(step: Step, values: Mapping[int, Value], note: int) -> NumpyStep:
    """A numpy step for the op as the user wrote it, or for the part of the op that the step is."""
    made = _numpy_step(step, values, note, _sized(step.op))._replace(source=step)
    return made._replace(run=nothing) if _is_empty(made, step, values) else made


def _is_empty(made: NumpyStep, step: Step, values: Mapping[int, Value]) -> bool:
    """Whether the results of a step have no elements, and no contents are wrong."""
    op = step.op
    shapes = {end.id: end.shape for end in op.outputs} | {
        end: values[end].shape for end in made.outputs if end in values
    }
    if not all(any(type(dim) is int and not dim for dim in shapes.get(end) or ()) for end in made.outputs):
        return False
    if op.edition != HOST or op.kind in PLAIN:
        return op.kind not in kinds.PER_RUN | kinds.OPAQUE
    indices = op.inputs[1] if op.kind in kinds.INDEXED else None
    return indices is not None and 0 in (indices.shape or ())


def numpy_step_at(open_step: NumpyStep, values: Mapping[int, Value], at: At) -> NumpyStep:
    """A numpy step for known sizes."""
    step = open_step.source
    if step is None:
        return open_step
    op = step.op
    inputs = tuple([None if tensor is None else _tensor_at(tensor, at) for tensor in op.inputs])
    outputs = tuple([_tensor_at(tensor, at) for tensor in op.outputs])
    known_op = Op(op.id, op.kind, inputs, outputs, attrs_at(op.attrs, at), op.name, op.edition)
    return _numpy_step(step_at(step, at)._replace(op=known_op), values, open_step.note, _sized(op))


def _tensor_at(tensor: LogicalTensor, at: At) -> LogicalTensor:
    value, shape = tensor.value, tensor.shape
    assert shape is not None
    if has_open_numbers(value):
        value = numbers_at(value, at, tensor.dtype.numpy)  # type: ignore[arg-type]
    elif not is_open(shape):
        return tensor
    dims = tuple([at(dim) for dim in shape])
    return LogicalTensor(tensor.id, tensor.dtype, dims, tensor.strides, tensor.name, value)


def _sized(op: Op) -> tuple[int, ...]:
    """The inputs of an op that are numbers which sizes decide, so that no memory holds them for all sizes."""
    return tuple(
        [port for port, tensor in enumerate(op.inputs) if tensor is not None and has_open_numbers(tensor.value)]
    )


def _numpy_step(step: Step, values: Mapping[int, Value], note: int, sized: Sequence[int] = ()) -> NumpyStep:
    """A numpy step; ``sized``: as ``_sized`` finds them."""
    op = step.op
    if op.edition == HOST:
        input_ids = tuple(
            [None if tensor is None or port in sized else tensor.id for port, tensor in enumerate(op.inputs)]
        )
        run = CONTROL[op.kind](op) if op.kind in CONTROL else _host_run(op)
        if sized:
            run = partial(_with_numbers, run, {port: _numbers(op.inputs[port]) for port in sized})
        return NumpyStep(run, input_ids, step.outputs, note, input_ids[:1] if op.kind == "Gather" else ())
    if step.whole:
        input_ids = tuple([None if tensor is None else tensor.id for tensor in op.inputs])
        return NumpyStep(partial(_store_op, op), input_ids, tuple([tensor.id for tensor in op.outputs]), note)
    ins, outs = (
        tuple([LogicalTensor(n, values[n].dtype, values[n].shape, None, values[n].name) for n in ends])
        for ends in (step.inputs, step.outputs)
    )
    part = Op(step.id, step.kind, ins, outs, step.attrs, op.name, DEFAULT)
    return NumpyStep(partial(_store_op, part), step.inputs, step.outputs, note)


def _host_run(op: Op) -> Run:
    """What a host op does, with its attributes and types read once."""
    schema = schema_of(op)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    call = Call(base_of(schema), op.attrs, types, len(op.outputs), [tensor.dtype for tensor in op.outputs])
    function = host_function(schema)
    compute = getattr(function, "compute", None)
    ends = *op.inputs, *op.outputs
    if isinstance(compute, np.ufunc) and all(end.dtype is DataType.float64 for end in ends):
        return partial(_by_element, compute)

    def run(arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            into = partial(function, out=results[0]) if op.kind in INTO else function
            computed = computed_on_host(op, with_kernel(op.kind, into, results), call, arrays)
            copied_to(op, results, computed)

    return run


def _by_element(compute: np.ufunc, arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    """Write what a function of numpy computes of each number, for which few numbers take less time than more calls."""
    with np.errstate(all="ignore"):
        compute(arrays[0], out=results[0])


def _numbers(tensor: LogicalTensor | None) -> Array:
    """The contents of a constant; for the present sizes, if they are open."""
    assert tensor is not None
    assert tensor.value is not None
    return numbers_at(tensor.value, present, tensor.dtype.numpy)


def _with_numbers(
    run: Run, numbers: Mapping[int, Array], arrays: Sequence[Array | None], results: Sequence[Array]
) -> None:
    """Run an op with these numbers for the inputs at some ports."""
    run([numbers.get(port, array) for port, array in enumerate(arrays)], results)


def copied_to(op: Op, results: Sequence[Array], computed: Sequence[Array]) -> None:
    """Copy the results of an op to their places; what lies there stays."""
    for tensor, target, array in zip(op.outputs, results, computed, strict=True):
        if array.shape != target.shape:  # numpy would broadcast it
            raise ArgumentError(f"{op.kind} {op.name!r}: shape {array.shape}; expected {tensor}")
        if array is not target and not _is_same_memory(array, target):
            np.copyto(target, array, casting="unsafe")


def _is_same_memory(array: Array, target: Array) -> bool:
    """Whether an array is another name of its target."""
    return bool(array.base is target and array.strides == target.strides and array.ctypes.data == target.ctypes.data)


def _store_op(op: Op, arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    for target, result in zip(results, run_op(op, arrays), strict=True):
        target[...] = result


def store(arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    """Store the inputs in the outputs, in the layout and data type of the outputs."""
    with np.errstate(all="ignore"):
        for array, target in zip(arrays, results, strict=True):
            assert array is not None
            np.copyto(target, array, casting="unsafe")
