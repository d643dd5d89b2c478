"""How probes and drawn uses are given to worker processes, by stand-ins for these and for libraries."""

import json
import subprocess
import sys
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util.worker_process import Outcome
from onegraph.opset.editions.registry import NEWEST
from onegraph.tools import conformance
from onegraph.tools.conformance import known, runner
from onegraph.tools.conformance.drawn import findings as drawn_findings
from onegraph.tools.conformance.drawn import libraries, measurement, trials
from onegraph.tools.conformance.uses import SINGLE, ProbedUse

USE = ProbedUse("ReLU", ("given",), ((0, "f32"),), {}, ("f32",), [["f32", [2], [1]]])


class Worker:
    """Stands for a worker process, and notes what it gets."""

    def __init__(self, wait=lambda: None):
        self.ran, self.ends, self.wait = [], [], wait

    def run(self, task, limit, *, repeat=True):
        self.wait()
        self.ran.append((task["name"], limit, repeat))
        return Outcome("right", "execute", task["name"])

    def close(self):
        self.ends.append("closed")

    def stop(self):
        self.ends.append("stopped")


@pytest.fixture
def made():
    return []


@pytest.fixture
def make_worker(made):
    def make():
        made.append(Worker())
        return made[-1]

    return make


def test_probes_that_may_hang_run_first_and_outcomes_keep_the_order(made, make_worker):
    requests, told = [{"name": "a"}, {"name": "b", "limit": 4.0}, {"name": "c", "repeat": False}], []
    outcomes = runner.run_all(requests, 1, told.append, make_worker)
    assert [one.detail for one in outcomes] == ["a", "b", "c"]
    (worker,) = made
    assert worker.ran == [("b", 4.0, True), ("a", runner.TIME_LIMIT, True), ("c", runner.TIME_LIMIT, False)]
    assert (told, worker.ends) == ([1, 2, 3], ["closed"])


@pytest.mark.parametrize(("count", "workers", "processes"), [(3, 8, 3), (3, 2, 2), (3, 3, 3), (1, 0, 1), (0, 2, 1)])
def test_there_are_no_more_processes_than_probes(count, workers, processes, made, make_worker):
    assert len(runner.run_all([{"name": "a"}] * count, workers, make_worker=make_worker)) == count
    assert len(made) == processes
    assert sum(len(worker.ran) for worker in made) == count
    assert all(worker.ends == ["closed"] for worker in made)


def test_idle_processes_run_again():
    both = Barrier(2, timeout=60)  # both run at once
    first, second = Worker(both.wait), Worker(both.wait)
    idle, waiting = [first], [second]
    runner.run_all([{"name": "a"}] * 2, 2, make_worker=waiting.pop, idle=idle)
    assert not waiting
    assert {id(one) for one in idle} == {id(first), id(second)}
    assert [(len(one.ran), one.ends) for one in (first, second)] == [(1, []), (1, [])]


