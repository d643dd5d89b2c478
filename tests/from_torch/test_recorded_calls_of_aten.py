"""Which graphs calls of ATen ops become: the record aten_graphs.json, of calls that tests with PyTorch lower.

The calls, and others beside them, are kept as texts and lowered without PyTorch.
``python -m tests.torch_backend.keep_calls`` writes the calls anew; run as a script, this file writes the record anew,
and with names of ops it prints their graphs.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
from helpers.aten_calls import kept, replayed
from helpers.recorded import digest, keep
from helpers.recorded import kept as recorded

KEPT = Path(__file__).parents[1] / "recorded" / "aten_graphs.json"
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


if __name__ == "__main__":
    if names := sys.argv[1:]:
        for name, lines in graphs(0, 1).items():
            if name in names:
                print(name, *lines, sep="\n  ")
    else:
        keep(KEPT, [found(group) for group in range(GROUPS)])
