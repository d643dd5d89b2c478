"""Gives the tensors of a graph the operators of Python: each adds an op to the graph of the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from .op import LogicalTensor


class OperatorGraph(Protocol):
    """A graph that adds the ops of operators."""

    def _operator(self, sign: str, left: object, right: object) -> LogicalTensor:
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

    def __add__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("+", self, other)

    def __radd__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("+", other, self)

    def __sub__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("-", self, other)

    def __rsub__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("-", other, self)

    def __mul__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("*", self, other)

    def __rmul__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("*", other, self)

    def __truediv__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("/", self, other)

    def __rtruediv__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("/", other, self)

    def __matmul__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("@", self, other)

    def __rmatmul__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("@", other, self)

    def __pow__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("**", self, other)

    def __rpow__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("**", other, self)

    def __ge__(self, other: object) -> LogicalTensor:
        return self._builder()._operator(">=", self, other)

    def __gt__(self, other: object) -> LogicalTensor:
        return self._builder()._operator(">", self, other)

    def __le__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("<=", self, other)

    def __lt__(self, other: object) -> LogicalTensor:
        return self._builder()._operator("<", self, other)

    def __neg__(self) -> LogicalTensor:
        return self._builder()._operator("*", self, -1)

    def __abs__(self) -> LogicalTensor:
        return self._builder()._operator("abs", self, None)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a tensor of a graph has no value before the graph runs, so it is neither true nor false; "
            "g.select(condition, a, b) chooses between tensors"
        )
