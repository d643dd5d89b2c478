"""What executables let users control and see: programs by shape, threads, processes, arithmetic, the report."""

import copy
import gc
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.interrupts import interrupted

import onegraph as og
from onegraph.native import gc_pause, library
from onegraph.runtime import executable, program
from onegraph.runtime.program_cache import Cache, Counter, Entry

F32 = np.float32
openmp = pytest.mark.skipif(library.RUNTIME != "OpenMP", reason="only the threads of OpenMP can be set")


def rows_summed(rows=None, **options):
    g = og.Graph()
    x = g.input("x", og.f32, (rows, 4))
    g.output("y", g.reduce_sum(g.relu(x), axes=[1]))
    return g.compile(**options)


def filled(rows, value=1.0):
    return np.full((rows, 4), value, F32)


def at_once(count, work):
    """Run ``work(index)`` in so many threads that begin together; returns the results, or raises what one raised."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(index):
        barrier.wait(60)
        try:
            results[index] = work(index)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def in_a_process(code, **environment):
    """What a fresh Python process prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Programs by shape ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compilations(monkeypatch):
    """The shapes of ``x`` for which programs were made."""
    made = []

    class Counted(executable.Program):
        def __init__(self, graph, **options):
            made.append(graph.inputs["x"].shape)
            super().__init__(graph, **options)

    monkeypatch.setattr(executable, "Program", Counted)
    return made


def test_programs_are_kept_by_shape_and_counted(compilations):
    model = rows_summed()
    assert model.cache_info() == (0, 0, 0, 0, 16)
    for rows in (3, 5, 3, 3, 5):
        assert model(filled(rows)).tolist() == [4] * rows
    assert compilations == [(3, 4), (5, 4)]
    assert model.cache_info() == model.cache_info() == (3, 2, 0, 2, 16)
    assert model.report().to_dict()["cache"] == {"hits": 3, "misses": 2, "evictions": 0, "size": 2, "capacity": 16}
    assert "2 of 16 programs kept: 3 hits, 2 misses, 0 evictions" in str(model.report())


@pytest.mark.parametrize("change", ["find", "resize"])
def test_an_interrupt_leaves_no_programs_too_many(change):
    for step in itertools.count(1):
        kept = Cache(2)
        for key in range(2):
            kept.find(key, lambda: Entry(None, lambda *_: None))
        changes = {
            "find": lambda kept=kept: kept.find(2, lambda: Entry(None, lambda *_: None)),
            "resize": lambda kept=kept: kept.resize(1),
        }
        was_interrupted = interrupted(changes[change], step)
        info = kept.info()
        assert info.size <= info.capacity
        if not was_interrupted:
            break
    assert step > 3


def test_an_interrupt_at_a_counter_counts_nothing():
    count = Counter()
    assert [count.tick(), count.tick()] == [0, 1]

    def interrupt(frame, event, _):
        frame.f_trace_opcodes = True
        if event == "opcode":
            places.append(frame.f_lasti)
            if len(places) == step:
                raise KeyboardInterrupt
        return interrupt

    for step in itertools.count(1):
        places = []
        sys.settrace(interrupt)
        try:
            count.read()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert count.read() == 2
        if len(places) < step:
            break
    assert step > 3


def test_the_least_recently_used_program_goes_first(compilations):
    model = rows_summed()
    model.cache_capacity = 2
    for rows in (1, 2, 1, 3, 1, 2):  # 3 drives out 2, as 1 was used after it
        assert model(filled(rows)).shape == (rows,)
    assert [shape[0] for shape in compilations] == [1, 2, 3, 2]
    assert model.cache_info() == (2, 4, 2, 2, 2)
    model.cache_capacity = 1
    assert model.cache_info().evictions == 3
    assert model(filled(2)).tolist() == [4, 4]
    assert len(compilations) == 4
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(og.ArgumentError, match="cache_capacity"):
            model.cache_capacity = wrong
    assert model.cache_capacity == 1


