"""A stand-in for SymPy, as far as sizes of PyTorch need it: sums of products of symbols, and functions of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Monomial = tuple["Expr", ...]


class Expr:
    """An expression of integers: factors by product, each a tuple of atoms.

    Args:
        terms: the factors.
    """

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {key: factor for key, factor in terms.items() if factor}

    def _key(self) -> object:
        return frozenset(self.terms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return "+".join("*".join([str(factor), *map(str, product)]) for product, factor in self.terms.items()) or "0"

    @property
    def free_symbols(self) -> set[Any]:
        """The symbols in it."""
        return {symbol for product in self.terms for atom in product for symbol in atom.free_symbols}

    @property
    def args(self) -> tuple[Any, ...]:
        """The terms of a sum, or the factors of a product."""
        if isinstance(self, Add):
            return tuple(made({product: factor}) for product, factor in self.terms.items())
        ((product, factor),) = self.terms.items()
        if isinstance(self, Pow):
            return product[0], Integer(len(product))
        powers = dict.fromkeys(product)
        own = [made({(atom,) * product.count(atom): 1}) for atom in powers]
        return (*([Integer(factor)] if factor != 1 else []), *own)

    def as_coeff_Mul(self) -> tuple[Any, Any]:  # noqa: N802 - the name in SymPy
        """The number before a product, and the product."""
        if len(self.terms) != 1:
            return Integer(1), self
        ((product, factor),) = self.terms.items()
        return Integer(factor), made({product: 1})

    def __add__(self, other: Any) -> Any:
        terms = {**self.terms}
        for product, factor in of(other).terms.items():
            terms[product] = terms.get(product, 0) + factor
        return made(terms)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + of(other) * -1

    def __rsub__(self, other: Any) -> Any:
        return of(other) - self

    def __mul__(self, other: Any) -> Any:
        terms: dict[Monomial, int] = {}
        for first, factor in self.terms.items():
            for second, more in of(other).terms.items():
                product = tuple(sorted((*first, *second), key=str))
                terms[product] = terms.get(product, 0) + factor * more
        return made(terms)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        result: Any = Integer(1)
        for _ in range(power):
            result = result * self
        return result

    def __floordiv__(self, other: Any) -> Any:
        return FloorDiv(self, other)

    def __mod__(self, other: Any) -> Any:
        return Mod(self, other)


class Add(Expr):
    """A sum."""

    @staticmethod
    def make_args(expression: Expr) -> tuple[Any, ...]:
        """The terms of a sum; anything else is one."""
        return expression.args if isinstance(expression, Add) else (expression,)


class Mul(Expr):
    """A product."""


class Pow(Expr):
    """A product of an atom with itself."""


class Integer(Expr):
    """A number."""

    def __init__(self, value: int) -> None:
        super().__init__({(): int(value)})
        self.value = int(value)

    def __int__(self) -> int:
        return self.value


class Atom(Expr):
    """What is no sum and no product."""

    def __init__(self) -> None:
        self.terms = {(self,): 1}

    @property
    def args(self) -> tuple[Any, ...]:
        """None."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))


class Symbol(Atom):
    """A size of PyTorch."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def __repr__(self) -> str:
        return self.name

    @property
    def free_symbols(self) -> set[Any]:
        """The symbol."""
        return {self}


class Float(Atom):
    """A number that is no integer."""

    def __init__(self, value: float) -> None:
        self.value = value
        super().__init__()

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def free_symbols(self) -> set[Any]:
        """No symbol."""
        return set()

    def __float__(self) -> float:
        return self.value


class Function(Atom):
    """A function of expressions."""

    def __init__(self, *args: Any) -> None:
        self._args = tuple(map(of, args))
        super().__init__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._args))})"

    @property
    def args(self) -> tuple[Any, ...]:
        """The expressions."""
        return self._args

    @property
    def free_symbols(self) -> set[Any]:
        """The symbols in them."""
        return {symbol for one in self._args for symbol in one.free_symbols}


class FloorDiv(Function):
    """The whole part of a quotient."""


class Mod(Function):
    """The rest of a quotient."""


class PythonMod(Function):
    """The rest of a quotient."""


class Max(Function):
    """The largest."""


class Min(Function):
    """The smallest."""


class ToFloat(Function):
    """A number as a float."""


class TruncToInt(Function):
    """The whole part of a float."""


class Abs(Function):
    """A function that the front end does not know."""


class IntTrueDiv(Abs):
    """A quotient as a float."""


class FloatTrueDiv(Abs):
    """A quotient of floats."""


def of(value: Any) -> Expr:
    """A number as an expression."""
    if isinstance(value, Expr):
        return value
    return Float(value) if type(value) is float else Integer(value)


def made(terms: Mapping[Monomial, int]) -> Any:
    """An expression in its simplest form."""
    terms = {product: factor for product, factor in terms.items() if factor}
    if len(terms) > 1:
        return Add(terms)
    ((product, factor),) = terms.items() or [((), 0)]
    if not product:
        return Integer(factor)
    if factor == 1 and len(product) == 1:
        return product[0]
    return Pow(terms) if factor == 1 and len({*product}) == 1 else Mul(terms)


def expand(expression: Any) -> Any:
    """The expression: sums of products are all that there is."""
    return expression


def parsed(text: str) -> Any:
    """An expression of a text."""
    names = {name: Symbol(name) for name in _names(text)}
    known = (FloorDiv, Mod, PythonMod, Max, Min, ToFloat, TruncToInt, Abs, IntTrueDiv, FloatTrueDiv)
    functions = {one.__name__: one for one in known}
    return of(eval(text, {**names, **functions}))


def _names(text: str) -> Iterable[str]:
    return {word for word in "".join([one if one.isalnum() else " " for one in text]).split() if word[0] in "su"}
