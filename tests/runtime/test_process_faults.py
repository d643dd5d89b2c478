"""Faults: memory that runs out at any moment, a library that loads half or trips, an op of numpy's that raises.

Each part runs in a process of its own: this file, run as a script with the name of one.
"""

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import SANITIZED

from onegraph import capi
from onegraph.native.library import RUNTIME

HERE = Path(__file__).resolve().parents[1]


def child(*arguments, **variables):
    command = [sys.executable, *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)


def scratchy(power=True):
    """A graph whose kernels ask for scratch memory, and one op that numpy runs."""
    import onegraph as og

    g = og.Graph()
    x = g.input("x", "f32", (1, 16, 16, 8))
    weights = g.constant(np.full((3, 3, 8, 8), 0.125, np.float32))
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    wide = g.convolution(x, weights, **window)
    shares = g.softmax(wide, axis=3, dtype="f32", outputs=["dst"])
    g.output("y", g.pow(shares, beta=2.5) if power else shares)
    return g


X = np.linspace(-1, 1, 16 * 16 * 8, dtype=np.float32).reshape(1, 16, 16, 8)


def in_c():
    """Every request of the library's allocator fails once; what it was for is an exception, or done otherwise."""
    import onegraph as og
    from onegraph import capi
    from onegraph.native import library

    hook = ctypes.CDLL(None)
    wanted = scratchy().compile()(X)
    assert hook.requests() > 0, "no kernel asks for memory"
    failures = 0
    for place in range(40):
        live, start = capi.Allocator.live(), hook.requests()
        graph = scratchy()
        hook.fail_after(place)
        try:
            model = graph.compile()
            found = model(X)
        except og.OneGraphError as error:
            assert isinstance(error, MemoryError), repr(error)  # noqa: PT017
            failures += 1
        else:
            assert np.allclose(found, wanted, rtol=1e-5)
        hook.fail_after(-1)
        assert np.allclose(graph.compile()(X), wanted, rtol=1e-5)
        model = found = graph = None  # they keep the constants that the library has rearranged
        gc.collect()
        # A library that had no memory for constants keeps those of other programs.
        assert capi.Allocator.live() <= live + (4 if library.HASHES_CONSTANTS else 1), (
            f"request {place}: {live} blocks before, {capi.Allocator.live()} after"
        )
        if hook.requests() - start < place:
            break
    print(f"{place} requests, {failures} failures")
    kernels_in_c(hook)


def kernels_in_c(hook):
    """The same for requests of kernels of the package, in all of their threads."""
    import onegraph as og
    from onegraph.arrays.packed_codes import packed

    rng, g = np.random.default_rng(0), og.Graph()
    codes = packed(rng.integers(0, 16, (1500, 64)), 4).reshape(5, 300, -1)
    ends = [g.input("x", "f32", (4, 64)), g.input("places", "s64", (4, 2))]
    ends += [g.constant(codes), g.constant(rng.random((5, 300, 1), np.float32))]
    g.output("rows", g.op("PackedExperts", ends, {"coding": "u4", "group": 64}, edition="host"))
    heads = [g.input(name, "f32", (1, 2, 300, 16)) for name in "qkv"]
    g.output("dst", g.op("Attention", heads, {}, edition="host", outputs=["dst", "logsumexp"])[0])
    model = g.compile(threads=3)
    feeds = {name: rng.standard_normal(end.shape).astype(end.dtype.numpy) for name, end in g.inputs.items()}
    feeds["places"] = np.arange(8).reshape(4, 2) % 5
    wanted, raised = [array.copy() for array in model(**feeds)], 0
    for place in range(20):
        hook.fail_after(place)
        try:
            found = model(**feeds)
        except MemoryError:
            raised, found = raised + 1, wanted
        hook.fail_after(-1)
        assert all(map(np.array_equal, found, wanted))
        assert all(map(np.array_equal, model(**feeds), wanted))
    assert raised > 5, raised


LOST = re.compile("without (setting an )?exception")  # the texts of an error that the interpreter lost


