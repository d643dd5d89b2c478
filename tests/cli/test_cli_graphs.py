"""The commands that take a graph file: run, check, verify, bench, show and view."""

import io
import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import LONG, SHARED, draws, library
from helpers.fork_server import run_forked
from helpers.grouped import grouped

import onegraph as og
from onegraph.cli import cli, graph_source
from onegraph.cli import verify as verify_command
from onegraph.opset.dtypes import DataType
from onegraph.testing.tolerance import compare

COMMANDS = ("run", "check", "verify", "bench", "show", "view")
FINITE = ("--finite-math", "yes")  # of bench
QUICK = {"bench": ("--seconds", "0"), "view": ("-o", "page.html")}
ATTRS = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def network(batch=2, dtype=og.f32):
    g = og.Graph()
    x = g.input("x", dtype, (batch, 6, 6, 3))
    y = g.convolution(x, g.input("w", dtype, (3, 3, 3, 4)), **ATTRS, name="conv")
    g.output("y", g.relu(y, name="relu"))
    return g


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def graph():
    """A graph file."""
    network().save("graph.json")
    return "graph.json"


def onegraph(*arguments, **options):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], **options)


def as_json(*arguments, **options):
    done = onegraph(*arguments, "--json", **options)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return json.loads(done.stdout)


# The commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.library
def test_run_summarizes_outputs(graph):
    found = as_json("run", graph, "--finite-math")
    (y,) = found["outputs"]
    assert (y["name"], y["dtype"], y["shape"], y["min"], y["not_finite"]) == ("y", "f32", [2, 4, 4, 4], 0, 0)
    assert found["report"]["partitions"][0]["ops"] == ["Convolution 'conv'", "ReLU 'relu'"]
    shown = onegraph("run", graph, "--finite-math").stdout
    assert re.search(r"y +f32 +2x4x4x4 +0 ", shown)
    assert "oneDNN, fused" in shown
    (kept,) = as_json("run", graph)["outputs"]
    assert kept == y
    assert re.search(r"1 +kernel +ReLU 'relu'.*\n.*\n +by onegraph: .* loses NaN", onegraph("run", graph).stdout)


@pytest.mark.library
def test_run_prints_no_negative_zero(graph):
    g = og.Graph()
    g.output("y", g.multiply(g.input("x", og.f32, (2,)), g.constant(np.float32([-0.0, -0.0]))))
    g.save("zero.json")
    np.savez("in.npz", x=np.ones(2, np.float32))
    assert re.search(r"y +f32 +2 +0 +0 +0 *\n", onegraph("run", "zero.json", "--inputs", "in.npz").stdout)
    assert str(as_json("run", "zero.json", "--inputs", "in.npz")["outputs"][0]["min"]) == "-0.0"


@pytest.mark.library
def test_run_reads_and_writes_arrays(graph):
    rng = np.random.default_rng(0)
    inputs = {"x": rng.random((2, 6, 6, 3), np.float32), "w": rng.random((3, 3, 3, 4), np.float32)}
    np.savez("in.npz", **inputs)
    assert onegraph("run", graph, "--inputs", "in.npz", "--outputs", "out.npz").exit_code == 0
    expected = og.reference.run(network(), inputs)["y"]
    with np.load("out.npz", allow_pickle=False) as found:
        assert list(found) == ["y"]
        np.testing.assert_allclose(found["y"], expected, rtol=1e-5)


@pytest.mark.library
@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_seeds_are_reproducible(graph, command):
    results = []
    for number, seed in enumerate((3, 3, 4)):
        arguments = ("--seed", seed, "--outputs", f"{number}.npz", *QUICK.get(command, ()))
        assert onegraph(command, graph, *arguments).exit_code == 0
        with np.load(f"{number}.npz") as found:
            results.append(found["y"])
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


@pytest.mark.library
def test_standard_input(graph):
    text = network().to_json()
    assert as_json("run", "-", input=text)["outputs"][0]["shape"] == [2, 4, 4, 4]
    assert as_json("check", "-", input=text) == []


@pytest.mark.parametrize("size", [9, 10, 11])
def test_standard_input_has_a_limit(monkeypatch, size):
    monkeypatch.setattr(graph_source, "MAX_BYTES", 10)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"x" * size)))
    if size > 10:
        with pytest.raises(og.FormatError, match="standard input: more than 10 bytes; expected at most 10"):
            graph_source.standard_input()
    else:
        assert graph_source.standard_input() == b"x" * size


@pytest.mark.library
def test_a_page_without_compiling_shows_no_partition(graph):
    plain = og.view.page(og.load(graph), violations=og.check_graph(og.load(graph)), title=Path(graph).stem)
    assert onegraph("view", graph, "--no-compile", "-o", "-").stdout.strip() == plain.strip()
    assert onegraph("view", graph, "-o", "-").stdout.strip() != plain.strip()


def test_check_lists_violations(graph):
    assert onegraph("check", graph).stdout == "no violations\n"
    form = json.loads(network().to_json())
    form["graph"][0]["attrs"]["strides"]["value"] = [0, 1]
    with open("wrong.json", "w") as file:
        json.dump(form, file)
    done = onegraph("check", "wrong.json", "--json")
    assert done.exit_code == 1
    assert {(one["rule"], one["where"]) for one in json.loads(done.stdout)} == {("attribute_range", "strides")}
    assert (
        "error: [attribute_range] graph[0]: Convolution 'conv': strides: [0, 1]"
        in onegraph("check", "wrong.json").stdout
    )
    refused = onegraph("run", "wrong.json")
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "wrong.json: graph[0]: Convolution 'conv': strides" in refused.stderr


@pytest.mark.library
def test_verify_agrees_and_differs(graph, monkeypatch):
    found = as_json("verify", graph)
    assert (found["agrees"], found["first"], found["outputs"][0]["agrees"]) == (True, None, True)
    from onegraph.tools import expected_results

    run_op = expected_results.run_op

    def wrong(op, inputs, **options):
        results = run_op(op, inputs, **options)
        return tuple(result + np.float32(op.name == "relu") for result in results)

    monkeypatch.setattr(expected_results, "run_op", wrong)
    done = onegraph("verify", graph, "--json")
    assert done.exit_code == 1
    first = json.loads(done.stdout)["first"]
    assert (first["op"], first["alone"]) == ("ReLU 'relu'", False)
    assert first["comparison"]["max_error"] == pytest.approx(1, abs=1e-5)  # results are at most 15, in f32
    assert "first difference: ReLU 'relu', run by kernel" in onegraph("verify", graph).stdout
    shown = onegraph("verify", graph, "--finite-math")
    assert shown.exit_code == 1
    assert "first difference: ReLU 'relu', fused with Convolution 'conv', run by oneDNN" in shown.stdout
    assert "128 of 128 elements off by more than" in shown.stdout
    assert "with --policy debug, where nothing is fused, it is wrong too" in shown.stdout


