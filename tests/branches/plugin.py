"""A plugin of pytest that measures the branches that the tests run: ``make test`` runs the suite with it.

The summary has a table by room of the package. The run fails where a room has fallen below its share in
tests/branches.json by more than chance; ``--keep-branches`` writes that file. ``--missed-branches FILE`` writes the
ways that no test runs, as lines of the package. What child processes run is not measured: the shares are the least.

The processes of pytest-xdist send what they have measured to the first one. A run without one of them, or of chosen
tests, is not compared. REACHED tells ``python -m tests.mutants`` which tests run a way.
"""

from __future__ import annotations

import json
import marshal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import compress, count
from pathlib import Path
from typing import Any

import pytest

from . import Counts, keep, kept, marks, report, room

REACHED = marks.KEPT / "reached.json"
KEPT_TESTS = 2, 6  # of a way: cases of one function of tests, and tests of one file
TABLE = pytest.StashKey[list[str]]()


class Measured:
    """What has run: each way, and which tests run it; a few of each function of tests, and of each file."""

    def __init__(self) -> None:
        self.ran: dict[str, list[int]] = {}
        self.tests: list[str] = []
        self.seconds: list[float] = []
        self.reached: dict[str, list[list[int]]] = {}  # by module and way, numbers of tests
        self.lost = False  # a process that has sent nothing
        self._start = 0.0
        self._left: tuple[dict[str, list[int]], dict[str, list[int]]] = {}, {}

    def begin(self, test: str) -> None:
        """Note what has run since the last call for the test before, and go on with another test."""
        now = time.perf_counter()
        runs = len(self.seconds) < len(self.tests)
        for name, states in marks.RAN.items():
            if 1 in states:
                self._note(name, [*compress(count(), states)], runs=runs)
                states[:] = [0] * len(states)
        before = self.tests[-1] if runs else ""
        if runs:
            self.seconds.append(round(now - self._start, 4))
        for left, part in zip(self._left, ("[", "::"), strict=True):
            if test.partition(part)[0] != before.partition(part)[0]:
                left.clear()
        if test:
            self.tests.append(test)
        self._start = time.perf_counter()

    def _note(self, name: str, ways: list[int], *, runs: bool) -> None:
        """Note the ways of a module that have run, in the last test if it ran."""
        size = len(marks.WAYS[name])
        own = self.ran.setdefault(name, [0] * size)
        for way in ways:
            own[way] = 1
        if not runs:
            return
        number, reached = len(self.tests) - 1, self.reached.setdefault(name, [[] for _ in range(size)])
        of_function, of_file = (
            left.setdefault(name, [most] * size) for left, most in zip(self._left, KEPT_TESTS, strict=True)
        )
        for way in ways:
            if of_function[way] and of_file[way]:
                of_function[way] -= 1
                of_file[way] -= 1
                reached[way].append(number)

    def sent(self) -> tuple[object, ...]:
        """What another process adds to its own."""
        return marks.WAYS, self.ran, self.tests, self.seconds, self.reached

    def add(
        self,
        ways: dict[str, list[str]],
        ran: dict[str, list[int]],
        tests: list[str],
        seconds: list[float],
        reached: dict[str, list[list[int]]],
    ) -> None:
        """Add what has run in another process."""
        marks.WAYS.update(ways)
        for name, states in ran.items():
            own = self.ran.setdefault(name, [0] * len(states))
            own[:] = [int(here or there) for here, there in zip(own, states, strict=True)]
        for name, lists in reached.items():
            for own, more in zip(self.reached.setdefault(name, [[] for _ in lists]), lists, strict=True):
                own += [number + len(self.tests) for number in more]
        self.tests += tests
        self.seconds += seconds

    def by_way(self) -> dict[str, dict[str, list[int]]]:
        """By module and way, the numbers of the tests that run it."""
        return {
            name: {way: numbers for way, numbers in zip(marks.WAYS[name], lists, strict=True) if numbers}
            for name, lists in self.reached.items()
        }

    def ways(self) -> Iterator[tuple[str, str, int]]:
        """Each way of the package: its module, its line with what is true there, and whether it ran."""
        for path in sorted((marks.ROOT / "onegraph").rglob("*.py")):
            name = str(path.relative_to(marks.ROOT / "onegraph"))
            ways = marks.WAYS[name] if name in marks.WAYS else marks.marked(path.read_text())[1]
            for text, ran in zip(ways, self.ran.get(name, [0] * len(ways)), strict=True):
                yield name, text, ran

    def counts(self) -> dict[str, Counts]:
        """What has run, by room."""
        numbers: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for name, text, ran in self.ways():
            place = 2 * is_function(text)
            numbers[room(name)][place] += ran
            numbers[room(name)][place + 1] += 1
        return {name: tuple(four) for name, four in numbers.items()}  # type: ignore[misc]


def is_function(way: str) -> bool:
    return " function " in way


def instructions() -> str:
    """The instruction set of the CPU: it decides which kernels are chosen, so that each has shares of its own."""
    from onegraph.errors import LibraryError

    try:
        from onegraph.capi import get_cpu_isa
    except LibraryError:
        return "no library"
    return str(get_cpu_isa())


measured = Measured()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and mark what is imported from now on: pytest has imported nothing of the suite yet."""
    sys.meta_path.insert(0, marks.Finder())  # type: ignore[arg-type]
    parser.addoption("--keep-branches", action="store_true", help="write the shares of branches to tests/branches.json")
    parser.addoption("--missed-branches", metavar="FILE", help="write the ways that no test runs to a file")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Note which test runs."""
    measured.begin(item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a process of the suite has measured."""
    path = getattr(node, "workeroutput", {}).get("branches")
    if path is None:
        measured.lost = True
        return
    measured.add(*marshal.loads(Path(path).read_bytes()))
    Path(path).unlink()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what this process has measured; or compare, and fail where a share has fallen."""
    config = session.config
    measured.begin("")
    if hasattr(config, "workeroutput"):
        with tempfile.NamedTemporaryFile(dir=marks.KEPT, delete=False) as file:
            marshal.dump(measured.sent(), file)
        config.workeroutput["branches"] = file.name
        return
    record = f"python on {instructions()}{' with PyTorch' if find_spec('torch') else ''}"
    lines, shares, fallen = report(measured.counts(), kept(record), "functions")
    config.stash[TABLE] = lines
    if target := config.getoption("missed_branches"):
        Path(target).write_text("".join(f"{name}:{text}\n" for name, text, ran in measured.ways() if not ran))
    is_chosen = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    if measured.lost or is_chosen:
        return
    REACHED.write_text(json.dumps({"tests": measured.tests, "seconds": measured.seconds, "ways": measured.by_way()}))
    if config.getoption("keep_branches") and session.exitstatus == 0:
        keep(record, shares)
    elif fallen:
        lines += ["The tests run fewer branches than before:", *fallen]
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table."""
    for line in config.stash.get(TABLE, []):
        terminalreporter.write_line(line)
