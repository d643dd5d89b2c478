"""A plugin of pytest that measures the branches that the tests run: ``make test`` runs the suite with it.

The summary has a table by room of the package. The run fails where a room has fallen below its share in
tests/branches.json by more than chance; ``--keep-branches`` writes that file. ``--missed-branches FILE`` writes the
ways that no test runs, as lines of the package. What child processes run is not measured: the shares are the least.

The processes of pytest-xdist send what they have measured to the first one. A run without one of them, or of chosen
tests, is not compared. REACHED tells ``python -m tests.mutants package`` which files of tests run a function.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from . import Counts, keep, kept, marks, report, room

REACHED = marks.KEPT / "reached.json"
TABLE = pytest.StashKey[list[str]]()


class Measured:
    """What has run: each way, and by file of tests the functions and the seconds."""

    def __init__(self) -> None:
        self.ran: dict[str, list[int]] = {}
        self.functions: dict[str, dict[str, list[str]]] = {}  # by module and way
        self.seconds: dict[str, float] = {}
        self.lost = False  # a process that has sent nothing
        self._file, self._start = "", 0.0
        self.path: Path | None = None  # of the file that runs

    def begin(self, file: str) -> None:
        """Count what has run since the last call for the file before, and go on with another file."""
        now, ran = time.perf_counter(), {name: [*states] for name, states in marks.RAN.items() if any(states)}
        for states in marks.RAN.values():
            states[:] = [0] * len(states)
        functions: dict[str, dict[str, list[str]]] = {}
        if self._file:
            self.seconds[self._file] = round(self.seconds.get(self._file, 0.0) + now - self._start, 2)
            for name, states in ran.items():
                texts = (text for text, state in zip(marks.WAYS[name], states, strict=True) if state)
                functions[name] = {text: [self._file] for text in texts if is_function(text)}
        self.add(marks.WAYS, ran, functions)
        self._file, self._start = file, now

    def add(
        self, ways: dict[str, list[str]], ran: dict[str, list[int]], functions: dict[str, dict[str, list[str]]]
    ) -> None:
        """Add what has run, here or in another process."""
        marks.WAYS.update(ways)
        for name, states in ran.items():
            own = self.ran.setdefault(name, [0] * len(states))
            own[:] = [int(here or there) for here, there in zip(own, states, strict=True)]
        for name, texts in functions.items():
            for text, files in texts.items():
                self.functions.setdefault(name, {}).setdefault(text, []).extend(files)

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
    """Note which file of tests runs."""
    if item.path is not measured.path:  # a path of pathlib is compared and made relative slowly
        measured.path = item.path
        measured.begin(str(item.path.relative_to(marks.ROOT)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a process of the suite has measured."""
    sent = getattr(node, "workeroutput", {}).get("branches")
    if sent is None:
        measured.lost = True
        return
    *ways, seconds = sent
    measured.add(*ways)
    measured.seconds |= seconds


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what this process has measured; or compare, and fail where a share has fallen."""
    config = session.config
    measured.begin("")
    if hasattr(config, "workeroutput"):
        config.workeroutput["branches"] = (marks.WAYS, measured.ran, measured.functions, measured.seconds)
        return
    record = f"python on {instructions()}{' with PyTorch' if find_spec('torch') else ''}"
    lines, shares, fallen = report(measured.counts(), kept(record), "functions")
    config.stash[TABLE] = lines
    if target := config.getoption("missed_branches"):
        Path(target).write_text("".join(f"{name}:{text}\n" for name, text, ran in measured.ways() if not ran))
    is_chosen = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    if measured.lost or is_chosen:
        return
    REACHED.write_text(json.dumps({"functions": measured.functions, "seconds": measured.seconds}))
    if config.getoption("keep_branches") and session.exitstatus == 0:
        keep(record, shares)
    elif fallen:
        lines += ["The tests run fewer branches than before:", *fallen]
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table."""
    for line in config.stash.get(TABLE, []):
        terminalreporter.write_line(line)
