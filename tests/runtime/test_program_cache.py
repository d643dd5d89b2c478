"""The programs of an executable: one for each shape, kept, counted, shared by threads."""

import itertools
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.executables import at_once, filled, in_a_process, rows_summed
from helpers.interrupts import interrupted

import onegraph as og
from onegraph.runtime import compiled_program, executable, open_program, program_cache, program_finder, slow_call
from onegraph.runtime.plan import EXECUTE
from onegraph.runtime.program_cache import Counter, Entry, ProgramCache
from onegraph.runtime.program_finder import ProgramFinder
from onegraph.runtime.quick_call import decline

F32 = np.float32


@pytest.fixture
def compilations(monkeypatch):
    """The shapes of ``x`` for which programs were made."""
    made = []

    class Counted(compiled_program.CompiledProgram):
        def __init__(self, graph, **options):
            made.append(graph.inputs["x"].shape)
            super().__init__(graph, **options)

    for module in (compiled_program, open_program):
        monkeypatch.setattr(module, "CompiledProgram", Counted)
    return made


def test_keeps_and_counts_programs_by_shape(compilations):
    model = rows_summed()
    assert model.cache_info() == (0, 0, 0, 0, 128)
    for rows in (3, 5, 3, 3, 5):
        assert model(filled(rows)).tolist() == [4] * rows
    assert compilations == [(3, 4), (5, 4)]
    assert model.cache_info() == model.cache_info() == (3, 2, 0, 2, 128)
    assert model.report().to_dict()["cache"] == {"hits": 3, "misses": 2, "evictions": 0, "size": 2, "capacity": 128}
    assert "2 of 128 programs kept: 3 hits, 2 misses, 0 evictions" in str(model.report())


@pytest.mark.parametrize("change", ["find", "resize"])
def test_interrupt_keeps_the_capacity(change):
    for step in itertools.count(1):
        kept = ProgramCache(2)
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


def test_interrupted_tick_counts_nothing():
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


def test_evicts_the_least_recently_used_program(compilations):
    model = rows_summed()
    model.cache_capacity = 2
    for rows in (1, 2, 1, 3, 1, 2):  # 3 evicts 2, because 1 was used later
        assert model(filled(rows)).shape == (rows,)
    assert [shape[0] for shape in compilations] == [1, 2]  # the steps for 3 rows are those for 2
    assert model.cache_info() == (2, 4, 2, 2, 2)
    model.cache_capacity = 1
    assert model.cache_info().evictions == 3
    assert model(filled(2)).tolist() == [4, 4]
    assert len(compilations) == 2
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(og.ArgumentError, match="cache_capacity"):
            model.cache_capacity = wrong
    assert model.cache_capacity == 1


