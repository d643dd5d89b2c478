"""The library as it is: runs without the ways around its faults, reduction there, and C++ programs of graphs."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import onegraph

import onegraph as og
from onegraph.capi.settings import is_native
from onegraph.reference import run
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.bare import run_bare
from onegraph.tools.cpp_program import to_cpp

pytestmark = pytest.mark.library
PADDED = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [1, 0], "pads_end": [1, 0], "dilations": [2, 2]}


def pooled():
    """A graph whose windows lie in the padding alone: -inf by the formula, the lowest number in the library."""
    g = og.Graph()
    y = g.max_pool(g.relu(g.input("x", og.f32, (1, 1, 5, 2))), **PADDED)
    g.output("y", g.maximum(y, y))
    return g


def mixed():
    """A graph of codes, constants, a tensor that is not dense, a variable, and 16 bits where the CPU has them."""
    g = og.Graph()
    x = g.dequantize(g.input("x", og.u8, (4, 8)), scales=[0.5], zps=[3])
    w = g.dequantize(g.constant(np.arange(-16, 16, dtype=np.int8).reshape(8, 4)), scales=[0.25], zps=[0])
    g.output("codes", g.quantize(g.relu(g.matmul(x, w)), scales=[2.0], zps=[1], dtype="u8"))
    g.output("half", g.abs(g.input("b", og.bf16 if is_native(og.bf16) else og.f32, (3, 4), strides=(6, 1))))
    v = g.variable("v", np.full((2, 3), 2, np.float32))
    g.assign(v, g.multiply(v, v))
    return g


def test_runs_as_the_c_api_does():
    g = mixed()
    inputs = random_inputs(g, 0)
    found = run_bare(g, inputs)
    assert found.outcome == "ran", found.text()
    assert ("Dequantize", "Dequantize", "MatMul", "ReLU", "Quantize") in [
        tuple(sorted(p)) for p in found.partitions
    ] or len(found.partitions) >= 3
    expected = run(g, inputs)
    assert np.abs(found.results["codes"].astype(int) - expected["codes"].astype(int)).max() <= 1
    np.testing.assert_array_equal(found.results["half"], np.abs(inputs["b"]))
    (after,) = [array for name, array in found.results.items() if name not in ("codes", "half")]
    np.testing.assert_array_equal(after, np.full((2, 3), 4, np.float32))


def test_fault_shows_that_the_executor_goes_around():
    g = pooled()
    inputs = random_inputs(g, 0)
    assert run(g, inputs)["y"][0, 0, 0, 0] == -np.inf
    np.testing.assert_array_equal(g.compile()(**inputs), run(g, inputs)["y"])
    assert run_bare(g, inputs).results["y"][0, 0, 0, 0] == np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("kind", "attrs", "shape", "told"),
    [
        ("Pow", {"beta": 2.0}, (4,), "unsupported at partition: no kernel for Pow"),
        ("Concat", {"axis": 1}, (1, 2, 1, 2, 1, 2, 3), "refused at compile: dnnl_graph_partition_compile"),
    ],
)
def test_refusals_of_the_library_are_told(kind, attrs, shape, told):
    g = og.Graph()
    x = g.input("x", og.f32, shape)
    g.output("y", g.op(kind, [x] if kind == "Pow" else [x, x], attrs))
    found = run_bare(g, random_inputs(g, 0))
    assert told in found.text()
    assert found.results == {}


def test_host_ops_are_refused():
    g = og.Graph()
    g.output("y", g.op("Pow", [g.input("x", og.f32, (4,)), g.input("e", og.f32, (4,))], edition="host"))
    with pytest.raises(og.UnsupportedError, match="the bare library has no op Pow"):
        run_bare(g, random_inputs(g, 0))


def test_commands_run_the_library_as_it_is(tmp_path):
    path = tmp_path / "g.json"
    pooled().save(path)
    done = onegraph("run", path, "--bare")
    assert (done.returncode, "partitions of the library by itself" in done.stdout) == (0, True)
    assert onegraph("verify", path, "--bare").returncode == 1
    done = onegraph("reduce", path, "--bare", "--json", "-o", tmp_path / "small.json")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["kind"], facts["ops"]) == (0, "wrong", 1)
    assert facts["cpp"] == (tmp_path / "small.cpp").read_text()


def _ended(program, folder):
    from onegraph.native.library import PATH

    include, library = Path(sys.prefix) / "include", Path(PATH)
    if not (include / "oneapi" / "dnnl" / "dnnl_graph.hpp").is_file():
        pytest.skip("the headers of oneDNN are not installed")
    (folder / "bug.cpp").write_text(program)
    command = ["c++", "-Wall", "-Werror", "-std=c++17", "bug.cpp", f"-I{include}", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-o", "bug"], check=True, cwd=folder)
    return subprocess.run([folder / "bug"], capture_output=True, text=True, timeout=60, check=False)


def test_cpp_program_shows_what_the_library_does(tmp_path):
    path = tmp_path / "g.json"
    pooled().save(path)
    assert onegraph("convert", path, "-o", tmp_path / "out.cpp").returncode == 0
    program = (tmp_path / "out.cpp").read_text()
    assert "onegraph" not in program
    wrong = _ended(program, tmp_path)
    assert (wrong.returncode, wrong.stdout) == (1, "y: 4 of 4 differ; [0] is -3.40282e+38, expected -inf\n")
    right = _ended(to_cpp(mixed()), tmp_path)
    assert (right.returncode, right.stdout) == (0, "")


def test_program_of_too_many_numbers_is_refused():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (1 << 18,))))
    with pytest.raises(og.ArgumentError, match="reduce first"):
        to_cpp(g)
