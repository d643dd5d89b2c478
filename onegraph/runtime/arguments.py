"""Checks the arguments of a call of an executable: arrays for the graph's inputs, and arrays for its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from .._util.counted import counted
from .._util.exact_types import elements, entries, has_type
from .._util.fork_safety import new_rlock
from ..arrays.ndarrays import Held, as_array, cast_to, check_output, has_strides, laid_empty, output_array
from ..builder.graph import DataGraph
from ..builder.operators import contents_like
from ..capi.settings import alignment_of, is_aligned
from ..compiler.runnable import shape_tensors
from ..errors import ArgumentError, shown
from ..ir.op import Array, LogicalTensor
from ..ir.tensor_type import as_shape
from ..opset.dtypes import DataType
from ..opset.shapes import compatible, dense_strides, known, known_dims, show
from .growing import Growing


class OutputSpec(NamedTuple):
    """An output with every dim known; strides are in elements, None for dense row-major."""

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None

    def laid_out(self, array: Array) -> Array:
        """``array`` if it has the output's strides and the library's alignment, otherwise a new array that has both."""
        if is_aligned(array) and (self.strides is None or has_strides(array, self.strides)):
            return array
        return laid_empty(self.shape, self.strides, self.dtype.numpy)


class Arguments:
    """Checks the arrays of a call against the inputs and outputs of a graph, before anything is written.

    ``copies`` counts the inputs that were copied because their layout differs from the graph's.
    """

    def __init__(self, graph: DataGraph, growing: Growing | None = None) -> None:
        self._growing = growing or Growing(graph)
        self.inputs = dict(graph.inputs)
        self.outputs = tuple(graph.outputs)
        self.copies = 0
        self._counting = new_rlock()
        self._expected = tuple((name, tensor, tensor.dtype.numpy) for name, tensor in graph.inputs.items())

    def arrays(
        self, arrays: Sequence[object], named: Mapping[str, object], *, copy: bool = True, grows: bool = False
    ) -> Held:
        """An array for every input, in the declared layout and in the graph's order.

        Args:
            arrays, named: the positional and named arguments of a call. A Python number stands for an input of rank 0.
            copy: True copies arrays with another layout; False refuses them.
            grows: whether the first parts of longer caches stay where they are.

        Raises:
            ArgumentError: an array is missing, unknown, given twice, or does not fit.
        """
        by_name = self.given(arrays, named)
        # Convert and hold all arrays before checking any, because conversion may run code of the caller.
        held = Held({name: as_array(name, _as_given(tensor, by_name[name])) for name, tensor in self.inputs.items()})
        for name, tensor, dtype in self._expected:
            array = held[name]
            if array.dtype != dtype:
                fix = cast_to(tensor.dtype, by_name[name])
                raise ArgumentError(f"input {name!r}: data type {array.dtype}; expected {tensor.dtype}; {fix}")
            if array.shape != tensor.shape and not compatible(array.shape, tensor.shape):
                raise ArgumentError(f"input {name!r}: shape {show(array.shape)}; expected {show(tensor.shape)}")
            if not _laid_out(tensor, array) and not (grows and self._growing.fits(name, array)):
                if not copy:
                    raise _layout_error(name, tensor, array)
                held[name] = self._copy(tensor, array)
        return held

    def dense(self, held: Held) -> None:
        """Copy the first parts of longer caches, for a program that takes dense ones."""
        for growth in self._growing.growths:
            tensor, array = self.inputs[growth.past], held[growth.past]
            if not _laid_out(tensor, array):
                held[growth.past] = self._copy(tensor, array)

    def each_shapes(self, sizes: object) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of all inputs for each of several sizes, or for one."""
        if entries(sizes) is not None or not has_type(sizes, Iterable):
            sizes = [sizes]
        return [self.shapes(given) for given in cast(Iterable[object], sizes)]

    def shapes(self, sizes: object) -> dict[str, tuple[int, ...]]:
        """The shapes of all inputs, of which ``sizes`` has at least those with unknown dims, by name.

        Raises:
            ArgumentError: a shape is missing, unknown, has unknown dims, or does not fit.
        """
        expected = "a dictionary of shapes by names of inputs: " + (", ".join(self.inputs) or "none")
        named, known_shapes = entries(sizes), dict[str, tuple[int, ...]]()
        if named is None or not named.keys() <= self.inputs.keys():
            raise ArgumentError(f"sizes: {shown(sizes)}; expected {expected}")
        for name, tensor in self.inputs.items():
            shape = as_shape(named.get(name, tensor.shape))
            if not known(shape) or not compatible(shape, tensor.shape):
                wanted = f"known dims that fit {show(tensor.shape)}"
                raise ArgumentError(f"sizes: input {name!r}: shape {show(shape)}; expected {wanted}")
            known_shapes[name] = known_dims(shape)
        return known_shapes

    def given(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
        """The positional and named arguments by name of input, unchecked.

        Raises:
            ArgumentError: one is missing, unknown, or given twice.
        """
        names = self.inputs
        if any(has_type(array, Mapping) for array in arrays):
            raise ArgumentError("a dictionary is given as an input; inputs by name are given as model(**inputs)")
        if len(arrays) > len(names):
            raise ArgumentError(f"{counted(len(arrays), 'input')} given; expected {len(names)}: {', '.join(names)}")
        named_arrays = dict(zip(names, arrays, strict=False))
        for name, array in named.items():
            if name not in names:
                raise ArgumentError(f"unknown input {shown(name)}; the inputs are {', '.join(names) or 'none'}")
            if name in named_arrays:
                raise ArgumentError(f"input {name!r} is given twice")
            named_arrays[name] = array
        if len(named_arrays) != len(names):
            missing = ", ".join(name for name in names if name not in named_arrays)
            hint = ""
            if len(arrays) == 1 and len(elements(arrays[0]) or ()) == len(names):
                hint = "; a list of them is given as model(*inputs)"
            raise ArgumentError(f"missing inputs: {missing}{hint}")
        return named_arrays

    def _copy(self, tensor: LogicalTensor, array: Array) -> Array:
        copied = laid_empty(array.shape, tensor.strides, array.dtype)
        copied[...] = array
        with self._counting:
            self.copies += 1
        return copied

    def chosen(self, out: object) -> dict[str, object]:
        """The objects in ``out`` of a call, by name of output; a dictionary may lack outputs.

        Raises:
            ArgumentError: a name is unknown, or there are too few or too many.
        """
        names = self.outputs
        if out is None:
            return {}
        if (by_name := entries(out)) is not None:
            for name in by_name:
                if name not in names:
                    raise ArgumentError(f"out: unknown output {shown(name)}; the outputs are {', '.join(names)}")
            return {name: array for name, array in by_name.items() if array is not None}
        several = elements(out)
        targets = [out] if several is None else several
        if len(targets) != len(names):
            arrays = f"{len(names)} arrays in the order" if len(names) > 1 else "one array,"
            raise ArgumentError(f"out: {counted(len(targets), 'array')}; expected {arrays} {', '.join(names)}")
        return {name: array for name, array in zip(names, targets, strict=True) if array is not None}

    def ordered(self, out: object) -> object:
        """``out`` of a call in the order of the outputs if it is a dictionary of all outputs, otherwise unchanged."""
        if type(out) is not dict or out.keys() != set(self.outputs):
            return out
        arrays = tuple(map(out.get, self.outputs))
        return arrays[0] if len(arrays) == 1 else arrays

    def written(self, out: object, inputs: Held) -> Held:
        """The arrays in ``out``, by name of output; shapes and types are checked later by ``results``.

        Raises:
            ArgumentError: as for ``chosen``; or an object is no array, or shares memory with an input, even a copied
                one.
        """
        arrays: dict[str, Array] = {}
        for name, value in self.chosen(out).items():
            plain = output_array(name, value)
            arrays[name] = cast("Array", value) if has_type(value, np.ndarray) else plain
        held = Held(arrays)
        for name, array in held.items():
            source = self._growing.source_of(name, array, inputs)
            input_arrays = {
                input_name: np.asarray(one) for input_name, one in inputs.given.items() if input_name != source
            }
            refuse_shared({name: array}, input_arrays)
        return held

    def results(self, outputs: Iterable[OutputSpec], written: Held) -> Held:
        """An array for every output: the array in ``written``, otherwise a new one.

        Raises:
            ArgumentError: an array in ``written`` does not fit, or shares memory with another.
            OutOfMemoryError: there is not enough memory for a new array.
        """
        names = tuple(outputs)
        for spec in names:
            if spec.name in written:
                check_output(*spec, written[spec.name])
        refuse_shared(written, {})
        arrays = {
            name: written.given[name] if name in written else laid_empty(shape, strides, dtype.numpy)
            for name, dtype, shape, strides in names
        }
        held = Held(arrays)
        held.update(written)  # the checked arrays
        return held


def _as_given(tensor: LogicalTensor, value: object) -> object:
    """A Python number for an input of rank 0 as an array of its data type; any other value unchanged.

    numpy's float64 is a Python float.

    Raises:
        ArgumentError: the data type does not hold the number.
    """
    if tensor.shape != () or not has_type(value, (int, float)):
        return value
    if has_type(value, bool) and tensor.dtype is not DataType.boolean:
        return value
    return contents_like(f"input {tensor.name!r}", value, tensor)


def _laid_out(tensor: LogicalTensor, array: Array) -> bool:
    """Whether the array is aligned and has the layout of the input; axes of size 1 do not count."""
    if not is_aligned(array):
        return False
    if tensor.strides is None:
        return array.flags.c_contiguous
    return has_strides(array, tensor.strides)


def _layout_error(name: str, tensor: LogicalTensor, array: Array) -> ArgumentError:
    if not is_aligned(array):
        return ArgumentError(f"input {name!r}: not aligned to {alignment_of(array)} bytes; pass a copy of the array")
    dense = [step * array.itemsize for step in tensor.strides or dense_strides(array.shape)]
    hint = "; numpy.ascontiguousarray(array) has them" if tensor.strides is None else ""
    return ArgumentError(f"input {name!r}: strides {array.strides}; expected strides {tuple(dense)}, in bytes{hint}")


def refuse_shared(outputs: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    """Raise ArgumentError if an output shares memory with an input or with another output."""
    memories = dict(inputs)
    for name, array in outputs.items():
        for owner, memory in memories.items():
            if np.may_share_memory(array, memory):
                raise ArgumentError(f"output {name!r} shares memory with {owner!r}")
        memories[name] = array


def value_inputs(graph: DataGraph) -> tuple[str, ...]:
    """Names of the graph inputs whose contents set a shape or axes, and must be known before compilation.

    An input may set a shape through other ops, such as a Concat with a constant. Scalars and vectors alone count,
    because the contents of larger tensors are data.
    """
    makers = {tensor.id: op for op in graph.ops for tensor in op.outputs}
    waiting = [*shape_tensors(graph)]
    vectors = {
        tensor.id for tensor in waiting if tensor.shape is None
    }  # a shape is a vector, if no rank says otherwise
    while waiting:
        tensor = waiting.pop()
        if tensor.id not in vectors and (tensor.shape is None or len(tensor.shape) > 1):
            continue
        vectors.add(tensor.id)
        op = makers.get(tensor.id)
        if op is not None and op.kind not in ("Shape", "Size"):
            waiting += [source for source in op.inputs if source.id not in vectors]
    return tuple(name for name, tensor in graph.inputs.items() if tensor.id in vectors)
