"""A plugin of pytest that halves what pytest-xdist adds to a test, 1.4 ms, which is more than many tests take.

A process of the suite reports three phases of a test, each with two events around it. Of a test that passes, one report
says all. The scheduler finds the number of a test in a dictionary instead of searching all names for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


def is_needed(event: str, given: dict[str, Any]) -> bool:
    """Whether the first process needs an event of another one."""
    if event == "testreport":
        return bool(given["data"]["when"] == "call" or given["data"]["outcome"] != "passed")
    return event not in ("logstart", "logfinish")  # nothing is printed there


def pytest_plugin_registered(plugin: Any) -> None:
    """Let the plugin of a process of the suite send what is needed, unless an option asks for the seconds of phases."""
    if type(plugin).__name__ != "WorkerInteractor" or plugin.config.option.durations or plugin.config.option.xmlpath:
        return
    send = plugin.sendevent

    def send_needed(event: str, **given: Any) -> None:
        if is_needed(event, given):
            send(event, **given)

    plugin.sendevent = send_needed


class Files(LoadFileScheduling):
    """Gives a process one file of tests after another."""

    def add_node_collection(self, node: Any, collection: list[str]) -> None:
        super().add_node_collection(node, collection)
        self.places = {name: place for place, name in enumerate(collection)}  # alike in all processes

    def _assign_work_unit(self, node: Any) -> None:
        file, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][file] = tests
        node.send_runtest_some([self.places[name] for name, is_done in tests.items() if not is_done])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files | None:
    return Files(config, log) if config.getvalue("dist") == "loadfile" else None
