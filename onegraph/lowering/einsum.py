"""Lowers sums of products over named axes to transposes and matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod

from ..opset.shapes import known_dims
from .elementwise import multiply
from .emitter import Emitter, NotLowered, Unsettled, Value, rank_of, shape_of
from .layers import matmul
from .movement import reshape, slice_, transpose
from .reduction import reduce

Named = tuple[Value, str]


def einsum(emit: Emitter, equation: str, operands: Sequence[Value]) -> Value:
    """numpy.einsum.

    Raises:
        NotLowered: dims are unknown, or the dims of an axis that an operand names twice differ.
    """
    terms, target = _parsed(equation, operands)
    for value in operands:
        if None in (shape_of(value) or (None,)) and rank_of(value) != 0:
            raise Unsettled("unknown dims")
    named = [_diagonal(emit, value, term) for value, term in zip(operands, terms, strict=True)]
    left = named[0]
    for place in range(1, len(operands)):
        later = target + "".join(terms[place + 1 :])
        left = _product(emit, left, named[place], later)
    value, term = _summed(emit, left, target)
    return transpose(emit, value, [term.index(name) for name in target])


def _parsed(equation: str, operands: Sequence[Value]) -> tuple[list[str], str]:
    """The axes of each operand and of the result, with letters in the place of dots."""
    operand_terms, arrow, target = equation.replace(" ", "").partition("->")
    terms = operand_terms.split(",")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    longest = ""
    for place, (term, value) in enumerate(zip(terms, operands, strict=True)):
        if "..." in term:
            hidden = "".join(free[: (rank_of(value) or 0) - len(term) + 3])[::-1]
            longest = max(longest, hidden, key=len)
            terms[place] = term.replace("...", hidden)
    names = "".join(terms)
    if not arrow:
        target = "..." + "".join(
            sorted(name for name in set(operand_terms) if operand_terms.count(name) == 1 and name.isalpha())
        )
    return terms, target.replace("...", longest if "..." in operand_terms else "") if names or target else ""


def _diagonal(emit: Emitter, value: Value, term: str) -> Named:
    """An operand that names no axis twice: the diagonal of axes of one name."""
    while (name := next((one for one in term if term.count(one) > 1), "")) and (shape := shape_of(value)) is not None:
        first, second = [place for place, one in enumerate(term) if one == name][:2]
        dim = known_dims(shape)[first]
        if shape[second] != dim:
            raise NotLowered(f"dims {dim} and {shape[second]} of the axis {name}")
        rest = [place for place in range(len(term)) if place not in (first, second)]
        turned = transpose(emit, value, [*rest, first, second])
        flat = reshape(emit, turned, [*(known_dims(shape)[one] for one in rest), dim * dim])
        value = slice_(emit, flat, [0], [dim * dim], [len(rest)], [dim + 1])
        term = "".join([term[one] for one in rest]) + name
    return value, term


def _summed(emit: Emitter, named: Named, remaining: str) -> Named:
    """Without the axes that no other term names."""
    value, term = named
    axes = [place for place, name in enumerate(term) if name not in remaining]
    if not axes:
        return named
    return reduce(emit, "ReduceSum", value, axes, keep=False), "".join(name for name in term if name in remaining)


def _product(emit: Emitter, first: Named, second: Named, later: str) -> Named:
    """The product of two terms, summed over the axes that no later term names."""
    (left, a), (right, b) = _summed(emit, first, later + second[1]), _summed(emit, second, later + first[1])
    inner = [name for name in a if name in b and name not in later]
    if not inner or any(_dims(left, a)[name] != _dims(right, b)[name] for name in a if name in b):
        return _elementwise(emit, (left, a), (right, b), later)
    dims = {**_dims(left, a), **_dims(right, b)}
    batch = [name for name in a if name in b and name in later]
    rows, columns = [name for name in a if name not in b], [name for name in b if name not in a]

    def size(names: Sequence[str]) -> int:
        return prod([dims[name] for name in names])

    outer = [dims[name] for name in batch]
    matrices = [
        reshape(emit, transpose(emit, value, [term.index(name) for name in order]), [*outer, *shape])
        for value, term, order, shape in (
            (left, a, [*batch, *rows, *inner], (size(rows), size(inner))),
            (right, b, [*batch, *inner, *columns], (size(inner), size(columns))),
        )
    ]
    names = [*batch, *rows, *columns]
    product = matmul(emit, matrices[0], matrices[1])
    return reshape(emit, product, [dims[name] for name in names]), "".join(names)


def _dims(value: Value, term: str) -> dict[str, int]:
    return dict(zip(term, known_dims(shape_of(value)), strict=True))


def _elementwise(emit: Emitter, first: Named, second: Named, later: str) -> Named:
    """The product with broadcasting, then the sums."""
    names = first[1] + "".join(name for name in second[1] if name not in first[1])
    shaped = []
    for value, term in (first, second):
        order = [name for name in names if name in term]
        dims = _dims(value, term)
        turned = transpose(emit, value, [term.index(name) for name in order])
        shaped.append(reshape(emit, turned, [dims.get(name, 1) for name in names]))
    return _summed(emit, (multiply(emit, shaped[0], shaped[1]), names), later)
