"""What an import of the package, and a model that is loaded and compiled, do not import."""

import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, field, fields
from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph._util import collector_pause, first_imports, fork_safety, init_once, late_imports
from onegraph._util.collector_pause import CollectorPause
from onegraph._util.records import record
from onegraph.builder.op_methods import OpMethods

onnx = pytest.importorskip("onnx")
# Modules of the standard library that take milliseconds, and stages that no compilation needs.
SLOW = ["difflib", "hashlib", "importlib.metadata", "secrets", "statistics", "subprocess", "zipfile"]
STAGES = [
    "onegraph.checker",
    "onegraph.serialize",
    "onegraph.tools",
    "onegraph.view",
    "onegraph.opset.errata.catalogue",
]
MODEL = """
from onegraph import onnx
model = onnx.load(sys.argv[1]).compile()
assert model(np.ones((2, 3), np.float32)).tolist() == [[6, 6, 6, 6], [6, 6, 6, 6]]
"""


def loaded(code, *arguments):
    """The modules that a new process has imported after ``code``, beside those of numpy."""
    lines = ["import json, sys", "import numpy as np", "before = set(sys.modules)", "import onegraph as og", code]
    lines += ["print(json.dumps(sorted(set(sys.modules) - before)))"]
    command = [sys.executable, "-c", "\n".join(lines), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def saved(path):
    """A model with an attribute, and with constants that are in fields for single elements."""
    helper, dtype = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["y"], alpha=0.5),
    ]
    weights = helper.make_tensor("w", dtype, (3, 4), [1.0] * 12), helper.make_tensor("b", dtype, (4,), [3.0] * 4)
    ends = [[helper.make_tensor_value_info(name, dtype, shape)] for name, shape in (("x", (2, 3)), ("y", (2, 4)))]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_an_import_loads_no_slow_modules():
    found = loaded("")
    assert not {*SLOW, *STAGES, "onnx", "onegraph.native", "onegraph.reference"} & {*found}


@pytest.mark.library
def test_a_compiled_model_loads_no_slow_modules(tmp_path):
    found = loaded(MODEL, saved(tmp_path / "model.onnx"))
    assert not {*SLOW, *STAGES, "onnx"} & {*found}
    assert "onegraph.runtime.executable" in found


def test_the_package_onnx_gets_the_same_messages():
    code = "from onegraph.frontends.onnx import protos\nassert 'onnx' not in sys.modules\nimport onnx\n"
    loaded(f"{code}assert onnx.ModelProto is protos.ModelProto and onnx.NodeProto is protos.NodeProto")


def test_names_are_imported_when_they_are_asked_for():
    code = (
        "assert og.check_graph(og.Graph()) == []\nassert og.translate.__module__ == 'onegraph.inference.translate_op'"
    )
    assert "onegraph.checker.check" in loaded(code)


def test_methods_of_ops_are_made_once():
    code = "from onegraph.builder.op_methods import OpMethods\nmade = vars(OpMethods)['relu']\n"
    loaded(f"{code}assert og.Graph.relu is og.Graph.relu is vars(OpMethods)['relu'] is not made")
    assert OpMethods.relu.__doc__.startswith("ReLU: ")


@pytest.mark.library
def test_integers_in_fields_for_single_elements():
    helper, kinds = onnx.helper, onnx.TensorProto
    info = helper.make_tensor_value_info
    contents = {"INT8": [-128, 127], "UINT8": [0, 255], "INT32": [-(2**31), 2**31 - 1], "INT64": [-(2**63), 2**63 - 1]}
    for name, numbers in contents.items():
        kind = getattr(kinds, name)
        tensor = helper.make_tensor("c", kind, (2,), numbers)
        assert not tensor.HasField("raw_data")
        nodes = [helper.make_node("Identity", ["c"], ["y"])]
        made = helper.make_graph(nodes, "g", [], [info("y", kind, (2,))], [tensor])
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
        (found,) = og.onnx.load(model).outputs.values()
        assert found.value.tolist() == numbers


def test_the_collector_resumes_after_a_pause():
    code = """
import gc
from onegraph._util.collector_pause import CollectorPause
from onegraph._util.records import record
for switch in (gc.disable, gc.enable):
    switch()
    was = gc.isenabled()
    try:
        with CollectorPause():
            assert not gc.isenabled()
            raise KeyError
    except KeyError:
        pass
    assert gc.isenabled() == was and not gc.get_freeze_count()
"""
    loaded(code)


