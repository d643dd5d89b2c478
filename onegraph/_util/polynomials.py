"""Polynomials of integers, as mappings of monomials to their factors."""

from __future__ import annotations

from collections.abc import Mapping

Monomial = tuple[int, ...]  # numbers of atoms, in order
MOST_TERMS = 64  # of a quotient


def quotient_of(first: Mapping[Monomial, int], second: Mapping[Monomial, int]) -> dict[Monomial, int] | None:
    """The quotient of two polynomials by long division; None if something is left."""
    lead = max(second, key=_degree)
    left, quotient = {term: count for term, count in first.items() if count}, dict[Monomial, int]()
    while left:
        most = max(left, key=_degree)
        shared, (factor, over) = _without(most, lead), divmod(left[most], second[lead])
        if shared is None or over or len(quotient) == MOST_TERMS:
            return None
        quotient[shared] = factor
        for term, count in second.items():
            product = tuple(sorted(term + shared))
            left[product] = left.get(product, 0) - factor * count
            if not left[product]:
                del left[product]
    return quotient


def _degree(term: Monomial) -> tuple[int, Monomial]:
    return len(term), term


def _without(term: Monomial, divisor: Monomial) -> Monomial | None:
    """The factors of a monomial without those of another; None if it lacks one."""
    left = [*term]
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
