"""The values that the bodies of composed ops compute with, whatever the body is made into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..schema import Call


class Expression(ABC):
    """A tensor in the body of an op. Python's operators add ops; a number stands for a scalar of the same data type.

    A subclass says what becomes of an op: a part for the library, an op of a graph, a node of an ONNX function.
    """

    @abstractmethod
    def op(self, kind: str, *operands: Operand) -> Expression:
        """The result of an elementwise op of this name, without attributes, on this tensor and others."""

    @abstractmethod
    def reduce(self, kind: str, axes: Sequence[int], *, keep: bool = True) -> Expression:
        """A reduction over axes, such as ReduceSum."""

    @abstractmethod
    def unsqueeze(self, axes: Sequence[int]) -> Expression:
        """The tensor with further axes of size 1, at these places of the result."""

    @abstractmethod
    def along(self, axis: int, rank: int) -> Expression:
        """A vector in a shape that broadcasts with a tensor of this rank along one of its axes."""

    def reshape(self, shape: Sequence[int] | Expression) -> Expression:
        """The tensor in another shape: dims, of which one may be -1 and 0 keeps a dim, or that of another tensor."""
        raise NotImplementedError

    def transpose(self, order: Sequence[int]) -> Expression:
        """The tensor with its axes in another order."""
        raise NotImplementedError

    def where(self, first: Operand, second: Operand) -> Expression:
        """The elements of one operand where this boolean tensor holds, else those of the other; one is a tensor."""
        return self.op("Select", first, second)

    def __add__(self, other: Operand) -> Expression:
        return self.op("Add", other)

    def __sub__(self, other: Operand) -> Expression:
        return self.op("Subtract", other)

    def __mul__(self, other: Operand) -> Expression:
        return self.op("Multiply", other)

    def __truediv__(self, other: Operand) -> Expression:
        return self.op("Divide", other)

    def __gt__(self, other: Operand) -> Expression:
        return self.op("Greater", other)

    def __lt__(self, other: Operand) -> Expression:
        return self.op("Less", other)

    def __ge__(self, other: Operand) -> Expression:
        return self.op("GreaterEqual", other)

    def __le__(self, other: Operand) -> Expression:
        return self.op("LessEqual", other)

    def one_minus(self) -> Expression:
        """1 - the tensor."""
        return self.op("OneMinus")

    def square(self) -> Expression:
        """The tensor times itself."""
        return self.op("Square")


Operand = Expression | float
Results = Expression | tuple[Expression, ...]
Body = Callable[..., Results]
Function = TypeVar("Function", bound=Body)
# The body of an op, by its kind: a function of the call and its inputs, None for absent ones, in port order.
BODIES: dict[str, Body] = {}


def body(*kinds: str) -> Callable[[Function], Function]:
    """Register the body of ops."""

    def register(function: Function) -> Function:
        BODIES.update(dict.fromkeys(kinds, function))
        return function

    return register


def expand(call: Call, inputs: Sequence[Expression | None]) -> tuple[Expression, ...]:
    """The results of an op by its body."""
    results = BODIES[call.schema.kind](call, *inputs)
    return results if isinstance(results, tuple) else (results,)
