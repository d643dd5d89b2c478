"""Mutants of the C++ code: each is compiled into an extension of its own, with which the tests of its kernels run.

The objects of the unchanged sources are made once, in build/mutants/native. Of a mutant only the sources are compiled
that have the changed line or include it. A mutant whose object is that of the unchanged source changes nothing, and is
none.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path

import build_ffi

from .. import changed
from .child import NOTICED, PACKAGE, SURVIVED, TIMEOUT
from .operators import Mutant
from .stages import NATIVE, NATIVE_REST, TESTS, files_named

ROOT = PACKAGE.parent
CSRC = build_ffi.CSRC
PLACE = ROOT / "build" / "mutants" / "native"
MOST = 12  # sources that are compiled for a mutant: a header that more of them include has none
HAS_AMX = "amx_tile" in Path("/proc/cpuinfo").read_text()
SHORTEST = 30.0  # seconds that a mutant has at least
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<"}
ASSIGNED = {"+=": "-=", "-=": "+=", "*=": "+="}
BETWEEN = {f" {old} ": f" {new} " for old, new in (COMPARISONS | ARITHMETIC | {"&&": "||", "||": "&&"}).items()}
WORDS = {r"\btrue\b": "false", r"\bfalse\b": "true", r"!(?=[\w(])": ""} | {re.escape(a): b for a, b in ASSIGNED.items()}
NUMBER = re.compile(r"(?<![\w.\"'])\d+(?![\w.\"'x])")
CALL = re.compile(r"^\s*(?!return\b|throw\b|static\b|const\b|auto\b)[\w:.>-]+\(.*\);$")
# Lines that compute nothing: declarations, messages, what registers a kernel, and what is fetched into the cache.
FETCHED = ("__builtin_prefetch(", "ONEGRAPH_FETCH(", "AHEAD = ")
DECLARED = ("//", "#", "/*", "*", "template", "static_assert", "using", "typedef", "struct", "class", "enum", "throw")


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a file of C++; ``place`` has the columns of what is replaced."""
    alike, made = Counter[str](), []
    for number, line in enumerate(source.splitlines(), 1):
        for start, end, new in _changes(line):
            old = line[start:end].strip()
            change = f"{old} becomes {new.strip()}" if new.strip() else f"{old} is dropped"
            key = f"{module} : {line.strip()}: {change}"
            alike[key] += 1
            key += f", {alike[key]}" if alike[key] > 1 else ""
            made.append(Mutant(module, number, (start, end), change, "", key))
    return made


def mutated(source: str, mutant: Mutant) -> str:
    """The source with the change of a mutant."""
    lines = source.split("\n")
    line = lines[mutant.line - 1]
    (new,) = (new for start, end, new in _changes(line) if (start, end) == mutant.place)
    lines[mutant.line - 1] = line[: mutant.place[0]] + new + line[mutant.place[1] :]
    return "\n".join(lines)


def _changes(line: str) -> Iterator[tuple[int, int, str]]:
    """The columns of each place that can be changed, with what stands there then."""
    code = line.partition(" //")[0]
    if code.strip().startswith((*DECLARED, "const Registered")) or "std::invalid_argument(" in code:
        return
    if any(part in code for part in FETCHED):
        return
    if CALL.match(code):
        yield len(code) - len(code.lstrip()), len(code), ";"
    for old, new in BETWEEN.items():
        for found in re.finditer(re.escape(old), code):
            if not code[: found.start()].count('"') % 2 and not ("template" in code and old.strip() in "<>"):
                yield *found.span(), new
    for pattern, new in WORDS.items():
        yield from ((*found.span(), new) for found in re.finditer(pattern, code) if _is_code(code, found.start()))
    for found in NUMBER.finditer(code):
        if _is_code(code, found.start()):
            yield *found.span(), str(int(found[0]) + 1)


def _is_code(line: str, column: int) -> bool:
    """Whether a column lies in no text."""
    return line[:column].count('"') % 2 == 0


def chosen(known: Collection[str], module: str | None) -> list[Mutant]:
    """The mutants of the C++ code, or of the files with a name, without the equivalent ones."""
    found = []
    for path in sorted(path for path in CSRC.rglob("*") if path.suffix in (".cpp", ".h", ".inc")):
        runs_here = HAS_AMX or path.stem != "amx"
        if runs_here and (module is None or module in path.parts or path.stem == module) and sources(path):
            name = str(path.relative_to(PACKAGE))
            found += [mutant for mutant in mutants(name, path.read_text()) if mutant.key not in known]
    return found


def sources(path: Path) -> list[Path]:
    """The sources that are compiled for a mutant of a file; none if they are too many."""
    found = changed.sources({str(path.relative_to(ROOT))}, MOST + 1)
    return found if len(found) <= MOST else []


