"""What commands do besides printing: they tell progress, write results, and refuse options before anything runs."""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import onegraph as og
from onegraph.cli import bench, cli, run, verify
from onegraph.tools.bare import BareRun
from onegraph.tools.failure_probe import Failure

pytestmark = pytest.mark.library
Y = np.full((2, 3), 2, np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a graph."""
    monkeypatch.chdir(tmp_path)
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    g.save("g.json")


@pytest.fixture
def told(monkeypatch):
    """What commands tell of their progress."""
    calls = []

    @contextmanager
    def progress(stage):
        calls.append(stage)
        yield lambda *given: calls.append(given)
        calls.append("over")

    for module in (bench, run, verify):
        monkeypatch.setattr(module, "progress", progress)
    return calls


def invoke(*words):
    return CliRunner().invoke(cli, [*words])


def compiled(model, calls):
    """Stands for Graph.compile."""

    def compile_(graph, **options):
        calls.append([name for name, value in options.items() if value])
        return model

    return compile_


def test_a_run_tells_its_progress_and_writes_results(told, monkeypatch):
    report = SimpleNamespace(to_dict=dict)
    model = SimpleNamespace(_interface=SimpleNamespace(by_name=lambda results: {"y": results}), report=lambda: report)
    runs = []

    class Model(SimpleNamespace):
        def __call__(self, *arrays):
            runs.append(len(arrays))
            return Y * len(runs)

    monkeypatch.setattr(og.Graph, "compile", compiled(Model(**vars(model)), told))
    monkeypatch.setattr("time.perf_counter", lambda: 5.0 + len(runs))
    done = invoke("run", "g.json", "--outputs", "o.npz", "--json")
    assert done.exit_code == 0, done.output
    assert (told[0], told[-3:]) == ("run", [(0, 0), ["policy", "fallback"], "over"])
    assert runs == [1, 1]
    assert '"seconds": 1.0' in done.stdout
    with np.load("o.npz") as results:
        assert np.array_equal(results["y"], 2 * Y)


@pytest.mark.parametrize(("ran", "status"), [(True, 0), (False, 1)])
def test_a_run_of_the_bare_library_writes_results(ran, status, told, monkeypatch):
    made = BareRun("ran", "execute", "", {"y": Y}, (("ReLU",),)) if ran else BareRun("crash", "compile", "no", {}, ())
    given = []
    monkeypatch.setattr(
        "onegraph.tools.bare.run_bare", lambda graph, inputs, **options: given.append(([*inputs], options)) or made
    )
    words = ("--outputs", "o.npz", "--policy", "debug", "--fpmath-mode", "bf16")
    assert invoke("run", "g.json", "--bare", *words).exit_code == status
    assert given == [(["x"], {"policy": "debug", "fpmath_mode": "bf16"})]
    with np.load("o.npz") as results:
        assert [*results] == (["y"] if ran else [])


def test_a_verification_tells_its_progress_and_writes_results(told, monkeypatch):
    given = []

    def verified(graph, inputs, *, progress, **options):
        given.append(([*inputs], options["policy"], options["threads"]))
        progress("reference", 1, 2)
        partitions = SimpleNamespace(partitions=(), to_dict=dict)
        return SimpleNamespace(
            results={"y": Y}, agrees=True, proven=True, outputs=(), first=None, unnoticed=(), changed=1, provable=1,
            report=partitions,
        )  # fmt: skip

    monkeypatch.setattr("onegraph.tools.verify.verify", verified)
    done = invoke("verify", "g.json", "--outputs", "o.npz", "--json", "--policy", "debug", "--threads", "1")
    assert done.exit_code == 0, done.output
    assert given == [(["x"], "debug", 1)]
    assert (told[0], told[-2:]) == ("verify", [(1, 2, "reference"), "over"])
    with np.load("o.npz") as results:
        assert np.array_equal(results["y"], Y)


class Prober:
    """Stands for what finds out how a graph fails; it keeps its options."""

    made = None

    def __init__(self, **options):
        Prober.made = options

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing to end."""

    def failure(self, graph):
        return Failure("wrong", "it is 2", "")


def test_wrong_options_are_no_failure_of_a_graph(monkeypatch):
    asked = []

    def refuse(graph, **options):
        asked.append(options["policy"])
        raise og.ArgumentError("threads: too many")

    monkeypatch.setattr(Prober, "made", None)
    monkeypatch.setattr("onegraph.runtime.compile_options.compile_options", refuse)
    monkeypatch.setattr("onegraph.tools.failure_probe.Prober", Prober)
    done = invoke("reduce", "g.json", "--policy", "debug")
    assert (done.exit_code, done.stderr) == (2, "onegraph: threads: too many\n")
    assert (asked, Prober.made) == (["debug"], None)


def test_no_python_code_is_left_of_what_the_builder_cannot_express(monkeypatch):
    def save(graph, path):
        Path(path).write_text("half")
        raise og.UnsupportedError("no word\nfor this")

    monkeypatch.setattr("onegraph.tools.failure_probe.Prober", Prober)
    monkeypatch.setattr("onegraph.tools.python_code.save_python", save)
    done = invoke("reduce", "g.json", "--seed", "5", "--time-limit", "2")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("\n\n# no Python code: no word for this\n")
    assert sorted(one.name for one in Path().iterdir()) == ["g.json", "g.reduced.json"]
    assert (Prober.made["seed"], Prober.made["time_limit"], Prober.made["bare"]) == (5, 2.0, False)
