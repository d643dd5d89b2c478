"""Converts data types and tensors between PyTorch and numpy, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...ir.op import Array
from ...opset.dtypes import DataType

DTYPES: dict[Any, DataType] = {
    torch.float32: DataType.f32,
    torch.bfloat16: DataType.bf16,
    torch.float16: DataType.f16,
    torch.float64: DataType.float64,
    torch.int8: DataType.s8,
    torch.uint8: DataType.u8,
    torch.int16: DataType.int16,
    torch.int32: DataType.s32,
    torch.int64: DataType.s64,
    torch.bool: DataType.boolean,
}
PARTS_OF = {torch.complex64: DataType.f32, torch.complex128: DataType.float64}  # of the parts of complex numbers
TORCH = {dtype: own for own, dtype in DTYPES.items()}
# numpy has no bfloat16 of its own, so that its memory changes hands as integers.
AS_INTEGERS = {torch.bfloat16: torch.int16}


def to_numpy(dtype: Any) -> Callable[[Any], Array]:
    """A function that views tensors of a data type as arrays."""
    integers = AS_INTEGERS.get(dtype)
    if integers is None:

        def plain(tensor: Any) -> Array:
            array: Array = (tensor.detach() if tensor.requires_grad else tensor).numpy()
            return array

        return plain
    wanted = DTYPES[dtype].numpy

    def reinterpreted(tensor: Any) -> Array:
        array: Array = tensor.detach().view(integers).numpy().view(wanted)
        return array

    return reinterpreted


def from_numpy(dtype: Any) -> Callable[[Array], Any]:
    """A function that views arrays of a data type as tensors."""
    integers = AS_INTEGERS.get(dtype)
    if integers is None:
        made: Callable[[Array], Any] = torch.from_numpy
        return made
    wanted = np.dtype(np.int16)

    def reinterpreted(array: Array) -> Any:
        return torch.from_numpy(array.view(wanted)).view(dtype)

    return reinterpreted