def tests_of(path: Path) -> list[str]:
    """The files of tests of a file: those of the kernels that it registers, or its folder, or those of its entry."""
    own = path.parent if path.parent not in (CSRC, CSRC / "kernels") else None
    affected = sorted(own.glob("*.cpp")) if own else sources(path)
    found = set(changed.tests(affected)) - {*changed.OTHERS} if affected else set()
    for name in NATIVE.get(path.stem, ()):
        found |= {str(test.relative_to(ROOT)) for test in files_named(name)}
    return sorted(found) or [*changed.OTHERS]


class Builder:
    """The objects of all sources, and an extension that has a mutant."""

    def __init__(self) -> None:
        self.csrc, self.extension, self.objects = PLACE / "csrc", PLACE / "extension", PLACE / "objects"
        shutil.rmtree(self.csrc, ignore_errors=True)
        shutil.copytree(CSRC, self.csrc)
        for folder in (self.objects, self.extension):
            folder.mkdir(exist_ok=True)
        self.settings = build_ffi.settings(self.csrc)
        self.made = build_ffi.compile_sources(self.csrc, self.objects, *self.settings)
        self.link({})
        os.environ.pop(build_ffi.OBJECTS, None)  # no object of a mutant is kept

    def link(self, instead: dict[Path, Path]) -> None:
        """Link the extension, with some objects in the place of others."""
        build_ffi.link([instead.get(one, one) for one in self.made], self.extension / "_ffi.abi3.so")

    def build(self, mutant: Mutant) -> bool:
        """Build the extension of a mutant; false if it does not compile, or computes as the unchanged code does."""
        path = PACKAGE / mutant.module
        target, instead = self.csrc / path.relative_to(CSRC), dict[Path, Path]()
        target.write_text(mutated(path.read_text(), mutant))
        try:
            for source in [each for each in sources(path) if HAS_AMX or each.stem != "amx"]:
                name = str(source.relative_to(CSRC))
                object_ = PLACE / build_ffi.object_name(name)
                with redirect_stderr(io.StringIO()):  # warnings
                    build_ffi.compile_source(self.csrc / name, object_, *self.settings)
                instead[self.objects / object_.name] = object_
            if all(old.read_bytes() == new.read_bytes() for old, new in instead.items()):
                return False
            self.link(instead)
        except build_ffi.BuildError:
            return False
        finally:
            target.write_text(path.read_text())
        return True


def run(tests: Sequence[str], seconds: float) -> str:
    """What files of tests say of the extension."""
    environment = os.environ | {"ONEGRAPH_EXTENSION": str(PLACE / "extension")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS / "sanitized"), str(ROOT)])
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    null = subprocess.DEVNULL
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=null, stderr=null, start_new_session=True)
    try:
        return NOTICED if child.wait(seconds) else SURVIVED
    except subprocess.TimeoutExpired:
        return TIMEOUT
    finally:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class Times:
    """The seconds that files of tests take with the unchanged code, which must pass them; kept in a file."""

    def __init__(self, builder: Builder) -> None:
        self._builder, self._path = builder, PLACE / "seconds.json"
        self._known: dict[str, float] = json.loads(self._path.read_text()) if self._path.exists() else {}

    def of(self, tests: Sequence[str]) -> dict[str, float]:
        """The seconds of each of these files."""
        for test in tests:
            if test not in self._known:
                self._builder.link({})
                start = time.monotonic()
                if run([test], 3600) != SURVIVED:
                    raise SystemExit(f"{test} fails without a mutant")
                self._known[test] = round(time.monotonic() - start, 1)
                self._path.write_text(json.dumps(self._known, indent=1))
        return {test: self._known[test] for test in tests}


def judged(
    known: Collection[str], module: str | None, count: int | None, seed: int, shard: tuple[int, int]
) -> list[tuple[Mutant, str]]:
    """The verdicts on mutants in a random order, one after the other."""
    PLACE.mkdir(parents=True, exist_ok=True)
    builder = Builder()
    times, verdicts = Times(builder), list[tuple[Mutant, str]]()
    tried = chosen(known, module)
    random.Random(seed).shuffle(tried)
    rest = [str(path.relative_to(ROOT)) for name in NATIVE_REST for path in files_named(name)]
    for mutant in tried[shard[0] - 1 :: shard[1]]:
        if len(verdicts) == count:
            break
        tests = tests_of(PACKAGE / mutant.module)
        seconds = times.of(tests)
        if not builder.build(mutant):
            continue
        first = sorted(tests, key=seconds.__getitem__)
        verdict = run(first, SHORTEST + 5 * sum(seconds.values()))
        if verdict == SURVIVED and (others := [test for test in rest if test not in first]):
            seconds = times.of(others)
            builder.build(mutant)
            verdict = run(others, SHORTEST + 5 * sum(seconds.values()))
        verdicts.append((mutant, verdict))
        print(f"{verdict:9} {mutant.name}", flush=True)
    return verdicts
