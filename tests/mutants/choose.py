"""Chooses draws that notice changes of modules: ``python -m tests.mutants.choose loops lowering/bags.py``.

The functions of the modules get the code of their mutants in processes that are forked from this one, so that a mutant
takes the time of a draw. A draw that notices a mutant which none before it has noticed goes to
tests/recorded/chosen.txt; the mutants that no draw notices are printed. Numbers that stand there already come first.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from .child import PACKAGE
from .operators import Mutant, mutants, mutated_in_turn

EQUIVALENT = Path(__file__).with_name("equivalent.json")
CALLS = ("called", "opened")  # materials whose names are those of functions
LONGEST = 0.05  # seconds of a draw
LIMIT = 3.0  # seconds of processor time of a draw with a mutant


class LateError(BaseException):
    """A draw does not end."""


def late(*_: object) -> None:
    """End a draw."""
    raise LateError


def functions(tree: ast.Module) -> Iterator[tuple[list[str], ast.FunctionDef]]:
    """The functions of a module and the methods of its classes, by their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield [node.name], node
        elif isinstance(node, ast.ClassDef):
            yield from (([node.name, one.name], one) for one in node.body if isinstance(one, ast.FunctionDef))


def code_of(code: CodeType | None, names: list[str]) -> CodeType | None:
    """The code of a function within that of its module."""
    for name in names:
        parts = () if code is None else code.co_consts
        code = next((one for one in parts if isinstance(one, CodeType) and one.co_name == name), None)
    return code


def function_of(module: Any, names: list[str]) -> FunctionType | None:
    """A function of a module or a class, without what wraps it."""
    found: Any = vars(module).get(names[0])
    for name in names[1:]:
        found = vars(found).get(name)
    for attribute in ("__func__", "fget", "func"):
        if not isinstance(found, FunctionType):
            found = getattr(found, attribute, found)
    found = inspect.unwrap(found) if callable(found) else None
    return found if isinstance(found, FunctionType) else None


def mutated_codes(name: str) -> Iterator[Waiting]:
    """The mutants of the bodies of functions of a module."""
    source, known = (PACKAGE / name).read_text(), json.loads(EQUIVALENT.read_text())
    module = importlib.import_module(f"onegraph.{name.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}")
    places = [*functions(ast.parse(source))]
    chosen = [mutant for mutant in mutants(name, source) if mutant.key not in known]
    for mutant, tree in mutated_in_turn(source, chosen):
        for names, node in places:
            if not node.body[0].lineno <= mutant.line <= (node.end_lineno or 0):
                continue
            (top,) = (one for one in tree.body if getattr(one, "name", None) == names[0])
            whole = compile(ast.Module([top], []), name, "exec", annotations.compiler_flag, dont_inherit=True)
            code, function = code_of(whole, names), function_of(module, names)
            if code is not None and function is not None and code.co_freevars == function.__code__.co_freevars:
                yield Waiting(mutant, function, code, statement_of(node, mutant.line))


def drawn(material: Any, name: str, number: int) -> list[str]:
    """The lines of a draw, or the kind of its error."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return list(material.lines(name, number))
    except BaseException as error:
        return [type(error).__name__]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def statement_of(tree: ast.AST, line: int) -> range:
    """The lines of the innermost statement around a line, without those of statements in it."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    around = [node for node in around if node.lineno <= line <= (node.end_lineno or 0)]
    inner = max(around, key=lambda node: node.lineno)
    body = getattr(inner, "body", None)
    return range(inner.lineno, max(body[0].lineno, line + 1) if body else (inner.end_lineno or 0) + 1)


class Waiting(NamedTuple):
    """A mutant that no draw has noticed yet, with the function, its code as a mutant, and the lines to reach."""

    mutant: Mutant
    function: FunctionType
    code: CodeType
    lines: range


def reached(draw: Callable[[], list[str]], files: Collection[str]) -> tuple[list[str], set[tuple[str, int]]]:
    """What a draw makes, and the lines of some files that it runs."""
    ran = set[tuple[str, int]]()

    def lines(frame: FrameType, *_: object) -> Any:
        ran.add((frame.f_code.co_filename, frame.f_lineno))
        return lines

    sys.settrace(lambda frame, *_: lines if frame.f_code.co_filename in files else None)
    made = draw()
    sys.settrace(None)
    return made, ran


