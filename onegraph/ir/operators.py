"""Gives the tensors of a graph the operators of Python: each adds an op to the graph of the tensor."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, TypeVar

Tensor = TypeVar("Tensor", bound="Operators")


class OperatorGraph(Protocol):
    """A graph that adds the ops of operators."""

    def _operator(self, sign: str, left: object, right: object) -> Any:
        """Add the op of an operator; NotImplemented if an operand is neither a tensor nor an array or a number."""


class Operators:
    """The operators of a tensor of a graph.

    The other operand is a tensor of the same graph, or becomes a constant of this tensor's data type: a number, a numpy
    array, or anything with ``__dlpack__``. ``==`` and ``!=`` compare identities, as for all records.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves ``array + tensor`` to the tensor

    def _builder(self) -> OperatorGraph:
        """The graph that the operators add to."""
        raise NotImplementedError

    def _result(self: Tensor, sign: str, left: object, right: object) -> Tensor:
        tensor: Tensor = self._builder()._operator(sign, left, right)
        return tensor

    def __add__(self: Tensor, other: object) -> Tensor:
        return self._result("+", self, other)

    def __radd__(self: Tensor, other: object) -> Tensor:
        return self._result("+", other, self)

    def __sub__(self: Tensor, other: object) -> Tensor:
        return self._result("-", self, other)

    def __rsub__(self: Tensor, other: object) -> Tensor:
        return self._result("-", other, self)

    def __mul__(self: Tensor, other: object) -> Tensor:
        return self._result("*", self, other)

    def __rmul__(self: Tensor, other: object) -> Tensor:
        return self._result("*", other, self)

    def __truediv__(self: Tensor, other: object) -> Tensor:
        return self._result("/", self, other)

    def __rtruediv__(self: Tensor, other: object) -> Tensor:
        return self._result("/", other, self)

    def __matmul__(self: Tensor, other: object) -> Tensor:
        return self._result("@", self, other)

    def __rmatmul__(self: Tensor, other: object) -> Tensor:
        return self._result("@", other, self)

    def __pow__(self: Tensor, other: object) -> Tensor:
        return self._result("**", self, other)

    def __rpow__(self: Tensor, other: object) -> Tensor:
        return self._result("**", other, self)

    def __ge__(self: Tensor, other: object) -> Tensor:
        return self._result(">=", self, other)

    def __gt__(self: Tensor, other: object) -> Tensor:
        return self._result(">", self, other)

    def __le__(self: Tensor, other: object) -> Tensor:
        return self._result("<=", self, other)

    def __lt__(self: Tensor, other: object) -> Tensor:
        return self._result("<", self, other)

    def __neg__(self: Tensor) -> Tensor:
        return self._result("*", self, -1)

    def __abs__(self: Tensor) -> Tensor:
        return self._result("abs", self, None)

    def __getitem__(self, place: object) -> NoReturn:
        """Raise TypeError: ops of the graph take parts."""
        raise TypeError(
            "a tensor of a graph cannot be indexed; g.slice(tensor, starts, ends, axes) and "
            "g.gather(tensor, indices, axis=...) take parts of it"
        )

    __iter__ = None  # else Python would iterate by __getitem__

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a tensor of a graph has no value before the graph runs, so it is neither true nor false; "
            "g.select(condition, a, b) chooses between tensors"
        )
