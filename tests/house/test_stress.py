"""Threads, forks, signals and long runs. Each story runs in a process of its own, of this file as a script.

The suite runs a short slice of each story; ``make stress`` sets ONEGRAPH_STRESS and runs them whole: 100,000
executions, 10,000 compilations, also of models of ONNX and of PyTorch.
"""

import faulthandler
import gc
import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
from conftest import SANITIZED
from helpers.fork_server import run_forked, serve

import onegraph as og
from onegraph import capi
from onegraph._util.fork_safety import cached_property
from onegraph.capi.op_template import LazyOps, OpTemplate
from onegraph.native.library import RUNTIME
from onegraph.opset.schema import TensorType
from onegraph.runtime.program import Program

WHOLE = bool(os.environ.get("ONEGRAPH_STRESS"))
LIMIT = 3600 if WHOLE else 240  # seconds for one process


def times(whole, slice_):
    """The number of repetitions, whole or in the short slice."""
    return whole if WHOLE else slice_


STORIES = {}


def story(function):
    STORIES[function.__name__] = function
    return function


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def network(rows=None, seed=0):
    """A few partitions on rows of 16: a fused product, and Pow, which numpy computes."""
    g = og.Graph()
    x = g.input("x", "f32", (rows, 16))
    w = g.constant(np.random.default_rng(seed).standard_normal((16, 16)).astype(np.float32))
    g.output("y", g.add(g.pow(g.abs(g.tanh(g.matmul(x, w, dtype="f32"))), beta=1.5), x))
    return g, w.value


def fused(rows=8):
    """A graph that runs in one call of C."""
    g = og.Graph()
    x = g.input("x", "f32", (rows, 16))
    g.output("y", g.relu(g.matmul(x, g.constant(numbers(16, 16)), dtype="f32")))
    return g.compile()


def right(found, x, w):
    return np.allclose(found, np.abs(np.tanh(x @ w)) ** 1.5 + x, atol=1e-4)