def test_refuses_a_call_from_its_own_compilation(monkeypatch):
    """A signal handler may call the model; waiting would deadlock."""
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
    model, raised = g.compile(), []
    compile_one = model._programs._compile

    def interrupted(graph):
        for rows in (3, 2):  # other shapes work
            try:
                model(filled(rows))
            except og.StateError as error:
                raised.append((rows, str(error)))
        monkeypatch.undo()
        return compile_one(graph)

    def compiling(graph):
        return (interrupted if graph.inputs["x"].shape == (3, 4) else compile_one)(graph)

    monkeypatch.setattr(model._programs, "_compile", compiling)
    thread = threading.Thread(target=lambda: model(filled(3)), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    ((rows, message),) = raised
    assert rows == 3
    assert "is compiling for these shapes, in this very thread" in message
    assert model(filled(3)).shape == (3, 4)


def test_mutually_recursive_compilations_do_not_deadlock(monkeypatch):
    """Destructors may call the model; two threads would wait for each other."""
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 4))))
    model, raised, both = g.compile(), [], threading.Barrier(2)
    make = model._programs._for_shapes

    def making(shapes, values, room):
        rows = shapes["x"][0]
        both.wait(30)
        try:
            model(filled(3 - rows))
        except og.StateError:
            raised.append(rows)
        both.wait(30)
        return make(shapes, values, room)

    monkeypatch.setattr(model._programs, "_for_shapes", making)
    threads = [threading.Thread(target=model, args=(filled(rows),), daemon=True) for rows in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(raised) == [1, 2]
    assert model.cache_info().size == 2


def test_destructor_may_read_the_changing_cache():
    """The garbage collector may run a destructor wherever objects are created."""
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
    in_a_process(script)


def test_capacities_are_positive_integers_of_32_bits():
    model = rows_summed()
    model.cache_capacity = 2**31 - 1
    for capacity in (0, 2**31, 1.5):
        with pytest.raises(og.ArgumentError, match="cache_capacity: "):
            model.cache_capacity = capacity
    assert model.cache_capacity == 2**31 - 1


def test_bound_run_survives_eviction():
    model = rows_summed()
    model.cache_capacity = 1
    x = filled(2)
    run = model.bind(x=x)
    model(filled(3))
    x *= 2
    assert run.run().tolist() == [8, 8]


@pytest.mark.parametrize("call", ["plain", "out", "bind"])
def test_threads_compile_a_new_shape_once(call, compilations):
    model = rows_summed(threads=1)

    def work(index):
        x = filled(7, index)
        if call == "bind":
            return model.bind(x=x).run()
        return model(x) if call == "plain" else model(x, out=np.zeros(7, F32))

    results = at_once(8, work)
    assert [result.tolist() for result in results] == [[4.0 * index] * 7 for index in range(8)]
    assert compilations == [(7, 4)]
    assert model.cache_info() == (7, 1, 0, 1, 128)


def test_every_thread_retries_a_failed_shape(monkeypatch):
    model = rows_summed(threads=1)
    make, failures = compiled_program.CompiledProgram, iter([True, True])

    def failing(graph, **options):
        if next(failures, False):
            raise og.OutOfMemoryError("compile", "out_of_memory")
        return make(graph, **options)

    for module in (compiled_program, open_program):
        monkeypatch.setattr(module, "CompiledProgram", failing)

    def work(index):
        try:
            return model(filled(2)).tolist()
        except og.OutOfMemoryError:
            return "failed"

    results = at_once(6, work)
    assert results.count("failed") == 2
    assert results.count([4, 4]) == 4
    assert model.cache_info() == (3, 1, 0, 1, 128)


def test_one_thread_makes_an_entry_despite_failures():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            kept, failures = ProgramCache(16), iter([True, True])

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


def test_shape_tensor_contents_are_in_the_key():
    model = permuting()
    dy = np.ones((1, 3, 1), F32)
    seven, eight = (np.array([1, size, 1], np.int32) for size in (7, 8))
    expected = {7: [1, 1, 2, 1, 2, 1, 1], 8: [1, 1, 2, 1, 2, 1, 1, 0]}
    for shape in (seven, eight, seven, eight):
        assert model(dy, shape).ravel().tolist() == expected[shape[1]]
        assert model(shape=shape, dy=dy).ravel().tolist() == expected[shape[1]]
    assert model.cache_info() == (6, 2, 0, 2, 128)
    changed = seven.copy()
    assert model(dy, changed).shape == (1, 7, 1)
    changed[1] = 8  # the same array with other contents
    assert model(dy, changed).shape == (1, 8, 1)
    with pytest.raises(og.SpecError):
        model(dy, np.array([1, 100, 1], np.int32))
    with pytest.raises(og.ArgumentError, match="data type int64; expected s32"):
        model(dy, eight.astype(np.int64))
    assert model(dy, eight).ravel().tolist() == expected[8]


@pytest.mark.parametrize("rows", [2, None])
def test_program_of_one_thread_is_quick_there_alone(monkeypatch, rows):
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    g = og.Graph()
    ends = [g.input("x", "f32", (rows, 4, 4, 1)), g.input("dy", "f32", (rows, 3, 3, 1))]
    g.output("dw", g.op("ConvolutionBackwardWeights", ends, {**window, "weights_shape": [2, 2, 1, 1]}))
    model, slow, results = g.compile(), [], []
    arrays = np.ones((2, 4, 4, 1), F32), np.ones((2, 3, 3, 1), F32)
    model(*arrays)  # compiles for this thread

    def noted(*given):
        slow.append(threading.get_ident())
        return slow_call.slow_call(*given)

    monkeypatch.setattr(executable, "slow_call", noted)
    results.append(model(*arrays))
    assert not slow
    thread = threading.Thread(target=lambda: results.append(model(*arrays)))
    thread.start()
    thread.join()
    assert len(slow) == 1
    assert all((result == 18).all() for result in results)


def test_repeated_dynamic_call_is_quick(monkeypatch):
    model = rows_summed()
    x, y = filled(3), np.zeros(3, F32)
    model(x)
    monkeypatch.setattr(model._interface, "arguments", None)  # only the quick call still works
    assert model(x).tolist() == [4, 4, 4]
    assert model(x=x).tolist() == [4, 4, 4]
    assert model(x, out=y) is y
    with pytest.raises(AttributeError):
        model(filled(4))


def test_examines_a_computed_shape_once():
    g = og.Graph()
    counts = g.input("x", og.s32, (3,))
    shape = g.add(counts, g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, None, 1)), g.constant(np.ones((3, 1, 1), F32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    model = g.compile()
    for _ in range(2):
        assert model(np.array([1, 7, 1], np.int32), np.ones((1, 3, 1), F32)).shape == (1, 8, 1)
    assert model.cache_info() == (1, 1, 0, 1, 128)
    assert [part.executor for part in model.report().partitions] == ["kernel", "oneDNN"]


def test_threads_and_changing_shapes_leave_a_bounded_cache():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None,))))
    model = g.compile(threads=1)
    model.cache_capacity = 16

    def work(seed):
        for size in np.random.default_rng(seed).integers(1, 40, 40):
            model(np.zeros(int(size), np.float32))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.cache_info().size <= 16
    assert sum(len(entry.program.free_frames) for entry in model._programs.cache.entries.values()) <= 16 * 6


