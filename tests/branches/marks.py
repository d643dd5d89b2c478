"""Marks the ways of a program: modules of the package are imported with a store at each way out of a branch.

A way is the body of an ``if``, ``for``, ``while``, ``case`` or ``except``, what follows when the condition is false or
the loop has ended, or the body of a function. A store into a list costs so little that the whole suite is measured each
time. The marked code is kept in build/branches, for later processes.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "branches"
OWN = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).digest()
# For each module: the ways, as lines with what is true there, and whether each ran.
WAYS: dict[str, list[str]] = {}
RAN: dict[str, list[int]] = {}
PLACE = "<the ways of this module>"


class Hashed(list[int]):
    """A list as a constant of code that has a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


# PyTorch keeps code in dictionaries. A store into an exact list takes a third of the time.
Ran = Hashed if find_spec("torch") else list


def storing_into(code: CodeType, ran: list[int]) -> CodeType:
    """Code in whose constants, and in those of its functions, ``ran`` takes the place of PLACE.

    A name would be found no more where the interpreter ends, or in other globals.
    """
    constants = (storing_into(one, ran) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=tuple(ran if isinstance(one, str) and one == PLACE else one for one in constants))


def marked(source: str) -> tuple[ast.Module, list[str]]:
    """The tree of a module that stores 1 in ``PLACE[way]`` on each way, and the ways."""
    tree, ways = ast.parse(source), []

    def mark(node: ast.AST, body: list[ast.stmt], text: str) -> None:
        """Put the mark of a way before a body, behind its docstring."""
        line = node.lineno  # type: ignore[attr-defined]
        store = ast.parse(f"{PLACE!r}[{len(ways)}] = 1").body[0]
        for part in ast.walk(store):
            if "lineno" in part._attributes:
                ast.copy_location(part, node)
        is_text = (
            text.startswith("function") and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        )
        body.insert(int(is_text), store)
        ways.append(f"{line} {text}")

    for node in [*statements(tree.body)]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                mark(node, node.body, f"function {node.name}")
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.While(test=ast.Constant()):
                pass
            case ast.If() | ast.While():
                mark(node, node.body, "true")
                mark(node, node.orelse, "false")
            case ast.For() | ast.AsyncFor():
                mark(node, node.body, "item")
                mark(node, node.orelse, "end")
            case ast.Try() | ast.TryStar() if sys.version_info >= (3, 11):
                for handler in node.handlers:
                    mark(handler, handler.body, "except")
            case ast.Match():
                for case in node.cases:
                    mark(case.pattern, case.body, "case")
                last = node.cases[-1]
                if last.guard is not None or not (
                    isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
                ):
                    rest = ast.match_case(ast.copy_location(ast.MatchAs(), node), None, [])
                    mark(node, rest.body, "no case")
                    node.cases.append(rest)
    return tree, ways


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body, with those inside of statements; expressions have none."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, part, ()))
        for part in ("handlers", "cases"):
            for owner in getattr(node, part, ()):
                yield from statements(owner.body)


class Marked(importlib.machinery.SourceFileLoader):
    """Loads a module with marks."""

    def get_code(self, fullname: str) -> CodeType:
        """The marked code, which stores into a list in RAN."""
        source = Path(self.path).read_bytes()
        digest = hashlib.sha256(OWN + self.path.encode() + source).digest()
        kept = KEPT / f"{fullname}.{sys.implementation.cache_tag}"
        content = kept.read_bytes() if kept.exists() else b""
        if content[: len(digest)] == digest:
            code, ways = marshal.loads(content[len(digest) :])
        else:
            tree, ways = marked(source.decode())
            code = compile(tree, self.path, "exec", dont_inherit=True)
            KEPT.mkdir(parents=True, exist_ok=True)
            new = kept.with_suffix(f".{os.getpid()}")
            new.write_bytes(digest + marshal.dumps((code, ways)))
            new.replace(kept)
        path = str(Path(self.path).relative_to(ROOT / "onegraph"))
        WAYS[path] = ways
        return storing_into(code, RAN.setdefault(path, Ran([0] * len(ways))))


class Finder:
    """Finds the modules of the package."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a module, with the loader that marks; None for other packages."""
        if name.partition(".")[0] != "onegraph":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if isinstance(loader, importlib.machinery.SourceFileLoader) and Path(loader.path).is_relative_to(ROOT):
            spec.loader = Marked(loader.name, loader.path)  # type: ignore[union-attr]
        return spec