def together(*works):
    """Run functions in threads of their own; raises their exceptions here."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


# Threads -------------------------------------------------------------------------------------------------------------


@story
def eight_threads():
    """One executable, more shapes than it keeps programs for, compilations of other graphs, bound runs, collections."""
    graph, w = network()
    model, quick = graph.compile(), fused()
    x8 = numbers(8, 16)
    quick_y, shared, busy = quick(x8).copy(), quick.bind(x=x8), []

    def work(seed):
        rng = random.Random(seed)
        own = quick.bind(x=x8)
        for _ in range(times(1000, 8)):
            x = numbers(rng.randrange(1, 40), 16)
            assert right(model(x), x, w)
            assert np.array_equal(quick(x8), quick_y)
            assert np.array_equal(own(), quick_y)
            try:
                assert np.array_equal(shared(), quick_y)
            except og.StateError as error:
                busy.append(str(error))
            if rng.random() < 0.1:
                other, v = network(rng.randrange(1, 5), seed)
                x = numbers(other.inputs["x"].shape[0], 16)
                assert right(other.compile()(x), x, v)
            if rng.random() < 0.1:
                gc.collect()

    together(*[lambda seed=seed: work(seed) for seed in range(8)])
    assert all("in use by another thread" in text for text in busy)
    assert np.array_equal(shared(), quick_y)


@story
def one_to_one_objects():
    """Eight threads on one compiled partition, with shared tensors and exchanged arrays."""
    lt = capi.LogicalTensor
    op = capi.Op(1, "Exp", inputs=[lt(0, "f32", (64, 64))], outputs=[lt(1, "f32", (64, 64))])
    partition = capi.Partition.from_op(op)
    compiled = partition.compile()
    source, busy = capi.Tensor(compiled.inputs[0], np.zeros((64, 64), np.float32)), []

    def work(seed):
        rng = random.Random(seed)
        target, stream = capi.Tensor(compiled.outputs[0], np.empty((64, 64), np.float32)), capi.Stream()
        for _ in range(times(2000, 24)):
            if rng.random() < 0.3:
                try:  # the former array is freed at once
                    source.set_data_handle(np.zeros((64, 64), np.float32))
                except og.StateError as error:
                    busy.append(str(error))
            compiled.execute(stream, [source], [target])
            assert (target.data == 1).all()
            if rng.random() < 0.05:
                partition.compile()

    together(*[lambda seed=seed: work(seed) for seed in range(8)])
    assert all("in use by an execution" in text for text in busy)
    source.set_data_handle(np.zeros((64, 64), np.float32))


@story
def executables_are_collected_while_they_run():
    x = numbers(64, 16)
    gc.freeze()  # the garbage collector examines mostly objects from here

    def work():
        for _ in range(times(500, 3)):
            graph, w = network(64)
            assert right(graph.compile()(x), x, w)
            run = graph.compile().bind(x=x)
            gc.collect()
            assert right(run(), x, w)

    def collect():
        while any(thread.is_alive() for thread in workers):
            gc.collect()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for thread in workers:
        thread.start()
    collect()


@story
def arrays_are_resized_by_another_thread():
    model, done = fused(256), threading.Event()
    x = [numbers(256, 16)]
    kept = x[0].copy()
    wanted = model(kept).copy()

    def resize():
        while not done.is_set():
            try:
                x[0].resize((4, 4), refcheck=False)
            except ValueError:
                continue
            x[0] = kept.copy()

    def call():
        try:
            for _ in range(times(20000, 360)):
                try:
                    assert np.array_equal(model(x[0]), wanted)
                except og.ArgumentError as error:  # resized before the call
                    assert "shape" in str(error)  # noqa: PT017
        finally:
            done.set()

    together(call, resize)


def keep_calling(model, x):
    while True:
        model(x)


@story
def interpreter_exits_while_daemons_run():
    """The exit code is the result."""
    graph, _ = network(512)
    for model in (graph.compile(), fused(512), fused(512).bind(x=numbers(512, 16))):
        work = (lambda m=model: keep_calling(lambda _: m(), None)) if hasattr(model, "run") else None
        work = work or (lambda m=model: keep_calling(m, numbers(512, 16)))
        threading.Thread(target=work, daemon=True).start()
    graph.compile()(numbers(512, 16))


@story
def interpreter_exits_while_daemons_compile():
    def work():
        while True:
            network(random.randrange(1, 99))[0].compile()

    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    network(7)[0].compile()(numbers(7, 16))


ENDING = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np, onegraph as og
g = og.Graph()
y = g.input("x", "f32", (4, 4))
for _ in range(6):
    y = g.relu(g.matmul(y, g.constant(np.eye(4, dtype=np.float32))))
g.output("y", y)
g.compile(threads=1)
def work():
    while True:
        g.compile(threads=1, policy=sys.argv[2])
sys.setswitchinterval(1e-6)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[3]))
"""