def test_many_large_programs_give_way_to_new_ones(monkeypatch):
    """Beyond a few programs, the memory that all keep is limited; programs that share memory count it once."""
    monkeypatch.setattr(program_cache, "MOST_BYTES", 1000)
    kept = ProgramCache(100)
    for key in range(program_cache.FEW):
        kept.find(key, lambda key=key: Entry(None, lambda *_: None, pieces={key: 200}))
    assert kept.info().size == program_cache.FEW  # whatever they take
    kept.find("more", lambda: Entry(None, lambda *_: None, pieces={"more": 200}))
    assert kept.info()[2:4] == (1, program_cache.FEW)
    shared = ProgramCache(100)
    for key in range(50):
        shared.find(key, lambda: Entry(None, lambda *_: None, pieces={"weights": 900}))
    assert shared.info()[2:4] == (0, 50)


@pytest.mark.library
def test_a_cleared_cache_has_no_program():
    model = rows_summed()
    for rows in (2, 3):
        model(filled(rows))
    model._programs.cache.clear()
    assert (model.cache_info().size, model.cache_info().evictions) == (0, 2)
    model(filled(2))
    assert (model.cache_info().size, model.cache_info().misses) == (1, 3)


# Parts of a finder ----------------------------------------------------------------------------------------------------


def finder_of(**parts):
    """A finder with some of its parts."""
    growing = SimpleNamespace(growths=(), grown=3, moved=4)
    finder = SimpleNamespace(
        _is_static=False,
        value_inputs=(),
        op_by_op=None,
        cache=ProgramCache(9),
        _interface=SimpleNamespace(state=None, growing=growing),
    )
    vars(finder).update(parts)
    return finder


OPEN = SimpleNamespace(reused=1, partitions=2, reason="because", takes=lambda shapes, room: shapes["x"][0] + room < 9)
STATEFUL = SimpleNamespace(state="s", growing=SimpleNamespace(growths=(), grown=3, moved=4))
# Parts of a finder, how many programs it has made, and what is said of its programs with open sizes.
TOLD = [
    ({"_open": OPEN}, 1, (1, 2, "because")),
    ({}, 3, (0, 0, "")),
    ({"value_inputs": ("x", "y")}, 2, (0, 0, "the contents of 'x', 'y' set a shape")),
    ({"value_inputs": ("x",)}, 1, (0, 0, "")),
    ({"value_inputs": ("x",), "_is_static": True}, 2, (0, 0, "")),
    ({"_interface": STATEFUL}, 2, (0, 0, "the graph has variables")),
]


@pytest.mark.parametrize(("parts", "misses", "told"), TOLD)
def test_why_programs_serve_no_other_sizes_is_told(parts, misses, told):
    finder = finder_of(**parts)
    for number in range(misses):
        finder.cache.find(number, lambda: Entry(None, decline))
    info = ProgramFinder.info(finder)
    assert (info.reused, info.partitions, info.reason) == told
    assert (info.grown, info.moved, info.misses) == (3, 4, misses)


