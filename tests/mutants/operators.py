"""The changes that a mutant makes to the source of a module, and the places where they make sense."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What computes no result: texts for people, and what only type checkers read.
TEXTS = frozenset(["__repr__", "__str__", "_repr_html_", "_repr_svg_"])


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        module: the path of the module in the package, such as ``serialize/files.py``.
        line: where the change is.
        place: number of the node in a walk over the tree, and of the change at the node.
        change: the change in words.
        function: the name of the innermost function around the line; empty if there is none.
        key: what identifies the mutant as long as its line stays in its function: both, with the change, and a number
            if the line has several such changes.
        body: the lines of the body of the function; none outside of functions.
    """

    module: str
    line: int
    place: tuple[int, int]
    change: str
    function: str
    key: str
    body: range = range(0)

    @property
    def name(self) -> str:
        """The key, and where the line is now."""
        return f"{self.key} (line {self.line})"


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module."""
    nodes = [*ast.walk(ast.parse(source))]
    skipped = {id(node) for top in nodes for part in _unread(top) for node in ast.walk(part)}
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lines, alike, made = source.splitlines(), Counter[str](), []
    for number, node in enumerate(nodes):
        for index, (change, _) in enumerate(() if id(node) in skipped else _changes(node)):
            line: int = node.lineno  # type: ignore[attr-defined]
            around = [one for one in functions if one.lineno <= line <= (one.end_lineno or 0)]
            inner = max(around, key=lambda one: one.lineno, default=None)
            function = "" if inner is None else inner.name
            body = range(0) if inner is None else range(inner.body[0].lineno, (inner.end_lineno or 0) + 1)
            key = f"{module} {function}: {lines[line - 1].strip()}: {change}"
            alike[key] += 1
            key += f", {alike[key]}" if alike[key] > 1 else ""
            made.append(Mutant(module, line, (number, index), change, function, key, body))
    return made


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The tree of a module with the change of a mutant."""
    tree = ast.parse(source)
    number, index = mutant.place
    node = next(node for place, node in enumerate(ast.walk(tree)) if place == number)
    _, new = [*_changes(node)][index]
    ast.copy_location(new, node)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, new)
            elif isinstance(value, list):
                value[:] = [new if part is node else part for part in value]
    return ast.fix_missing_locations(tree)


