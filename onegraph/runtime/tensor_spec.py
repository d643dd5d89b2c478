"""Describes the inputs and outputs of an executable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.signature import Shape


class TensorSpec(NamedTuple):
    """Name, data type and shape of a graph input or output; unknown dims are None."""

    name: str
    dtype: DataType
    shape: Shape


def specs_of(tensors: Mapping[str, LogicalTensor]) -> tuple[TensorSpec, ...]:
    """The descriptions of tensors by name."""
    return tuple(TensorSpec(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items())
