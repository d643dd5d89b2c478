"""Numbers that stand for any of several sizes: they compute as integers do, and note what was asked of them.

An :class:`OpenSize` is a polynomial of symbols with a value for each symbol. Sums and products are polynomials again. A
comparison answers for the present values and is noted as a guard, so that what was computed holds for all values that
answer alike. Where Python or C needs the integer itself, the guard is that the polynomial has this value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from operator import index
from typing import Any, Protocol, TypeGuard

from .polynomials import Monomial, quotient_of

Terms = tuple[tuple[Monomial, int], ...]  # monomials and their factors, in order


class Symbols(Protocol):
    """What open sizes are polynomials of; see ``size_symbols``."""

    pinned: set[str]
    divided: dict[int, tuple[Any, Any]]
    atoms: list[OpenSize]
    symbols: list[OpenSize]

    def size(self, terms: Mapping[Monomial, int], value: int) -> Any:
        """The size of a polynomial."""

    def call(self, function: str, value: int, *arguments: Any) -> OpenSize:
        """The result of a function that is no polynomial."""

    def code(self, size: Any) -> str:
        """A size as an expression of Python."""

    def guard(self, condition: str, holds: bool) -> bool:
        """Note the answer to a question about sizes, and return it."""


def _terms(size: Any) -> dict[Monomial, int]:
    return dict(size.terms) if type(size) is OpenSize else {(): size}


class OpenSize:
    """A number that stands for any of several sizes.

    Equal polynomials of the same symbols are one object. It is no int, so that C code which needs its value asks for
    it, and that is noted. ``isinstance`` takes it for one.

    Args:
        sizes: the symbols.
        terms: of the polynomial.
        value: for the present values of the symbols.
    """

    __slots__ = ("_hash", "_memo", "sizes", "terms", "value")

    def __init__(self, sizes: Symbols, terms: Terms, value: int) -> None:
        self.sizes, self.terms, self.value = sizes, terms, value
        self._hash = hash((id(sizes), terms))
        self._memo: dict[object, Any] = {}  # what an operator gave for another number

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.sizes.code(self)

    def __reduce__(self) -> Any:
        raise TypeError("an open size cannot be pickled")

    # Arithmetic ------------------------------------------------------------------------------------------------------

    def _combined(self, second: Any, factor: int) -> Any:
        """The sum with a multiple of another number."""
        key = factor, id(second) if type(second) is OpenSize else second
        if key not in self._memo:
            terms = dict(self.terms)
            for monomial, count in _terms(second).items():
                terms[monomial] = terms.get(monomial, 0) + factor * count
            self._memo[key] = self.sizes.size(terms, self.value + factor * present(second))
        return self._memo[key]

    def __add__(self, other: Any) -> Any:
        return self._combined(other, 1) if _is_size(other) else self._pinned() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, -1) if _is_size(other) else self._pinned() - other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return self * -1

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __mul__(self, other: Any) -> Any:
        if not _is_size(other):
            return self._pinned() * other
        key = "*", id(other) if type(other) is OpenSize else other
        if key not in self._memo:
            terms: dict[Monomial, int] = {}
            for first, count in self.terms:
                for second, factor in _terms(other).items():
                    monomial = tuple(sorted(first + second))
                    terms[monomial] = terms.get(monomial, 0) + count * factor
            self._memo[key] = self.sizes.size(terms, self.value * present(other))
        return self._memo[key]

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self.sizes, self, other)[0] if _is_size(other) else self._pinned() // other

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(self.sizes, other, self)[0] if _is_size(other) else other // self._pinned()

    def __mod__(self, other: Any) -> Any:
        return _quotient(self.sizes, self, other)[1] if _is_size(other) else self._pinned() % other

    def __rmod__(self, other: Any) -> Any:
        return _quotient(self.sizes, other, self)[1] if _is_size(other) else other % self._pinned()

    def __divmod__(self, other: Any) -> Any:
        return _quotient(self.sizes, self, other) if _is_size(other) else divmod(self._pinned(), other)

    def __rdivmod__(self, other: Any) -> Any:
        return _quotient(self.sizes, other, self)

    # Questions -------------------------------------------------------------------------------------------------------

    def _compared(self, second: Any, sign: str) -> bool:
        """Whether the difference to another number is ``sign`` 0, which is noted."""
        key = sign, id(second) if type(second) is OpenSize else second
        if key not in self._memo:
            difference = self - second
            holds = present(difference) < 0 if sign == "<" else present(difference) == 0
            if type(difference) is OpenSize:
                self.sizes.guard(f"{self.sizes.code(difference)}{sign}0", holds)
            self._memo[key] = holds
        return bool(self._memo[key])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not _is_size(other):
            return False
        return self._compared(other, "==")

    def __lt__(self, other: Any) -> bool:
        if not _is_size(other):
            return bool(self._pinned() < other)
        return self._compared(other, "<")

    def __le__(self, other: Any) -> bool:
        if not _is_size(other):
            return bool(self._pinned() <= other)
        return bool(self - other - 1 < 0)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def bit_length(self) -> int:
        """The number of bits, which is noted."""
        bits = self.value.bit_length()
        self.sizes.guard(f"{self.sizes.code(self)}.bit_length()=={bits}", True)
        return bits

    # The integer itself ----------------------------------------------------------------------------------------------

    def _pinned(self) -> int:
        code = self.sizes.code(self)
        self.sizes.pinned.add(code)
        self.sizes.guard(f"{code}=={self.value}", True)
        return self.value

    def __index__(self) -> int:
        return self._pinned()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._pinned())

    def __getattr__(self, name: str) -> Any:  # operators that no size needs as a polynomial
        return getattr(self._pinned() if hasattr(int, name) else 0, name)

    def __pow__(self, other: Any) -> Any:
        return self._pinned() ** (other if type(other) is float else index(other))

    def __rpow__(self, other: Any) -> Any:
        return other ** self._pinned()

    def __truediv__(self, other: Any) -> Any:
        return self._pinned() / (other._pinned() if type(other) is OpenSize else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._pinned()

    def __and__(self, other: Any) -> Any:
        return self._pinned() & index(other)

    __rand__ = __and__

    def __lshift__(self, other: Any) -> Any:
        return self._pinned() << index(other)

    def __rlshift__(self, other: Any) -> Any:
        return other << self._pinned()

    def __rshift__(self, other: Any) -> Any:
        return self._pinned() >> index(other)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int or an open size, by its real type."""
    kind: type = type(value)
    return kind is int or kind is OpenSize