@pytest.mark.library
def test_verify_explains_nan_and_averages(graph):
    g = og.Graph()
    g.output("y", g.relu(g.sqrt(g.input("x", og.f32, (8,)))))
    g.save("nan.json")
    np.savez("x.npz", x=np.full(8, -1, np.float32))
    kept = onegraph("verify", "nan.json", "--inputs", "x.npz")
    assert (kept.exit_code, "too few elements are finite" in kept.stdout) == (3, True)
    done = onegraph("verify", "nan.json", "--inputs", "x.npz", "--finite-math")
    assert done.exit_code == 1
    assert "the reference has nan\n  oneDNN does not carry NaN through" in done.stdout

    one = np.arange(64, dtype=np.float32)
    near = one + (one == 0)
    # no error exceeds the noise of the first element
    off = compare("y", one + 1, one, near, DataType.f32, rounded=False)
    assert (off.agrees, off.wrong) == (False, 0)
    assert verify_command._row(off)[-1] == "differs on average, most at [0]"
    assert verify_command._amount(off) == "off by 1 on average, which is more than rounding does"


@pytest.mark.library
def test_verify_names_or_refuses_fallback_ops(graph):
    g = og.Graph("legacy-1")  # the library has no such op
    g.output("y", g.op("Index", [g.input("x", og.f32, (8, 2)), g.input("indices", og.s32, (3,))], name="gather"))
    g.save("gather.json")
    done = onegraph("verify", "gather.json")
    assert done.exit_code == 3
    assert "not proven: the library computes nothing" in done.stdout
    assert "run by numpy itself, so that nothing is verified there: Index 'gather'" in done.stdout
    refused = onegraph("verify", "gather.json", "--no-fallback")
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "the library does not run all of the graph: Index 'gather'" in refused.stderr


@pytest.mark.library
def test_bench_compares_variants(graph):
    found = as_json(
        "bench", graph, "--policy", "fusion,debug", "--threads", "1,1", "--runs", "20", "--seconds", "0.5", *FINITE
    )
    assert [(one["policy"], one["threads"]) for one in found] == [("fusion", 1), ("debug", 1)]
    assert [len(one["profile"]["rows"]) for one in found] == [1, 2]
    for one in found:
        assert one["runs"] == len(one["samples"]) <= 20
        assert one["min"] == min(one["samples"])
        assert one["avg"] == pytest.approx(np.mean(one["samples"]))
    shown = onegraph("bench", graph, "--fpmath-mode", "strict,bf16", *FINITE, *QUICK["bench"]).stdout
    assert re.search(r"variant +min +median +avg +runs +compile +min ratio +median ratio", shown)
    assert re.search(r"fusion, fpmath strict, finite math .* 10 .* (1\.00|-) +(1\.00|-)", shown)  # - on a busy machine
    assert "fusion, fpmath bf16, finite math: 1 partition, " in shown


@pytest.mark.library
def test_bench_in_place_reuses_unread_inputs():
    g = og.Graph()
    x, y, z = [g.input(name, og.f32, (4, 4)) for name in "xyz"]
    g.output("sum", g.add(x, y))
    g.output("product", g.multiply(z, y))
    g.output("difference", g.subtract(y, z))
    g.save("three.json")

    def ones():
        return {name: np.ones((4, 4), np.float32) for name in "xyz"}

    from onegraph.tools import bench

    variants = [bench.Variant(policy) for policy in ("debug", "fusion")]
    # x and y take results at their last use; z does not, because it is not the first operand there
    for in_place in (False, True):
        given = ones()
        bench.bench(g, given, variants, runs=10, in_place=in_place)
        changed = "".join(name for name, array in given.items() if (array != 1).any())
        assert changed == ("xy" if in_place else "")
    given = ones() | {"x": np.frombuffer(bytes(64), np.float32).reshape(4, 4)}
    with pytest.raises(og.ArgumentError, match="in_place: input 'x' is read-only; pass a copy of it"):
        bench.bench(g, given, variants, runs=10, in_place=True)
    np.savez("three.npz", **ones())
    options = ("--inputs", "three.npz", "--outputs", "results.npz", "--in-place", *QUICK["bench"])
    assert onegraph("bench", "three.json", *options).exit_code == 0
    with np.load("results.npz") as results:
        assert [results[name][0, 0] for name in ("sum", "product", "difference")] == [2, 1, 0]


@pytest.mark.library
@pytest.mark.parametrize(
    ("arguments", "processes"),
    [
        (("run",), ["onegraph"]),
        (("bench", "--policy", "fusion,debug", "--seconds", "0"), ["fusion", "debug"]),
    ],
)
def test_writes_a_trace(graph, arguments, processes):
    command, *options = arguments
    done = onegraph(command, graph, *options, "--threads", "1", "--trace", "trace.json")
    assert done.exit_code == 0, done.output
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert [name.split(",")[0] for name in names] == processes
    spans = [event for event in events if event["ph"] == "B"]
    assert {event["cat"] for event in spans} == {"oneDNN", "kernel"}
    implementations = [event["args"]["implementation"] for event in spans if event["cat"] == "oneDNN"]
    assert implementations
    assert all("convolution" in name or "eltwise" in name for name in implementations)


@pytest.mark.library
def test_show_has_ops_shapes_and_partitions(graph):
    shown = onegraph("show", graph, "--finite-math").stdout
    assert re.search(r"x +f32 +2x6x6x3\n", shown)
    assert re.search(r"0 +0 +Convolution +conv +x, w +f32 2x4x4x4 +strides=1x1 ", shown)
    assert re.search(r"1 +0 +ReLU +relu +conv +f32 2x4x4x4\n", shown)
    assert "oneDNN, fused" in shown
    alone = onegraph("show", graph, "--policy", "debug").stdout
    assert re.search(r"1 +1 +ReLU", alone)
    plain = onegraph("show", graph, "--no-compile").stdout
    assert "partition" not in plain
    assert [op["partition"] for op in as_json("show", graph)["ops"]] == [0, 1]
    found = as_json("show", graph, "--finite-math")
    assert [op["partition"] for op in found["ops"]] == [0, 0]
    assert found["ops"][0]["attrs"]["strides"] == [1, 1]
    assert found["outputs"]["y"]["shape"] == [2, 4, 4, 4]


