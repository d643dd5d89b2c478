"""Solves what PyTorch states of dims for its symbols, and computes from them what it states of other dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod, ToFloat, TruncToInt

from ..._util.interpreter_tricks import written_function
from ..._util.open_sizes import computed, present
from ..._util.size_symbols import OpenSizes
from ...compiler.library_steps import NoParametersError
from ...lowering.resize_axes import LARGEST_DENOMINATOR, scaled

SPECIAL = (0, 1)  # dims, which say nothing about others
# What computes the value of an expression of PyTorch from those of its operands.
EXPRESSIONS: Mapping[Any, Callable[..., Any]] = {
    FloorDiv: lambda first, second: first // second,
    Mod: lambda first, second: first % second,
    PythonMod: lambda first, second: first % second,
    Max: lambda *sizes: reduce(lambda most, size: size if size >= most else most, sizes),
    Min: lambda *sizes: reduce(lambda least, size: size if size <= least else least, sizes),
}


def value_of(expression: Any, known: Mapping[Any, Any]) -> Any:
    """The value of an expression of PyTorch.

    Args:
        expression: of integers.
        known: the values of symbols, and of whole expressions.

    Raises:
        NoParametersError: it contains a symbol whose value is unknown, or a function that is unknown here.
    """
    if expression in known:
        return known[expression]
    if isinstance(expression, sympy.Integer):
        return int(expression)
    if isinstance(expression, TruncToInt):
        return _scaled(expression, known)
    if isinstance(expression, sympy.Mul):
        factor, product = expression.as_coeff_Mul()
        if product in known:
            return known[product] * int(factor)
    operands = [value_of(argument, known) for argument in expression.args]
    if isinstance(expression, sympy.Pow):
        if type(operands[1]) is not int or operands[1] < 0:
            raise NoParametersError(f"a size is {expression}")
        operands = [operands[0]] * operands[1]
    if isinstance(expression, (sympy.Mul, sympy.Pow, sympy.Add)):
        result = 0 if isinstance(expression, sympy.Add) else 1
        for operand in operands:
            result = result + operand if isinstance(expression, sympy.Add) else result * operand
        return result
    if type(expression) in EXPRESSIONS:
        return EXPRESSIONS[type(expression)](*operands)
    raise NoParametersError(f"a size is {expression}")


def _scaled(expression: Any, known: Mapping[Any, Any]) -> Any:
    """The whole part of the product of a size and a positive float, in double precision as PyTorch computes it."""
    (product,) = expression.args
    factors = product.args if isinstance(product, sympy.Mul) else ()
    scales = [float(one) for one in factors if isinstance(one, sympy.Float)]
    sizes = [one.args[0] for one in factors if isinstance(one, ToFloat)]
    if len(factors) != 2 or len(scales) != 1 or len(sizes) != 1 or scales[0] <= 0:
        raise NoParametersError(f"a size is {expression}")
    (scale,), size = scales, value_of(sizes[0], known)
    if Fraction(scale).denominator <= LARGEST_DENOMINATOR:
        return scaled(size, scale)[0]
    return computed(f"int({scale!r}*{{}})", int(scale * present(size)), size)


def solved_symbols(stated: Sequence[Any]) -> set[Any]:
    """The symbols that follow from dims of which PyTorch states these, as sums of multiples of them."""
    expressions = [sympy.expand(one.node.expr) for one in stated if type(one) is torch.SymInt]
    solved, before = set[Any](), -1
    while len(solved) > before:
        before = len(solved)
        for expression in expressions:
            terms = [one.as_coeff_Mul()[1] for one in sympy.Add.make_args(expression) if one.free_symbols - solved]
            if len(terms) == 1 and isinstance(terms[0], sympy.Symbol):
                solved.add(terms[0])
    return solved


class Solved(NamedTuple):
    """How a dim gives the value of an expression of which it is a linear function.

    Attributes:
        place: of the dim.
        expression: a symbol, or what no dim has a simpler form of.
        factor, rest: the dim is the factor times the expression, and the rest, which follows from those solved before.
    """

    place: int
    expression: Any
    factor: int
    rest: Any


class StatedSizes:
    """How the dims of inputs give the sizes of a program, by what PyTorch states of the dims.

    Args:
        stated: a number, or a size of PyTorch, for each dim of all inputs one after another.
        dims: the dims now.
        layouts: the number of these at the end that are strides.

    Attributes:
        places: for each size, the place of the dim that gives it.
        known: the sizes that ``opened`` was called for, by the expressions of PyTorch.
    """

    def __init__(self, stated: Sequence[Any], dims: Sequence[int], layouts: int = 0) -> None:
        self._expressions = [
            sympy.expand(stated_dim.node.expr)
            if type(stated_dim) is torch.SymInt and dim not in SPECIAL
            else sympy.Integer(dim)
            for stated_dim, dim in zip(stated, dims, strict=True)
        ]
        self._solved, self._ones, self.known = list[Solved](), dict[Any, int](), dict[Any, Any]()
        values, self.layouts = self._solve(dims), layouts
        self.places = tuple([(one.place,) for one in self._solved])
        symbols = OpenSizes(values).symbols
        self._forms = _written(self.opened(dims, symbols))
        rests = [_written([value_of(one.rest, self.known)]) for one in self._solved]
        self._steps = [(one.place, one.factor, rest) for one, rest in zip(self._solved, rests, strict=True)]

    def _solve(self, dims: Sequence[int]) -> list[int]:
        """Find dims that give the symbols, simple ones first; the values of the sizes."""
        values, solution, left = dict[Any, int](), list[int](), dict.fromkeys(range(len(dims)))
        while left:
            for is_last in (False, True):
                solved = next(filter(None, (self._linear(place, values, is_last) for place in left)), None)
                if solved is not None:
                    break
            left = {place: None for place in left if not _is_known(self._expressions[place], values)}
            if solved is None:
                continue
            value = (dims[solved.place] - value_of(solved.rest, values)) // solved.factor
            values[solved.expression] = value
            if value > 1:
                self._solved.append(solved)
                solution.append(value)
            else:  # the dim stays as it is
                self._ones[solved.expression] = value
            del left[solved.place]
        return solution

    def _linear(self, place: int, values: Mapping[Any, Any], is_last: bool) -> Solved | None:
        """The dim as a function of a symbol; if ``is_last``, of whatever it is a function of."""
        expression = self._expressions[place]
        if _is_known(expression, values):
            return None
        terms = [one.as_coeff_Mul() for one in sympy.Add.make_args(sympy.expand(expression))]
        unknown = [(factor, term) for factor, term in terms if not _is_known(term, values)]
        (factor, term), *further = unknown
        if further or not isinstance(factor, sympy.Integer) or not isinstance(term, sympy.Symbol):
            if not is_last:
                return None
            if further or not isinstance(factor, sympy.Integer):
                return Solved(place, expression, 1, sympy.Integer(0))
        return Solved(place, term, int(factor), sympy.expand(expression) - factor * term)

    def sizes(self, dims: Sequence[int]) -> list[int] | None:
        """The sizes in the dims of all inputs; None if the dims are not those that follow from the sizes."""
        solution: list[int] = []
        for place, factor, rest in self._steps:
            solution.append((dims[place] - rest(solution)[0]) // factor)
        return solution if self._forms(solution) == [*dims] else None

    def opened(self, dims: Sequence[int], symbols: Sequence[Any]) -> list[Any]:
        """The dims with symbols in the place of sizes."""
        by_expression = {one.expression: symbol for one, symbol in zip(self._solved, symbols, strict=True)}
        self.known = {**self._ones, **by_expression}
        return [value_of(expression, self.known) for expression in self._expressions]


def _is_known(expression: Any, values: Mapping[Any, Any]) -> bool:
    try:
        value_of(expression, values)
    except NoParametersError:
        return False
    return True


def _written(sizes: Sequence[Any]) -> Callable[[Sequence[int]], list[int]]:
    """A function that computes sizes from the values of their symbols."""
    return written_function(["s"], f"[{', '.join(map(repr, sizes))}]")


__all__ = ["StatedSizes", "solved_symbols", "value_of"]
