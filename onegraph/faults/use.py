"""The ops of a partition and what they join, as the tables of what the library gets wrong see them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..opset.dtypes import DataType
from ..opset.schema import Call
from ..opset.shapes import known_dims
from ..opset.window import channel_axis

Dims = tuple[int, ...]

BINARY = frozenset(
    ["Add", "BiasAdd", "Divide", "Maximum", "Minimum", "Multiply", "PReLU", "Select", "SquaredDifference", "Subtract"]
)
VIEWS = frozenset(["StaticReshape", "StaticTranspose"])
POOLS = frozenset(["AvgPool", "MaxPool"])
CONVOLUTIONS = frozenset(["Convolution", "ConvTranspose"])
NORMS = frozenset(["GroupNorm", "LayerNorm"])
PRODUCTS = CONVOLUTIONS | {"MatMul"}
FOLDED = frozenset(["BiasAdd", "BatchNormInference"])  # into the weights and the bias of the op before
DEQUANTIZATIONS = frozenset(["Dequantize", "DynamicDequantize"])
MOVES = VIEWS | {"Reorder", "TypeCast"}
# From this rank on, the kernel of an elementwise op counts on dense tensors, and with a binary op behind it writes past
# its memory.
WILD_RANK = 6


@dataclass(frozen=True)
class Use:
    """One op of a partition: what it computes, and the values that it reads and writes, by number."""

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: DataType  # of the first output

    @property
    def kind(self) -> str:
        """Name of the op."""
        return self.call.schema.kind

    @property
    def result(self) -> Dims:
        """Shape of the first output."""
        return known_dims(self.call.schema.shape(self.call)[0])

    def shape(self, index: int) -> Dims:
        """Shape of input ``index``."""
        tensor = self.call.inputs[index]
        assert tensor is not None
        return known_dims(tensor.shape)


@dataclass(frozen=True)
class Operand:
    """What a binary op joins to the result of the main op of a partition: both shapes, and where a vector goes."""

    binary: Use
    result: Dims
    shape: Dims

    @property
    def single(self) -> bool:
        """Whether it is one element."""
        return prod(self.shape) == 1

    @property
    def bias_axis(self) -> int:
        """The axis that the bias of a BiasAdd goes along."""
        return channel_axis(len(self.result), self.binary.call.string("data_format"))

    @property
    def along_last(self) -> bool:
        """Whether it varies along the last axis only; the bias of a BiasAdd goes along the channels."""
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == len(self.result) - 1
        return self.single or prod(self.shape) == self.shape[-1] == self.result[-1]

    @property
    def in_columns(self) -> bool:
        """Whether the last axis has size 1, and it varies along some of the other axes."""
        return self.result[-1:] == (1,) and not self.single and prod(self.shape) != prod(self.result)

    @property
    def along_bare_channels(self) -> bool:
        """Whether it varies along the channels, the second axis, of a batch without anything behind them."""
        whole = self.result
        if len(whole) < 3 or whole[0] == 1 or whole[1] == 1 or prod(whole[2:]) != 1:
            return False
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == 1
        return (1,) * (len(whole) - len(self.shape)) + self.shape == (1, *whole[1:])