@pytest.mark.library
def test_show_prints_unknown_shapes(graph):
    g = og.Graph()
    g.output("y", g.abs(g.input("x", og.f32, (None, 3))))
    g.save("dynamic.json")
    shown = onegraph("show", "dynamic.json")
    assert shown.exit_code == 0
    assert re.search(r"x +f32 +\?x3\n", shown.stdout)
    done = onegraph("run", "dynamic.json")
    assert done.exit_code == 2
    assert (
        "expected known dims for random data; give its batch size (--mb), shape (--in-shapes) or contents (--inputs)"
        in done.stderr
    )
    profiled = onegraph("view", "dynamic.json", "--profile")
    assert (profiled.exit_code, profiled.stderr) == (2, done.stderr)
    np.savez("in.npz", x=np.float32([[-1, 2, -3]]))
    assert as_json("run", "dynamic.json", "--inputs", "in.npz")["outputs"][0]["mean"] == 2


def test_empty_graph_can_be_viewed_but_not_run(graph):
    Path("empty.json").write_text('{"graph": []}')
    assert [onegraph(command, "empty.json").exit_code for command in ("check", "show", "view")] == [0, 0, 0]
    for command in ("run", "verify", "bench"):
        done = onegraph(command, "empty.json")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert done.stderr.startswith("onegraph: empty.json: the graph has no output; expected ")


@pytest.mark.library
def test_view_writes_a_page(graph):
    assert as_json("view", graph, "-o", "page.html") == {
        "page": "page.html",
        "bytes": os.path.getsize("page.html"),
        "ops": 2,
        "violations": 0,
        "limits": 0,
    }
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert onegraph("view", graph, "--profile").stdout == "graph.html\n"
    assert '"seconds":' in Path("graph.html").read_text(encoding="utf-8")
    assert onegraph("view", graph, "-o", "-").stdout.startswith("<!doctype html>")
    done = onegraph("view", graph, "-o", "none/page.html")
    assert (done.exit_code, done.stderr) == (
        2,
        "onegraph: none/page.html: No such file or directory; expected a path that can be written\n",
    )


@pytest.mark.library
def test_view_counts_limits_apart():
    g = og.Graph("legacy-1")  # the library has no such op
    g.output("y", g.op("Negative", [g.input("x", og.f32, (8,))]))
    g.save("negative.json")
    facts = as_json("view", "negative.json", "--profile")
    assert (facts["violations"], facts["limits"]) == (0, 1)
    g = og.Graph(strict=False)
    x, w = g.input("x", og.f32, (2, 6, 6, 3)), g.input("w", og.f32, (3, 3, 3, 4))
    g.output("y", g.convolution(x, w, **{**ATTRS, "pads_end": [-1, -1]}))
    g.save("lenient.json")
    facts = as_json("view", "lenient.json", "--no-compile")
    assert (facts["violations"] > 0, facts["limits"]) == (True, 0)


@pytest.mark.parametrize("command", [*map(library, ("run", "verify", "bench")), "check", "show", "view"])
def test_commands_rewrite_their_graph(graph, command):
    pytest.importorskip("onegraph.tools.harness")
    done = onegraph(command, graph, "--mb", "5", "--json", *QUICK.get(command, ()))
    assert done.exit_code == 0, done.output
    if command == "run":
        assert json.loads(done.stdout)["outputs"][0]["shape"] == [5, 4, 4, 4]
    if command == "show":
        assert json.loads(done.stdout)["outputs"]["y"]["shape"] == [5, 4, 4, 4]
    wrong = onegraph(command, graph, "--in-shapes", "0:1", *QUICK.get(command, ()))
    assert wrong.exit_code == (1 if command == "check" else 2)
    nonsense = onegraph(command, graph, "--op-attrs", "nonsense", *QUICK.get(command, ()))
    assert (nonsense.exit_code, len(nonsense.stderr.splitlines())) == (2, 1)


# Bad input ------------------------------------------------------------------------------------------------------------


def form(change):
    data = json.loads(network().to_json())
    change(data["graph"], data)
    return json.dumps(data).encode()


def set_shape(value):
    return lambda ops, data: ops[0]["inputs"][0].update(shape=value)


WHOLE = network().to_json().encode()
BAD = {
    "empty": b"",
    "blank": b" \n",
    "truncated": WHOLE[: len(WHOLE) // 2],
    "binary": np.random.default_rng(0).bytes(4096),
    "nul": b"\x00",
    "a list": b"[1, 2]",
    "a number": b"3",
    "deep list": b"[" * 100_000,
    "deep object": b'{"graph":' * 10_000,
    "no graph": b"{}",
    "an op that is a number": b'{"graph": [3]}',
    "a shape that is text": form(set_shape("2x6")),
    "a huge dim": form(set_shape([2**62, 6, 6, 3])),
    "a huge number": form(set_shape([10**400, 6, 6, 3])),
    "another rank": form(set_shape([2, 6])),
    "an unknown kind": form(lambda ops, data: ops[1].update(kind="ReLUU")),
    "an id twice": form(lambda ops, data: ops[1].update(id=ops[0]["id"])),
    "a cycle": form(lambda ops, data: ops[0]["inputs"][0].update(ops[1]["outputs"][0])),
    "an unknown attribute": form(lambda ops, data: ops[0]["attrs"].update(stride={"type": "s64", "value": 1})),
    "a wrong type": form(lambda ops, data: ops[0]["attrs"]["strides"].update(value="x")),
    "an unknown dtype": form(lambda ops, data: ops[0]["inputs"][0].update(dtype="f64")),
}


@pytest.mark.parametrize("command", COMMANDS)
@grouped("name", BAD, key=lambda _: "files")
def test_bad_file_prints_one_line(graph, command, name):
    with open("bad.json", "wb") as file:
        file.write(BAD[name])
    done = onegraph(command, "bad.json", *QUICK.get(command, ()))
    if command == "check" and done.exit_code == 1:
        assert done.stdout.startswith("error: ")  # the checker reports a violation instead
        return
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("onegraph: bad.json: ")
    assert "expected" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not os.path.exists("page.html")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", b"", "model.onnx: an empty file; expected a model of ONNX"),
        ("model.onnx", b"{}", "model.onnx: other contents; expected a model of ONNX"),
        ("graph.py", b"print(1)", "graph.py: Python code; expected JSON, which onegraph convert"),
    ],
)
def test_the_ending_of_a_name_decides_what_is_expected(command, name, content, message):
    Path(name).write_bytes(content)
    done = onegraph(command, name, *QUICK.get(command, ()))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"onegraph: {message}")


