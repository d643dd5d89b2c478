"""Says in which data types a partition computes, and how much."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..faults.use import DEQUANTIZATIONS, PRODUCTS, VIEWS
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call
from ..opset.editions.registry import base_of
from ..opset.shapes import known_dims
from .ir.step import Step
from .ir.value import Value

FLOATING = (DataType.f32, DataType.bf16, DataType.f16)
_UNDONE = DEQUANTIZATIONS | VIEWS | {"TypeCast"}

# Names of two tensors of each op: each element of the first is multiplied with, and added to, all weights (the second)
# of its channel. This holds for convolutions and their gradients; padding counts as data.
CONVOLUTIONS = {
    "Convolution": ("dst", "weights"),
    "ConvolutionBackwardData": ("diff_dst", "weights"),
    "ConvolutionBackwardWeights": ("diff_dst", "diff_weights"),
    "ConvTranspose": ("src", "weights"),
    "ConvTransposeBackwardData": ("diff_src", "weights"),
    "ConvTransposeBackwardWeights": ("src", "diff_weights"),
}


def flops(op: Op) -> int | None:
    """Number of floating-point operations of a convolution or MatMul; a multiply-add counts as two.

    None for other ops, which spend their time moving data, and if a shape is unknown.
    """
    schema = schema_of(op)
    base = base_of(schema)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    call = base_call(schema, base, op.attrs, types, len(op.outputs))
    shapes: dict[str, tuple[int, ...]] = {}
    ports = (*zip(base.inputs, op.inputs, strict=False), *zip(base.outputs, op.outputs, strict=False))
    for port, tensor in ports if not base.variadic else ():
        if tensor is not None:
            if tensor.shape is None or None in tensor.shape:
                return None
            shapes[port.name] = known_dims(tensor.shape)
    if base.kind == "MatMul":
        src = shapes["src"]
        axis = -2 if call.attr("transpose_a") and len(src) > 1 else -1
        return 2 * math.prod(shapes["dst"]) * src[axis]
    if base.kind not in CONVOLUTIONS:
        return None
    data, weights = (shapes[name] for name in CONVOLUTIONS[base.kind])
    channels = data[1 if call.attr("data_format") == "NCX" else -1]
    return 2 * math.prod(data) * math.prod(weights) // max(channels, 1)


def f32_flops(steps: Sequence[Step], inputs: Sequence[Value]) -> int:
    """Number of f32 operations that take at least as long as the products among the steps.

    A CPU does at most twice as many operations on operands of half the size. ``inputs`` are what the steps read.
    """
    counts = [flops(step.op) or 0 for step in steps if step.kind in PRODUCTS]
    return sum(counts) * min(value.dtype.numpy.itemsize for value in inputs) // 4 if any(counts) else 0


def arithmetic_of(steps: Sequence[Step], inputs: Sequence[Value]) -> str:
    """The data types that the steps compute in; see :class:`PartitionReport`.

    ``inputs`` are what the partition reads. An op of a type that the CPU lacks reads f32.
    """
    dtype_by_id = {value.id: value.dtype for value in inputs}
    makers = {number: step for step in steps for number in step.outputs}

    def read_by(step: Step) -> list[DataType]:
        types = _types(step.op.inputs)
        # A part of an op may have more inputs than the op, such as the MatMul by ones of ReduceSum.
        return [dtype_by_id.get(number, types[min(place, len(types) - 1)]) for place, number in enumerate(step.inputs)]

    def multiplied(step: Step, place: int) -> DataType:
        """The type of an operand before the casts of the same partition, which the kernel undoes."""
        # A function that calls itself would keep the steps until the garbage collector runs.
        while (maker := makers.get(step.inputs[place])) is not None and maker.kind in _UNDONE:
            step, place = maker, 0
        return read_by(step)[place]

    product = next((step for step in steps if step.kind in PRODUCTS), None)
    if product is not None:
        return " x ".join(dict.fromkeys(str(multiplied(product, place)) for place in (0, 1)))
    read = [dtype for step in steps for dtype in read_by(step)]

    def width(dtype: DataType) -> tuple[bool, int, bool]:
        return dtype in FLOATING, dtype.numpy.itemsize, dtype is not DataType.boolean

    return str(max(read, key=width)) if read else ""


def _types(tensors: Sequence[LogicalTensor | None]) -> list[DataType]:
    return [tensor.dtype for tensor in tensors if tensor is not None]