def test_a_call_from_within_the_compilation_for_its_shapes(monkeypatch):
    """As a signal handler makes it; it would wait for itself."""
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
    model, raised = g.compile(), []
    compile_one = model._compile

    def interrupted(graph):
        for rows in (3, 2):  # other shapes are no matter
            try:
                model(filled(rows))
            except og.StateError as error:
                raised.append((rows, str(error)))
        monkeypatch.undo()
        return compile_one(graph)

    def compiling(graph):
        return (interrupted if graph.inputs["x"].shape == (3, 4) else compile_one)(graph)

    monkeypatch.setattr(model, "_compile", compiling)
    thread = threading.Thread(target=lambda: model(filled(3)), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    ((rows, message),) = raised
    assert rows == 3
    assert "is compiling for these shapes, in this very thread" in message
    assert model(filled(3)).shape == (3, 4)


def test_two_compilations_that_call_for_each_other_do_not_wait(monkeypatch):
    """As destructors make such calls: two threads would wait for each other."""
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
    model, raised, both = g.compile(), [], threading.Barrier(2)
    compile_one = model._compile

    def compiling(graph):
        rows = graph.inputs["x"].shape[0]
        both.wait(30)
        try:
            model(filled(3 - rows))
        except og.StateError:
            raised.append(rows)
        both.wait(30)
        return compile_one(graph)

    monkeypatch.setattr(model, "_compile", compiling)
    threads = [threading.Thread(target=model, args=(filled(rows),), daemon=True) for rows in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(raised) == [1, 2]
    assert model.cache_info().size == 2


def test_the_collector_runs_when_the_compilation_that_stopped_it_ends_while_another_begins(monkeypatch):
    def stopped_until_now():
        gc.enable()
        return False

    monkeypatch.setattr(gc_pause, "gc", SimpleNamespace(isenabled=stopped_until_now, disable=gc.disable))
    assert gc_pause.without_collector(gc.isenabled)
    assert gc.isenabled()


def test_what_is_kept_is_asked_for_while_it_changes():
    """A destructor asks for more of it at any moment: the garbage collector comes where objects are made."""
    script = """
import faulthandler, gc
import numpy as np
import onegraph as og

faulthandler.dump_traceback_later(20, exit=True)
g = og.Graph()
g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
model = g.compile()
arrays = [np.ones((rows, 4), np.float32) for rows in range(1, 7)]
model(arrays[0])
asked = 0

class Cycle:
    def __init__(self):
        self.own = self

    def __del__(self):
        global asked
        gc.disable()
        asked += 1
        model.cache_capacity = 1 + asked % 3
        model.cache_info(), model.report()
        if asked % 4 == 0:
            model(arrays[asked // 4 % 6])
        gc.enable()

gc.set_threshold(6, 2, 2)
for step in range(3000):
    Cycle()
    objects = [[] for _ in range(step % 7)]  # so that it comes sooner and later
    model.cache_info(), model.report()
    model.cache_capacity = 1 + step % 3
gc.set_threshold(0)
info = model.cache_info()
assert asked > 500 and info.size <= info.capacity and info.misses - info.evictions == info.size, info
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_bound_run_outlives_its_program_in_the_cache():
    model = rows_summed()
    model.cache_capacity = 1
    x = filled(2)
    run = model.bind(x=x)
    model(filled(3))
    x *= 2
    assert run.run().tolist() == [8, 8]


@pytest.mark.parametrize("call", ["plain", "out", "bind"])
def test_threads_that_ask_for_the_same_new_shape_compile_it_once(call, compilations):
    model = rows_summed(threads=1)

    def work(index):
        x = filled(7, index)
        if call == "bind":
            return model.bind(x=x).run()
        return model(x) if call == "plain" else model(x, out=np.zeros(7, F32))

    results = at_once(8, work)
    assert [result.tolist() for result in results] == [[4.0 * index] * 7 for index in range(8)]
    assert compilations == [(7, 4)]
    assert model.cache_info() == (7, 1, 0, 1, 16)


def test_a_shape_that_fails_is_tried_again_by_every_thread(monkeypatch):
    model = rows_summed(threads=1)
    make, failures = executable.Program, iter([True, True])

    def failing(graph, **options):
        if next(failures, False):
            raise og.OutOfMemoryError("compile", "out_of_memory")
        return make(graph, **options)

    monkeypatch.setattr(executable, "Program", failing)

    def work(index):
        try:
            return model(filled(2)).tolist()
        except og.OutOfMemoryError:
            return "failed"

    results = at_once(6, work)
    assert results.count("failed") == 2
    assert results.count([4, 4]) == 4
    assert model.cache_info() == (3, 1, 0, 1, 16)


def test_one_thread_at_a_time_makes_an_entry_though_some_fail():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            kept, failures = Cache(16), iter([True, True])

            def make(failures=failures):
                if next(failures, False):
                    raise og.OutOfMemoryError("compile", "out_of_memory")
                return Entry(None, lambda *_: None)

            def work(index, kept=kept, make=make):
                try:
                    return kept.find("key", make) is not None
                except og.OutOfMemoryError:
                    return False

            assert sorted(at_once(6, work)) == [False] * 2 + [True] * 4
            assert kept.info() == (3, 1, 0, 1, 16)
            assert not kept._turns
    finally:
        sys.setswitchinterval(before)


def permuting():
    g = og.Graph()
    dy, w = g.input("dy", og.f32, (1, 3, 1)), g.constant(np.ones((3, 1, 1), F32))
    shape = g.input("shape", og.s32, (3,))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    return g.compile()


def test_the_contents_of_a_shape_tensor_are_part_of_the_key():
    model = permuting()
    dy = np.ones((1, 3, 1), F32)
    seven, eight = (np.array([1, size, 1], np.int32) for size in (7, 8))
    expected = {7: [1, 1, 2, 1, 2, 1, 1], 8: [1, 1, 2, 1, 2, 1, 1, 0]}
    for shape in (seven, eight, seven, eight):
        assert model(dy, shape).ravel().tolist() == expected[shape[1]]
        assert model(shape=shape, dy=dy).ravel().tolist() == expected[shape[1]]
    assert model.cache_info() == (6, 2, 0, 2, 16)
    changed = seven.copy()
    assert model(dy, changed).shape == (1, 7, 1)
    changed[1] = 8  # the same array, other contents
    assert model(dy, changed).shape == (1, 8, 1)
    with pytest.raises(og.SpecError):
        model(dy, np.array([1, 100, 1], np.int32))
    with pytest.raises(og.ArgumentError, match="data type int64; expected s32"):
        model(dy, eight.astype(np.int64))
    assert model(dy, eight).ravel().tolist() == expected[8]


def test_a_repeated_call_of_a_dynamic_model_takes_the_quick_way(monkeypatch):
    model = rows_summed()
    x, y = filled(3), np.zeros(3, F32)
    model(x)
    monkeypatch.setattr(model, "_arguments", None)  # nothing but the quick call can answer now
    assert model(x).tolist() == [4, 4, 4]
    assert model(x=x).tolist() == [4, 4, 4]
    assert model(x, out=y) is y
    with pytest.raises(AttributeError):
        model(filled(4))


def test_a_shape_that_is_computed_is_looked_at_once():
    g = og.Graph()
    counts = g.input("x", og.s32, (3,))
    shape = g.add(counts, g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, None, 1)), g.constant(np.ones((3, 1, 1), F32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    model = g.compile()
    for _ in range(2):
        assert model(np.array([1, 7, 1], np.int32), np.ones((1, 3, 1), F32)).shape == (1, 8, 1)
    assert model.cache_info() == (1, 1, 0, 1, 16)
    assert model.report().partitions[0].executor == "reference"


# Threads --------------------------------------------------------------------------------------------------------------


def products(**options):
    g = og.Graph()
    x = g.input("x", og.f32, (64, 64))
    h = g.matmul(x, g.constant(np.eye(64, dtype=F32) * 2), dtype="f32")
    g.output("y", g.softmax(h, axis=1, dtype="f32").dst)
    return g.compile(**options)


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"threads": 2}, {"policy": "debug"}])
def test_eight_threads_on_one_executable(options):
    model = products(**options)
    inputs = [np.random.default_rng(seed).standard_normal((64, 64)).astype(F32) for seed in range(8)]

    def work(index):
        x, out = inputs[index], np.empty((64, 64), F32)
        exact = np.exp(2 * x.astype(float))
        exact /= exact.sum(1, keepdims=True)
        for _ in range(25):
            assert np.allclose(model(x), exact, atol=1e-5)
            assert np.allclose(model(x, out=out), exact, atol=1e-5)
        return True

    assert all(at_once(8, work))


@openmp
def test_num_threads_is_a_block_and_belongs_to_its_thread():
    before = og.get_num_threads()
    seen = []
    with og.num_threads(2):
        assert og.get_num_threads() == 2
        with og.num_threads(1):
            assert og.get_num_threads() == 1
            thread = threading.Thread(target=lambda: seen.append(og.get_num_threads()))
            thread.start()
            thread.join()
        assert og.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), og.num_threads(1):
            raise ZeroDivisionError
        assert og.get_num_threads() == 2
    assert og.get_num_threads() == before
    assert seen == [int(in_a_process("import onegraph as og; print(og.get_num_threads())"))]
    for wrong in (0, -1, True, 1.5, "2", None, 10**9):
        with pytest.raises(og.ArgumentError, match="threads"), og.num_threads(wrong):
            pass
    assert og.get_num_threads() == before


@openmp
def test_the_setting_counts_when_a_run_begins():
    model = products()
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(F32)
    expected = model(x)
    for count in (1, 2, 3):
        with og.num_threads(count):
            assert np.allclose(model(x), expected, atol=1e-6)
            assert og.get_num_threads() == count


@openmp
def test_threads_by_partition():
    with og.num_threads(2):
        model = products(policy="debug", threads={0: 2, 1: 1})
        assert [partition.threads for partition in model.report().partitions] == [2, 1]
        assert [partition.threads for partition in products(policy="debug", threads=1).report().partitions] == [1, 1]
        known = r"the partitions are 0: MatMul 'matmul_0'; 1: SoftMax 'softmax_1'"
        with pytest.raises(og.ArgumentError, match=rf"threads: no partition 2; {known}$"):
            products(policy="debug", threads={0: 1, 2: 1})
    for wrong, text in (({-1: 1}, "partition: -1"), ({"0": 1}, "partition: '0'"), ({True: 1}, "True"), ({0: 0}, "0")):
        with pytest.raises(og.ArgumentError, match=f"threads: .*{text}"):
            products(threads=wrong)


def test_threads_by_partition_of_a_program_to_come():
    model = rows_summed(threads={5: 1})
    for _ in range(2):
        with pytest.raises(og.ArgumentError, match="threads: no partition 5; the partitions are 0: "):
            model(filled(2))
    assert model.cache_info().size == 0


US = 1e-6


@openmp
@pytest.mark.parametrize(
    ("alone", "by_number", "expected"),
    [
        (30 * US, {1: 30 * US, 2: 16 * US, 4: 9 * US}, 0),
        (30 * US, {1: 30 * US, 2: 16 * US, 4: 20 * US}, 2),
        (30 * US, {1: 12 * US, 2: 16 * US, 4: 20 * US}, 1),
        (30 * US, {1: 12.5 * US, 2: 11.8 * US, 4: 12 * US}, 1),  # what two would gain is not worth it
        (30 * US, {1: 30 * US, 2: 16 * US, 4: None}, 0),  # a neighbour keeps four from being measured: long enough
        (8 * US, {1: 8 * US, 2: None, 4: None}, 1),
        (150 * US, None, 0),  # long enough for every thread, and not measured again
    ],
)
def test_a_step_gets_the_threads_that_it_gains_by(monkeypatch, alone, by_number, expected):
    answers = iter([{1: alone}, by_number])

    def measure(_, steps, counts):
        return [answer[count] for answer in [next(answers)] for count in counts] if steps else []

    monkeypatch.setattr(program.Program, "_measure", measure)
    with og.num_threads(4):
        model = products(policy="debug", threads={1: 3})  # the second partition has its number
        x = np.random.default_rng(0).standard_normal((64, 64)).astype(F32)
        assert np.allclose(model(x).sum(1), 1, atol=1e-5)
    assert [partition.threads for partition in model.report().partitions] == [expected, 3]


@openmp
@pytest.mark.parametrize(
    ("alone", "by_number", "expected"),
    [
        (3.9 * US, None, 1),
        (6 * US, {1: 6 * US, 2: 4 * US, 4: 5 * US}, 2),
        (30 * US, {1: 30 * US, 2: 20 * US, 4: 14 * US}, 0),
        (30 * US, {1: 30 * US, 2: 20 * US, 4: 25 * US}, 2),
        (30 * US, {1: 14 * US, 2: 20 * US, 4: 25 * US}, 1),
        (150 * US, None, 0),
    ],
)
def test_small_steps_that_are_slow_get_more_threads_and_each_kind_is_measured_once(
    monkeypatch, alone, by_number, expected
):
    answers, measured = iter([{1: alone}, by_number]), []

    def measure(_, steps, counts):
        measured.append(len(steps))
        return [answer[count] for answer in [next(answers)] for count in counts] if steps else []

    monkeypatch.setattr(program.Program, "_measure", measure)
    g = og.Graph()
    y = g.input("x", og.f32, (8, 4))
    for _ in range(3):
        y = g.relu(g.softmax(y, axis=1, dtype="f32").dst)
    g.output("y", y)
    with og.num_threads(4):
        model = g.compile(policy="debug")
        assert np.allclose(model(np.full((8, 4), 7, F32)), 0.25, atol=1e-6)
    assert [partition.threads for partition in model.report().partitions] == [expected, 1] * 3
    assert measured == [1, 3 if by_number else 0]


# Processes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_executable_can_be_pickled(protocol):
    model = rows_summed(policy="debug", fpmath_mode="bf16", threads=1)
    model.cache_capacity = 3
    model(filled(2))
    other = pickle.loads(pickle.dumps(model, protocol))
    assert other.cache_info() == (0, 0, 0, 0, 3)
    assert other(filled(3)).tolist() == [4, 4, 4]
    for report in (model.report(), other.report()):
        assert (report.policy, report.fpmath_mode) == ("debug", "bf16")
        assert [partition.threads for partition in report.partitions] == [1, 1]
    assert copy.deepcopy(model)(filled(1)).tolist() == [4]


@pytest.mark.parametrize("out_of_band", [False, True])
def test_constants_of_a_pickled_graph_stay_read_only(out_of_band):
    g = og.Graph()
    weights = g.constant(np.arange(12, dtype=F32).reshape(3, 4))
    g.output("y", g.matmul(g.input("x", og.f32, (2, 3)), weights, dtype="f32"))
    buffers = [] if out_of_band else None
    data = pickle.dumps(g, 5, buffer_callback=buffers.append if out_of_band else None)
    other = pickle.loads(data, buffers=buffers)
    (value,) = (tensor.value for op in other.ops for tensor in op.inputs if tensor.constant)
    assert not value.flags.writeable
    x = np.ones((2, 3), F32)
    assert other.compile()(x).tolist() == g.compile()(x).tolist() == [[12, 15, 18, 21]] * 2
    y = other.relu(other.ops[-1].outputs[0])
    other.output("z", y)
    assert "z" not in g.outputs


SETUP = """
import os, sys, signal, threading
import numpy as np
import onegraph as og
signal.alarm(100)
g = og.Graph()
x = g.input("x", og.f32, (None, 256))
g.output("y", g.relu(g.matmul(x, g.constant(np.eye(256, dtype=np.float32)), dtype="f32")))
model = g.compile()
data = np.ones((256, 256), np.float32)
if og.get_num_threads() is not None:
    og.set_num_threads(2)
run = model.bind(x=data)
assert (model(data) == 1).all() and (run.run() == 1).all()

def forked(work):
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""


@pytest.mark.skipif(library.RUNTIME != "OpenMP", reason="OpenMP alone can do with the thread that forked")
def test_a_forked_child_can_use_what_it_inherits():
    said = in_a_process(
        SETUP
        + """
def child():
    assert (model(data) == 1).all()
    assert (model(data[:7]) == 1).all()
    run.outputs["y"][:] = 0
    assert (run.run() == 1).all()
    assert og.get_num_threads() == 1
    try:
        og.set_num_threads(2)
    except og.UnsupportedError as error:
        assert "forked" in str(error)
    else:
        raise AssertionError("no error")
    try:
        with og.num_threads(2):
            raise AssertionError("no error")
    except og.UnsupportedError:
        pass
    with og.num_threads(1):
        assert (model(data) == 1).all()
    assert (g.compile()(data) == 1).all()
    found = []
    thread = threading.Thread(target=lambda: found.append((model(data) == 1).all()))
    thread.start(); thread.join()
    assert found == [True]
    assert forked(lambda: model(data)) == 0
assert forked(child) == 0
assert (model(data) == 1).all() and og.get_num_threads() == 2
print("well")
"""
    )
    assert said == "well\n"


@pytest.mark.skipif(library.RUNTIME == "OpenMP", reason="OpenMP can do with the thread that forked")
def test_a_forked_child_is_told_that_the_threads_are_lost():
    said = in_a_process(
        SETUP
        + """
def child():
    for work in (lambda: model(data), run.run, lambda: model(data[:7]), lambda: g.compile()(data)):
        try:
            work()
        except og.StateError as error:
            assert "forked" in str(error) and "spawn" in str(error)
        else:
            raise AssertionError("no error")
assert forked(child) == 0
assert (model(data) == 1).all()
print("well")
"""
    )
    assert said == "well\n"


def test_multiprocessing_carries_an_executable():
    said = in_a_process(
        """
import multiprocessing
import numpy as np
import onegraph as og

def work(model, rows):
    return float(model(np.ones((rows, 4), np.float32)).sum())

if __name__ == "__main__":
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
    context = multiprocessing.get_context("fork")
    early = None if og.get_num_threads() else context.Pool(2)  # other threads than those of OpenMP are lost in a fork
    model = g.compile(threads=1)
    model(np.ones((1, 4), np.float32))
    with early or context.Pool(2) as pool:
        print(pool.starmap(work, [(model, rows) for rows in (1, 2, 3)]))
"""
    )
    assert said == "[4.0, 8.0, 12.0]\n"


# Arithmetic and caches ------------------------------------------------------------------------------------------------


def test_none_takes_the_arithmetic_of_the_file():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    loaded = og.Graph.from_json(json.dumps({**json.loads(g.to_json()), "fpmath_mode": "bf16"}))
    modes = [graph.compile(fpmath_mode=None).report().fpmath_mode for graph in (loaded, loaded.copy(), g)]
    assert modes == ["bf16", "bf16", "strict"]
    assert loaded.compile().report().fpmath_mode == "strict"
    assert pickle.loads(pickle.dumps(loaded)).compile(fpmath_mode=None).report().fpmath_mode == "bf16"
    with pytest.raises(og.ArgumentError, match="fpmath_mode"):
        g.compile(fpmath_mode="half")


def test_the_constant_cache_is_fixed_by_the_first_compilation():
    said = in_a_process(
        """
import numpy as np
import onegraph as og
og.capi.set_constant_tensor_cache(False)
og.capi.set_compiled_partition_cache_capacity(8)
g = og.Graph()
w = g.constant(np.eye(4, dtype=np.float32))
g.output("y", g.matmul(g.input("x", og.f32, (4, 4)), w, dtype="f32"))
model = g.compile()
x = np.arange(16, dtype=np.float32).reshape(4, 4)
for _ in range(3):
    assert (model(x) == x).all()
try:
    og.capi.set_constant_tensor_cache(True)
except og.StateError as error:
    print(error)
facts = og.version_info()
assert (model(x) == x).all() and facts["compiled_partition_cache_capacity"] == 8
print(facts["constant_tensor_cache"])
"""
    )
    assert said == "the constant tensor cache can be switched only before anything is compiled\nFalse\n"


# The report -----------------------------------------------------------------------------------------------------------


def test_a_report_has_layouts_threads_and_bytes():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 3), strides=(1, 4))
    g.output("y", g.relu(x))
    (partition,) = g.compile(threads=1).report().to_dict()["partitions"]
    assert partition["layouts"] == {"x": (1, 4), "relu_0.dst": (3, 1)}
    assert partition["inputs"] == ("x: f32 [4, 3] strides [1, 4]",)
    assert partition["outputs"] == ("relu_0.dst: f32 [4, 3]",)
    assert (partition["executor"], partition["fused"], partition["reason"]) == ("oneDNN", False, "")
    assert (partition["threads"], partition["bytes"]) == (1, 96)


def test_the_report_is_of_the_program_that_was_used_last():
    model = rows_summed()
    for rows in (2, 3, 2):
        model(filled(rows))
        assert f"x: f32 [{rows}, 4]" in model.report().partitions[0].inputs[0]
    assert "x: f32 [?, 4]" in repr(model)