@pytest.mark.parametrize(
    ("command", "status"), {**dict.fromkeys(COMMANDS, 2), "show": 0, "view": 0, "check": 0}.items()
)
def test_a_graph_without_its_constants_is_shown_and_checked(command, status):
    g = og.Graph()
    g.output("y", g.tanh(g.matmul(g.input("x", og.f32, (2, 3)), np.ones((3, 4), np.float32))))
    g.save("graph.json")
    os.remove("graph.npz")
    done = onegraph(command, "graph.json", *QUICK.get(command, ()))
    assert done.exit_code == status
    assert "graph.npz: No such file or directory" in done.stderr
    assert status or "the constants in it are inputs here" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_path_without_a_file_prints_one_line(graph, command):
    os.mkdir("folder")
    os.mkfifo("pipe")
    folder = "a folder; expected files" if command == "check" else "not a regular file"
    for path, message in (("none.json", "No such file"), ("folder", folder), ("pipe", "not a regular file")):
        done = onegraph(command, path, *QUICK.get(command, ()))
        assert done.exit_code == 2
        assert done.stderr.startswith(f"onegraph: {path}: {message}")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_prints_one_line(graph):
    os.chmod(graph, stat.S_IWUSR)
    done = onegraph("run", graph)
    assert (done.exit_code, done.stderr) == (
        2,
        "onegraph: graph.json: Permission denied; expected a file that can be read\n",
    )


@pytest.mark.parametrize("command", ["run", "verify"])
def test_names_a_graph_that_is_too_large(command, graph):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (1 << 40,))))
    g.save("huge.json")
    done = onegraph(command, "huge.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("onegraph: huge.json: the tensors of the graph take")


def test_refuses_pickles(graph):
    np.savez("in.npz", x=np.array([object()]), w=np.zeros((3, 3, 3, 4), np.float32))
    done = onegraph("run", graph, "--inputs", "in.npz")
    assert done.exit_code == 2
    assert "onegraph: in.npz: x: " in done.stderr
    assert "expected an array of numbers" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--outputs", "none/y.npz"), "none/y.npz: No such file or directory; expected a path"),
        (("run", "--trace", "."), ".: Is a directory; expected a path that can be written"),
        (("run", "--outputs", "graph.json/y.npz"), "graph.json/y.npz: Not a directory; expected a path that can"),
        (("run", "--outputs", "n" * 300 + ".npz"), f"{'n' * 300}.npz: File name too long; expected a path that can"),
        (("run", "--outputs", "y.json"), "Invalid value for '--outputs': 'y.json'; expected a name that ends in .npz"),
        (("reduce", "-o", "y.py"), "Invalid value for '-o' / '--output': 'y.py'; expected a name that ends in .json"),
        library(("reduce", "--command", "true"), "--command: 'true' has no {}; expected it where the path"),
        (("run", "--outputs", ""), "Invalid value for '--outputs': '' is not the name of a file"),
        (("run", "--inputs", ""), "Invalid value for '--inputs': '' is not the name of a file"),
        (("run", "--inputs", "graph.json"), "graph.json: 'File is not a zip file'; expected an archive as numpy"),
        (("run", "--mb", "two"), "Invalid value for '--mb': 'two' is not a valid integer"),
        (("bench", "--seconds", "\u0663"), "Invalid value for '--seconds': '\u0663' is not a valid number"),
        (("bench", "--seconds", "nan"), "Invalid value for '--seconds': 'nan' is not a valid number"),
        (("bench", "--seconds", "0", "--fill", str(2**64)), f"Invalid value for '--fill': {2**64} is not in the range"),
        library(("reduce", "--threads", "999999"), "--threads: 999999; expected an integer"),
        (("reduce", "--time-limit", "inf"), "Invalid value for '--time-limit': inf is not in the range"),
        (("check", "--edition", "none"), "Invalid value for '--edition': unknown edition 'none'; "),
        (("view", "-o", ""), "Invalid value for '-o' / '--output': '' is not the name of a file"),
        (("view", "-o", "."), ".: Is a directory; expected a path that can be written"),
        (("view", "-o", "graph.svg"), "Invalid value for '-o' / '--output': 'graph.svg'; expected a name that ends in"),
        (("convert", "-o", "none/graph.py"), "none/graph.py: No such file or directory; expected a path"),
        (
            ("convert", "-o", "graph.npz"),
            "Invalid value for '-o' / '--output': 'graph.npz'; expected a name that ends in .json",
        ),
    ],
)
def test_bad_options_print_one_line(graph, arguments, message):
    command, *options = arguments
    done = onegraph(command, graph, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"onegraph: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 6, 6, 3), np.float32)}, "w: missing; expected an array for each input of the graph"),
        ({"X": np.zeros(1)}, "X: unknown input; expected one of x, w"),
        ({"x": np.zeros((2, 6, 6, 3)), "w": np.zeros(1)}, "x: data type float64; expected f32, numpy's float32"),
        ({"x": np.zeros((2, 6, 6), np.float32), "w": np.zeros(1)}, "x: shape [2, 6, 6]; expected [2, 6, 6, 3]"),
    ],
)
def test_mismatching_arrays_print_one_line(graph, arrays, message):
    np.savez("in.npz", **arrays)
    done = onegraph("run", graph, "--inputs", "in.npz")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"onegraph: in.npz: {message}\n")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.py", "g = 1", "x.py: Python code; expected JSON, which onegraph convert FILE.py -o FILE.json makes of it"),
        ("graph", '{"graph": [5]}', "graph: graph[0]: 5; expected an object"),
    ],
)
def test_messages_name_the_file(graph, name, text, message):
    Path(name).write_text(text)
    assert onegraph("run", name).stderr == f"onegraph: {message}\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "", 'x.json: no op; expected a graph, an op as a dictionary with the key "op", or a list of them'),
        ("x.json", "{", "x.json: line 1 column 2: the end of the text; expected JSON: "),
        ("x.json", '{"op": 5}', 'x.json: op 5; expected the key "op" with the name of one'),
        ("x.json", '{"op": "ReLU", "attr": {}}', "x.json: unknown key 'attr'; expected the keys op, attrs, inputs, "),
        ("x.json", '[{"op": "ReLU"}, {}]', 'x.json: record 1: no op; expected the key "op" with the name of one'),
        ("x.json", '{"op": "ReLU", "edition": 5}', "x.json: edition: 5; expected one of legacy-1, "),
        ("x.json", '{"op": "ReLU", "attrs": {"a": 1, "a": 2}}', "x.json: attrs: an object with the key 'a' twice"),
        ("x.json", f'{{"op": {"9" * 5000}}}', "x.json: line 1 column 8: a number of 5000 digits; expected"),
        ("x.toml", "op = [", "x.toml: Invalid value (at end of document); expected JSON or TOML"),
        ("x.toml", "é", "x.toml: "),
    ],
)
def test_unreadable_descriptions_print_one_line(graph, name, text, message):
    Path(name).write_text(text, encoding="latin-1")
    done = onegraph("check", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"onegraph: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_check_reads_infinities_as_the_library_prints(graph):
    g = og.Graph()
    g.output("y", g.elu(g.input("x", og.f32, (2,)), alpha=float("inf")))
    text = g.to_json().replace("3.4028234663852886e+38", "inf")
    Path("inf.json").write_text(text)
    assert "\n" not in onegraph("check", "inf.json").stdout.strip()
    assert onegraph("check", "inf.json").stdout == "no violations\n"


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "class E(BaseException): pass\nraise E(3)"])
def test_python_files_that_exit_print_one_line(graph, code):
    Path("x.py").write_text(code)
    done = onegraph("convert", "x.py")
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"onegraph: x\.py: \w+: 3; expected Python code that builds a graph\n", done.stderr)


