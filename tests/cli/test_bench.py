"""Graphs timed side by side, and the other load that is noticed meanwhile."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.graphs import network

import onegraph as og
from onegraph.cli import bench as command
from onegraph.cli import cli
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools import machine
from onegraph.tools.bench import Measurement, Variant, bench
from onegraph.tools.machine import Process, Snapshot, described


def test_measures_variants_in_turn():
    g, rounds = network(depth=1), []
    variants = [Variant(finite_math=True), Variant("debug"), Variant(threads=1), Variant(fpmath_mode="bf16")]
    found = bench(g, random_inputs(g), variants, seconds=0.0, progress=lambda *state: rounds.append(state))
    assert [one.variant for one in found] == variants
    assert [len(one.samples) for one in found] == [10] * 4  # one sample for each round
    assert all(0 < one.min <= one.median <= max(one.samples) for one in found)
    assert all(one.min <= one.mean <= max(one.samples) for one in found)
    assert [len(one.model.report().partitions) for one in found[:2]] == [1, 3]
    assert found[3].model.report().fpmath_mode == "bf16"
    assert rounds == [(done, 10) for done in range(11)]
    assert [str(variant) for variant in variants] == [
        *("fusion, finite math", "debug", "fusion, 1 thread", "fusion, fpmath bf16")
    ]


@pytest.mark.parametrize("runs", [1, 7, 25])
def test_limits_the_number_of_runs(runs):
    g = network(depth=1)
    (found,) = bench(g, random_inputs(g), [Variant()], seconds=60, runs=runs)
    assert len(found.samples) == runs


def test_measures_graphs_with_data_dependent_shapes():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3, 4))
    g.output("y", g.reduce_sum(x, g.input("axes", og.s32, (1,))))
    (found,) = bench(g, random_inputs(g), [Variant()], seconds=0.0)
    assert len(found.samples) == 10


@pytest.mark.parametrize("seconds", [-1, float("nan"), 10**400, True, "1", None])
def test_rejects_invalid_seconds(seconds):
    g = network(depth=1)
    with pytest.raises(og.ArgumentError, match=r"seconds: .*; expected a number, 0 to"):
        bench(g, random_inputs(g), [Variant()], seconds=seconds)


# What else runs ------------------------------------------------------------------------------------------------------


def test_load_leaves_out_our_own_processes():
    # 1 started 10, 10 started 11. From 50 s to 54 s, 11 ended after 3 s, and 12 began; 20 ran for 2 s.
    before = Snapshot(50.0, 100.0, {
        1: Process("init", 0, 5.0, 9.0), 10: Process("ours", 1, 1.0, 1.0),
        11: Process("child", 10, 2.0, 2.0), 20: Process("other", 1, 7.0, 7.0),
    })  # fmt: skip
    after = Snapshot(54.0, 100.0 + 1.0 + 3.0 + 0.5 + 2.0 + 2 * machine.TICK, {
        1: Process("init", 0, 5.0, 9.0), 10: Process("ours", 1, 2.0, 7.0),
        12: Process("child", 10, 0.5, 0.5), 20: Process("other", 1, 9.0, 9.0),
    })  # fmt: skip
    assert machine.load(before, after, 10) == {"all": 50.0, "other": 50.0}


def test_snapshot_finds_this_process_and_its_children():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = machine.snapshot().processes
        assert process.pid in machine.tree(found, os.getpid())
        assert os.getpid() not in machine.tree(found, process.pid)
        process.communicate(b"\n")


def test_snapshot_without_proc(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: (_ for _ in ()).throw(FileNotFoundError(str(path))))
    found = machine.snapshot()
    assert found[1:] == (0.0, {})
    assert machine.load(found, machine.snapshot(), os.getpid())["all"] == 0.0


@pytest.mark.parametrize(
    ("load", "threads", "lacked"),
    [
        *[(0.0, 1, False), (0.0, 4, False), (0.0, 5, True), (24.9, 4, False), (25.1, 4, True)],
        *[(100.0, 3, False), (100.0, 4, True), (325.1, 1, True), (400.0, 1, True)],
    ],
)
def test_threads_that_lack_a_processor(monkeypatch, load, threads, lacked):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    assert machine.lack_processors({"all": load}, threads) is lacked


def test_watch_reports_hidden_load(monkeypatch):
    for by_work, in_proc, expected in ((60.0, 3.0, 60.0), (60.0, 90.0, 90.0), (24.0, 3.0, 3.0)):
        monkeypatch.setattr(machine, "lost_by_work", lambda by_work=by_work: by_work)
        monkeypatch.setattr(machine, "load", lambda *_, in_proc=in_proc: {"all": in_proc})
        assert machine.LoadWatch().load()["all"] == expected


def test_watch_notices_a_spinning_process():
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=-1) as spinning:
        spinning.stdout.readline()
        watch = machine.LoadWatch()
        for _ in range(1000):
            found = watch.load()
            if found["all"] >= machine.BUSY:
                break
        spinning.kill()
    assert found["all"] >= machine.BUSY


@pytest.mark.parametrize(
    ("seconds", "base", "text"),
    [(2e-6, 1e-6, "2.00"), (1.3e-3, 1e-6, "1300.00"), (1e-7, 1e-6, "0.10"), (21.9e-6, 29.9e-3, "0.00073")],
)
def test_ratios_are_never_zero(seconds, base, text):
    assert command.ratio(seconds, base) == text


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """Runs ``onegraph bench`` with 1 and 2 threads on 2 processors, beside a given load; returns its output."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(Measurement, "threads", property(lambda one: one.variant.threads))
    path = tmp_path / "graph.json"
    network(depth=1).save(path)

    def run(load, threads, *options):
        monkeypatch.setattr(machine.LoadWatch, "load", lambda watch: load)
        done = CliRunner().invoke(cli, ["bench", str(path), "--seconds", "0", "--threads", threads, *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def ratios(shown):
    return [
        re.split(r" {2,}", line)[-2:] for line in shown.splitlines() if re.match(r"fusion, \d threads? .*(-|\d)$", line)
    ]


def test_bench_compares_on_an_idle_machine(timed):
    shown = timed({"all": 4.0}, "1,2")
    assert "busy" not in shown
    assert "too long" not in shown
    assert ratios(shown)[0] == ["1.00", "1.00"]
    assert all(float(number) > 0 for number in ratios(shown)[1])


@pytest.mark.parametrize(
    ("load", "text"),
    [
        ({}, "0 % of one processor"),
        ({"all": 100.0}, "100 % of one processor"),
        ({"all": 190.7, "python": 161.9}, "1.9 processors (python 161.9 %)"),
    ],
)
def test_load_of_several_processors_is_counted(load, text):
    assert described(load) == text


def test_bench_on_a_busy_machine_says_so(timed):
    load = {"all": 98.0, "cc1plus": 97.0}
    shown = timed(load, "1,2")
    assert "The machine was busy: something else used 98 % of one processor (cc1plus 97 %).\n" in shown
    assert "so times that are too long: fusion, 2 threads.\n" in shown
    assert ratios(shown) == [["1.00", "1.00"], ["-", "-"]]
    # Nothing is compared with a first variant that had to wait.
    assert ratios(timed(load, "2,1")) == [["-", "-"], ["-", "-"]]
    found = json.loads(timed(load, "1,2", "--json"))
    assert [(one["load"], one["lacked_processors"]) for one in found] == [(load, False), (load, True)]


def test_bench_names_too_many_threads(timed):
    shown = timed({"all": 0.0}, "1,3")
    assert "busy" not in shown
    assert "so times that are too long: fusion, 3 threads.\n" in shown
    assert ratios(shown) == [["1.00", "1.00"], ["-", "-"]]


def test_threads_of_a_measurement():
    g = network(depth=1)
    for threads in (1, 2):
        (found,) = bench(g, random_inputs(g), [Variant(threads=threads)], runs=1)
        assert found.threads == threads


class Timed:
    """Stands for an executable: what it is asked is kept."""

    def __init__(self, asked):
        self.asked, self.inputs = asked, [SimpleNamespace(name="n"), SimpleNamespace(name="x")]

    def profile(self, *arrays, runs, implementations):
        self.asked.append(([array.ravel()[0].item() for array in arrays], runs, implementations))
        return SimpleNamespace(to_dict=dict)

    def report(self):
        return SimpleNamespace(fpmath_mode="strict", to_dict=dict, partitions=())

    def _run_by_name(self, inputs):
        return {"y": inputs["x"] + 1}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("runs", "profiled"), [(7, 7), (21, 20)])
def test_the_command_hands_its_options_on(runs, profiled, in_place, monkeypatch, tmp_path):
    calls, asked, traced, told = [], [], [], []

    @contextmanager
    def progress(stage):
        yield lambda *given: told.append(given)

    def times(graph, inputs, variants, *, progress, **options):
        progress(1, 2)
        calls.append((variants, options, {name: array.tolist() for name, array in inputs.items()}))
        inputs["x"][...] = -1  # as a result over an input
        return [Measurement(one, Timed(asked), [1e-6], 0.5) for one in variants]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onegraph.tools.bench.bench", times)
    monkeypatch.setattr(command, "progress", progress)
    monkeypatch.setattr(command, "write_trace", lambda path, profiles: traced.append((path, [*profiles])))
    monkeypatch.setattr(machine.LoadWatch, "load", lambda watch: {"all": 0.0})
    g = og.Graph()
    x, n = g.input("x", og.f32, (2, 3)), g.input("n", og.s64, (2,))
    g.output("y", g.gather(x, n, axis=0))
    g.save("g.json")
    np.savez("i.npz", x=np.zeros((2, 3), np.float32), n=np.ones(2, np.int64))
    options = f"--seconds 2 --runs {runs} --fill 3 --policy fusion,debug --no-fallback --finite-math yes --json"
    files = "--inputs i.npz --outputs o.npz --trace t.json"
    done = CliRunner().invoke(
        cli, ["bench", "g.json", *options.split(), *files.split(), *(["--in-place"] if in_place else [])]
    )
    assert done.exit_code == 0, done.output
    variants = [Variant(policy, fallback=False, finite_math=True) for policy in ("fusion", "debug")]
    inputs = {"x": [[3.0] * 3] * 2, "n": [1, 1]}
    assert calls == [(variants, {"seconds": 2.0, "runs": runs, "in_place": in_place}, inputs)]
    left = 3.0 if in_place else -1.0
    assert asked == [([1, left], profiled, True)] * 2
    assert traced == [("t.json", ["fusion, finite math", "debug, finite math"])]
    with np.load("o.npz") as results:
        assert results["y"].tolist() == [[left + 1] * 3] * 2
    assert len(json.loads(done.stdout)) == 2
    assert told[-2:] == [(1, 2, "bench"), (0, 0, "profile")]