@story
def interpreter_exits_at_any_moment():
    """A daemon thread ends where it next wants the interpreter, by unwinding its stack."""
    rng = random.Random(0)
    for number in range(times(200, 2)):
        arguments = [
            os.path.dirname(os.path.dirname(og.__file__)),
            ("fusion", "debug")[number % 2],
            str(rng.random() / 4),
        ]
        done = subprocess.run([sys.executable, "-c", ENDING, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


RUNNING = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np, onegraph as og
g, ones = og.Graph(), np.ones(4, np.float32)
x = g.input("x", "f32", (4,))
g.output("y", g.relu(x))
g.output("z", g.abs(x))
model = g.compile(threads=1)
run = model.bind(x=ones).run
def work(made):
    while True:
        try:
            made()
        except og.StateError:
            pass
sys.setswitchinterval(1e-6)
for made in (run, run, run, run, lambda: model(ones)):
    threading.Thread(target=work, args=(made,), daemon=True).start()
time.sleep(0.1)
"""


@story
def interpreter_exits_while_daemons_raise():
    """Python code creates errors and tuples of outputs; a thread may end there too."""
    root = os.path.dirname(os.path.dirname(og.__file__))
    for _ in range(times(200, 1)):
        done = subprocess.run([sys.executable, "-c", RUNNING, root], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


LETTING_GO = """
import builtins, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np, onegraph as og
g = og.Graph()
g.output("y", g.relu(g.input("x", "f32", (4,))))
model, is_going = g.compile(threads=1), threading.Event()
class Memory:
    memory = np.ones(4, np.float32)
    __array_interface__ = memory.__array_interface__
    def __del__(self):
        is_going.set()
        time.sleep(0.2)  # the thread ends in here
class Last:
    def __del__(self, sleep=time.sleep):
        sleep(0.6)
builtins.last = Last()
threading.Thread(target=lambda: model.bind(x=np.asarray(Memory())).run(), daemon=True).start()
is_going.wait()
"""


@story
def interpreter_exits_while_a_daemon_frees_an_array():
    """A bound run has the last reference to the array, and Python code frees its memory."""
    root = os.path.dirname(os.path.dirname(og.__file__))
    done = subprocess.run([sys.executable, "-c", LETTING_GO, root], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@story
def partition_cache_switches_while_a_thread_compiles():
    """Layers with different constants never share the library's cached form of them."""
    weights = [numbers(16, 16 + n)[:, :16] for n in range(24)]
    g, x = og.Graph(), numbers(8, 16)
    rows = g.input("x", "f32", x.shape)
    for number, w in enumerate(weights):
        g.output(f"y{number}", g.relu(g.matmul(rows, g.constant(w))))
    done = threading.Event()

    def switch():
        while not done.is_set():
            for capacity in (64, 0):
                capi.set_compiled_partition_cache_capacity(capacity)

    sys.setswitchinterval(1e-5)
    threading.Thread(target=switch, daemon=True).start()
    for _ in range(times(1000, 12)):
        found = g.compile(threads=1)(x)
        for result, w in zip(found, weights, strict=True):
            np.testing.assert_allclose(result, np.maximum(x @ w, 0), atol=1e-4)
    done.set()


@story
def primitive_cache_capacity_changes_while_threads_compile():
    """The library 3.2 alone crashes here."""
    lt, deadline = capi.LogicalTensor, time.monotonic() + times(60, 0.8)

    def work(seed):
        rng, partitions = random.Random(seed), []
        for rows in (4, 8, 17):
            tensors = [lt(0, "f32", (rows, 16)), lt(1, "f32", (16, 8), property="constant"), lt(2, "f32"), lt(3, "f32")]
            graph = capi.Graph()
            graph.add_op(capi.Op(0, "MatMul", inputs=tensors[:2], outputs=tensors[2:3]))
            graph.add_op(capi.Op(1, "ReLU", inputs=tensors[2:3], outputs=tensors[3:]))
            graph.finalize()
            partitions += graph.partitions()
        while time.monotonic() < deadline:
            rng.choice(partitions).compile()
            if seed == 0:
                capi.set_primitive_cache_capacity(rng.choice([0, 1024, 2048]))

    together(*[lambda seed=seed: work(seed) for seed in range(4)])


# Forks ---------------------------------------------------------------------------------------------------------------


def forked(work, seconds=30):
    """Run ``work`` in a child of a fork; it must end by itself."""
    child = os.fork()
    if not child:
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(seconds)
        try:
            work()
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"child ended with {status}"


def fork_beside(often, child, done, *works):
    """Fork ``count`` children in turn, beside threads that work until ``done`` is set."""

    def fork():
        try:
            for _ in range(often):
                forked(child)
        finally:
            done.set()

    together(fork, *works)


@story
def forks_after_use():
    graph, w = network()
    model, quick = graph.compile(), fused()
    x, x8 = numbers(300, 16), numbers(8, 16)
    wanted, run = quick(x8).copy(), quick.bind(x=x8)
    assert right(model(x), x, w)

    def child():
        assert right(model(x), x, w)
        assert right(model(numbers(301, 16)), numbers(301, 16), w)  # compiles
        assert np.array_equal(quick(x8), wanted)
        assert np.array_equal(run(), wanted)
        assert right(network(9)[0].compile()(numbers(9, 16)), numbers(9, 16), w)
        failed = []
        together(lambda: failed.append(not right(model(x), x, w)))
        assert failed == [False]

    for _ in range(times(50, 3)):
        forked(child)
    forked(lambda: forked(child))
    assert right(model(x), x, w)


@story
def forks_while_threads_run():
    """The child has only the forking thread; locks that other threads held must not block it."""
    graph, w = network()
    model, quick, done = graph.compile(), fused(), threading.Event()
    x8 = numbers(8, 16)
    wanted = quick(x8).copy()

    def work(seed):
        rng = random.Random(seed)
        while not done.is_set():
            x = numbers(rng.randrange(1, 40), 16)
            model(np.asfortranarray(x))
            quick(x8)

    def child():
        assert np.array_equal(quick(x8), wanted)
        x = numbers(5, 16)
        assert right(model(np.asfortranarray(x)), x, w)
        assert right(network(9)[0].compile()(numbers(9, 16)), numbers(9, 16), w)

    fork_beside(times(500, 8), child, done, *[lambda seed=seed: work(seed) for seed in range(3)])


@story
def forks_beside_the_thread_of_a_fork():
    """Calls in a forked child run in new threads, which can end during another fork while the caller waits."""
    x, model = numbers(8, 16), fused()
    wanted, done = model(x).copy(), threading.Event()

    def fork():
        while not done.is_set():
            forked(lambda: None)

    def child():
        beside = threading.Thread(target=fork)
        beside.start()
        for _ in range(times(100_000, 1200)):
            np.testing.assert_array_equal(model(x), wanted)
        done.set()
        beside.join()

    forked(child, times(1200, 36))


@story
def forks_while_an_object_computes_a_value():
    began, done = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self):
            began.set()
            return done.wait()

    def fork():
        began.wait()
        forked(lambda: done.set() or Slow().value)
        done.set()

    together(lambda: Slow().value, fork)


@story
def forks_wait_for_added_ops():
    """One call of C adds many ops."""
    types = [TensorType(og.f32, (4,))]
    count, template = 4000, OpTemplate.checked("ReLU", {}, types, types)
    ops = LazyOps([capi.LogicalTensor(0, "f32", (4,))], dict.fromkeys(range(count + 1), 0))
    for number in range(count):
        ops.add(template, number, "", [number], [number + 1])
    began, ended = threading.Event(), []

    def hand_over(function, *arguments):
        began.set()
        assert function(*arguments) == 0
        ended.append(time.perf_counter())

    with mock.patch("onegraph.capi.op_template.call", hand_over):
        thread = threading.Thread(target=capi.Graph()._add_lazy_ops, args=(ops, list(range(count))))
        thread.start()
        began.wait()
        time.sleep(0.01)  # the call takes more than ten times as long
        child = os.fork()
        if not child:
            os._exit(0)
        forked_at = time.perf_counter()
        thread.join()
    os.waitpid(child, 0)
    assert forked_at > ended[0] - 0.01


HANDLERS = """
import gc, os, sys, threading
def say(what):
    os.write(1, f"{what}\\n".encode())  # in one piece, where several processes write
def collect():
    say(f"collects {gc.collect() > 0}")
lock = threading.Lock()
if sys.argv[2] == "lock":
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
else:
    os.register_at_fork(**{sys.argv[2]: collect})
sys.path.insert(0, sys.argv[1])
import numpy as np, onegraph as og
g = og.Graph()
g.output("y", g.relu(g.input("x", "f32", (2,))))
model, ones = g.compile(), np.ones(2, np.float32)
cycle = [og.capi.Graph()]
cycle.append(cycle)
del cycle
gc.disable()
has_lock, forks = threading.Event(), threading.Event()
def work():
    with lock:
        has_lock.set()
        forks.wait()
        for _ in range(100):
            model(ones)
thread = threading.Thread(target=work)
thread.start()
if sys.argv[2] == "lock":
    has_lock.wait()
    threading.Timer(0.2, forks.set).start()
else:
    forks.set()
    thread.join()
child = os.fork()
if not child:
    say(model(ones))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
say(model(ones))
"""


@story
def fork_handlers_of_others():
    """Older handlers run between ours and the fork, and may run the garbage collector or wait for a lock."""
    root = os.path.dirname(os.path.dirname(og.__file__))
    for when in ("before", "after_in_parent", "after_in_child", "lock"):
        command = [sys.executable, "-c", HANDLERS, root, when]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        found = sorted(done.stdout.splitlines())
        assert (done.returncode, found) == (0, ["[1. 1.]"] * 2 + ["collects True"] * (when != "lock")), (
            when,
            done.stderr,
        )


@story
def forks_while_a_bound_run_is_used():
    """The thread inside the run does not exist in the child, so the run is free there."""
    x, done = numbers(8, 16), threading.Event()
    model = fused()
    run, wanted = model.bind(x=x), model(x).copy()

    def work():
        while not done.is_set():
            run()

    fork_beside(times(500, 8), lambda: np.testing.assert_array_equal(run(), wanted), done, work)


@story
def forks_while_a_tensor_is_used():
    """The executing thread does not exist in the child, so the tensors accept other arrays there."""
    capi.set_num_threads(1)
    ends, done = [capi.LogicalTensor(number, "f32", (2**16,)) for number in range(2)], threading.Event()
    compiled = capi.Partition.from_op(capi.Op(0, "ReLU", inputs=ends[:1], outputs=ends[1:])).compile()
    source, target = (capi.Tensor(tensor, np.ones(2**16, np.float32)) for tensor in ends)
    stream = capi.Stream()

    def work():
        while not done.is_set():
            compiled.execute(stream, [source], [target])

    def child():
        source.set_data_handle(np.full(2**16, 3, np.float32))
        compiled.execute(stream, [source], [target])
        assert (target.data == 3).all()

    fork_beside(times(500, 8), child, done, work)


@story
def forks_while_threads_compile():
    """Locks of a compilation during the fork, here and in the library, do not block the child."""
    done = threading.Event()
    network()[0].compile()  # no thread imports a module from here on, because Python's import lock is not ours

    def work(seed):
        rng = random.Random(seed)
        while not done.is_set():
            rows = rng.randrange(1, 1000)
            graph, w = network(rows)
            x = numbers(rows, 16)
            assert right(graph.compile(policy=rng.choice(("fusion", "debug")))(x), x, w)

    def child():
        assert gc.isenabled()  # the collector is disabled while threads of the parent compile
        for rows in (7, 8):
            graph, w = network(rows)
            assert right(graph.compile()(numbers(rows, 16)), numbers(rows, 16), w)

    fork_beside(times(500, 8), child, done, *[lambda seed=seed: work(seed) for seed in range(3)])


@story
def forks_while_threads_build_one_to_one_objects():
    """The child finds the locks of a graph, of its ops and of tensors free."""
    lt, done, numbers_of = capi.LogicalTensor, threading.Event(), iter(range(1, 10**9))
    graph, data = capi.Graph(), capi.Tensor(capi.LogicalTensor(0, "f32", (4,)), np.zeros(4, np.float32))

    def add():
        nonlocal graph
        number = next(numbers_of)
        if number % 500 == 0:  # the child may have to add all the ops to the library again
            graph = capi.Graph()
        ends = [lt(2 * number, "f32", (4, 4)), lt(2 * number + 1, "f32", (4, 4))]
        graph.add_op(capi.Op(number, "ReLU", inputs=ends[:1], outputs=ends[1:]))
        data.set_data_handle(np.zeros(4, np.float32))

    def work():
        while not done.is_set():
            add()

    fork_beside(times(500, 12), add, done, work)


@story
def graph_is_partitioned_while_threads_compile():
    """The library writes to the ops of a graph when it looks for partitions in it."""
    tensors = [capi.LogicalTensor(number, "f32", (16, 16)) for number in range(8)]
    graph, done = capi.Graph(), threading.Event()
    for number, kind in enumerate(["MatMul", "Add", "ReLU", "Exp", "MatMul", "Multiply", "Sigmoid"]):
        sources = [tensors[number]] + [tensors[0]] * (kind in ("MatMul", "Add", "Multiply"))
        graph.add_op(capi.Op(number, kind, inputs=sources, outputs=[tensors[number + 1]]))
    graph.finalize()
    partitions = graph.partitions()

    def take():
        while not done.is_set():
            graph.partitions("fusion")
            graph.partitions("debug")

    def make():
        try:
            for _ in range(times(5000, 6)):
                for partition in partitions:
                    partition.compile()
        finally:
            done.set()

    together(take, make, make)


def in_a_pool(rows):
    x = numbers(rows, 16)
    graph, w = network(rows)
    return right(graph.compile()(x), x, w)


@story
def process_pools():
    assert in_a_pool(5)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map_async(in_a_pool, range(1, 6)).get(timeout=120) == [True] * 5, method


class Lent:
    """A tensor that another library lends."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


@story
def forks_while_tensors_are_imported():
    """The child can import foreign tensors, whatever locks other threads held."""
    model, done = fused(), threading.Event()
    x = Lent(numbers(8, 16))
    wanted = model(x.array).copy()

    def work():
        while not done.is_set():
            model(x)

    def child():
        assert np.array_equal(model(x), wanted)

    fork_beside(times(1000, 12), child, done, work, work)


def forks_during(works, longest):
    """A signal handler forks during each task; the parent continues its task, and the child does all tasks."""
    children = []

    def handler(*_):
        children.append(os.fork())
        if not children[-1]:
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(30)

    signal.signal(signal.SIGPROF, handler)
    rng = random.Random(2)
    for number in range(times(1000, 12)):
        work = works[number % len(works)]
        children.clear()
        signal.setitimer(signal.ITIMER_PROF, rng.uniform(1e-4, longest))
        while not children:
            assert work() is not False
        if children[0]:
            assert os.waitpid(children[0], 0)[1] == 0
            continue
        forked_right = all(again() is not False for again in works)
        os._exit(not forked_right)


@story
def forks_in_signal_handlers():
    """The interrupted call continues in both processes, with the locks that it holds."""
    graph, w = network()
    model, x = graph.compile(), numbers(64, 16)
    parts, rows = model.bind(x=x), itertools.count(100)
    wide = numbers(64, 32)[:, ::2]  # this input is copied
    one_to_one = capi.Graph()

    def add():
        first = 2 * next(rows)
        ends = [capi.LogicalTensor(number, "f32", (4,)) for number in (first, first + 1)]
        one_to_one.add_op(capi.Op(first, "ReLU", inputs=ends[:1], outputs=ends[1:]))

    works = [
        lambda: right(model(x), x, w),
        lambda: right(model(wide), wide, w),
        lambda: right(parts(), x, w),
        lambda: model(numbers(next(rows), 16)),
        add,
    ]

    forks_during(works, 4e-3)


@story
def signal_handlers_fork_during_thread_affine_compilation():
    """Thread-affine kernels would wait for lost threads in the child, so it neither measures nor runs them."""
    ones = numbers(1, 6, 6, 4)

    def gradient():
        graph = og.Graph()
        window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
        weights = graph.constant(np.full((3, 3, 4, 4), 0.5, np.float32))
        source = graph.input("x", "f32", ones.shape)
        graph.output("y", graph.convolution_backward_data(source, weights, dst_shape=ones.shape, **window))
        return graph.compile()(ones)

    wanted = gradient().copy()
    forks_during([lambda: np.allclose(gradient(), wanted, rtol=1e-4)], 8e-3)


@story
def fork_before_a_thread_affine_frame():
    """The frame is made in the child, for kernels that wait for threads of the parent."""
    graph = og.Graph()
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    weights = graph.constant(np.full((3, 3, 16, 16), 0.5, np.float32))
    source = graph.input("x", "f32", (8, 32, 32, 16))
    graph.output("y", graph.convolution_backward_data(source, weights, dst_shape=source.shape, **window))
    model, ones = graph.compile(threads=2), numbers(8, 32, 32, 16)
    wanted, check_out, children = model(ones).copy(), Program.check_out, []

    def forking(program):
        program.free_frames.clear()
        if not children:
            children.append(os.fork())
        return check_out(program)

    Program.check_out = forking
    model._programs.cache.latest().program.free_frames.clear()
    turned = np.asfortranarray(ones)  # which no quick call takes, so that a frame is checked out
    assert np.allclose(model(turned), wanted, rtol=1e-4)
    if not children[0]:
        os._exit(0)
    assert os.waitpid(children[0], 0)[1] == 0


# Signals -------------------------------------------------------------------------------------------------------------


@story
def everything_works_after_interrupts():
    """KeyboardInterrupt at any moment of a call, a bound run or a compilation; all still work afterwards."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    graph, w = network()
    model, quick, x, x8 = graph.compile(), fused(), numbers(64, 16), numbers(8, 16)
    wanted = quick(x8).copy()
    run, parts = quick.bind(x=x8), model.bind(x=x)
    rng = random.Random(1)
    works = [lambda: model(x), lambda: quick(x8), run.run, parts.run, lambda: network(3)[0].compile(), in_one_to_one()]
    for number in range(times(3000, 45)):
        work = works[number % len(works)]
        try:
            # The timer repeats, because Python prints and drops an interrupt inside a destructor.
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 4e-3), 0.5)
            while True:
                work()
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert right(model(x), x, w)
    assert right(parts(), x, w)
    assert np.array_equal(quick(x8), wanted)
    assert np.array_equal(run(), wanted)
    works[-1]()