class Changeable:
    """The tree of a module, in which the change of one mutant at a time is made."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self._nodes = [*ast.walk(self.tree)]
        self._statements = {id(node): number for number, one in enumerate(self.tree.body) for node in ast.walk(one)}
        self._places: dict[int, tuple[Any, Any]] = {}
        for parent in self._nodes:
            for name, value in ast.iter_fields(parent):
                self._places[id(value)] = vars(parent), name
                if isinstance(value, list):
                    self._places.update((id(part), (value, index)) for index, part in enumerate(value))

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[int]:
        """A block in which the tree has the change; gives the number of the statement of the module with it."""
        number, index = mutant.place
        node = self._nodes[number]
        statement = self._statements[id(node)]
        holder, key = self._places[id(node)]
        holder[key] = ast.copy_location([*_changes(node)][index][1], node)
        ast.fix_missing_locations(self.tree.body[statement])
        try:
            yield statement
        finally:
            holder[key] = node


def _unread(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node whose change no test can see, or none should: annotations, messages, texts, imports."""
    match node:
        case ast.FunctionDef(name=name) if name in TEXTS:
            yield node
        case ast.FunctionDef(returns=returns, args=args):
            parameters = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
            annotations = [one.annotation for one in parameters if one is not None]
            yield from (part for part in (returns, *annotations) if part is not None)
        case ast.AnnAssign(annotation=annotation):
            yield annotation
        case ast.Raise(exc=error) if error is not None:
            yield error
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert() | ast.JoinedStr():
            yield node
        case ast.Call(func=ast.Name(id="TypeVar" | "cast"), args=[first, *_]):
            yield first
        case ast.Call(keywords=[ast.keyword(value=ast.Constant(value=True) as flag) as only]) if _is_strict(node, only):
            yield flag  # it says that the lengths are equal, as an assertion does
        case ast.Call(
            func=ast.Attribute(attr="reshape"),
            args=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1) as one), *_],
        ):
            yield one  # numpy takes any negative number as -1
        case (
            ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr="attr" | "pop"), args=[_, default]))
            | ast.Call(func=ast.Name(id="bool"), args=[ast.Call(func=ast.Attribute(attr="attr"), args=[_, default])])
            | ast.IfExp(test=ast.Call(func=ast.Attribute(attr="attr"), args=[_, default]))
        ) if isinstance(default, ast.Constant) and type(default.value) is int and default.value:
            yield default  # of a flag that is a number: 2 is as true as 1


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The changes at a node: in words, and the node in its place."""
    match node:
        case ast.Compare(left=ast.Call(func=ast.Attribute(attr="random")), ops=[ast.Lt()]):
            return  # a random number is never equal to another one
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARISONS:
            new = copy.copy(node)
            new.ops = [COMPARISONS[type(operator)](), *node.ops[1:]]
            yield f"{type(operator).__name__} becomes {type(new.ops[0]).__name__}", new
        case ast.BoolOp(op=operator, values=values):
            new = copy.copy(node)
            new.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield f"{type(operator).__name__} becomes {type(new.op).__name__}", new
            for index in range(len(values)):
                rest = [part for place, part in enumerate(values) if place != index]
                yield f"operand {index} is dropped", rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not is dropped", operand
        case ast.BinOp(op=operator, left=left) if type(operator) in ARITHMETIC and not _is_text(left):
            new = copy.copy(node)
            new.op = ARITHMETIC[type(operator)]()
            yield f"{type(operator).__name__} becomes {type(new.op).__name__}", new
        case ast.Constant(value=bool(value)):
            yield f"{value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} becomes {value + 1}", ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield f"{value} becomes {2 * value or 1.0}", ast.Constant(2 * value or 1.0)
        case ast.AugAssign(op=operator) if type(operator) in ARITHMETIC and not _is_text(node.value):
            new = copy.copy(node)
            new.op = ARITHMETIC[type(operator)]()
            yield f"{type(operator).__name__} becomes {type(new.op).__name__}", new
        case ast.Call(func=function, keywords=keywords):
            if isinstance(function, ast.Name) and function.id in OPPOSITES:
                new = copy.copy(node)
                new.func = ast.Name(OPPOSITES[function.id], ast.Load())
                yield f"{function.id} becomes {OPPOSITES[function.id]}", new
            for index, keyword in enumerate(keywords):
                if keyword.arg is not None and not _is_strict(node, keyword):
                    new = copy.copy(node)
                    new.keywords = [*keywords[:index], *keywords[index + 1 :]]
                    yield f"argument {keyword.arg} is dropped", new
        case ast.Continue():
            yield "continue becomes break", ast.Break()
        case ast.Assign(targets=[ast.Attribute() as target]):
            yield f"{ast.unparse(target)} is not set", ast.Pass()
        case ast.IfExp(test=test, body=body, orelse=other) if not _is_condition(test):
            yield "branches are exchanged", ast.IfExp(test, other, body)
        case ast.If(test=test) if not _is_condition(test):
            new = copy.copy(node)
            new.test = ast.UnaryOp(ast.Not(), new.test)
            yield "condition is turned", new
        case ast.Expr(value=ast.Call() as call):
            yield f"call of {ast.unparse(call.func)} is dropped", ast.Pass()
        case ast.Raise(exc=error) if error is not None:
            yield "raise is dropped", ast.Pass()
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "None is returned", ast.Return(ast.Constant(None))


def _is_condition(node: ast.AST) -> bool:
    """Whether a condition has changes of its own."""
    return isinstance(node, (ast.Compare, ast.BoolOp)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_strict(call: ast.Call, keyword: ast.keyword) -> bool:
    """Whether an argument says if the lengths of what is zipped are equal; without one they need not be."""
    return isinstance(call.func, ast.Name) and call.func.id == "zip" and keyword.arg == "strict"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