def process(*arguments, **options):
    command = [sys.executable, "-m", "onegraph", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_full_disk_prints_one_line(graph):
    with open("/dev/full", "w") as full:
        done = process("show", graph, "--no-compile", stdout=full)
    assert (done.returncode, done.stderr) == (2, "onegraph: standard output: No space left on device\n")


def test_closed_standard_input_prints_one_line(graph):
    done = process("check", "-", stdin=subprocess.DEVNULL, preexec_fn=lambda: os.close(0))
    assert (done.returncode, done.stderr) == (2, "onegraph: standard input: closed; expected a graph\n")


@pytest.mark.library
@pytest.mark.parametrize("command", ["run", "verify", "reduce"])
def test_progress_needs_no_standard_error(graph, command):
    options = {"stdout": subprocess.PIPE, "preexec_fn": lambda: os.close(2)}
    done = subprocess.run([sys.executable, "-m", "onegraph", command, graph, "--json"], timeout=120, **options)
    assert done.returncode == (command == "reduce")  # because no graph fails
    json.loads(done.stdout)


def test_closed_standard_error_stops_nothing(graph):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        command = [sys.executable, "-m", "onegraph", "show", graph, "--no-compile", "--json", "--in-shapes", "77:1"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=closed, timeout=120)
    assert done.returncode == 0
    json.loads(done.stdout)


@pytest.mark.library
def test_writes_into_devices_and_symbolic_links(graph):
    before = os.stat(os.devnull)
    assert onegraph("run", graph, "--outputs", os.devnull).exit_code == 0
    assert os.stat(os.devnull).st_ino == before.st_ino
    os.symlink("target.json", "link.json")
    assert onegraph("convert", graph, "--mb", "3", "-o", "link.json").exit_code == 0
    assert os.path.islink("link.json")
    assert og.Graph.load("target.json").inputs["x"].shape == (3, 6, 6, 3)


# Input files are never overwritten ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("view", "graph.json", "-o", "soft.html"),
        ("view", "graph.json", "-o", "./soft.html"),
        ("view", "graph.json", "-o", "hard.html"),
        ("view", "hard.html"),  # the arrays would go to hard.html
        ("reduce", "graph.json", "-o", "graph.json"),
        ("reduce", "constants", "-o", "constants.json"),  # and constants.npz
        ("convert", "graph.json", "-o", "soft.json"),
        ("verify", "graph.json", "--outputs", "hard.npz"),
        ("bench", "graph.json", "--seconds", "0", "--inputs", "in.npz", "--outputs", "in.npz"),
        ("run", "graph.json", "--inputs", "in.npz", "--outputs", "same.npz"),
        ("run", "graph.json", "--trace", "graph.json"),
        ("bench", "graph.json", "--seconds", "0", "--trace", "soft.json"),
        ("run", "constants.json", "--outputs", "constants.npz"),
        ("run", "constants.json", "--mb", "4", "--outputs", "constants.npz"),
        ("convert", "constants.json", "--dt", "bf16", "-o", "constants.json"),
    ],
)
def test_commands_do_not_overwrite_their_input(graph, arguments):
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 3)), g.constant(np.ones((3, 3), np.float32))))
    g.save("constants.json")
    os.rename("constants.json", "constants")
    g.save("constants.json")
    np.savez("in.npz", x=np.ones((2, 6, 6, 3), np.float32), w=np.ones((3, 3, 3, 4), np.float32))
    for other in ("soft.html", "soft.json"):
        os.symlink("graph.json", other)
    os.symlink("in.npz", "same.npz")
    for other in ("hard.html", "hard.npz"):
        os.link("graph.json", other)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = onegraph(*arguments)
    assert done.stderr.endswith("is the input; expected another file\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_does_not_overwrite_standard_input(graph):
    with open(graph) as stream:
        done = process("convert", "-", "--mb", "3", "-o", graph, stdin=stream)
    assert (done.returncode, done.stderr) == (2, "onegraph: -o: 'graph.json' is the input; expected another file\n")


@pytest.mark.library
def test_may_overwrite_earlier_results(graph):
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 8)), g.constant(np.ones((8, 8), np.float32))))
    g.save("constants.json")
    for _ in range(2):
        for arguments in (
            ("run", graph, "--outputs", "graph.npz"),
            ("convert", "constants.json", "-o", "code.py"),
            ("convert", "code.py", "-o", "code.json"),
        ):
            assert onegraph(*arguments).exit_code == 0


@pytest.mark.parametrize("arguments", [("run", "--outputs"), ("view", "-o"), ("convert", "-o"), ("random", "-o")])
def test_refuses_a_named_pipe_as_output(graph, arguments):
    os.mkfifo("pipe.npz")
    command, option = arguments
    done = process(command, *([] if command == "random" else [graph]), option, "pipe.npz")
    assert done.returncode == 2
    assert "'pipe.npz' is a named pipe; expected a file" in done.stderr


