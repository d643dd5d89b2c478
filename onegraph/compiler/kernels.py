"""Finds the kernels of the package itself: they cast, copy, select, transform, and compute attention."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..capi.logical_tensor import LogicalTensor
from ..native.library import ffi, lib
from ..opset.dtypes import DataType
from ..opset.host.attention import scale_of
from ..opset.schema import Call
from .lowered import Value
from .to_capi import capi_tensor

FLOATS = frozenset([DataType.f32, DataType.f16, DataType.bf16])
CODES = frozenset([DataType.s8, DataType.u8])
KERNELS = {
    "cast": lib.onegraph_cast,
    "select": lib.onegraph_select,
    "replace_nan": lib.onegraph_replace_nan,
    "scale": lib.onegraph_scale,
    "scale_relu": lib.onegraph_scale_relu,
    "look_up": lib.onegraph_look_up,
    "rescale": lib.onegraph_rescale,
    "add": lib.onegraph_add,
    "multiply": lib.onegraph_multiply,
}
ON_CODES = frozenset(["look_up", "rescale", "add", "multiply"])  # the last input is a table, or a list of numbers
MOST_TOKENS = 2**31 - 1  # of the kernel for attention
# The highest instruction set of kernels with code of their own: see ``onegraph_attention_level`` in
# ``include/onegraph.h``.
LEVEL = 3
_TENSORS = ffi.typeof("dnnl_graph_logical_tensor_t *[]")


class CompiledKernel:
    """A kernel of ``csrc/kernels/`` for fixed layouts, which a step has instead of a compiled partition.

    Args:
        kind: a name in ``KERNELS``.
        values: the inputs, then the output; ``has_kernel`` holds.

    Attributes:
        number: number of the kernel in C.
        ports: number of inputs, number of outputs, and the C tensors of both.
        code: the ops of a kernel that joins several.
        owner_thread: None, because every thread can run it.
    """

    owner_thread = None
    code = ffi.new("int[]", 0)

    def __init__(self, kind: str, values: Sequence[Value]) -> None:
        self.number: int = KERNELS[kind]
        ends = [*values]
        if kind in ON_CODES:  # the kernel finds the others behind the first element
            ends[-2] = ends[-2]._replace(shape=(1,), strides=(1,))
        self._tensors = [capi_tensor(value.id, value, "variable") for value in ends]
        self.ports = len(values) - 1, 1, ffi.new(_TENSORS, [tensor._struct for tensor in self._tensors])

    @classmethod
    def of(cls, number: int, tensors: Sequence[LogicalTensor], n_inputs: int, code: Sequence[int]) -> CompiledKernel:
        """The kernel of a number, for tensors with the inputs first; see the attributes."""
        kernel = cls.__new__(cls)
        kernel.number, kernel._tensors, kernel.code = number, [*tensors], ffi.new("int[]", [*code])
        structs = ffi.new(_TENSORS, [tensor._struct for tensor in tensors])
        kernel.ports = n_inputs, len(tensors) - n_inputs, structs
        return kernel


class CompiledPointwise(CompiledKernel):
    """The kernel for several elementwise ops.

    Args:
        inputs, outputs: the values at its ports.
        code: the ops; see ``Pointwise`` in ``csrc/kernels.h``.
    """

    def __init__(self, inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> None:
        self.number = lib.onegraph_pointwise
        self._tensors = [capi_tensor(value.id, value, "variable") for value in (*inputs, *outputs)]
        self.code = ffi.new("int[]", [LEVEL, *code])
        self.ports = len(inputs), len(outputs), ffi.new(_TENSORS, [tensor._struct for tensor in self._tensors])


class CompiledAttention(CompiledKernel):
    """The kernel for attention or its gradient.

    Args:
        call: the op.
        inputs, outputs: the values at its ports, the mask behind query, key and value.
    """

    def __init__(self, call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        self.number = lib.onegraph_attention
        self._tensors = [capi_tensor(value.id, value, "variable") for value in (*inputs, *outputs)]
        (scale,) = struct.unpack("i", struct.pack("f", scale_of(call)))
        is_backward, is_masked = call.schema.kind.endswith("Backward"), call.input("mask") is not None
        limits = [min(call.s64(name), MOST_TOKENS) for name in ("past", "window")]
        numbers = [is_backward, is_masked, call.flag("causal"), *limits, scale, LEVEL]
        self.code = ffi.new("int[]", [int(number) for number in numbers])
        self.ports = len(inputs), len(outputs), ffi.new(_TENSORS, [tensor._struct for tensor in self._tensors])


class CompiledWinograd(CompiledKernel):
    """The kernel for a transform of Winograd's convolution.

    Args:
        inputs, outputs: the values at its ports.
        code: the numbers of the transform; see ``onegraph_winograd_number`` in ``include/onegraph.h``.
    """

    def __init__(self, inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> None:
        self.number = lib.onegraph_winograd
        self._tensors = [capi_tensor(value.id, value, "variable") for value in (*inputs, *outputs)]
        self.code = ffi.new("int[]", list(code))
        self.ports = len(inputs), len(outputs), ffi.new(_TENSORS, [tensor._struct for tensor in self._tensors])


def has_kernel(kind: str, values: Sequence[Value]) -> bool:
    """Whether a kernel has the data types of these inputs and this output, which comes last."""
    dtypes = [value.dtype for value in values]
    if any(0 in value.shape for value in values):
        return False
    if any(value.irregular for value in values):
        return False
    if kind in ON_CODES:
        kinds = CODES if kind == "look_up" else CODES | {DataType.f32}
        return kinds.issuperset(dtypes)
    if dtypes[-1] not in FLOATS:
        return False
    if kind == "replace_nan":
        return dtypes == [dtypes[-1]] * 3
    if kind in ("scale", "scale_relu"):
        return dtypes[1:3] == [DataType.f32] * 2 and dtypes[0] == dtypes[3] != DataType.f16
    if kind == "select":
        return dtypes[:-1] == [DataType.boolean, dtypes[-1], dtypes[-1]]
    return dtypes[0] in FLOATS
