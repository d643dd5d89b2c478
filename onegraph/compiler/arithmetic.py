"""Says in which data types a partition computes."""

from __future__ import annotations

from collections.abc import Sequence

from ..faults.use import PRODUCTS
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from .lowered import Step, Value

FLOATING = (DataType.f32, DataType.bf16, DataType.f16)
_UNDONE = frozenset(["Dequantize", "DynamicDequantize", "TypeCast", "StaticReshape", "StaticTranspose"])


def arithmetic_of(steps: Sequence[Step], inputs: Sequence[Value]) -> str:
    """The data types that the steps compute in; see :class:`PartitionReport`.

    ``inputs`` are what the partition reads. An op of a type that the CPU lacks reads f32.
    """
    given = {value.id: value.dtype for value in inputs}
    makers = {number: step for step in steps for number in step.outputs}

    def read_by(step: Step) -> list[DataType]:
        types = _types(step.op.inputs)
        # A part of an op may have more inputs than the op, such as the MatMul by ones of ReduceSum.
        return [given.get(number, types[min(place, len(types) - 1)]) for place, number in enumerate(step.inputs)]

    def multiplied(step: Step, place: int) -> DataType:
        """The type of an operand before the casts of the same partition, which the kernel undoes."""
        maker = makers.get(step.inputs[place])
        if maker is not None and maker.kind in _UNDONE:
            return multiplied(maker, 0)
        return read_by(step)[place]

    product = next((step for step in steps if step.kind in PRODUCTS), None)
    if product is not None:
        return " x ".join(dict.fromkeys(str(multiplied(product, place)) for place in (0, 1)))
    read = {dtype for step in steps for dtype in read_by(step)}
    return str(max(read, key=lambda dtype: (dtype in FLOATING, dtype.numpy.itemsize))) if read else ""


def _types(tensors: Sequence[LogicalTensor | None]) -> list[DataType]:
    return [tensor.dtype for tensor in tensors if tensor is not None]