def in_python():
    """Every request of the interpreter fails, from the n-th on for a while: MemoryError, or nothing is lost.

    Without an op of numpy's: numpy 2.4 itself crashes in ``errstate`` then.
    """
    import _testcapi

    from onegraph import capi

    model = scratchy(power=False).compile()
    wanted = model(X).copy()
    run = model.bind(x=X)
    ends = [capi.LogicalTensor(number, "f32", X.shape) for number in range(2)]
    compiled = capi.Partition.from_op(capi.Op(0, "Abs", inputs=ends[:1], outputs=ends[1:])).compile()
    source, target = capi.Tensor(ends[0], wanted), capi.Tensor(ends[1], np.empty_like(wanted))
    stream = capi.Stream()

    def one_to_one():
        target.set_data_handle(np.empty_like(wanted))
        compiled.execute(stream, [source], [target])
        return target.data

    raised = 0
    for work in (lambda: model(X), run.run, lambda: scratchy(power=False).compile()(X), one_to_one):
        for start in (*range(1, 120), *range(120, 4000, 97)):
            try:
                _testcapi.set_nomemory(start, start + 3)
                try:
                    work()
                finally:
                    _testcapi.remove_mem_hooks()
            except MemoryError:
                raised += 1
            except SystemError as error:
                # If the next requests fail too, the interpreter loses the exception, and Python 3.11.2 even its text.
                if str(error) and not LOST.search(str(error)):
                    raise
            assert np.allclose(work(), wanted, rtol=1e-5)
    assert raised > 20


def alone():
    """One request of the interpreter fails, whichever: what follows from it is told, and nothing stays changed."""
    import _testcapi

    from onegraph._util.fork_safety import new_rlock
    from onegraph.arrays.ndarrays import aligned_empty
    from onegraph.native.gc_pause import without_collector

    model = scratchy(power=False).compile()
    wanted = model(X).copy()
    every_other = np.repeat(X, 2, axis=3)[..., ::2]  # which a call copies
    works = {
        "copy": lambda: model(every_other),
        "array": lambda: aligned_empty((4,), np.dtype(np.float32)).fill(0),
        "collector": lambda: without_collector(int),
        "lock": new_rlock,
    }
    raised = dict.fromkeys(works, 0)
    for name, work in works.items():
        for place in range(1, 120):
            work()
            try:
                _testcapi.set_nomemory(place, place + 1)
                try:
                    work()
                finally:
                    _testcapi.remove_mem_hooks()
            except MemoryError:
                raised[name] += 1
            assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0), place
    assert all(raised.values()), raised
    assert np.allclose(model(every_other), wanted, rtol=1e-5)


def in_numpy():
    """No memory for any of the arrays that onegraph asks for; and an op of numpy's that raises in the middle."""
    import onegraph as og

    model = scratchy().compile()
    wanted = model(X).copy()
    run, empty = model.bind(x=X), np.empty
    raised = 0
    for work in (lambda: model(X), run.run, lambda: scratchy().compile()(X)):
        for place in range(30):
            left = [place]

            def failing(*arguments, left=left, **options):
                left[0] -= 1
                if left[0] == -1:
                    raise MemoryError("none left")
                return empty(*arguments, **options)

            np.empty = failing
            try:
                work()
            except MemoryError:
                raised += 1
            finally:
                np.empty = empty
            assert np.allclose(work(), wanted, rtol=1e-5)
    assert raised > 2, raised  # results of calls have memory of C
    contiguous = np.ascontiguousarray
    for work in (lambda: model(X), run.run):
        np.ascontiguousarray = None
        try:
            work()
        except TypeError:
            pass
        else:
            raise AssertionError("Pow did not run on numpy")
        finally:
            np.ascontiguousarray = contiguous
        assert np.allclose(work(), wanted, rtol=1e-5)
    assert og.capi.Allocator.live() >= 0


def evicted():
    """A thread ends, and is to free what it has for a kernel; the cache destroys that to make room for another."""
    from onegraph import capi
    from onegraph.native import library

    hook = ctypes.CDLL(None)
    capi.set_compiled_partition_cache_capacity(1)
    ends = [capi.LogicalTensor(number, "f32", (4,)) for number in range(2)]
    one, other = (
        capi.Partition.from_op(capi.Op(0, kind, inputs=ends[:1], outputs=ends[1:])) for kind in ("Abs", "ReLU")
    )
    compiled, stream = [one.compile()], capi.Stream()
    tensors = [capi.Tensor(tensor, np.ones(4, np.float32)) for tensor in ends]

    def work():
        compiled[0].execute(stream, tensors[:1], tensors[1:])
        compiled.clear()  # the cache alone has it from here on
        hook.stop_in(library._handle.dnnl_version)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 30
    while not hook.is_waiting():
        assert time.monotonic() < deadline
    other.compile()
    hook.go_on()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        assert time.monotonic() < deadline