def present(size: Any) -> int:
    """A size as an int: the present value of an open one, without a guard."""
    value: int = size.value if type(size) is OpenSize else size
    return value


def settled(size: Any) -> int:
    """A size as an int; for an open one, that it has this value is noted as one of the guards."""
    value = present(size)
    is_equal = size == value  # the question is noted
    assert is_equal
    return value


def computed(function: str, value: int, size: Any) -> Any:
    """The value of a function of a size; of an open one, what ``Symbols.call`` makes, which asks nothing."""
    return size.sizes.call(function, value, size) if type(size) is OpenSize else value


def is_open(sizes: Iterable[object]) -> bool:
    """Whether any of these sizes is open."""
    return OpenSize in map(type, sizes)  # a generator takes twice as long


def _is_size(value: object) -> bool:
    kind: type = type(value)
    return kind is OpenSize or kind is int or kind is bool


def _quotient(sizes: Symbols, first: Any, second: Any) -> tuple[Any, Any]:
    """Quotient and remainder: a polynomial and 0 if there is one, otherwise a symbol of its own."""
    value, rest = divmod(present(first), present(second))
    if type(second) is OpenSize:
        sizes.guard(f"{sizes.code(second)}==0", False)
    shares = quotient_of(_terms(first), _terms(second))
    if shares is not None:
        return sizes.size(shares, value), 0
    if type(second) is int and second > 0 and (simpler := _simpler(sizes, _terms(first), second)) is not None:
        return simpler, first - simpler * second
    quotient = sizes.call("({}//{})", value, first, second)
    sizes.divided[quotient.terms[0][0][0]] = first, second
    remainder = first - quotient * second
    assert present(remainder) == rest
    return quotient, remainder


def _simpler(sizes: Symbols, terms: Mapping[Monomial, int], divisor: int) -> Any:
    """A quotient by a number in the form that it has however it was computed; None if that is a symbol of its own.

    Multiples of the number stand outside of the quotient, and a quotient of a quotient is one.
    """
    whole = {term: count // divisor for term, count in terms.items() if count % divisor == 0}
    if whole:
        rest = {term: count for term, count in terms.items() if term not in whole}
        parts = [sizes.size(some, _value(sizes, some)) for some in (rest, whole)]
        return _quotient(sizes, parts[0], divisor)[0] + parts[1]
    ((term, count), *more_terms) = terms.items()
    if more_terms or count != 1 or len(term) != 1 or term[0] not in sizes.divided:
        return None
    first, second = sizes.divided[term[0]]
    return _quotient(sizes, first, second * divisor)[0] if type(second) is int and second > 0 else None


def _value(sizes: Symbols, terms: Mapping[Monomial, int]) -> int:
    return sum(count * prod([sizes.atoms[number].value for number in term]) for term, count in terms.items())