@pytest.mark.parametrize(
    ("parts", "arrays", "has"),
    [
        ({}, (np.zeros(2),), False),
        ({"op_by_op": SimpleNamespace(is_open=True), "_is_static": True}, (np.zeros(2),), False),
        ({"op_by_op": SimpleNamespace(is_open=False), "_is_static": True}, (np.zeros(3),), True),
        ({"op_by_op": SimpleNamespace(is_open=False)}, (np.zeros(2),), True),
        ({"op_by_op": SimpleNamespace(is_open=False)}, (np.zeros(3),), False),
        ({"op_by_op": SimpleNamespace(is_open=False)}, ([1, 2],), True),
        ({"op_by_op": SimpleNamespace(is_open=False), "growths": (1,)}, (np.zeros(3),), True),
    ],
)
def test_calls_have_a_program_as_far_as_shapes_tell(parts, arrays, has):
    growths = parts.pop("growths", ())
    finder = finder_of(**parts)
    finder._interface.growing.growths = growths
    finder.cache.find(((2,),), lambda: Entry(None, decline))
    assert ProgramFinder._has_program(finder, arrays) is has


@pytest.mark.parametrize(
    ("arrays", "room", "made", "parts"),
    [
        ((np.zeros((3, 2), F32), np.zeros(1, F32)), 0, True, {}),
        ((np.zeros((3, 2), F32), np.zeros(1, F32)), 6, False, {}),
        ((np.zeros((3, 2), F32), np.zeros(1, F32)), 5, True, {}),
        ((np.zeros((9, 2), F32), np.zeros(1, F32)), 0, False, {}),
        ((np.zeros((3, 2), F32),), 0, False, {}),
        ((np.zeros((3, 2), F32), np.zeros(1, F32), np.zeros(1, F32)), 0, False, {}),
        ((np.zeros((3, 2), F32), [0.0]), 0, False, {}),
        ((np.zeros((3, 2), F32), np.ma.zeros(1, F32)), 0, False, {}),
        ((np.zeros((3, 2), F32), np.zeros(1)), 0, False, {}),
        ((np.zeros((3, 2), F32), np.zeros(1, F32)), 0, True, {"free_frames": ["one"]}),
        ((np.zeros((3, 2), F32), np.zeros(1, F32)), 0, True, {"quick": decline}),
    ],
)
@pytest.mark.parametrize("is_open", [True, False])
def test_arrays_of_new_shapes_have_an_entry_where_sizes_are_open(arrays, room, made, parts, is_open):
    graph = og.Graph()
    for name, shape in (("x", (None, 2)), ("y", (None,))):
        graph.input(name, og.f32, shape)
    found, frames = [], [*parts.get("free_frames", ())]
    program = SimpleNamespace(free_frames=frames, check_out=lambda: "new", give_back=frames.append)
    entry = SimpleNamespace(program=program, quick=parts.get("quick", len))
    finder = finder_of(graph=graph, find=lambda arrays, room: found.append((arrays, room)) or entry)
    if is_open:
        finder._open = OPEN
    assert (ProgramFinder._new_entry(finder, arrays, room) is entry) is (made and is_open)
    assert found == [(dict(zip("xy", arrays, strict=False)), room)] * (made and is_open)
    is_quick = made and is_open and "quick" not in parts
    assert frames == (["one"] if "free_frames" in parts else ["new"] * is_quick)


@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize("kind", [og.StatusError, og.OutOfMemoryError])
@pytest.mark.parametrize("function", [EXECUTE, "another"])
def test_programs_are_dropped_after_a_failed_run(function, kind, is_static, monkeypatch):
    dropped = []
    monkeypatch.setattr(program_finder, "give_up_constants", lambda: dropped.append("constants"))
    finder = finder_of(
        cache=SimpleNamespace(clear=lambda: dropped.append("programs")),
        _shared=SimpleNamespace(partitions=SimpleNamespace(forget=lambda: dropped.append("partitions"))),
        _open=SimpleNamespace(forget=lambda: dropped.append("sizes")),
        _is_static=is_static,
        _static="entry",
        quick="quick",
    )
    with pytest.raises(kind) as raised:
        raise kind(function, 1, "text")
    assert ProgramFinder.recover(finder, raised.value) is raised.value
    assert (raised.value.__traceback__ is None) is (function == EXECUTE)
    if function != EXECUTE:
        assert dropped == []
    else:
        first = ["constants"] if kind is og.OutOfMemoryError else []
        assert dropped == [*first, "programs", "partitions", *["sizes"] * (not is_static)]
    is_new = is_static and function == EXECUTE
    assert (finder._static, finder.quick) == ((None, decline) if is_new else ("entry", "quick"))