def test_an_exception_ends_the_processes(made, make_worker):
    def tell(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run_all([{"name": "a"}] * 3, 1, tell, make_worker)
    assert [(len(one.ran), one.ends) for one in made] == [(1, ["closed", "stopped"])]


def test_equal_probes_run_once(monkeypatch):
    asked, told, worker = [], [], Worker()

    def run_all(requests, workers, progress, idle):
        asked.append([one["name"] for one in requests])
        progress(len(requests))
        idle[:] = [worker]
        return [Outcome("right", f"{workers}", one["name"]) for one in requests]

    monkeypatch.setattr(runner, "run_all", run_all)
    first, again, second, third = {"name": "a", "x": 1}, {"x": 1, "name": "a"}, {"name": "b"}, {"name": "c"}
    with runner.Runner(5, lambda *given: told.append(given)) as runs:
        assert [one.detail for one in runs.run([first, second, again])] == ["a", "b", "a"]
        assert [(one.stage, one.detail) for one in runs.run([second, third])] == [("5", "b"), ("5", "c")]
        assert worker.ends == []
    assert (asked, told, worker.ends) == ([["a", "b"], ["c"]], [(2, 2), (3, 3)], ["closed"])


# Drawn uses ----------------------------------------------------------------------------------------------------------


def endless(wanted):
    """The name of a fault of single ops that never ends, or of another one."""
    return next(
        name for name, fault in SINGLE.items() if any("hang" in seen for seen in fault.seen.values()) is wanted
    )  # fmt: skip


@pytest.mark.parametrize(("claims", "limit", "repeat"), [
    ((), trials.LIMIT, True), ((endless(True),), trials.SHORT_LIMIT, False), ((endless(False),), trials.LIMIT, False),
    ((endless(False), endless(True)), trials.SHORT_LIMIT, False),
])  # fmt: skip
@pytest.mark.parametrize("condition", [trials.HARSH, trials.CALM])
def test_requests_of_drawn_uses(claims, limit, repeat, condition):
    assert trials.request(USE, condition, iter(claims)) == {
        "name": "relu", "use": USE.to_dict(), "call": {}, "allowed": True, "edges": condition is trials.HARSH,
        "limit": limit, "repeat": repeat,
    }  # fmt: skip


def test_uses_run_under_a_condition(monkeypatch):
    asked = []

    def run_all(requests, workers, progress, make_worker):
        asked.append((requests, workers, make_worker()))
        progress(2)
        return ["outcome"]

    monkeypatch.setattr(trials, "run_all", run_all)
    monkeypatch.setattr(trials, "Worker", lambda module, settings: (module, settings))
    told = []
    assert trials.run_uses([USE, USE], [(), ["window_in_padding"]], trials.CALM, 3, told.append) == ["outcome"]
    requests = [trials.request(USE, trials.CALM, names) for names in ((), ["window_in_padding"])]
    assert asked == [(requests, 3, (trials.__name__, trials.CALM.settings))]
    assert told == [2]


@pytest.mark.parametrize("call", [None, {}, {"alpha": ["f32", 1.0]}])
def test_a_use_runs_alone(monkeypatch, call):
    asked, closed = [], []
    worker = SimpleNamespace(
        run=lambda task, limit: asked.append((task, limit)) or "outcome", close=lambda: closed.append(1)
    )
    monkeypatch.setattr(trials, "new_worker", lambda condition: worker)
    use = ProbedUse("Elu", ("given",), ((0, "f32"),), {"alpha": 2.0}, ("f32",), [["f32", [2], [1]]])
    assert trials.run_alone(use, trials.HARSH, call=call) == "outcome"
    wanted = {**trials.request(use, trials.HARSH), "call": {"alpha": ["f32", 2.0]} if call is None else call}
    assert asked == [(wanted, trials.LIMIT)]
    assert closed == [1]


def test_uses_run_in_bounded_memory(monkeypatch):
    done = []
    monkeypatch.setattr(trials.resource, "setrlimit", lambda *given: done.append(given))
    monkeypatch.setattr(trials.worker, "main", lambda: done.append("ran"))
    trials.main()
    assert done == [(trials.resource.RLIMIT_DATA, (trials.MOST_MEMORY, trials.MOST_MEMORY)), "ran"]


# Libraries and versions ----------------------------------------------------------------------------------------------

FACTS = {"path": "x.so", "version": "3.2.0", "hash": "0123", "cpu": "a CPU", "isa": "AVX2"}


@pytest.mark.parametrize("path", ["", "x.so"])
def test_facts_of_a_library_are_read_in_a_process_of_its_own(monkeypatch, path):
    asked = []

    def run(words, env, **options):
        asked.append((words[:2], env.get("ONEGRAPH_LIBRARY"), options))
        return SimpleNamespace(returncode=0, stdout=f"a note\n{json.dumps(FACTS)}\n", stderr="")

    monkeypatch.delenv("ONEGRAPH_LIBRARY", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(libraries, "_system", lambda: "a system")
    assert libraries.library_at(path) == libraries.TriedLibrary(*FACTS.values(), "a system")
    options = {"capture_output": True, "text": True, "check": False}
    assert asked == [([sys.executable, "-c"], path or None, options)]


def test_a_library_that_cannot_be_loaded_is_an_error(monkeypatch):
    said = "Traceback\nonegraph.errors.LibraryError: no such file\n"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stdout="", stderr=said))
    with pytest.raises(og.LibraryError, match=r"^x\.so: no such file$"):
        libraries.library_at("x.so")


