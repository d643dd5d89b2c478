"""What a user is told where the oneDNN library or the compiled part of onegraph is missing."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import onegraph as og
from onegraph.native import load

# How a process loses the library or the extension, and what it is told.
LOSSES = {
    "library": (
        "from onegraph.native import load\nload._find_wheel = lambda: None",
        "the oneDNN library is not installed; run: pip install onednn-cpu-gomp==2023.2.0, or set ONEGRAPH_LIBRARY",
    ),
    "extension": (
        "sys.modules['onegraph._ffi'] = None",
        "the compiled part of onegraph is missing; reinstall onegraph, or run python build_ffi.py in a checkout",
    ),
}


def child(code, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "ONEGRAPH_LIBRARY"}
    command = [sys.executable, "-c", f"import sys\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


ALL = """
from onegraph.cli import main
for command in ("run", "verify", "bench", "reduce", "info"):
    try:
        status = main([command, *([] if command == "info" else sys.argv[1:])])
    except SystemExit as ended:
        status = ended.code
    print(command, status)
"""


@pytest.mark.parametrize("loss", [*LOSSES])
def test_commands_name_the_missing_part(loss, tmp_path):
    lose, told = LOSSES[loss]
    graph = tmp_path / "graph.json"
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    g.save(graph)
    done = child(f"{lose}\n{ALL}", graph)
    assert done.stdout.splitlines() == ["run 2", "verify 2", "bench 2", "reduce 2", "info 2"], done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 5
    if find_spec(load.EXTENSION) is not None:  # elsewhere the extension is missing in both cases
        assert all(line.startswith(f"onegraph: {told}") for line in lines)
    assert all(
        line.endswith("; onegraph.reference.run computes a graph in numpy, without the library") for line in lines
    )


@pytest.mark.parametrize("loss", [*LOSSES])
def test_pure_parts_work_after_a_failed_compilation(loss):
    code = """
import numpy as np
import onegraph as og
graph = og.Graph()
graph.output("y", graph.relu(graph.input("x", og.f32, (2,))))
for use in (graph.compile, graph.partitions, lambda: og.version_info(), lambda: og.capi.Engine()):
    try:
        use()
    except og.LibraryError as error:
        print(error)
assert og.reference.run(graph, {"x": np.float32([-1, 2])})["y"].tolist() == [0, 2]
assert og.check_graph(graph) == [] and "<svg" in graph._repr_svg_()
"""
    done = child(LOSSES[loss][0] + code)
    assert done.returncode == 0, done.stderr
    assert len({*done.stdout.splitlines()}) == 1
    assert done.stdout.count("onegraph.reference.run") == 4


@pytest.mark.parametrize("system", [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "aarch64")])
def test_other_systems_are_named(system):
    text = load._missing_extension(*system)
    assert text == f"onegraph runs graphs with the oneDNN library on x86-64 Linux, and this is {' on '.join(system)}"
