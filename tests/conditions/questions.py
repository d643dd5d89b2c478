"""The questions to the conditions of a module, and the calls that answer them while the module runs.

Not asked are conditions outside of functions, and those with assignments, ``yield``, ``await`` or ``super()`` inside,
whose operands cannot stand in functions of their own.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
BY_NAME = {kind.__name__: order for kind, order in ORDERS.items()}
UNMOVABLE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
NUMBERS = (int, float, np.number)
TRIES = 2000  # evaluations of the operands behind one that has ended a condition
TAKES = "__conditions__"  # the name of the Answers in the globals of a module


class Questions(ast.NodeTransformer):
    """Puts a call at each condition of a module.

    Attributes:
        asked: the questions in words, each with its line.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._depth, self._truths = 0, set[int]()

    def _ask(self, node: ast.expr, text: str) -> int:
        """The number of a question of a condition, which has no calls yet."""
        self.asked.append(f"{node.lineno} {text}: {ast.unparse(node)}")
        return len(self.asked) - 1

    @staticmethod
    def _call(node: ast.expr, method: str, *arguments: object) -> ast.Call:
        given = [one if isinstance(one, ast.expr) else ast.Constant(one) for one in arguments]
        call = ast.Call(ast.Attribute(ast.Name(TAKES, ast.Load()), method, ast.Load()), given, [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Ask in the body alone: decorators and defaults run outside of the function."""
        self._depth += 1
        node.body = [self.visit(part) for part in node.body]
        self._depth -= 1
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Ask in methods alone."""
        depth, self._depth = self._depth, 0
        node.body = [self.visit(part) for part in node.body]
        self._depth = depth
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Ask of the value."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Ask nothing: an assertion is for type checkers."""
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Ask nothing of the words of an error."""
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Ask nothing of texts."""
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """Note that the truth of a condition is all that counts."""
        self._truths.add(id(node.test))
        return self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """Note the same of a loop."""
        self._truths.add(id(node.test))
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Note the same of a negation."""
        if isinstance(node.op, ast.Not):
            self._truths.add(id(node.operand))
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Ask whether each filter lets something through, and something not."""
        self._truths |= {id(test) for test in node.ifs}
        asked = [self._ways(test) for test in node.ifs if self._depth]
        self.generic_visit(node)
        for place, first in enumerate(asked):
            node.ifs[place] = self._call(node.ifs[place], "way", first, node.ifs[place])
        return node

    def _ways(self, test: ast.expr) -> int:
        first = self._ask(test, "true")
        self._ask(test, "false")
        return first

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Ask for both ways of a conditional expression."""
        self._truths.add(id(node.test))
        first = self._ways(node.test) if self._depth else -1
        self.generic_visit(node)
        if self._depth:
            node.test = self._call(node.test, "way", first, node.test)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Ask whether the sides of an order were once equal, and whether a bound that is a number was passed by one."""
        kind = type(node.ops[0])
        if not self._depth or len(node.ops) > 1 or kind not in ORDERS:
            return self.generic_visit(node)
        first, last = self._ask(node, "equal"), node.comparators[0]
        number = isinstance(last, ast.Constant) and type(last.value) is int and kind in (ast.Gt, ast.LtE)
        more = self._ask(node, "one more") if number else -1
        self.generic_visit(node)
        return self._call(node, "order", first, more, kind.__name__, node.left, node.comparators[0])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Ask whether each operand once decided: whether the condition would have been another one without it."""
        is_truth = id(node) in self._truths
        if is_truth:
            self._truths |= {id(part) for part in node.values}
        is_movable = self._depth and not any(
            isinstance(part, UNMOVABLE) or (isinstance(part, ast.Name) and part.id == "super")
            for part in ast.walk(node)
        )
        places = range(len(node.values)) if is_movable else ()
        asked = [self._ask(node, f"operand {place} decides") for place in places]
        self.generic_visit(node)
        if not is_movable:
            return node
        none = ast.arguments([], [], None, [], [], None, [])
        parts = ast.Tuple([ast.Lambda(none, part) for part in node.values], ast.Load())
        return self._call(node, "decide", asked[0], isinstance(node.op, ast.And), is_truth, parts)


def questions(source: str) -> tuple[ast.Module, list[str]]:
    """The tree of a module that answers through the name TAKES in its globals, and the questions."""
    asking = Questions()
    tree: ast.Module = asking.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), asking.asked


class Answers:
    """Takes the answers of a module.

    Args:
        met: one byte for each question, 0 until it is answered.
    """

    def __init__(self, met: memoryview | bytearray) -> None:
        self._met, self._tries = met, [0] * len(met)

    def way(self, first: int, value: Any) -> Any:
        """A condition that is true or false: questions ``first`` and the next."""
        self._met[first if value else first + 1] = 1
        return value

    def order(self, equal: int, more: int, kind: str, left: Any, right: Any) -> Any:
        """A comparison; whether it was met at equal sides, and one more than the right one."""
        if not self._met[equal] and _is_equal(left, right):
            self._met[equal] = 1
        if more >= 0 and not self._met[more] and _is_equal(left, right, 1):
            self._met[more] = 1
        return BY_NAME[kind](left, right)

    def decide(self, first: int, is_and: bool, is_truth: bool, operands: tuple[Callable[[], Any], ...]) -> Any:
        """The value of ``and`` or ``or``; which operand decided is noted."""
        value = before = None
        question = first - 1
        for operand in operands:
            question += 1
            before, value = value, operand()
            if bool(value) != is_and:
                break
        is_end = bool(value) != is_and
        if not self._met[question] and (is_end or question > first) and self._tries[question] < TRIES:
            self._tries[question] += 1
            if _is_other(value, before, is_and, is_truth, is_end, operands[question - first + 1 :]):
                self._met[question] = 1
        return value


def _is_equal(left: Any, right: Any, more: int = 0) -> bool:
    """Whether the left side is the right one, and more; a size that is a symbol would remember that it was asked."""
    return isinstance(left, NUMBERS) and isinstance(right, NUMBERS) and bool(left == right + more)


def _is_other(
    value: Any, before: Any, is_and: bool, is_truth: bool, is_end: bool, rest: tuple[Callable[[], Any], ...]
) -> bool:
    """Whether a condition without the operand of a value is another one: ``before`` it, and the ``rest`` behind it."""
    other = before
    if is_end:
        try:
            for operand in rest:
                other = operand()
                if bool(other) != is_and:
                    break
        except Exception:  # the operand keeps the others from failing
            return True
    return bool(other) != bool(value) or (not is_truth and other is not value)
