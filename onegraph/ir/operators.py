"""Gives the tensors of a graph the operators of Python: each adds an op to the graph of the tensor."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, TypeVar

Tensor = TypeVar("Tensor", bound="Operators")


class OperatorGraph(Protocol):
    """A graph that adds the ops of operators."""

    def _operator(self, sign: str, left: object, right: object) -> Any:
        """Add the op of an operator; NotImplemented if an operand is neither a tensor nor an array or a number."""

    def _part(self, tensor: Any, place: object) -> Any:
        """Add the ops that take a part of a tensor."""


def _no_numbers(self: object, *_: object) -> NoReturn:
    """Refuse arithmetic with an :class:`Identity`."""
    raise TypeError(repr(self))


class Identity:
    """Whether two tensors are the same one, as ``==`` and ``!=`` give it: true or false, but no number and no tensor.

    A plain bool would be taken as the number 0 or 1 in ``x * (x == 0)``.
    """

    __slots__ = ("_holds",)
    __array_ufunc__ = None

    def __init__(self, holds: bool) -> None:
        self._holds = holds

    def __bool__(self) -> bool:
        return self._holds

    def __eq__(self, other: object) -> bool:
        return self._holds == other

    def __hash__(self) -> int:
        return hash(self._holds)

    def __repr__(self) -> str:
        return f"{self._holds}, as == and != ask whether tensors are the same one; g.equal(a, b) compares numbers"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_numbers
    __floordiv__ = __rfloordiv__ = _no_numbers
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __mod__ = __rmod__ = __neg__ = __invert__ = _no_numbers
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _no_numbers
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = _no_numbers


_SAME, _OTHER = Identity(True), Identity(False)


class Operators:
    """The operators of a tensor of a graph.

    The other operand is a tensor of the same graph, or becomes a constant of this tensor's data type: a number, a numpy
    array, or anything with ``__dlpack__``. ``==`` and ``!=`` compare identities, as for all records, and give an
    :class:`Identity`, which takes part in no arithmetic.
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

    def __floordiv__(self: Tensor, other: object) -> Tensor:
        return self._result("//", self, other)

    def __rfloordiv__(self: Tensor, other: object) -> Tensor:
        return self._result("//", other, self)

    def __mod__(self: Tensor, other: object) -> Tensor:
        return self._result("%", self, other)

    def __rmod__(self: Tensor, other: object) -> Tensor:
        return self._result("%", other, self)

    def __and__(self: Tensor, other: object) -> Tensor:
        return self._result("&", self, other)

    def __rand__(self: Tensor, other: object) -> Tensor:
        return self._result("&", other, self)

    def __or__(self: Tensor, other: object) -> Tensor:
        return self._result("|", self, other)

    def __ror__(self: Tensor, other: object) -> Tensor:
        return self._result("|", other, self)

    def __xor__(self: Tensor, other: object) -> Tensor:
        return self._result("^", self, other)

    def __rxor__(self: Tensor, other: object) -> Tensor:
        return self._result("^", other, self)

    def __invert__(self: Tensor) -> Tensor:
        return self._result("~", self, None)

    def __neg__(self: Tensor) -> Tensor:
        return self._result("*", self, -1)

    def __abs__(self: Tensor) -> Tensor:
        return self._result("abs", self, None)

    def __getitem__(self: Tensor, place: object) -> Tensor:
        """A part, as numpy takes it: by integers, slices, ``...``, None, and at most one tensor or list of indices."""
        tensor: Tensor = self._builder()._part(self, place)
        return tensor

    def __eq__(self, other: object) -> Any:
        return _SAME if self is other else _OTHER

    def __ne__(self, other: object) -> Any:
        return _OTHER if self is other else _SAME

    __hash__ = object.__hash__
    __iter__ = None  # else Python would iterate by __getitem__

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a tensor of a graph has no value before the graph runs, so it is neither true nor false; "
            "g.select(condition, a, b) chooses between tensors"
        )
