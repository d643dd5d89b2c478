"""Says in which data types a partition computes."""

from __future__ import annotations

from collections.abc import Sequence

from ..faults.use import PRODUCTS
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from .lower import Step

FLOATING = (DataType.f32, DataType.bf16, DataType.f16)
_UNDONE = frozenset(["Dequantize", "DynamicDequantize", "TypeCast", "StaticReshape", "StaticTranspose"])


def arithmetic_of(steps: Sequence[Step]) -> str:
    """The data types that the steps compute in; see :class:`PartitionReport`."""
    makers = {number: step for step in steps for number in step.outputs}

    def multiplied(step: Step, place: int) -> DataType:
        """The type of an operand before the casts of the same partition, which the kernel undoes."""
        maker = makers.get(step.inputs[place])
        if maker is not None and maker.kind in _UNDONE:
            return multiplied(maker, 0)
        types = _types(step.op.inputs)
        return types[min(place, len(types) - 1)]  # the product may be a part of an op with one input, such as ReduceSum

    product = next((step for step in steps if step.kind in PRODUCTS), None)
    if product is not None:
        return " x ".join(dict.fromkeys(str(multiplied(product, place)) for place in (0, 1)))
    read = {dtype for step in steps for dtype in _types(step.op.inputs)}
    return str(max(read, key=lambda dtype: (dtype in FLOATING, dtype.numpy.itemsize))) if read else ""


def _types(tensors: Sequence[LogicalTensor | None]) -> list[DataType]:
    return [tensor.dtype for tensor in tensors if tensor is not None]
