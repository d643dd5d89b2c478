"""Which graphs calls of ATen ops become, and what the front end makes of captured graphs, without PyTorch.

The record aten_graphs.json is of calls that tests with PyTorch lower, and aten_changes.json of graphs that they
capture; they, and others beside them, are kept as texts. It has what ``aten_parts`` decides without a graph, too.
``python -m tests.torch_backend.keep_calls`` and ``keep_passes`` write the texts anew; run as a script, this file writes
the records anew, and with names of ops, of functions or of parts it prints what they make.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
from helpers.recorded import digest, keep
from helpers.recorded import kept as recorded

from tests.helpers import aten_parts, aten_passes
from tests.helpers.aten_calls import kept, replayed

KEPT = Path(__file__).parents[1] / "recorded" / "aten_graphs.json"
CHANGES = KEPT.with_name("aten_changes.json")
GROUPS = 8


def graphs(group, groups=GROUPS):
    """The lines of some graphs, by the op that is called last."""
    lines = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for made in kept()["graphs"][group::groups]:
            last = [node[2] for node in made["nodes"] if node[1] == "call_function"][-1:]
            lines[last[0] if last else "none"] += replayed(made)
    return lines


def found(group):
    """The digests of some graphs."""
    return {name: digest(lines) for name, lines in sorted(graphs(group).items())}


@pytest.mark.parametrize("group", range(GROUPS))
def test_graphs_of_aten_calls_are_those_recorded(group):
    assert found(group) == recorded(KEPT)[group]


def changes():
    """What each function makes of the graphs that it gets, a text for each graph."""
    made = defaultdict(list)
    for one in aten_passes.kept()["graphs"]:
        made[one["of"]].append("\n".join(aten_passes.replayed(one)))
    return made


def decided(name):
    """What a part of the front end decides."""
    return aten_parts.lines(name, aten_passes.modules())


def digests():
    """The digests of all changes, and of all parts."""
    made = {name: [digest([text]) for text in texts] for name, texts in sorted(changes().items())}
    return {**made, **{name: digest(decided(name)) for name in aten_parts.PARTS}}


def test_changes_of_captured_graphs_are_those_recorded():
    assert digests() == recorded(CHANGES)


if __name__ == "__main__":
    if names := sys.argv[1:]:
        parts = {name: decided(name) for name in aten_parts.PARTS}
        for name, lines in [*graphs(0, 1).items(), *changes().items(), *parts.items()]:
            if name in names:
                print(name, *lines, sep="\n  ")
    else:
        keep(KEPT, [found(group) for group in range(GROUPS)])
        keep(CHANGES, digests())
