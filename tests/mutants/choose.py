"""Chooses draws that notice changes of modules: ``python -m tests.mutants.choose loops lowering/bags.py``.

The functions of the modules get the code of their mutants in processes that are forked from this one, so that a mutant
takes the time of a draw. A draw that notices a mutant which none before it has noticed goes to
tests/recorded/chosen.txt; the mutants that no draw notices are printed. Numbers that stand there already come first.
The name of an instruction set, such as AVX2, is the material of calls of the compiler's functions, whose numbers go to
tests/recorded/chosen_steps.txt.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from .child import PACKAGE
from .operators import Changeable, Mutant, mutants

EQUIVALENT = Path(__file__).with_name("equivalent.json")
CALLS = ("called", "opened", "AVX2", "AVX512_CORE_BF16")  # materials whose names are those of functions
STEPS = CALLS[2:]  # those of the record of steps
FRONT = "onegraph.frontends.torch."  # the front end that stand-ins for PyTorch are imported for
LONGEST = 0.05  # seconds of a draw
LIMIT = 3.0  # seconds of processor time of a draw with a mutant
SHARE = 6  # one of so many draws of the record of steps may notice a mutant first
Lines = Callable[[], list[str]]


class LateError(BaseException):
    """A draw does not end."""


def late(*_: object) -> None:
    """End a draw."""
    raise LateError


class Change(NamedTuple):
    """A mutant that no draw has noticed yet.

    Attributes:
        mutant: the mutant.
        pairs: the functions that have its line, each with its code as a mutant.
        lines: those of the changed statement, one of which a draw must reach.
    """

    mutant: Mutant
    pairs: list[tuple[FunctionType, CodeType]]
    lines: range


def module_name(path: str) -> str:
    """The name of a module of the package."""
    return f"onegraph.{path.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}"


def imports_of(tree: ast.Module) -> list[ast.stmt]:
    """The imports of a module, which decide how Python compiles a call of what they name."""
    outside = [one for one in tree.body if not isinstance(one, (ast.FunctionDef, ast.ClassDef))]
    return [one for each in outside for one in ast.walk(each) if isinstance(one, (ast.Import, ast.ImportFrom))]


def codes_in(statement: ast.stmt, imports: list[ast.stmt], path: str) -> list[CodeType]:
    """The code of a statement of a module, and of the functions within, in order."""
    module, found = ast.Module([*imports, statement], []), list[CodeType]()
    waiting = [compile(module, path, "exec", annotations.compiler_flag, dont_inherit=True)]
    while waiting:
        found.append(waiting.pop())
        waiting += [one for one in found[-1].co_consts if isinstance(one, CodeType)]
    return found


def alike(codes: list[CodeType], made: list[CodeType]) -> Iterable[tuple[CodeType, CodeType]]:
    """Pairs of the code of a statement and its code as a mutant, which may have fewer functions within."""
    if len(codes) == len(made):
        return zip(codes, made, strict=True)
    named = {(one.co_name, one.co_firstlineno): one for one in made if not one.co_name.startswith("<")}
    keys = ((one, (one.co_name, one.co_firstlineno)) for one in codes)
    return [(one, named[key]) for one, key in keys if key in named]


def imported(name: str) -> Any:
    """A module of the package; one of the front end for PyTorch without PyTorch."""
    if not name.startswith(FRONT):
        return importlib.import_module(name)
    from tests.helpers import aten_passes

    return aten_passes.modules()[name.removeprefix(FRONT)]


def functions_of(name: str) -> dict[CodeType, list[FunctionType]]:
    """The functions of a module that are in memory, lambdas in tables and functions within functions too."""
    imported(name)
    gc.unfreeze()
    found: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__module__ == name:
            found.setdefault(one.__code__, []).append(one)
    return found


def statement_lines(statement: ast.stmt, line: int) -> range:
    """The lines of the innermost statement around a line; of one with a body, those in front of the body."""
    around = [node for node in ast.walk(statement) if isinstance(node, ast.stmt)]
    around = [node for node in around if node.lineno <= line <= (node.end_lineno or 0)]
    inner = max(around, key=lambda node: node.lineno, default=statement)  # the line may be that of a decorator
    body = getattr(inner, "body", None)
    return range(inner.lineno, max(body[0].lineno, line + 1) if body else (inner.end_lineno or 0) + 1)


def changes_of(path: str) -> Iterator[Change]:
    """The mutants of the bodies of functions of a module."""
    source, known = (PACKAGE / path).read_text(), json.loads(EQUIVALENT.read_text())
    alive, whole = functions_of(module_name(path)), Changeable(source)
    imports = imports_of(whole.tree)
    own = [codes_in(one, imports, str(PACKAGE / path)) for one in whole.tree.body]
    for mutant in mutants(path, source):
        if mutant.key in known:
            continue
        with whole.changed(mutant) as number:
            made = codes_in(whole.tree.body[number], imports, str(PACKAGE / path))
        both = alike(own[number], made)
        pairs = [(function, new) for old, new in both if old != new for function in alive.get(old, ())]
        if pairs and all(new.co_freevars == one.__code__.co_freevars for one, new in pairs):
            yield Change(mutant, pairs, statement_lines(whole.tree.body[number], mutant.line))


def drawn(lines: Lines, caches: Iterable[Any]) -> list[str]:
    """The lines of a draw, or the kind of its error; caches of the functions are cleared."""
    for cache in caches:
        cache.cache_clear()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return list(lines())
    except BaseException as error:
        return [type(error).__name__]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def reached(draw: Lines, files: Collection[str]) -> tuple[list[str], set[tuple[str, int]]]:
    """What a draw makes, and the lines of some files that it runs."""
    ran = set[tuple[str, int]]()

    def lines(frame: FrameType, *_: object) -> Any:
        ran.add((frame.f_code.co_filename, frame.f_lineno))
        return lines

    sys.settrace(lambda frame, *_: lines(frame) if frame.f_code.co_filename in files else None)
    made = draw()
    sys.settrace(None)
    return made, ran


def noticed(lines: Lines, waiting: Sequence[Change], caches: Sequence[Any]) -> set[int]:
    """The places of the mutants that a draw notices."""
    found, start, status = set[int](), 0, 1
    while status:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os._exit(tried(lines, waiting, caches, start, writing))
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


def tried(lines: Lines, waiting: Sequence[Change], caches: Sequence[Any], start: int, writing: int) -> int:
    """Try the mutants from a place on; 1 if one has left something, so that the others need another process."""
    draw = partial(drawn, lines, caches)
    files = {function.__code__.co_filename for one in waiting for function, _ in one.pairs}
    wanted, ran = reached(draw, files)
    chosen = [
        (place, one)
        for place, one in enumerate(waiting)
        if place >= start and any((one.pairs[0][1].co_filename, line) in ran for line in one.lines)
    ]
    before = time.process_time()
    if not chosen or draw() != wanted or wanted == [LateError.__name__]:
        return 0
    if time.process_time() - before > LONGEST:
        return 0
    for place, one in chosen:
        own = [(function, function.__code__) for function, _ in one.pairs]
        os.write(writing, b"%d " % place)
        exchange(one.pairs)
        differs = draw() != wanted
        exchange(own)
        if differs:
            os.write(writing, b"%d " % place)
            if draw() != wanted:
                return 1
    return 0


def exchange(pairs: Iterable[tuple[FunctionType, CodeType]]) -> None:
    """Give functions other code."""
    for function, code in pairs:
        function.__code__ = code


class Material(NamedTuple):
    """What is drawn.

    Attributes:
        names: of what is drawn.
        lines: the lines of a name and a number.
        kept: the numbers that are kept, by name.
        keep: keeps more numbers.
        before: the lines of what is recorded besides, which may notice a mutant first.
    """

    names: list[str]
    lines: Callable[[str, int], list[str]]
    kept: dict[str, list[int]]
    keep: Callable[[Mapping[str, Iterable[int]]], None]
    before: Iterable[Lines]


def of_records(name: str, beside: Sequence[str], rooms: tuple[str, ...]) -> Material:
    """A material of the record of draws; the kept draws of those ``beside`` come first."""
    from tests.helpers import drawn_aten, draws

    before: list[Lines] = drawn_aten.kept_lines() if name in drawn_aten.NAMES else []
    before += [
        partial(draws.MATERIALS[other].lines, of, number)
        for other in beside
        for of, numbers in draws.chosen(other).items()
        if other not in CALLS or of.startswith(rooms)
        for number in numbers
    ]
    one = draws.MATERIALS[name]
    return Material([*one.names()], one.lines, draws.chosen(name), partial(keep, draws, name), before)


def of_steps(isa: str) -> Material:
    """The material of the record of steps for an instruction set."""
    os.environ["ONEDNN_MAX_CPU_ISA"] = isa
    from compiler import test_recorded_steps as steps
    from helpers import compiler_calls, drawn_steps

    os.environ.update(steps.SETTINGS)
    steps.compile_for(isa)
    steps.vector_products.core_cache = lambda: 1 << 20
    names = [f"called {name}" for name in compiler_calls.functions()]
    lines = partial(drawn_steps.lines, steps.lines_of)
    graphs = (one for name in steps.CHOSEN[isa] if name not in steps.WHOLE for _, one in steps.units(name))
    forms = (
        partial(lines, f"{how} {kind}", number)
        for how, count in steps.FORMS[isa].items()
        for kind in drawn_steps.REWRITTEN
        for number in range(count)
    )
    before = islice(chain(forms, graphs), 0, None, SHARE)
    return Material(names, lines, drawn_steps.chosen(isa), partial(keep, drawn_steps, isa), before)


def keep(module: Any, name: str, more: Mapping[str, Iterable[int]]) -> None:
    """Keep more numbers of a material, beside those that others have kept meanwhile."""
    kept = module.chosen(name)
    module.choose(name, {**kept, **{one: sorted({*kept.get(one, ()), *numbers}) for one, numbers in more.items()}})


def main() -> None:
    """Choose, and write the numbers that are kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.choose", description=__doc__.partition("\n")[0])
    parser.add_argument("material", help="such as called, or AVX2: the record of steps for this instruction set")
    parser.add_argument("modules", nargs="+", help="such as lowering/bags.py")
    parser.add_argument("--numbers", type=int, default=40, help="that are tried of each name")
    parser.add_argument("--names", nargs="+", help="that are drawn; by default all")
    parser.add_argument("--beside", nargs="*", default=[], help="materials whose kept draws come first")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which it keeps what it has")
    given, start = parser.parse_args(), time.monotonic()
    sys.path.insert(0, str(PACKAGE.parent / "tests"))
    signal.signal(signal.SIGPROF, late)
    modules = [*map(module_name, given.modules)]
    places = tuple(f"{name.removeprefix('onegraph.')}." for name in modules)
    rooms = tuple(f"{one.partition('/')[0]}." for one in given.modules)
    is_of_steps = given.material in STEPS
    material = of_steps(given.material) if is_of_steps else of_records(given.material, given.beside, rooms)
    names = [name for name in material.names if name in (given.names or [name])]
    if given.material in CALLS:
        names = [name for name in names if name.removeprefix("called ").startswith(places)]
    waiting = [one for path in given.modules for one in changes_of(path)]
    own = [vars(imported(name)).values() for name in modules]
    count, caches = len(waiting), [one for each in own for one in each if hasattr(one, "cache_clear")]
    kept: dict[str, set[int]] = {}
    known = [(name, number) for name in names for number in material.kept.get(name, ())]
    new = [(name, number) for number in range(given.numbers) for name in names if (name, number) not in known]
    draws: Iterable[tuple[Lines, Any]] = chain(
        ((lines, None) for lines in material.before),
        ((partial(material.lines, *key), None) for key in known),
        ((partial(material.lines, *key), key) for key in new),
    )
    for done, (lines, key) in enumerate(draws):
        if not waiting or time.monotonic() - start > given.seconds:
            print(f"ends after {done} draws")
            break
        found = noticed(lines, waiting, caches)
        waiting = [one for place, one in enumerate(waiting) if place not in found]
        if found and key is not None:
            kept.setdefault(key[0], set()).add(key[1])
    material.keep(kept)
    print(*(f"alive {one.mutant.name}" for one in waiting), sep="\n")
    print(f"{count - len(waiting)} of {count} mutants noticed")


if __name__ == "__main__":
    main()