@pytest.mark.parametrize(("made", "counts"), [(100, 0), (30_000, 1)])
def test_short_pauses_count_no_frozen_objects(made, counts, monkeypatch):
    calls = []
    monkeypatch.setattr(collector_pause, "_freezes", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: calls.append(0) or 1)
    gc.collect(0)
    with CollectorPause():
        kept = [[] for _ in range(made)]
    assert (len(kept), len(calls), gc.isenabled()) == (made, counts, True)


def test_frozen_objects_are_counted_until_there_are_some(monkeypatch):
    counts = iter([0, 0, 5])
    monkeypatch.setattr(gc, "get_freeze_count", lambda: next(counts))
    monkeypatch.setattr(collector_pause, "_freezes", False)
    assert [collector_pause.freezes() for _ in range(5)] == [False, False, True, True, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_collector_works_in_a_fork_of_another_thread():
    code = """
import gc, os, threading
from onegraph._util.collector_pause import CollectorPause
from onegraph._util.records import record
paused, done = threading.Event(), threading.Event()
def pause():
    with CollectorPause():
        paused.set()
        done.wait()
thread = threading.Thread(target=pause)
thread.start()
paused.wait()
child = os.fork()
if not child:
    os._exit(0 if gc.isenabled() else 1)
status = os.waitpid(child, 0)[1]
done.set()
thread.join()
assert status == 0 and gc.isenabled()
"""
    loaded(code)


def is_free():
    """Whether another thread could import now, and nothing is kept of a fork."""
    with ThreadPoolExecutor(1) as other:
        got = other.submit(late_imports._importing.acquire, timeout=1).result()
        if got:
            other.submit(late_imports._importing.release).result()
    return got and not late_imports._got


def test_a_fork_gives_back_the_lock_of_imports_on_both_sides():
    child = os.fork()
    if not child:
        os._exit(0 if is_free() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_free()


def test_nothing_is_kept_of_objects_that_were_made():
    before = {**init_once._making}  # interrupts of other tests leave some behind
    made = og.Graph().input("x", og.f32, (2,))
    with pytest.raises(og.StateError, match="make another one"):
        made.__init__(made.id, made.dtype)
    with pytest.raises(og.StateError, match="make another one"):
        made.__setstate__({})
    assert init_once._making == before


class Signals:
    """In place of the module ``signal``: the handler of interrupts."""

    SIGINT = 2

    def __init__(self, handler=None, refuses=False):
        self.interrupts, self.refuses = [], refuses
        self.default_int_handler = lambda number, frame: self.interrupts.append((number, frame))
        self.handler = handler or self.default_int_handler

    def getsignal(self, number):
        return self.handler if number == self.SIGINT else None

    def signal(self, number, handler):
        if self.refuses:
            raise ValueError
        self.handler = handler if number == self.SIGINT else self.handler


@pytest.mark.parametrize(
    ("argv", "handler", "refuses", "guards"),
    [
        (["/usr/bin/onegraph", "check"], None, False, True),
        (["onegraph.exe"], None, False, True),
        (["-m", "onegraph"], None, False, True),
        (["program.py", "onegraph"], None, False, False),
        ([], None, False, False),
        (None, None, False, False),
        (["onegraph"], "ignored", False, False),
        (["onegraph"], None, True, False),
    ],
)
def test_interrupts_of_the_command_are_guarded_while_it_imports(argv, handler, refuses, guards, monkeypatch):
    signals = Signals(handler, refuses)
    before = signals.handler
    monkeypatch.setattr(first_imports, "signal", signals)
    monkeypatch.setattr(first_imports, "_before", None)
    monkeypatch.setattr(sys, "argv", argv)
    first_imports.guard()
    assert signals.handler is (first_imports._end if guards else before)
    assert first_imports._before is (before if guards else None)
    first_imports.restore()
    assert signals.handler is before
    signals.handler = "another"  # which the program has set
    first_imports.restore()
    assert signals.handler == "another"
    signals.handler, first_imports._before = first_imports._end, None
    first_imports.restore()
    assert signals.handler is first_imports._end


@pytest.mark.parametrize(("is_over", "is_command"), [(False, False), (False, True), (True, True), (True, False)])
def test_interrupts_end_the_command_at_once(is_over, is_command, monkeypatch):
    signals, ended = Signals(), []
    monkeypatch.setattr(first_imports, "signal", signals)
    monkeypatch.setattr(first_imports, "_is_over", False)
    monkeypatch.setattr(first_imports, "_before", "before")
    if is_over:
        first_imports.over()
    signals.handler = first_imports._end
    monkeypatch.setitem(sys.modules, "onegraph.cli", None)
    if not is_command:
        monkeypatch.delitem(sys.modules, "onegraph.cli")
    system = SimpleNamespace(write=lambda *given: ended.append(given), _exit=ended.append)
    monkeypatch.setattr(first_imports, "os", system)
    first_imports._end(2, "frame")
    assert ended == [(2, b"\nonegraph: interrupted\n"), 130]
    is_of_user = is_over and not is_command
    assert signals.interrupts == [(2, "frame")] * is_of_user
    assert signals.handler == ("before" if is_of_user else first_imports._end)


@pytest.fixture
def own_locks(monkeypatch):
    """The locks that a fork frees are those of a test."""
    monkeypatch.setattr(fork_safety, "_locks", weakref.WeakSet())


def test_a_fork_frees_the_locks_of_other_threads(own_locks):
    mine, theirs, free = locks = [fork_safety.new_rlock() for _ in range(3)]
    mine.acquire()
    thread = threading.Thread(target=theirs.acquire)
    thread.start()
    thread.join()
    assert not theirs.acquire(blocking=False)
    assert {*fork_safety._locks} == {*locks}
    fork_safety._free_locks()  # as in the child
    assert [lock._is_owned() for lock in locks] == [True, False, False]
    for lock in (theirs, free):
        assert lock.acquire(blocking=False)
    mine.release()
    assert not mine._is_owned()


def test_a_change_is_refused_in_the_midst_of_another_in_the_same_thread(own_locks):
    lock = fork_safety.new_rlock()
    fork_safety.refuse_inner(lock, "it")
    with lock, pytest.raises(og.StateError, match="it: this thread is in the midst"):
        fork_safety.refuse_inner(lock, "it")


@pytest.mark.parametrize(("raised", "seen"), [(RuntimeError, MemoryError), (RecursionError, RecursionError)])
def test_a_lock_without_memory_is_a_lack_of_memory(raised, seen, own_locks, monkeypatch):
    def no_lock():
        raise raised

    monkeypatch.setattr(fork_safety.threading, "RLock", no_lock)
    with pytest.raises(seen):
        fork_safety.new_rlock()


def test_a_value_that_two_threads_compute_is_the_first_one():
    class Owner:
        @fork_safety.cached_property
        def value(self):
            made.append(object())
            if len(made) == 1:
                inner.append(self.value)  # as another thread would
            return made[-1] if len(made) < 2 else made[0]

    made, inner, owner = [], [], Owner()
    assert owner.value is inner[0] is owner.value
    assert len(made) == 2
    assert isinstance(Owner.value, fork_safety.cached_property)


def made_by(decorator, *, is_made=True, **options):
    """A class of records."""

    class Base:
        def __post_init__(self):
            object.__setattr__(self, "after", (self.first, self.second))

    class Record(*([Base] if is_made else [])):
        first: int
        second: str = "b"
        third: Callable = field(default_factory=list)
        hidden: int = field(default=4, repr=False, compare=False)

    return decorator(frozen=True, **options)(Record)


def outcome(action, *given, **named):
    try:
        return action(*given, **named)
    except Exception as error:
        return type(error), str(error).replace("Record.__init__", "__init__")


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"is_made": False}])
def test_records_are_as_frozen_dataclasses(options):
    results = []
    for decorator in (dataclass, record):
        kind = made_by(decorator, **options)
        one, same, other = kind(1, "c", ()), kind(first=1, second="c", third=(), hidden=5), kind(1, "d", ())
        listed = kind(2), kind(2)
        results.append(
            [
                [(each.name, each.repr, each.compare) for each in fields(kind)],
                [repr(each).rpartition("Record")[2] for each in (one, same, *listed)],
                [one == same, one != same, one == other, one == (1, "c", ()), listed[0] == listed[1]],
                [hash(one) == hash(same), hash(one) == hash(other)],
                [listed[0].third is not listed[1].third, same.hidden, getattr(one, "after", None)],
                [outcome(setattr, one, "first", 3), outcome(delattr, one, "first"), one.first],
                [outcome(kind)[0], outcome(kind, 1, 2, 3, 4, 5)[0], outcome(kind, 1, wrong=2)[0]],
                [outcome(hash, listed[0])[0] if options != {"eq": False} else None],
                [outcome(setattr, one, "new", 3)[0] is FrozenInstanceError],
                kind.__init__.__qualname__.rpartition(".<locals>.")[2],
            ]
        )
    assert results[0] == results[1]
    with pytest.raises(TypeError, match="makes frozen classes"):
        record(frozen=False)