@pytest.mark.library
def test_accepts_the_pipe_of_a_shell(graph):
    done = process("view", graph, "-o", "/dev/stdout", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<!")


# Names and terminals --------------------------------------------------------------------------------------------------


def named(*names):
    g = og.Graph()
    y = g.input("x", og.f32, (2, 3))
    for name in names:
        y = g.relu(y, name=name)
    g.output("y", y)
    g.save("named.json")
    return "named.json"


def test_escapes_control_characters_in_names(graph):
    shown = onegraph("show", named("a\nb", "c\u202ed", "\x1b[2J", "\ud800")).stdout
    for text in (r"a\nb", r"c\u202ed", r"\x1b[2J", r"\ud800"):
        assert re.search(rf"ReLU +{re.escape(text)} ", shown)
    assert not re.search("[\u202e\x1b\ud800]", shown)


@pytest.mark.library
@pytest.mark.parametrize("encoding", draws(["cp1252", "utf-8"], ["latin-1", "cp1252", "utf-8"]))
def test_replaces_characters_the_terminal_cannot_show(graph, encoding):
    path = named("\u540d", "\ud800", "\U0001f600")
    environment = {"PYTHONIOENCODING": encoding}
    commands = (("show", path), ("bench", path, "--seconds", "0"), ("verify", path), ("convert", path))
    for arguments in commands if encoding == "cp1252" or LONG else commands[:2]:
        done = run_forked("helpers.forked_python", ["-m", "onegraph", *map(str, arguments)], environment=environment)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        if arguments[0] in ("show", "bench"):
            assert ("\u540d" if encoding == "utf-8" else r"\u540d") in done.stdout
        if arguments[0] == "bench":
            assert ("\u2588" if encoding == "utf-8" else "###") in done.stdout
        if arguments[0] == "convert":
            assert "\u540d" in done.stdout.encode(encoding, "surrogateescape").decode()  # a file, in UTF-8


def test_pages_accept_every_name(graph):
    path = named("\ud800")
    assert onegraph("view", path, "-o", "page.html").exit_code == 0
    assert r"\ud800" in Path("page.html").read_text(encoding="utf-8")
    assert onegraph("view", path, "-o", "-").exit_code == 0


def test_distinguishes_inputs_from_ops_of_equal_name(graph):
    g = og.Graph()
    x = g.input("x", og.f32, (2, 2))
    y = g.relu(g.add(x, g.input("z", og.f32, (2, 2)), name="a"), name="x")
    g.output("y", g.matmul(y, g.constant(np.ones((2, 2), np.float32), name="a"), name="m"))
    g.save("alike.json")
    shown = onegraph("show", "alike.json", "--no-compile").stdout
    assert re.search(r"Add +a +input x, z +f32", shown)
    assert re.search(r"ReLU +x +a +f32", shown)
    assert re.search(r"MatMul +m +x, constant a +f32", shown)


@pytest.mark.library
def test_show_prints_the_ids_of_the_file(graph):
    data = json.loads(network().to_json())
    del data["onegraph"]
    for number, op in zip((70, 60), data["graph"], strict=True):
        op["id"] = number
        for use in (*op["inputs"], *op["outputs"]):
            use["id"] += 100
    data.update(input_ports=[100, 101], output_ports=[103])
    Path("ids.json").write_text(json.dumps({**data, "graph": data["graph"][::-1]}))
    shown = onegraph("show", "ids.json").stdout
    assert re.search(r"70 +0 +Convolution ", shown)
    assert re.search(r"60 +1 +ReLU ", shown)
    found = as_json("show", "ids.json")
    assert [(op["id"], op["kind"]) for op in found["ops"]] == [(70, "Convolution"), (60, "ReLU")]
    assert [tensor["id"] for tensor in found["inputs"].values()] == [100, 101]
    assert [tensor["id"] for op in found["ops"] for tensor in op["outputs"]] == [102, 103]
    # the options take these ids
    first = found["ops"][0]["inputs"][0]["id"]
    again = as_json("show", "ids.json", "--in-shapes", f"{first}:1x6x6x3", "--op-attrs", "70:strides:2x2")
    assert again["outputs"]["t103"]["shape"] == [1, 2, 2, 4]


# Wildcards ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wild(graph):
    """A graph with an unknown op, as PyTorch dumps it."""
    data = json.loads(network().to_json())
    data["graph"][1]["kind"] = "Wildcard"
    Path("wild.json").write_text(json.dumps(data))
    return "wild.json"


CUT = "onegraph: 1 Wildcard is left out: what they write is input, what they read is output\n"


@pytest.mark.library
def test_shows_wildcards_beside_the_other_partitions(wild):
    done = onegraph("show", wild)
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.search(r"0 +0 +Convolution +conv ", done.stdout)
    assert re.search(r"1 +Wildcard +relu +conv +f32 2x4x4x4", done.stdout)
    done = onegraph("view", wild, "-o", "page.html", "--profile")
    assert (done.exit_code, done.stderr, done.stdout) == (0, "", "page.html\n")
    assert "Wildcard" in Path("page.html").read_text()


@pytest.mark.library
@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_commands_run_the_ops_around_wildcards(wild, command):
    done = onegraph(command, wild, *QUICK.get(command, ()))
    assert (done.exit_code, done.stderr) == (0, CUT), done.stdout
    assert re.search(r"t2 +f32 +2x4x4x4" if command != "bench" else r"Convolution 'conv'", done.stdout)


CODE_WITH_WILDCARD = """
import onegraph as og
g = og.Graph()
g.output("y", g.op("Wildcard", [g.relu(g.input("x", og.f32, (2,)))], dtype=og.f32))
"""


def test_convert_drops_wildcards_on_request(wild):
    assert onegraph("convert", wild, "-o", "whole.json").stderr == ""
    assert "Wildcard" in Path("whole.json").read_text()
    done = onegraph("convert", wild, "--without-wildcards", "-o", "cut.json")
    assert (done.exit_code, done.stderr) == (0, CUT)
    graph = og.Graph.load("cut.json")
    assert "Wildcard" not in {op.kind for op in graph.ops}
    assert graph.to_json() == og.Graph.load(wild).without_wildcards().to_json()
    Path("built.py").write_text(CODE_WITH_WILDCARD)
    done = onegraph("convert", "built.py", "--without-wildcards", "-o", "again.json")
    assert (done.exit_code, done.stderr) == (0, CUT)
    assert [op.kind for op in og.Graph.load("again.json").ops] == ["ReLU"]


@pytest.mark.parametrize("command", ["run", "verify", "bench", "reduce"])
def test_refuses_to_run_wildcards_alone(command):
    g = og.Graph()
    g.output("y", g.op("Wildcard", [g.input("x", og.f32, (2,))], dtype=og.f32))
    g.save("only.json")
    done = onegraph(command, "only.json", *QUICK.get(command, ()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr
        == CUT + "onegraph: only.json: the graph has no output; expected ops other than Wildcards, and ends\n"
    )
    assert onegraph("show", "only.json").exit_code == 0


def test_outputs_beside_wildcards_keep_their_strides():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.wildcard(x, dtype=og.f32)
    g.output("y", g.relu(x), strides=[4, 1])
    assert g.without_wildcards().outputs["y"].strides == (4, 1)


@pytest.mark.parametrize("strict", [True, False])
def test_dropping_wildcards_keeps_strictness(strict):
    g = og.Graph(strict=strict)
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.relu(g.op("Wildcard", x, dtype=og.f32)))
    assert g.without_wildcards().strict is strict


@pytest.mark.library
def test_outputs_of_wildcards_become_inputs():
    """A file as PyTorch dumps it: Wildcards produce weights, and some dims are unknown."""

    def use(number, shape, kind="variable"):
        layout = "undef" if None in shape else "strided"
        dims = [-(2**63)] if None in shape else shape
        stride = dims if None in shape else [shape[1], 1]
        head = {"id": number, "dtype": "f32", "shape": dims, "stride": stride}
        return {**head, "layout_type": layout, "property_type": kind}

    def op(number, kind, inputs, outputs, **attrs):
        return {"id": number, "name": "aten::op", "kind": kind, "attrs": attrs, "inputs": inputs, "outputs": outputs}

    weights, free, product = use(1, [3, 2], "constant"), use(2, [None, None]), use(3, [4, 2])
    wild = [op(7, "Wildcard", [], [weights]), op(8, "Wildcard", [use(0, [4, 3])], [free])]
    matmul = op(9, "MatMul", [use(0, [4, 3]), weights], [product])
    relu = op(10, "ReLU", [free], [use(4, [None, None])])
    ends = [op(11, "Wildcard", [product], []), op(12, "End", [use(4, [None, None])], [])]
    ports = {"input_ports": [0], "output_ports": [4]}
    head = {"version": "3.12.0", "engine_kind": "cpu", "fpmath_mode": "strict", **ports}
    Path("dump.json").write_text(json.dumps({**head, "graph": [*wild, matmul, relu, *ends]}))

    whole = og.Graph.load("dump.json")
    cut = whole.without_wildcards()
    assert list(cut.inputs) == ["t0", "t1", "t2"]
    assert cut.constant_inputs == ("t1",)
    assert list(cut.outputs) == ["t4", "t3"]
    names = {op.kind: op.name for op in whole.ops}
    assert names["MatMul"] == "aten::op_2"
    assert [(op.kind, op.name) for op in cut.ops if op.outputs] == [
        ("MatMul", names["MatMul"]),
        ("ReLU", names["ReLU"]),
    ]
    with pytest.raises(og.UnsupportedError, match=r"'aten::op' is a Wildcard.* Graph\.without_wildcards\(\) makes"):
        whole.compile()

    np.savez("in.npz", t0=np.ones((4, 3), "f4"), t1=np.full((3, 2), 2, "f4"), t2=np.array([[-1, 5]], "f4"))
    done = onegraph("run", "dump.json", "--in-shapes", "2:1x2", "--inputs", "in.npz", "--outputs", "out.npz")
    assert done.exit_code == 0, done.stderr
    with np.load("out.npz") as results:
        assert results["t3"].tolist() == [[6, 6]] * 4
        assert results["t4"].tolist() == [[0, 5]]


def test_dropping_wildcards_keeps_names():
    g = og.Graph()
    x, unused = g.input("x", og.f32, (2, 2)), g.input("unused", og.f32, (2,))
    first = g.relu(x, name="first")
    strange = g.op("Wildcard", [first, unused], dtype=og.f32)
    last = g.add(g.exp(first), g.constant(np.ones((2, 2), "f4")))
    g.output("last", last)
    g.output("strange", strange)
    g.output("beside", g.abs(strange))
    cut = g.without_wildcards()
    assert next(iter(cut.inputs)) == "x"
    assert len(cut.inputs) == 2  # outputs of the Wildcard
    assert list(cut.outputs)[:2] == ["last", "beside"]
    assert [op.kind for op in cut.ops] == ["ReLU", "Exp", "Add", "Abs"]
    assert cut.ops[0].name == "first"
    assert len(cut.outputs) == 3  # inputs of the Wildcard
    same = cut.without_wildcards()
    assert same is not cut
    assert same.to_json() == cut.to_json()


def test_view_refuses_profile_without_compilation(graph):
    done = onegraph("view", graph, "--no-compile", "--profile")
    assert done.exit_code == 2
    assert done.stderr == "onegraph: --profile or --no-compile, not both; see onegraph view --help\n"


# Rewrite options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--op-attrs", "conv:groups:1e3"), "--op-attrs: groups: '1e3'; expected an integer"),
        (("--op-attrs", "conv:strides:1.7x1"), "--op-attrs: strides: '1.7x1'; expected integers such as 1x2"),
        (("--mb", "99999999999"), "Invalid value for '--mb': 99999999999 is not in the range 0<=x<=2147483647"),
        (("--mb", "\u0663"), "Invalid value for '--mb': '\u0663' is not a valid integer"),
    ],
)
def test_rejects_invalid_rewrites(graph, arguments, message):
    done = onegraph("show", graph, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"onegraph: {message}")