@pytest.mark.parametrize(("release", "name"), [
    (lambda: {"PRETTY_NAME": "Debian 12"}, "Debian 12"), (dict, "Linux"), (None, "Linux"),
])  # fmt: skip
def test_systems_have_names(monkeypatch, release, name):
    def missing():
        raise OSError

    platform = SimpleNamespace(system=lambda: "Linux", release=lambda: "6.1", libc_ver=lambda: ("glibc", "2.36"))
    platform.freedesktop_os_release = missing if release is None else release
    monkeypatch.setattr(libraries, "platform", platform)
    assert libraries._system() == f"{name}, Linux 6.1, glibc 2.36"
    del platform.freedesktop_os_release
    assert libraries._system() == "Linux, Linux 6.1, glibc 2.36"


@pytest.mark.parametrize(("version", "place"), [((3, 0, 0), 0), ((3, 99, 0), -1)])
def test_findings_of_other_versions_are_those_of_the_nearest(version, place):
    ids, of = known.known_findings(version)
    assert of == known.versions()[place]
    assert ids == known.known_findings(of)[0]


def test_only_newer_versions_than_every_edition_have_a_note():
    assert conformance.own_edition((*NEWEST, 5)) == (f"onednn-{NEWEST[0]}.{NEWEST[1]}", "")
    name, note = conformance.own_edition((NEWEST[0], NEWEST[1] + 1, 0))
    assert (name, note.partition("; ")[0]) == (
        f"onednn-{NEWEST[0]}.{NEWEST[1]}", f"oneDNN {NEWEST[0]}.{NEWEST[1] + 1}.0 is newer than every edition"
    )  # fmt: skip


# Measured uses -------------------------------------------------------------------------------------------------------

OF_NAN, OTHER = (next(name for name, fault in SINGLE.items() if fault.of_nan is wanted) for wanted in (True, False))
CLAIMS = {"a": {}, "b": {OTHER: True, OF_NAN: False}, "c": {OF_NAN: False}, "d": {OTHER: False}}


def stand_in(name):
    """Stands for a use."""
    return SimpleNamespace(name=name, claims=lambda version: CLAIMS[name[0]], arrays=[np.ones(2)])


def outcome_of(name, condition, count):
    """A claimed use goes wrong with its fourth contents, and two uses always do; in calm memory these are right."""
    is_bad = name == "b3" if condition is trials.CALM else name[0] in "cd"
    return Outcome("wrong" if is_bad else "right", condition.name, f"{name} {count}")


def test_uses_that_surprise_run_with_other_contents_and_again(monkeypatch):
    asked, told = [], []

    def run_uses(uses, claims, condition, workers, progress=None):
        asked.append(([one.name for one in uses], [*map(list, claims)], condition.name, workers))
        if progress is not None:
            progress(1)
        return [outcome_of(one.name, condition, len(asked)) for one in uses]

    def draw(seed, number, pages):
        assert (seed, pages) == (7, ("an edition", ["Elu"]))
        name = " abcd"[number].strip()
        return SimpleNamespace(number=number, graph=name, use=stand_in(name)) if name else None

    def use_of(graph, number):
        again = number // measurement.FAR
        return None if again == 5 else stand_in(f"{graph}{again}")

    changes = {"run_uses": run_uses, "draw": draw, "use_of": use_of}
    for name, change in changes.items():
        monkeypatch.setattr(measurement, name, change)
    monkeypatch.setattr(measurement, "pages_to_draw", lambda name, kinds, version: (name, kinds))
    monkeypatch.setattr("onegraph.capi.default_engine", lambda: None)
    found = measurement.measure(
        5, 7, edition="an edition", kinds=["Elu"], workers=3, progress=lambda *given: told.append(given)
    )
    contents = [name + again for name in "bcd" for again in ("", "1", "2", "3", "4", "", "6", "7")]
    claims = [[*CLAIMS[name]] for name in "abcd"]
    assert asked == [
        ([*"abcd"], claims, trials.HARSH.name, 3), (contents, [claims["abcd".index(one[0])] for one in contents],
                                                    trials.CALM.name, 3),
        (["c"], [[]], trials.HARSH.name, 3), (["c"], [[]], trials.CALM.name, 3),
    ]  # fmt: skip
    assert told == [(1, 4)]
    assert [(one.drawn.use.name, one.claims, one.cautions, one.outcome.detail, one.calm and one.calm.detail)
            for one in found] == [
        ("a", (), (), "a 1", None), ("b", (OTHER,), (OF_NAN,), "b 1", "b3 2"), ("c", (), (OF_NAN,), "c 3", "c 4"),
        ("d", (), (OTHER,), "d 1", "d7 2"),
    ]  # fmt: skip


