"""The symbols that open sizes are polynomials of, and what was asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .open_sizes import OpenSize, Terms
from .polynomials import Monomial

MOST_GUARDS = 4096


class TooManyGuardsError(Exception):
    """More was asked of sizes than is worth noting."""


class OpenSizes:
    """The symbols of one computation, and the guards that it has noted.

    Args:
        values: the present values of the symbols.

    Attributes:
        symbols: a number for each symbol.
        pinned: the texts of the polynomials whose number was needed.
        divided: what was divided by what, by the atom that the quotient is.
        atoms: the sizes that polynomials are made of, by their numbers.
    """

    def __init__(self, values: Sequence[int]) -> None:
        self._atoms: dict[object, int] = {}
        self._known: dict[Terms, OpenSize] = {}
        self._codes: list[str] = []
        self.atoms: list[OpenSize] = []
        self._guards: dict[str, bool] = {}
        self.pinned, self.divided = set[str](), dict[int, tuple[Any, Any]]()
        self.symbols = [self._atom(("symbol", place), f"s[{place}]", value) for place, value in enumerate(values)]

    def _atom(self, key: object, code: str, value: int) -> OpenSize:
        """The size that stands for itself in polynomials."""
        number = self._atoms.get(key)
        if number is None:
            number = self._atoms[key] = len(self._codes)
            self._codes.append(code)
            self.atoms.append(self._of((((number,), 1),), value))
        return self.atoms[number]

    def size(self, terms: Mapping[Monomial, int], value: int) -> Any:
        """The size of a polynomial: an int if it has no symbol."""
        nonzero = {monomial: factor for monomial, factor in terms.items() if factor}
        if not nonzero or (len(nonzero) == 1 and () in nonzero):
            return value
        return self._of(tuple(sorted(nonzero.items())), value)

    def _of(self, terms: Terms, value: int) -> OpenSize:
        """The size of a polynomial, the same object each time."""
        known = self._known.get(terms)
        if known is None:
            known = self._known[terms] = OpenSize(self, terms, value)
        return known

    def call(self, function: str, value: int, *arguments: Any) -> OpenSize:
        """The result of a function that is no polynomial, whose code has a place for each argument."""
        code = function.format(*[self.code(argument) for argument in arguments])
        return self._atom(code, code, value)

    def code(self, size: Any) -> str:
        """A size as an expression of Python in the list ``s`` of the values of the symbols."""
        if type(size) is not OpenSize:
            return repr(size)
        return "(" + "+".join(self._term(*term) for term in size.terms) + ")"

    def _term(self, monomial: Monomial, factor: int) -> str:
        atoms = [self._codes[number] for number in monomial]
        return "*".join([*([] if factor == 1 and atoms else [f"({factor})"]), *atoms])

    def guard(self, condition: str, holds: bool) -> bool:
        """Note the answer to a question about sizes, and return it.

        Raises:
            TooManyGuardsError: so many were noted that the computation holds for few sizes.
        """
        self._guards[condition] = holds
        if len(self._guards) > MOST_GUARDS:
            raise TooManyGuardsError
        return holds

    @property
    def are_pinned(self) -> bool:
        """Whether the number of each symbol was needed, so that the computation holds for these sizes alone."""
        return all(any(self._codes[place] in text for text in self.pinned) for place in range(len(self.symbols)))

    def conditions(self) -> list[str]:
        """The guards, as expressions of Python in the list ``s``."""
        return [text if holds else f"not {text}" for text, holds in self._guards.items()]