@pytest.mark.library
def test_names_shapes_of_unread_tensors(graph):
    done = onegraph("run", graph, "--in-shapes", "0:5x6x6x3+3:1x2+77:2", "--json")
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [5, 4, 4, 4]
    assert done.stderr == "onegraph: in_shapes: passed over, as no op reads them: tensors 3, 77\n"
    assert onegraph("run", graph, "--in-shapes", "").exit_code == 0


# Conversions ----------------------------------------------------------------------------------------------------------


def test_prints_json_for_a_version(graph):
    expected = json.loads(network().to_json(for_version="3.2"))
    assert (expected["version"], len(expected["graph"][0]["attrs"])) == ("3.2.0", 8)  # the attributes include defaults
    for more in (("--for-version", "3.2"), ("--for", "3.2"), ("--for", "3.2", "-o", "-")):
        assert json.loads(onegraph("convert", graph, *more).stdout) == expected
    done = onegraph("convert", graph, "--for-version", "3.99")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "onegraph: --for-version: '3.99'; expected a version of oneDNN from '3.0' to '3.14'\n"


def test_names_facts_that_code_drops(graph):
    data = {**json.loads(network().to_json()), "fpmath_mode": "bf16"}
    Path("fast.json").write_text(json.dumps(data))
    for more in ((), ("-o", "fast.py")):
        done = onegraph("convert", "fast.json", *more)
        assert done.exit_code == 0
        assert done.stderr == "onegraph: Python code has no word for fpmath_mode bf16; left out\n"
    assert onegraph("convert", graph).stderr == ""