# Smaller uses --------------------------------------------------------------------------------------------------------


def graph_of(outcome="wrong", *, count=1, kind="Elu", is_allowed=True, claims=None):
    """Stands for a graph; its use ends so."""
    use = SimpleNamespace(
        kind=kind, outcome=Outcome(outcome, "execute", ""), is_allowed=is_allowed, claims=lambda version: claims or {}
    )
    return SimpleNamespace(ops=[None] * count, use=use)


CANDIDATES = {
    True: [graph_of(), graph_of()],
    False: [
        graph_of(count=2), graph_of(kind="a host op"), graph_of(is_allowed=False), graph_of(claims={"a fault": False}),
        graph_of("right"), graph_of("ran"), graph_of("crash"), graph_of("refused"), SimpleNamespace(ops=[1], use=None),
    ],
}  # fmt: skip


def shrink(monkeypatch, candidates, first, calm=None):
    """The smallest use and its outcome, what was tried, and where."""
    tried, ran = [], []

    def reduce(graph, fails, *, max_tests):
        assert (graph, max_tests) == (first, drawn_findings.SHRINKING_TESTS)
        tried.extend(fails(one) for one in candidates)
        return ([graph] + [one for one, is_bad in zip(candidates, tried, strict=True) if is_bad])[-1]

    schema = SimpleNamespace(kind="Elu")
    changes = {
        "edition": lambda name: SimpleNamespace(schemas={"ReLU": SimpleNamespace(kind="ReLU"), "Elu": schema}),
        "base_of": lambda one: one, "use_of": lambda graph, number: graph.use,
        "PageOfOp": lambda words, one: SimpleNamespace(allows=lambda use: one is schema and use.is_allowed),
        "request": lambda use, condition: {"limit": 3, "use": use},
    }  # fmt: skip
    for name, change in changes.items():
        monkeypatch.setattr(drawn_findings, name, change)
    monkeypatch.setattr("onegraph.tools.reduce.reduce", reduce)

    def worker(condition):
        return SimpleNamespace(run=lambda task, limit: ran.append((condition.name, limit)) or task["use"].outcome)

    workers = {condition.name: worker(condition) for condition in (trials.HARSH, trials.CALM)}
    drawn = drawn_findings.DrawnUse(5, "an edition", first, first.use)
    outcome = Outcome("right" if calm else "wrong", "execute", "")
    found = drawn_findings.shrunk(measurement.Tried(drawn, (), (), outcome, calm), (3, 2, 0), workers)
    return found, tried, ran


@pytest.mark.parametrize("wanted", [True, False])
def test_smaller_uses_end_alike(monkeypatch, wanted):
    first = graph_of()
    (smallest, outcome), tried, ran = shrink(monkeypatch, CANDIDATES[wanted], first)
    assert tried == [wanted] * len(tried)
    assert set(ran) == {(trials.HARSH.name, 3.0)}
    assert smallest.graph is (CANDIDATES[True][-1] if wanted else first)
    assert (smallest.number, smallest.edition, outcome) == (5, "an edition", first.use.outcome)


def test_uses_that_do_not_go_wrong_again_stay(monkeypatch):
    calm = Outcome("wrong", "compare", "in calm memory")
    first = graph_of("right")
    (smallest, outcome), tried, ran = shrink(monkeypatch, [graph_of()], first, calm)
    assert (smallest.use, outcome, tried) == (first.use, calm, [])
    assert ran == [(trials.CALM.name, 3.0)]