@story
def interrupt_at_every_step_of_compilation():
    """An interrupted compilation restores every global state."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph, w = network(5)
    x = numbers(5, 16)

    def interrupted(step):
        """Compile, with an interrupt at a step; returns how many there are."""
        seen = 0

        def watch(frame, event, argument):
            nonlocal seen
            if event in ("return", "c_return"):
                seen += 1
                if seen == step:
                    signal.raise_signal(signal.SIGINT)

        sys.setprofile(watch)
        try:
            graph.compile()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        return seen

    count, threads = interrupted(0), og.get_num_threads()
    rng = random.Random(0)
    for step in range(1, count) if WHOLE else [rng.randrange(1, count) for _ in range(60)]:
        interrupted(step)
        assert (gc.isenabled(), gc.get_freeze_count(), og.get_num_threads()) == (True, 0, threads), step
        if step % 10 == 0:
            assert right(graph.compile()(x), x, w)
    assert right(graph.compile()(x), x, w)


def in_one_to_one():
    lt = capi.LogicalTensor
    op = capi.Op(1, "Exp", inputs=[lt(0, "f32", (64,))], outputs=[lt(1, "f32", (64,))])
    compiled = capi.Partition.from_op(op).compile()
    source = capi.Tensor(compiled.inputs[0], np.zeros(64, np.float32))
    target, stream = capi.Tensor(compiled.outputs[0], np.empty(64, np.float32)), capi.Stream()

    def work():
        compiled.execute(stream, [source], [target])
        assert (target.data == 1).all()

    return work


# Memory --------------------------------------------------------------------------------------------------------------


def resident():
    """The memory of the process in kilobytes that no file backs, also what the system has swapped out."""
    with open("/proc/self/status") as file:
        kilobytes = dict(line.split(":") for line in file)
    return sum(int(kilobytes[name].split()[0]) for name in ("RssAnon", "VmSwap"))


def flat(work, warm, count):
    """The memory after ``count`` more calls is within 1% of the memory after ``warm`` calls."""
    for _ in range(warm):
        work()
    gc.collect()
    before = resident()
    for _ in range(count):
        work()
    gc.collect()
    after = resident()
    print(f"{before} kB after {warm}, {after} kB after {count} more")
    assert after < before * 1.01 + 256, f"{before} kB before, {after} kB after {count} times"


@story
def programs_are_freed_while_threads_end():
    """The library frees the data of an ending thread, and crashes if a destructor just freed it."""
    x = numbers(4, 4)
    for _ in range(times(3000, 30)):
        graphs = [og.Graph() for _ in range(20)]
        for graph in graphs:
            graph.output("y", graph.relu(graph.input("x", "f32", (4, 4))))
        models = [graph.compile(threads=1) for graph in graphs]

        def work(models=models):
            for model in models:
                model(x)

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        models.clear()  # a joined thread may still be ending


@story
def executions_take_no_memory():
    graph, _ = network(64)
    model, quick, x, x8 = graph.compile(), fused(), numbers(64, 16), numbers(8, 16)
    run, one = quick.bind(x=x8), in_one_to_one()
    flat(lambda: (model(x), quick(x8), run(), one()), 500, times(100_000, 1000))


@story
def compilations_take_no_memory():
    x = numbers(64, 16)
    rng = random.Random(0)

    def work():
        network(64, rng.randrange(5))[0].compile()(x)

    flat(work, times(1000, 150), times(10_000, 60))


def images(seed):
    """A model in the ONNX format: a convolution, a pool, a product and norms, for any number of images."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    shapes = {"k": (8, 3, 3, 3), "b": (8,), "m": (128, 10), "n": (10,), "s": (10,), "t": (10,)}
    weights = [numpy_helper.from_array(rng.normal(0, 1, shape).astype("f"), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "n"], ["g"]),
        helper.make_node("LayerNormalization", ["g", "s", "t"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    dims = {"x": ["n", 3, 8, 8], "y": ["n", 10]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims[name]) for name in dims]
    graph = helper.make_graph(nodes, "images", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


@story
def compilations_of_onnx_models_take_no_memory():
    import onegraph.onnx

    models, rng, x = [images(seed) for seed in range(5)], random.Random(0), np.ones((2, 3, 8, 8), np.float32)
    flat(lambda: onegraph.onnx.load(rng.choice(models)).compile()(x), 1000, 10_000)


@story
def compilations_of_torch_models_take_no_memory():
    import torch
    from torch import nn

    import onegraph.torch

    x = torch.ones(2, 3, 8, 8)

    def work(backend="onegraph"):
        torch._dynamo.reset()
        onegraph.torch.reset()
        layers = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
        with torch.no_grad():
            torch.compile(nn.Sequential(*layers).eval(), backend=backend)(x)

    def grown(backend, count):
        before = resident()
        for _ in range(count):
            work(backend)
        gc.collect()
        return resident() - before

    # PyTorch keeps 150 KB of each compilation, whatever the backend.
    grown("onegraph", 300), grown("aot_eager", 100)
    warm = resident()
    own, theirs = grown("onegraph", 10_000), grown("aot_eager", 1000) * 10
    print(f"{warm} kB, {own} kB more after 10,000 compilations, {theirs} kB with PyTorch's own backend")
    assert own < theirs * 1.1 + warm * 0.01, f"{own} kB more than {warm} kB, and {theirs} kB with PyTorch's own backend"


# Stories that only the whole run has time for, with the package that each needs.
LONG = {
    "compilations_of_onnx_models_take_no_memory": "onnx",
    "compilations_of_torch_models_take_no_memory": "torch",
}


@story
def shapes_take_no_memory():
    """Programs for changing shapes are evicted."""
    model, rng = network()[0].compile(), random.Random(0)
    flat(lambda: model(numbers(rng.randrange(1, 60), 16)), 300, times(10_000, 150))


FORKS = {"forks_after_use", "forks_while_threads_run", "forks_while_threads_compile", "process_pools"}
FORKS |= {
    "forks_wait_for_added_ops",
    "forks_beside_the_thread_of_a_fork",
    "fork_handlers_of_others",
}
FORKS |= {"forks_while_tensors_are_imported", "forks_while_a_bound_run_is_used", "forks_while_a_tensor_is_used"}
FORKS |= {
    "forks_in_signal_handlers",
    "signal_handlers_fork_during_thread_affine_compilation",
    "fork_before_a_thread_affine_frame",
}


@pytest.mark.parametrize("name", STORIES)
def test_story_ends_without_a_crash(name):
    if name in FORKS and RUNTIME != "OpenMP":
        pytest.skip(f"a fork loses the threads of {RUNTIME}, and the child is told so")
    if SANITIZED and name.endswith("_no_memory"):
        pytest.skip("the sanitizer keeps what is freed")
    if name in LONG:
        if not WHOLE:
            pytest.skip("takes minutes: make stress runs it")
        pytest.importorskip(LONG[name])
    if WHOLE or "LD_PRELOAD" in os.environ:  # the sanitizer of threads refuses threads in a forked process
        command = [sys.executable, __file__, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    else:
        done = run_forked(__name__, [name], seconds=LIMIT)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"


def tell():
    """Run the story that the arguments name."""
    gc.unfreeze()  # a compilation freezes objects where nobody else has
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT - 10, exit=True)
    STORIES[sys.argv[1]]()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        tell()
    else:
        serve(tell)
