"""A plugin of pytest that records which tests run which lines of a stage, with the package coverage."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from .child import PACKAGE

FOLDER, TARGET = os.environ["MUTANTS_STAGE"], os.environ["MUTANTS_RECORD"]


class Contexts:
    """Switches the context of the measurement to each test, and times the test."""

    def __init__(self) -> None:
        rooms = [os.path.join(FOLDER, "*", "*")] if Path(FOLDER) == PACKAGE else None
        self._measured = coverage.Coverage(data_file=None, source=[FOLDER], omit=rooms, config_file=False)
        self._seconds: dict[str, float] = {}
        self._measured.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test."""
        self._measured.switch_context(item.nodeid)
        start = time.perf_counter()
        yield
        self._seconds[item.nodeid] = time.perf_counter() - start

    def pytest_sessionfinish(self) -> None:
        """Write, for each module, the tests by line, the quickest first."""
        self._measured.stop()
        data, record = self._measured.get_data(), {}
        for path in data.measured_files():
            lines = data.contexts_by_lineno(path)
            record[str(Path(path).relative_to(FOLDER))] = {
                line: sorted((test for test in tests if test in self._seconds), key=self._seconds.__getitem__)
                for line, tests in lines.items()
            }
        Path(TARGET).write_text(json.dumps({"lines": record, "seconds": self._seconds}))


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin."""
    config.pluginmanager.register(Contexts())
