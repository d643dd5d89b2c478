"""Defines the Draw that recipes work with: random numbers, the op, its data types, and dims for the first input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.schema import Schema, TensorType
from ...opset.signature import Attribute, AttrValue
from ...opset.window import channels

Dims = tuple[int, ...]
Inputs = list[TensorType]
MAX_DIM = 5  # of a new tensor
NUMBERS = (0.25, 0.5, 1.0, 2.0)
WIDE_NUMBERS = (*NUMBERS, -1.0, 0.0, 0.01, 0.1, 3.0)
EPSILONS = (1e-5, 1e-3, 0.25)


@dataclass
class Draw:
    """The random choices of one op.

    Attributes:
        rng: random number generator.
        schema: the op, in the base vocabulary.
        types: the data type of each type variable.
        source: returns the dims of the first input for a lowest and a highest rank.
        fixed: the attributes that the recipe has set.
        wide: whether everything that the specification allows is drawn: longer windows, all paddings, every broadcast.
            Graphs of several ops stay with what keeps their results small.
    """

    rng: Random
    schema: Schema
    types: Mapping[str, DataType]
    source: Callable[[int, int], Dims]
    fixed: dict[str, AttrValue] = field(default_factory=dict)
    wide: bool = False

    def coin(self, chance: float = 0.5) -> bool:
        """True with the given chance."""
        return self.rng.random() < chance

    def number(self, low: int, high: int) -> int:
        """A random integer, both ends included."""
        return self.rng.randint(low, high)

    def dims(self, length: int) -> Dims:
        """``length`` small random dims."""
        return tuple(self.number(1, MAX_DIM) for _ in range(length))

    def word(self, name: str) -> str:
        """Set a string attribute to one of its values; returns the value."""
        value = self.rng.choice(self.schema.attribute(name).values)
        self.fixed[name] = value
        return value

    def flag(self, name: str) -> bool:
        """Set a bool attribute to a random value; returns the value."""
        self.fixed[name] = self.coin()
        return bool(self.fixed[name])

    def dtype(self, index: int) -> DataType:
        """The data type of an input port; f32 if any type is allowed, as for a Wildcard."""
        name = self.schema.input_port(index).type
        return self.types.get(name) or DataType.__members__.get(name, DataType.f32)

    def tensor(self, index: int, dims: Sequence[int]) -> TensorType:
        """The type of an input with these dims."""
        return TensorType(self.dtype(index), tuple(dims))

    def tensors(self, *shapes: Sequence[int]) -> Inputs:
        """The types of all inputs with these dims."""
        return [self.tensor(index, dims) for index, dims in enumerate(shapes)]

    def positive(self, index: int, dims: Sequence[int]) -> TensorType:
        """A constant input of positive numbers, such as a variance or scales."""
        values = [self.rng.choice(NUMBERS) for _ in range(math.prod(dims))]
        return self._constant(index, np.array(values).reshape(dims))

    def integers(self, index: int, values: Sequence[int]) -> TensorType:
        """A constant input of these integers."""
        return self._constant(index, np.array(values))

    def _constant(self, index: int, values: Array) -> TensorType:
        dtype = self.dtype(index)
        return TensorType(dtype, values.shape, values.astype(dtype.numpy))

    def attributes(self) -> dict[str, AttrValue]:
        """The attributes that the recipe set, the other required ones, and some of the optional ones."""
        attributes_drawn = dict(self.fixed)
        for attribute in self.schema.attributes:
            if attribute.name not in attributes_drawn and (
                attribute.required or (attribute.default is not None and self.coin())
            ):
                value = self._value(attribute)
                if value is not None:
                    attributes_drawn[attribute.name] = value
        return attributes_drawn

    def _value(self, attribute: Attribute) -> AttrValue | None:
        if attribute.values:
            return self.rng.choice(attribute.values)
        if attribute.kind == "bool":
            return self.coin()
        if attribute.kind == "f32":
            numbers = EPSILONS if attribute.name == "epsilon" else WIDE_NUMBERS if self.wide else NUMBERS
            return self.rng.choice(numbers)
        return None  # only a recipe can choose a valid value

    def spatial_padding(self) -> tuple[int, ...]:
        """For each spatial axis a number below the stride."""
        strides = self.fixed["strides"]
        assert isinstance(strides, tuple)
        return tuple(self.number(0, int(stride) - 1) for stride in strides)

    def activation(self, low: int = 2) -> tuple[Dims, int]:
        """Set data_format; returns the dims of a tensor with channels, and the number of channels."""
        dims = self.source(low, 5)
        channel = channels(dims, self.word("data_format"))
        assert channel is not None
        return dims, channel


Recipe = Callable[[Draw], Inputs]


def divisors(number: int) -> list[int]:
    """The divisors of a number, in rising order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