def test_names_the_encoding_of_a_file(graph):
    Path("wide.json").write_text(Path(graph).read_text(), encoding="utf-16")
    for command in COMMANDS:
        done = onegraph(command, "wide.json", *QUICK.get(command, ()))
        assert (done.exit_code, "text in UTF-16; expected JSON" in done.stderr) == (2, True)


# Constants without contents -------------------------------------------------------------------------------------------


@pytest.fixture
def dump(graph):
    """A graph file with constant weights, as the library writes it."""
    data = json.loads(network().to_json())
    del data["onegraph"]
    data["graph"][0]["inputs"][1]["property_type"] = "constant"
    Path("dump.json").write_text(json.dumps(data))
    return "dump.json"


@pytest.mark.library
def test_shows_constants_without_contents(dump):
    shown = onegraph("show", dump).stdout
    assert re.search(r"t0 +f32 +2x6x6x3\n", shown)
    assert re.search(r"t1 +f32 +3x3x3x4 constant\n", shown)
    assert as_json("show", dump)["constant_inputs"] == ["t1"]


@pytest.mark.library
@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_compiles_constant_inputs_as_constants(dump, command, monkeypatch):
    inputs = []
    compile_ = og.Graph.compile
    monkeypatch.setattr(
        og.Graph, "compile", lambda graph, **options: inputs.append([*graph.inputs]) or compile_(graph, **options)
    )
    rng = np.random.default_rng(0)
    arrays = {"t0": rng.random((2, 6, 6, 3), np.float32), "t1": rng.random((3, 3, 3, 4), np.float32)}
    np.savez("in.npz", **arrays)
    options = ("--inputs", "in.npz", "--outputs", "out.npz", *QUICK.get(command, ()))
    assert onegraph(command, dump, *options).exit_code == 0
    assert inputs == [["t0"]]
    (expected,) = og.reference.run(og.Graph.load(dump), arrays).values()
    with np.load("out.npz") as found:
        np.testing.assert_allclose(found["t3"], expected, rtol=1e-5)


def test_check_tells_what_the_library_takes(graph):
    """oneDNN takes an f32 product of bf16 tensors, which the specification does not list."""
    g = og.Graph()
    x = g.input("x", og.bf16, (2, 3))
    g.output("y", g.relu(g.multiply(x, x)))
    data = json.loads(g.to_json())
    for use in (*data["graph"][0]["outputs"], *data["graph"][1]["inputs"], *data["graph"][1]["outputs"]):
        use["dtype"] = "f32"
    Path("taken.json").write_text(json.dumps(data))
    done = onegraph("check", "taken.json")
    assert done.exit_code == 3
    assert done.stdout.startswith("taken: [data_type] Multiply 'multiply_0': dst is f32; expected bf16, given the")
    assert [one["severity"] for one in json.loads(onegraph("check", "taken.json", "--json").stdout)] == ["taken"]
    data["graph"][1]["inputs"][0]["dtype"] = "u8"
    Path("wrong.json").write_text(json.dumps(data))
    assert onegraph("check", "wrong.json").exit_code != 3
    data["graph"][1]["attrs"] = {"alpha": {"type": "f32", "value": 1}}
    data["graph"][1]["inputs"][0]["dtype"] = "f32"
    Path("both.json").write_text(json.dumps(data))
    assert onegraph("check", "both.json").exit_code == 1


def test_property_types_are_an_option(graph):
    assert onegraph("convert", graph, "--tensor-property", "1:constant", "-o", "set.json").exit_code == 0
    inputs = json.loads(Path("set.json").read_text())["graph"][0]["inputs"]
    assert [use["property_type"] for use in inputs[:2]] == ["undef", "constant"]


def test_notes_stale_shapes(graph):
    data = json.loads(network().to_json())
    data["graph"][0]["outputs"][0].update(shape=[7, 7], stride=[7, 1])
    Path("stale.json").write_text(json.dumps(data))
    done = onegraph("check", "stale.json")
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "note: [output_shape] graph[0]: Convolution 'conv': dst: [7, 7]; expected [2, 4, 4, 4]"
    )


# Terminals ------------------------------------------------------------------------------------------------------------


def at_terminal(columns, *arguments):
    """The output of a command at a terminal of ``columns`` columns."""
    control, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-m", "onegraph", *arguments]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                read = os.read(control, 65536)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            shown += read
    os.close(control)
    return process.returncode, shown.decode()


@pytest.mark.library
@pytest.mark.parametrize("columns", [40, 100])
def test_tables_fit_the_terminal(graph, columns):
    status, shown = at_terminal(columns, "show", graph)
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "")
    tables = plain.split("\noneDNN ")[0].splitlines()
    assert max(map(len, tables)) <= columns
    assert "…" not in plain
    assert "\x1b[" in shown


@pytest.mark.library
def test_shows_and_clears_progress_at_a_terminal(graph):
    status, shown = at_terminal(80, "verify", graph)
    assert status == 0
    assert "\x1b[2K" in shown  # the line of the bar is cleared
    assert "agrees" in shown


@pytest.mark.library
def test_pipes_get_plain_text(graph):
    command = [sys.executable, "-m", "onegraph", "verify", graph]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


# Graphs of the library ------------------------------------------------------------------------------------------------

CORPUS = SHARED / "data" / "benchdnn-3.2"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the test graphs of oneDNN beside the repository")
@pytest.mark.parametrize(
    "name", ["op/f32/interpolate", "pattern/f32/conv_post_ops_fusion", "pattern/int8/int8_conv_post_ops_fusion"]
)
def test_reads_graphs_of_the_library(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        small = ("--mb", "1") if command in ("run", "verify", "bench") else ()  # they compute
        done = onegraph(command, CORPUS / f"{name}.json", *small, *QUICK.get(command, ()))
        assert done.exit_code == 0, (command, done.output)