def noticed(material: Any, key: tuple[str, int], waiting: list[Waiting]) -> set[int]:
    """The places of the mutants that a draw notices."""
    found, start, status = set[int](), 0, 1
    while status:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os._exit(tried(material, key, waiting, start, writing))
        os.close(writing)
        with os.fdopen(reading) as answers:
            places = [*map(int, answers.read().split())]
        status = os.waitpid(child, 0)[1]
        # The place of each mutant that was tried, and once more of one that was noticed.
        found |= {place for place, count in Counter(places).items() if count > 1}
        if not places:
            break
        start = places[-1] + 1  # if it has ended the process, or left something, the others go on in another one
    return found


def tried(material: Any, key: tuple[str, int], waiting: list[Waiting], start: int, writing: int) -> int:
    """Try the mutants from a place on; 1 if one has left something, so that the others need another process."""
    files = {one.function.__code__.co_filename for one in waiting}
    wanted, ran = reached(lambda: drawn(material, *key), files)
    chosen = [
        (place, one.function, one.code)
        for place, one in enumerate(waiting)
        if place >= start and any((one.function.__code__.co_filename, line) in ran for line in one.lines)
    ]
    before = time.process_time()
    if not chosen or drawn(material, *key) != wanted or wanted == [LateError.__name__]:
        return 0
    if time.process_time() - before > LONGEST:
        return 0
    for place, function, code in chosen:
        own = function.__code__
        os.write(writing, b"%d " % place)
        function.__code__ = code
        differs = drawn(material, *key) != wanted
        function.__code__ = own
        if differs:
            os.write(writing, b"%d " % place)
            if drawn(material, *key) != wanted:
                return 1
    return 0


def main() -> None:
    """Choose, and write the numbers that are kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.choose", description=__doc__.partition("\n")[0])
    parser.add_argument("material")
    parser.add_argument("modules", nargs="+", help="such as lowering/bags.py")
    parser.add_argument("--numbers", type=int, default=40, help="that are tried of each name")
    parser.add_argument("--names", nargs="+", help="that are drawn; by default all")
    parser.add_argument("--beside", nargs="*", default=[], help="materials whose kept draws come first")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which it keeps what it has")
    given, start = parser.parse_args(), time.monotonic()
    sys.path.insert(0, str(PACKAGE.parent / "tests"))
    from tests.helpers import draws

    signal.signal(signal.SIGPROF, late)
    kept = draws.chosen(given.material)
    names = [name for name in draws.MATERIALS[given.material].names() if name in (given.names or [name])]
    if given.material in CALLS:
        places = tuple(f"{one.removesuffix('.py').replace('/', '.')}." for one in given.modules)
        names = [name for name in names if name.startswith(places)]
    waiting = [one for name in given.modules for one in mutated_codes(name)]
    count = len(waiting)
    beside = {key: draws.chosen(key) for key in given.beside} | {given.material: kept}
    known = [(key, name, number) for key, chosen in beside.items() for name in chosen for number in chosen[name]]
    rooms = tuple(f"{one.partition('/')[0]}." for one in given.modules)
    keys = [(key, name, number) for key, name, number in known if key not in CALLS or name.startswith(rooms)]
    every = [(given.material, name, number) for number in range(given.numbers) for name in names]
    keys += [key for key in every if key not in known]
    for done, (key, name, number) in enumerate(keys):
        if not waiting or time.monotonic() - start > given.seconds:
            print(f"ends after {done} of {len(keys)} draws")
            break
        places_noticed = noticed(draws.MATERIALS[key], (name, number), waiting)
        waiting = [one for index, one in enumerate(waiting) if index not in places_noticed]
        if places_noticed and (key, name, number) not in known:
            kept[name] = sorted([*kept.get(name, ()), number])
    draws.choose(given.material, kept)
    print(*(f"alive {mutant.name}" for mutant, *_ in waiting), sep="\n")
    print(f"{count - len(waiting)} of {count} mutants noticed")


if __name__ == "__main__":
    main()