# What Python 3.13.0 itself trips over: a generator that reads a variable of its function.
PLAIN = """
import _testcapi

def total():
    dims = [4, 4]
    return sum(dim for dim in dims)

def number():
    return [total() for _ in range(3)], {}, [], set()

for start in range(1, 60):
    for _ in range(3):
        try:
            _testcapi.set_nomemory(start, start + 3)
            try:
                total()
            finally:
                _testcapi.remove_mem_hooks()
        except (MemoryError, SystemError):
            pass
        number()
"""


@pytest.mark.parametrize("part", ["in_python", "alone", "in_numpy"])
def test_memory_runs_out(part):
    if part != "in_numpy":
        pytest.importorskip("_testcapi", reason="this Python was built without its test modules")
        if subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, check=False).returncode < 0:
            pytest.skip("this Python crashes by itself where it has no memory")
    done = child(__file__, part)
    assert done.returncode == 0, done.stderr[-3000:]


def child_with(shim, part, folder):
    """A child behind functions of libc that a test has written anew."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if SANITIZED:
        pytest.skip("these functions are the sanitizer's")
    built = folder / f"{shim}.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(built), str(HERE / f"{shim}.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(built)]))
    return child(__file__, part, LD_PRELOAD=preloaded)


def test_a_cache_makes_room_while_a_thread_ends(tmp_path):
    done = child_with("stopping_lock", "evicted", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(RUNTIME == "SYCL", reason="a library for SYCL takes no allocator")
def test_the_allocator_fails(tmp_path):
    done = child_with("failing_memory", "in_c", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    # Where constants are not kept, the blocks of one run serve the next ones.
    assert int(done.stdout.split()[2]) > 0 or not capi.get_constant_tensor_cache(), done.stdout


HALF = """
import onegraph as og
graph = og.Graph()
graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
for _ in range(2):  # the second try fails as the first one did
    try:
        graph.compile()
    except og.LibraryError as error:
        print(error)
"""


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_a_library_that_is_cut_off(share, tmp_path):
    from onegraph.native import library

    cut = tmp_path / "libdnnl.so.3"
    whole = Path(library.PATH).read_bytes()
    cut.write_bytes(whole[: int(len(whole) * share)])
    done = child("-c", HALF, ONEGRAPH_LIBRARY=str(cut))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(f"cannot load {cut}") == 2


def test_an_extension_that_does_not_load(tmp_path):
    """The library is loaded by then; the error says what is wrong, every time."""
    code = "import sys; sys.modules['onegraph._ffi'] = None\n" + HALF
    done = child("-c", code)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("the compiled part of onegraph is missing") == 2


def with_frames(left, work):
    """What ``work`` returns where Python allows ``left`` more frames on the stack."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back

    def deeper(count):
        return deeper(count - 1) if count > 0 else work()

    return deeper(sys.getrecursionlimit() - depth - left)


@pytest.mark.parametrize("shape", [(4,), (None,)])
def test_full_stack_raises_its_own_error_only(shape):
    import onegraph as og

    g, ones = og.Graph(), np.ones(4, np.float32)
    g.output("y", g.relu(g.input("x", "f32", shape)))
    failed = 0
    for left in range(2, 60):
        for work in (lambda: g.compile()(ones), lambda: g.compile().bind(x=ones).run()):
            try:
                with_frames(left, work)
            except (RecursionError, og.OneGraphError):
                failed += 1
            assert gc.isenabled()
        assert g.compile()(ones).tolist() == [1] * 4
    assert failed > 10


if __name__ == "__main__" and len(sys.argv) > 1:
    {part.__name__: part for part in (in_c, in_python, alone, in_numpy, evicted)}[sys.argv[1]]()
