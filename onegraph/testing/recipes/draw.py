"""What recipes draw with: the source of chance, the op, the data types, and the pool of dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.schema import Attribute, AttrValue, Schema, TensorType
from ...opset.window import channels

Dims = tuple[int, ...]
Inputs = list[TensorType]
MAX_DIM = 5  # of a fresh tensor
NUMBERS = (0.25, 0.5, 1.0, 2.0)
EPSILONS = (1e-5, 1e-3, 0.25)


@dataclass
class Draw:
    """What a recipe draws with.

    Attributes:
        rng: the source of chance.
        schema: the op, in base words.
        types: the data type of each type variable.
        source: gives the dims of the first input for a lowest and a highest rank.
    """

    rng: Random
    schema: Schema
    types: Mapping[str, DataType]
    source: Callable[[int, int], Dims]
    fixed: dict[str, AttrValue] = field(default_factory=dict)

    def coin(self, chance: float = 0.5) -> bool:
        """True with the given chance."""
        return self.rng.random() < chance

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.rng.randint(low, high)

    def dims(self, length: int) -> Dims:
        """That many small dims."""
        return tuple(self.number(1, MAX_DIM) for _ in range(length))

    def word(self, name: str) -> str:
        """One of the values of an attribute, which the op then has."""
        value = self.rng.choice(self.schema.attribute(name).values)
        self.fixed[name] = value
        return value

    def flag(self, name: str) -> bool:
        """A value of a bool attribute, which the op then has."""
        self.fixed[name] = self.coin()
        return bool(self.fixed[name])

    def dtype(self, index: int) -> DataType:
        """The data type of an input port; f32 where it may be any, as of a Wildcard."""
        name = self.schema.input_port(index).type
        return self.types.get(name) or DataType.__members__.get(name, DataType.f32)

    def tensor(self, index: int, dims: Sequence[int]) -> TensorType:
        """The type of an input of these dims."""
        return TensorType(self.dtype(index), tuple(dims))

    def tensors(self, *shapes: Sequence[int]) -> Inputs:
        """The types of all inputs, by their dims."""
        return [self.tensor(index, dims) for index, dims in enumerate(shapes)]

    def positive(self, index: int, dims: Sequence[int]) -> TensorType:
        """An input that holds positive numbers: a variance, scales."""
        values = [self.rng.choice(NUMBERS) for _ in range(math.prod(dims))]
        return self._constant(index, np.array(values).reshape(dims))

    def integers(self, index: int, values: Sequence[int]) -> TensorType:
        """An input that holds these integers."""
        return self._constant(index, np.array(values))

    def _constant(self, index: int, values: Array) -> TensorType:
        dtype = self.dtype(index)
        return TensorType(dtype, values.shape, values.astype(dtype.numpy))

    def attributes(self) -> dict[str, AttrValue]:
        """What the recipe decided, and the other attributes: the required ones, some of those with a default."""
        found = dict(self.fixed)
        for attribute in self.schema.attributes:
            if attribute.name not in found and (attribute.required or (attribute.default is not None and self.coin())):
                value = self._value(attribute)
                if value is not None:
                    found[attribute.name] = value
        return found

    def _value(self, attribute: Attribute) -> AttrValue | None:
        if attribute.values:
            return self.rng.choice(attribute.values)
        if attribute.kind == "bool":
            return self.coin()
        if attribute.kind == "f32":
            return self.rng.choice(EPSILONS if attribute.name == "epsilon" else NUMBERS)
        return None  # what has a meaning of its own is the recipe's to decide

    def activation(self, low: int = 2) -> tuple[Dims, int]:
        """Dims of a tensor with channels, and how many they are; the op then has a data_format."""
        dims = self.source(low, 5)
        return dims, channels(dims, self.word("data_format")) or 0


Recipe = Callable[[Draw], Inputs]


def divisors(number: int) -> list[int]:
    """The numbers that divide one, from 1 on."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
