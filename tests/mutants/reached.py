"""Which tests run the place of a mutant: what the last whole run of ``make test`` has noted by way and by test."""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ..branches.plugin import REACHED
from .child import PACKAGE
from .operators import Mutant

LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Reached:
    """The tests by module and way, and the seconds that each took.

    Attributes:
        modules: those of which a test runs a function.
    """

    def __init__(self) -> None:
        if not REACHED.exists():
            raise SystemExit(f"{REACHED} is missing: make test writes it, where all tests run")
        record = json.loads(REACHED.read_text())
        self._names: list[str] = record["tests"]
        self._ways: dict[str, dict[str, list[int]]] = record["ways"]
        self._seconds: list[float] = record["seconds"]
        self._places: dict[str, Places] = {}
        self.modules = [name for name in self._ways if (PACKAGE / name).exists()]

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that run the place of a mutant, the quickest first; those of its function if its body has no place."""
        if mutant.module not in self._places:
            self._places[mutant.module] = Places((PACKAGE / mutant.module).read_text())
        ways = self._ways[mutant.module]
        way = next(iter(self._places[mutant.module].ways(mutant)), "")
        return [self._names[number] for number in sorted(ways.get(way, ()), key=self._seconds.__getitem__)]

    def files(self, mutant: Mutant) -> list[str]:
        """Files of tests that run the function of a mutant, or the module of one that is in none.

        Those with the largest share of the module in what they run come first.
        """
        found = {file for way, files in self._functions[mutant.module].items() for file in files
                 if mutant.function in ("", way)}  # fmt: skip
        share = self._shares[mutant.module]
        return sorted(found, key=lambda file: (-share[file] / self._all[file], file))

    def seconds(self, name: str) -> float:
        """How long a test or all tests of a file took."""
        return self._took[name]

    def share(self, module: str, file: str) -> float:
        """The share of a module in the functions that a file of tests runs."""
        return self._shares[module][file] / max(self._all[file], 1)

    @cached_property
    def _took(self) -> dict[str, float]:
        took = defaultdict[str, float](float, zip(self._names, self._seconds, strict=True))
        for name, seconds in zip(self._names, self._seconds, strict=True):
            took[name.partition("::")[0]] += seconds
        return took

    @cached_property
    def _functions(self) -> dict[str, dict[str, set[str]]]:
        """By module and function, the files of tests."""
        found: dict[str, dict[str, set[str]]] = {}
        for module, ways in self._ways.items():
            of_module = found.setdefault(module, {})
            for way, numbers in ways.items():
                if " function " in way:
                    files = {self._names[number].partition("::")[0] for number in numbers}
                    of_module.setdefault(way.split()[-1], set()).update(files)
        return found

    @cached_property
    def _shares(self) -> dict[str, Counter[str]]:
        """By module and file of tests, how many functions it runs."""
        return {
            module: Counter(file for files in functions.values() for file in files)
            for module, functions in self._functions.items()
        }

    @cached_property
    def _all(self) -> Counter[str]:
        return sum(self._shares.values(), Counter[str]())


class Places:
    """The ways that lead to each place of a module, as ``tests.branches.marks`` names them."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self._nodes = [*ast.walk(tree)]
        self._around: dict[int, tuple[ast.AST, str, Any]] = {}
        for parent in self._nodes:
            for name, value in ast.iter_fields(parent):
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, ast.AST):
                        self._around[id(part)] = parent, name, value

    def ways(self, mutant: Mutant) -> Iterator[str]:
        """The ways to a mutant, from the innermost one to its function; that of the function for its defaults."""
        node = self._nodes[mutant.place[0]]
        while around := self._around.get(id(node)):
            parent, name, siblings = around
            if isinstance(siblings, list) and isinstance(node, ast.stmt):
                before = siblings[: siblings.index(node)]
                yield from (f"{one.lineno} false" for one in reversed(before) if _is_guard(one))
            if way := _way(parent, name):
                yield way
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return
            node = parent


def _is_guard(node: ast.stmt) -> bool:
    """Whether what stands behind an ``if`` runs only where its condition is false."""
    return isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], LEAVING)


def _way(node: ast.AST, part: str) -> str:
    """The way to what is in a part of a statement; empty if there is none of its own."""
    match node, part:
        case ((ast.FunctionDef() | ast.AsyncFunctionDef()), _):
            return f"{node.lineno} function {node.name}"
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.While(test=ast.Constant()), _:
            return ""
        case ((ast.If() | ast.While()), ("body" | "orelse")):
            return f"{node.lineno} {'true' if part == 'body' else 'false'}"
        case ((ast.For() | ast.AsyncFor()), ("body" | "orelse")):
            return f"{node.lineno} {'item' if part == 'body' else 'end'}"
        case ast.ExceptHandler(), "body":
            return f"{node.lineno} except"
        case ast.match_case(), "body":
            return f"{node.pattern.lineno} case"
    return ""
