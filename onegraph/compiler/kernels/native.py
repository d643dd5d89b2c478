"""Kernels as the C++ code of ``csrc/kernels/`` registers them: their names, and the numbers that each is made for."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..._util.open_sizes import is_open, is_whole, present
from ...capi.logical_tensor import LogicalTensor
from ...ir.op import Array
from ...native.library import address_of, ffi, lib, status_error
from ...opset.dtypes import DataType
from ..ir.value import Value, dense_of
from ..open_values import At, layout_of, value_at
from ..to_capi import capi_tensor

# The highest instruction set of kernels with code of their own: 0 any CPU, 1 AVX2, 2 AVX-512, 3 its dot products,
# 4 the tiles of AMX.
LEVEL = 4
_TENSORS = ffi.typeof("dnnl_graph_logical_tensor_t *[]")

Number = int | float | str | Sequence[int | str]
Numbers = Mapping[str, Any]  # each a Number


class Field(NamedTuple):
    """A number that a kernel is made for.

    Attributes:
        name: its name.
        is_real: whether it is an f32.
        is_list: whether it is a list of numbers.
        words: words that stand for their places here.
    """

    name: str
    is_real: bool
    is_list: bool
    words: tuple[str, ...]


@cache
def fields_of(kernel: str) -> tuple[Field, ...]:
    """The numbers of a kernel, in their order, as ``csrc/kernels/registry.h`` describes.

    Raises:
        KeyError: no file of ``csrc/kernels/`` registers this kernel.
    """
    text = ffi.string(lib.onegraph_kernel_numbers(_found(kernel))).decode()
    fields = []
    for part in filter(None, text.split(", ")):
        name, _, kind = part.partition(": ")
        words = () if kind in ("", "f32") else tuple(kind.split("|"))
        fields.append(Field(name.removesuffix("..."), kind == "f32", name.endswith("..."), words))
    return tuple(fields)


def registered() -> Iterator[str]:
    """The names of all kernels in C++."""
    kernel = lib.onegraph_kernel_after(ffi.NULL)
    while kernel:
        yield ffi.string(lib.onegraph_kernel_name(kernel)).decode()
        kernel = lib.onegraph_kernel_after(kernel)


def _found(name: str) -> Any:
    kernel = lib.onegraph_kernel_named(name.encode())
    if not kernel:
        raise KeyError(f"no file of csrc/kernels/ registers a kernel {name!r}")
    return kernel


def packed(kernel: str, numbers: Numbers) -> tuple[int, ...]:
    """The numbers of a kernel as C++ reads them, of which sizes may be open; ``level`` is given here.

    Raises:
        KeyError: a number or a word is missing or unknown.
    """
    values, code = {"level": LEVEL, **numbers}, list[int]()
    fields = fields_of(kernel)
    if unknown := numbers.keys() - {field.name for field in fields}:
        raise KeyError(f"the kernel {kernel} has no numbers {sorted(unknown)}")
    for field in fields:
        code += _codes(field, values[field.name])
    return tuple(code)


def _codes(field: Field, number: Number) -> Iterator[int]:
    if field.is_real:
        yield from struct.unpack("i", struct.pack("f", number))
        return
    for entry in number if field.is_list and not isinstance(number, (str, int, float)) else [number]:
        if isinstance(entry, str) and entry not in field.words:
            raise KeyError(f"{field.name}={entry!r}; expected one of {', '.join(field.words)}")
        if isinstance(entry, str):
            yield field.words.index(entry)
        else:
            yield entry if is_whole(entry) else int(entry)  # type: ignore[arg-type]


class KernelSource(NamedTuple):
    """What a kernel is made from.

    Attributes:
        name: under which a file of ``csrc/kernels/`` registers it.
        inputs, outputs: the values at its ports.
        code: its numbers; see :func:`packed`.
    """

    name: str
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    code: Sequence[int]

    def at(self, at: At) -> KernelSource:
        """The same for known sizes."""
        inputs, outputs = ([value_at(value, at) for value in values] for values in (self.inputs, self.outputs))
        code = [*map(at, self.code)] if is_open(self.code) else self.code
        return self._replace(inputs=inputs, outputs=outputs, code=code)

    def key(self) -> Hashable:
        """What is equal for sources of kernels that are the same."""
        ends = *map(layout_of, self.inputs), None, *map(layout_of, self.outputs)
        return self.name, ends, tuple(self.code)

    def made(self, tensors: dict[Hashable, LogicalTensor] | None = None) -> CompiledKernel:
        """The kernel, for known sizes.

        ``tensors``: those of other kernels by data type, shape and strides, which get those of this one.
        """
        tensors = {} if tensors is None else tensors
        made = []
        for value in (*self.inputs, *self.outputs):
            key = value.dtype, value.shape, value.strides
            if key not in tensors:
                tensors[key] = tensor_of(value)
            made.append(tensors[key])
        return CompiledKernel(self.name, made, len(self.inputs), self.code)


class CompiledKernel:
    """A kernel for fixed layouts, which a step has instead of a compiled partition.

    Args:
        name: the name under which a file of ``csrc/kernels/`` registers it.
        tensors: the inputs, then the outputs.
        n_inputs: number of inputs.
        code: its numbers; see :func:`packed`.

    Attributes:
        ports: number of inputs, number of outputs, and the C tensors of both.
        pointer: the kernel in C++.
        source: what it was made from, if sizes were open.
        owner_thread: None, because every thread can run it.
    """

    owner_thread = None

    def __init__(self, name: str, tensors: Sequence[LogicalTensor], n_inputs: int, code: Sequence[int] = ()) -> None:
        self.name, self._tensors, self.code = name, [*tensors], ffi.new("int[]", [*code])
        self.pointer = _found(name)
        self.source: KernelSource | None = None
        structs = ffi.new(_TENSORS, [tensor._struct for tensor in tensors])
        self.ports = n_inputs, len(tensors) - n_inputs, structs

    def run_once(self, *arrays: Array, threads: int = 1) -> None:
        """Run the kernel once, in this thread and as many others as make ``threads``, on arrays of its tensors."""
        fields = (ffi.NULL, *self.ports, threads, 0, self.pointer, self.code, len(self.code), 0, 0, 0, ffi.NULL)
        addresses = ffi.new("void *[]", [ffi.cast("void *", address_of(array)) for array in arrays])
        if status := lib.onegraph_kernel_run(ffi.new("onegraph_step_t *", fields), addresses):
            raise status_error("onegraph_kernel_run", status)


def tensor_of(value: Value) -> LogicalTensor:
    """A value as kernels get it, which is of s64 if no tensor of the C API has its type."""
    dtype = DataType.s64 if value.dtype.is_host else value.dtype
    return capi_tensor(0, value._replace(dtype=dtype), "variable")


def compiled(
    kernel: str, inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int] = ()
) -> CompiledKernel:
    """A kernel for values, whose sizes may be open."""
    source = KernelSource(kernel, inputs, outputs, code)
    made = source.at(present).made()
    if is_open(code) or any(is_open((*value.shape, *value.strides)) for value in (*inputs, *outputs)):
        made.source = source
    return made


def value_of(array: Array) -> Value:
    """A value for an array, which has the strides of the array."""
    strides = tuple([stride // array.itemsize for stride in array.strides])
    return Value(
        0, DataType.of(array.dtype), array.shape, dense_of(array.shape) if array.flags.c_contiguous else strides, 0, ""
    )
