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
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from .child import PACKAGE
from .operators import Mutant, mutants, mutated

EQUIVALENT = Path(__file__).with_name("equivalent.json")
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


def mutated_codes(name: str) -> Iterator[tuple[Mutant, FunctionType, CodeType]]:
    """The mutants of the bodies of functions of a module, each with the function and its code."""
    source, known = (PACKAGE / name).read_text(), json.loads(EQUIVALENT.read_text())
    module = importlib.import_module(f"onegraph.{name.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}")
    places = [*functions(ast.parse(source))]
    for mutant in mutants(name, source):
        for names, node in places:
            if mutant.key in known or not node.body[0].lineno <= mutant.line <= (node.end_lineno or 0):
                continue
            tree = ast.fix_missing_locations(mutated(source, mutant))
            code = code_of(compile(tree, name, "exec", dont_inherit=True), names)
            function = function_of(module, names)
            if code is not None and function is not None and code.co_freevars == function.__code__.co_freevars:
                yield mutant, function, code


def drawn(material: Any, name: str, number: int) -> list[str]:
    """The lines of a draw, or the kind of its error."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return list(material.lines(name, number))
    except BaseException as error:
        return [type(error).__name__]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def noticed(material: Any, key: tuple[str, int], waiting: list[tuple[Mutant, FunctionType, CodeType]]) -> set[int]:
    """The places of the mutants that a draw notices."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        found, ran = list[int](), set[CodeType]()
        sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)
        wanted = drawn(material, *key)
        sys.setprofile(None)
        start = time.process_time()
        if drawn(material, *key) == wanted != [LateError.__name__] and time.process_time() - start < LONGEST:
            for place, (_, function, code) in enumerate(waiting):
                own = function.__code__
                if own not in ran:
                    continue
                function.__code__ = code
                if drawn(material, *key) != wanted:
                    found.append(place)
                function.__code__ = own
            found = found if drawn(material, *key) == wanted else []  # else a mutant has left something
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return set(json.loads(text or "[]"))


def main() -> None:
    """Choose, and write the numbers that are kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.choose", description=__doc__.partition("\n")[0])
    parser.add_argument("material")
    parser.add_argument("modules", nargs="+", help="such as lowering/bags.py")
    parser.add_argument("--numbers", type=int, default=40, help="that are tried of each name")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which it keeps what it has")
    given, start = parser.parse_args(), time.monotonic()
    sys.path.insert(0, str(PACKAGE.parent / "tests"))
    from tests.helpers import draws

    signal.signal(signal.SIGPROF, late)
    material, kept = draws.MATERIALS[given.material], draws.chosen(given.material)
    names = [*material.names()]
    if given.material == "called":
        places = tuple(f"{one.removesuffix('.py').replace('/', '.')}." for one in given.modules)
        names = [name for name in names if name.startswith(places)]
    waiting = [one for name in given.modules for one in mutated_codes(name)]
    count = len(waiting)
    keys = [(name, number) for name in names for number in kept.get(name, ())]
    keys += [(name, number) for number in range(given.numbers) for name in names if (name, number) not in keys]
    for done, (name, number) in enumerate(keys):
        if not waiting or time.monotonic() - start > given.seconds:
            print(f"ends after {done} of {len(keys)} draws")
            break
        places_noticed = noticed(material, (name, number), waiting)
        waiting = [one for index, one in enumerate(waiting) if index not in places_noticed]
        if places_noticed and number not in kept.get(name, ()):
            kept[name] = sorted([*kept.get(name, ()), number])
    draws.choose(given.material, kept)
    print(*(f"alive {mutant.name}" for mutant, *_ in waiting), sep="\n")
    print(f"{count - len(waiting)} of {count} mutants noticed")


if __name__ == "__main__":
    main()
