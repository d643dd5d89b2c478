"""Bad arguments of calls, ``out=`` and ``bind``: one clear exception, and the next call works as before."""

import copy
import os
import pickle
import textwrap
import warnings

import ml_dtypes
import numpy as np
import pytest
from conftest import SANITIZED
from helpers.executables import forked_python, in_a_process

import onegraph as og
from onegraph._util import exact_types, validation
from onegraph.capi import CompiledPartition

F32 = np.float32
SHAPE = (3, 4)
SIDES = ((None, 1, 1), (1, None, 1), (1, 1, None))


def two_in_two_out(rows):
    g = og.Graph()
    a, b = g.input("a", og.f32, (rows, 4)), g.input("b", og.f32, (rows, 4))
    g.output("total", g.add(a, b))
    g.output("ratio", g.divide(a, b))
    return g.compile(threads=1)


@pytest.fixture(params=[3, None], ids=["static", "dynamic"], scope="module")
def model(request):
    return two_in_two_out(request.param)


def arrays():
    return {"a": np.full(SHAPE, 6, F32), "b": np.full(SHAPE, 2, F32)}


def outputs():
    return {"total": np.full(SHAPE, -1, F32), "ratio": np.full(SHAPE, -1, F32)}


def works(model):
    """Whether the next call, with and without ``out``, and the next bound run give the right results."""
    given, outs = arrays(), outputs()
    for result in (model(**given), model(**given, out=outs), model.bind(**given).run()):
        assert (result.total == 8).all()
        assert (result.ratio == 3).all()
    assert model(*given.values()).total.shape == SHAPE
    return True


def read_only(array):
    array.flags.writeable = False
    return array


BAD_INPUTS = {
    "wrong dtype": (np.zeros(SHAPE), r"input 'a': data type float64; expected f32; convert it with .astype\(np.float3"),
    "an integer dtype": (np.zeros(SHAPE, np.int64), "input 'a': data type int64; expected f32"),
    "other byte order": (np.zeros(SHAPE, ">f4"), "input 'a': data type >f4; expected f32"),
    "an object array": (np.full(SHAPE, None), "input 'a': data type object; expected f32"),
    "too few columns": (np.zeros((3, 3), F32), r"input 'a': shape \[3, 3\]; expected \[[3?], 4\]"),
    "another rank": (np.zeros((3, 4, 1), F32), r"input 'a': shape \[3, 4, 1\]"),
    "a scalar": (np.float32(1), r"input 'a': shape \[\]; expected"),
    "no elements": (np.zeros((3, 0), F32), r"input 'a': shape \[3, 0\]"),
    "a number": (1.0, "input 'a': float; expected a numpy array"),
    "a list": ([[1.0] * 4] * 3, "input 'a': list; expected a numpy array"),
    "None": (None, "input 'a': NoneType; expected a numpy array"),
    "a masked array": (np.ma.masked_array(np.zeros(SHAPE, F32)), "input 'a': a masked array"),
    "text": ("abc", "input 'a': str; expected"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_rejects_bad_inputs(model, case):
    value, text = BAD_INPUTS[case]
    given, outs = {**arrays(), "a": value}, outputs()
    copies, size = model.copies, model.cache_info().size
    for call in (
        lambda: model(**given),
        lambda: model(*given.values()),
        lambda: model(**given, out=outs),
        lambda: model(*given.values(), out=tuple(outs.values())),
        lambda: model.bind(**given),
        lambda: model.bind(**given, **outs),
        lambda: model.profile(**given),
    ):
        with pytest.raises(og.ArgumentError, match=text):
            call()
        assert all((array == -1).all() for array in outs.values())
    assert (model.copies, model.cache_info().size) == (copies, size)
    assert works(model)


BAD_CALLS = {
    "nothing": (lambda m, a, b: m(), "missing inputs: a, b"),
    "one missing": (lambda m, a, b: m(a), "missing inputs: b"),
    "one missing by name": (lambda m, a, b: m(b=b), "missing inputs: a"),
    "one too many": (lambda m, a, b: m(a, b, a), "3 inputs given; expected 2: a, b"),
    "twice": (lambda m, a, b: m(a, a=a), "input 'a' is given twice"),
    "all twice": (lambda m, a, b: m(a, b, a=a, b=b), "input 'a' is given twice"),
    "an unknown name": (lambda m, a, b: m(a=a, c=b), "unknown input 'c'; the inputs are a, b"),
    "an extra name": (lambda m, a, b: m(a, b, c=b), "unknown input 'c'; the inputs are a, b"),
    "an output": (lambda m, a, b: m(a, b, total=a), "unknown input 'total'"),
    "bind nothing": (lambda m, a, b: m.bind(), "missing inputs: a, b"),
    "bind one": (lambda m, a, b: m.bind(a=a), "missing inputs: b"),
    "bind an unknown name": (
        lambda m, a, b: m.bind(a=a, b=b, c=a),
        "bind: unknown name 'c'; the names are a, b, total, ratio",
    ),
    "bind another layout": (
        lambda m, a, b: m.bind(a=np.asfortranarray(a), b=b),
        r"input 'a': strides \(4, 12\); expected strides \(16, 4\), in bytes; numpy.ascontiguousarray",
    ),
    "different rows": (lambda m, a, b: m(a, b[:2].copy()), "input 'b': shape|[Ss]hape|dim|broadcast"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_rejects_bad_calls(model, case):
    call, text = BAD_CALLS[case]
    size = model.cache_info().size
    with pytest.raises((og.ArgumentError, og.SpecError), match=text):
        call(model, *arrays().values())
    assert model.cache_info().size == size
    assert works(model)


def wide():
    return np.full((3, 8), -1, F32)


def unaligned():
    return np.frombuffer(bytearray(3 * 4 * 4 + 1), np.uint8)[1:].view(F32).reshape(SHAPE)


BAD_OUTPUTS = {
    "wrong dtype": (lambda: np.zeros(SHAPE), "data type float64; expected f32"),
    "other byte order": (lambda: np.zeros(SHAPE, ">f4"), "data type >f4; expected f32"),
    "too small": (lambda: np.zeros((2, 4), F32), r"shape \[2, 4\]; expected \[3, 4\]"),
    "too large": (lambda: np.zeros((4, 4), F32), r"shape \[4, 4\]; expected \[3, 4\]"),
    "another rank": (lambda: np.zeros(12, F32), r"shape \[12\]; expected \[3, 4\]"),
    "read-only": (lambda: read_only(np.zeros(SHAPE, F32)), "read-only"),
    "bytes": (lambda: np.frombuffer(bytes(48), F32).reshape(SHAPE), "read-only"),
    "broadcast": (lambda: np.broadcast_to(F32(0), SHAPE), "not C-contiguous|read-only"),
    "strided": (lambda: wide()[:, ::2], "not C-contiguous"),
    "column-major": (lambda: np.zeros(SHAPE, F32, order="F"), "not C-contiguous"),
    "reversed": (lambda: np.zeros(SHAPE, F32)[::-1], "not C-contiguous"),
    "unaligned": (unaligned, "not aligned to 4 bytes"),
    "a scalar": (lambda: np.float32(0), "float32; expected an array"),
    "a list": (lambda: [[0.0] * 4] * 3, "list; expected"),
    "a number": (lambda: 0, "int; expected"),
}


@pytest.mark.parametrize("case", BAD_OUTPUTS)
@pytest.mark.parametrize("place", ["total", "ratio"])
def test_rejects_bad_outputs(model, case, place):
    make, text = BAD_OUTPUTS[case]
    given = arrays()
    for call in (
        lambda outs: model(**given, out=outs),
        lambda outs: model(**given, out={place: outs[place]}),
        lambda outs: model(**given, out=tuple(outs.values())),
        lambda outs: model(**given, out=list(outs.values())),
        lambda outs: model.bind(**given, **outs),
    ):
        outs = {**outputs(), place: make()}
        with pytest.raises(og.ArgumentError, match=f"output '{place}': .*({text})"):
            call(outs)
        assert all((array == -1).all() for name, array in outs.items() if name != place)
    assert all((array == expected).all() for array, expected in zip(given.values(), (6, 2), strict=True))
    assert works(model)


def test_rejects_overlapping_outputs(model):
    given = arrays()
    block = np.full((4, 4), -1, F32)
    cases = {
        "output 'total' shares memory with 'a'": {"total": given["a"]},
        "output 'ratio' shares memory with 'b'": {"ratio": given["b"].reshape(3, 4)},
        "output 'ratio' shares memory with 'total'": {"total": block[:3], "ratio": block[1:]},
    }
    for text, outs in cases.items():
        whole = {**outputs(), **outs}
        for call in (
            lambda outs=outs: model(**given, out=outs),
            lambda whole=whole: model(**given, out=tuple(whole.values())),
            lambda outs=outs: model.bind(**given, **outs),
        ):
            with pytest.raises(og.ArgumentError, match=text):
                call()
    assert (block == -1).all()
    assert (given["a"] == 6).all()
    assert (given["b"] == 2).all()
    halves = np.zeros((6, 4), F32)
    result = model(**given, out=(halves[:3], halves[3:]))  # adjacent outputs do not overlap
    assert (halves[:3] == 8).all()
    assert (halves[3:] == 3).all()
    assert result.total.base is halves
    assert works(model)


def test_rejects_out_without_matching_arrays(model):
    given, outs = arrays(), outputs()
    for out, text in (
        (outs["total"], r"; expected 2 arrays in the order total, ratio$"),
        ((outs["total"],), "expected 2 arrays"),
        ((*outs.values(), outs["total"]), "expected 2 arrays"),
        ((), "expected 2 arrays"),
        ({"product": outs["total"]}, "out: unknown output 'product'; the outputs are total, ratio"),
        ({1: outs["total"]}, "out: unknown output 1"),
        (7, "expected 2 arrays"),
    ):
        with pytest.raises(og.ArgumentError, match=text):
            model(**given, out=out)
    assert all((array == -1).all() for array in outs.values())
    assert works(model)


def test_compares_many_outputs_with_many_inputs():
    g = og.Graph()
    ins = [g.input(f"x{i}", og.f32, (4,)) for i in range(4)]
    for i, x in enumerate(ins):
        g.output(f"y{i}", g.relu(x))
    model = g.compile(threads=1)
    xs = [np.full(4, i, F32) for i in range(4)]
    ys = [np.zeros(4, F32) for _ in range(4)]
    assert [y[0] for y in model(*xs, out=ys)] == [0, 1, 2, 3]
    for bad in ([*ys[:3], xs[0]], [*ys[:3], ys[0]], [xs[3], *ys[1:]]):
        with pytest.raises(og.ArgumentError, match="shares memory"):
            model(*xs, out=bad)
    assert all((x == i).all() for i, x in enumerate(xs))
    assert model(*xs, out=ys)[3] is ys[3]


def test_input_can_be_an_output():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    g.output("same", x)
    g.output("y", g.relu(x))
    model = g.compile()
    data, same = np.float32([-1, 0, 1, 2]), np.zeros(4, F32)
    with pytest.raises(og.ArgumentError, match="output 'same' shares memory with 'x'"):
        model(data, out={"same": data})
    with pytest.raises(og.ArgumentError, match="output 'same' shares memory with 'x'"):
        model.bind(x=data, same=data)
    assert model(data, out={"same": same}).same is same
    assert same.tolist() == data.tolist() == [-1, 0, 1, 2]
    assert model.bind(x=data).run().y.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)])
@pytest.mark.parametrize("known", [True, False])
def test_empty_arrays(shape, known):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, shape if known else (None,) * len(shape))))
    model = g.compile()
    x, y = np.zeros(shape, F32), np.zeros(shape, F32)
    assert model(x).shape == model.bind(x=x).run().shape == shape
    assert model(x, out=y) is y
    with pytest.raises(og.ArgumentError, match="shape"):
        model(x, out=np.zeros((*shape, 1), F32))
    assert model(x).size == 0


@pytest.mark.parametrize("known", [True, False])
def test_scalars(known):
    g = og.Graph()
    x = g.input("x", og.f32, () if known else None)
    g.output("y", g.relu(x))
    model = g.compile()
    y = np.zeros((), F32)
    for value in (np.float32(2), np.array(2, F32)):
        assert model(value).shape == ()
        assert model(value) == 2
        assert model(value, out=y) is y
        assert model.bind(x=value).run() == 2
    assert y == 2
    with pytest.raises(og.ArgumentError, match="output 'y': float32; expected an array"):
        model(np.float32(2), out=np.float32(0))
    assert model(np.float32(3)) == 3


def test_at_most_twelve_dimensions():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32)))
    model = g.compile()
    shape = (1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2)
    x = np.arange(-32, 32, dtype=F32).reshape(shape)
    y = np.zeros(shape, F32)
    assert np.array_equal(model(x), np.maximum(x, 0))
    assert np.array_equal(model(x, out=y), model.bind(x=x).run())
    size = model.cache_info().size
    for call in (model, lambda x: model(x, out=y), lambda x: model.bind(x=x)):
        with pytest.raises(og.OneGraphError, match=r"rank|dimensions"):
            call(x[None])
    assert model.cache_info().size == size
    assert np.array_equal(model(x), np.maximum(x, 0))


def test_graph_that_exceeds_the_address_space():
    """A result of 2**50 bytes, which exceeds the address space."""
    g = og.Graph()
    a, b, c = (g.input(name, og.f32, shape) for name, shape in zip("abc", SIDES, strict=True))
    g.output("y", g.add(g.add(a, b), c))
    model = g.compile()

    def given(size):
        return {
            "a": np.ones((size, 1, 1), F32),
            "b": np.ones((1, size, 1), F32),
            "c": np.ones((1, 1, size), F32),
        }

    for call in (model, model.bind):
        with pytest.raises((og.OutOfMemoryError, og.UnsupportedError)):
            call(**given(2**16))
        assert (model(**given(2)) == 3).all()
    with pytest.raises(MemoryError):
        model(**given(2**16), out=None)
    assert model.bind(**given(3)).run().shape == (3, 3, 3)


@pytest.mark.parametrize("dim", [2**31, 2**47, 2**60 - 1, 2**60, 2**63 - 1])
def test_dims_at_the_limits(dim):
    g = og.Graph()
    x, y = np.ones(4, F32), np.zeros(4, F32)
    try:
        g.output("y", g.relu(g.input("x", og.f32, (dim,))))
        model = g.compile()
    except og.OneGraphError:
        pass  # the error may come from the compilation or from the call
    else:
        for call in (lambda: model(x), lambda: model(x, out=y), lambda: model.bind(x=x)):
            with pytest.raises(og.ArgumentError, match=rf"input 'x': shape \[4\]; expected \[{dim}\]"):
                call()
    small = og.Graph()
    small.output("y", small.relu(small.input("x", og.f32, (None,))))
    assert small.compile()(x).tolist() == [1] * 4


def test_bound_buffers_cannot_be_resized():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (1024,))))
    model = g.compile(threads=1)
    x, y, memory = np.ones(1024, F32), np.zeros(1024, F32), bytearray(4096)
    run = model.bind(x=x, y=y)
    for array in (x, y):
        with pytest.raises(ValueError, match="resize"):
            array.resize(1 << 20, refcheck=False)
    of_bytes = model.bind(x=np.frombuffer(memory, F32))
    with pytest.raises(BufferError):
        memory.extend(bytes(4096))
    del x, y, memory, array
    assert (run.run() == 1).all()  # no other reference to the arrays exists
    assert (of_bytes.run() == 0).all()


@pytest.mark.parametrize("rows", [3, None])
def test_model_works_after_compilation_runs_out_of_memory(rows, monkeypatch):
    def failing(*arguments):
        raise og.OutOfMemoryError("dnnl_graph_partition_compile", "out_of_memory")

    with monkeypatch.context() as patch:
        patch.setattr(CompiledPartition, "_postponed", failing)
        for call in (
            lambda model: model(**arrays()),
            lambda model: model(**arrays(), out=outputs()),
            lambda model: model.bind(**arrays()),
        ):
            model = None if rows else two_in_two_out(None)
            with pytest.raises(og.OutOfMemoryError, match="dnnl_graph_partition_compile"):
                call(model) if model else two_in_two_out(rows)
    model = model or two_in_two_out(rows)
    assert works(model)
    # Where sizes are open, and the library has no program, kernels of the package run such ops.
    assert {partition.executor for partition in model.report().partitions} == {"oneDNN" if rows else "kernel"}


# The constants of the second program, 64 MB, find no memory; the library then fails for every program of the process
# until that program is freed.
MEMORY = """
import resource, sys
import numpy as np
import onegraph as og
g = og.Graph()
x = g.input("x", og.f32, (None, 4096))
w = g.constant(np.eye(4096, dtype=np.float32))
g.output("y", g.relu(g.matmul(x, w, dtype="f32")))
model = g.compile(threads=1, finite_math=True)
x = np.ones((4, 4096), np.float32)
assert (model(x) == 1).all()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
y = np.ones((5, 4096), np.float32)
before = model.cache_info()
failed, kept = 0, []
for turn, spare in enumerate(4 * [1 << 23, 1 << 26]):
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, resource.RLIM_INFINITY))
    try:
        result = model.bind(x=y).run() if turn % 3 else model(y)
    except (MemoryError, og.OneGraphError) as error:
        failed += 1
        result = None
        if not turn % 3:
            kept.append(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert result is None or (result == 1).all()
    assert (model(x) == 1).all()
assert (model(y) == 1).all()
executors = {p.executor for p in model.report().partitions}
print("failed" if failed else "never failed", sorted(executors - {"copy", "kernel"}))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc, where Linux says how much memory is used")
@pytest.mark.skipif(SANITIZED, reason="the sanitizer needs more than any limit")
def test_model_works_after_execution_runs_out_of_memory():
    done = forked_python(MEMORY)
    assert done.returncode == 0, done.stderr
    # Without AVX-512 kernels may multiply by the constant where it lies, which needs no memory; nor does one not kept.
    hungry = og.capi.get_cpu_isa().startswith("avx512") and og.capi.get_constant_tensor_cache()
    assert done.stdout in (["failed ['oneDNN']\n"] if hungry else ["failed ['oneDNN']\n", "never failed ['oneDNN']\n"])


# Arrays that change while they are passed -----------------------------------------------------------------------------

COMMON = """
import gc, sys, threading, time, weakref
import numpy as np
import onegraph as og

def compiled(in_c=True):
    g = og.Graph()
    x, z = g.input("x", og.f32, (1 << 22,)), g.input("z", og.f32, (4,))
    g.output("y", g.relu(x))
    g.output("w", g.relu(z) if in_c else z)
    return g.compile(threads=1)

def refused(work):
    try:
        work()
    except (ValueError, og.ArgumentError):
        return True

big, small = np.ones(1 << 22, "f4"), np.ones(4, "f4")
"""

CHANGES = {
    "the base of a view, during a call": """
n = 1024
g = og.Graph()
x = g.input("x", og.f32, (n, n))
g.output("y", g.matmul(x, g.matmul(x, x)))
model = g.compile(threads=1)

def resize():
    while not weakref.getweakrefcount(base) and not ended:  # by which the call keeps it
        time.sleep(0.001)
    answers.append(ended or refused(lambda: base.resize(1, refcheck=False)))

for lend in (np.asarray, memoryview, memoryview):
    base, ended, answers = np.ones(n * n, "f4"), False, []
    view = lend(base.reshape(n, n))
    thread = threading.Thread(target=resize)
    thread.start()
    assert model(view)[-1, -1] == n * n
    ended = True
    thread.join()
    assert answers == [True]
""",
    "the base of what is bound": """
for lend in (np.asarray, lambda array: array[:], memoryview, lambda array: memoryview(array[:]), np.frombuffer):
    big = np.ones(1 << 22, "f4")
    lent = lend(big) if lend is not np.frombuffer else np.frombuffer(big, "f4")
    run = compiled().bind(x=lent, z=small)
    assert refused(lambda: big.resize(1, refcheck=False))
    assert run().y.sum() == 1 << 22
    del run, lent
""",
    "an input, while another is converted": """
class Lazy:
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **_):
        big.resize(1, refcheck=False)
        return np.ones(4, "f4").__dlpack__()

for in_c in (True, False):
    model = compiled(in_c)
    for call in (lambda: model(big, Lazy()), lambda: model.bind(x=big, z=Lazy()), lambda: model.profile(big, Lazy())):
        big = np.ones(1 << 22, "f4")
        assert refused(call)
""",
    "an output, while another is converted": """
class Lazy:
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **_):
        out.resize(1, refcheck=False)
        return np.ones(4, "f4").__dlpack__()

for in_c in (True, False):
    model = compiled(in_c)
    for call in (lambda: model(big, small, out=[out, Lazy()]), lambda: model.bind(x=big, z=small, y=out, w=Lazy())):
        out = np.ones(1 << 22, "f4")
        assert refused(call)
""",
    "an input, by the garbage collector": """
g = og.Graph()
z, x = g.input("z", og.f32, (4,)), g.input("x", og.f32, (1 << 23,))
g.output("y", g.relu(x))
g.output("w", g.relu(z))
model = g.compile(threads=1)
big = np.ones(1 << 23, "f4")
model(small, big)
armed = False

def collected(phase, _):
    if armed and phase == "start":
        big.resize(1, refcheck=False)

gc.callbacks.append(collected)
sys.unraisablehook = lambda _: None  # numpy refuses to resize where the array is held
for count in range(1, 40):
    armed = False
    gc.collect()
    gc.disable()
    big = np.ones(1 << 23, "f4")
    armed = True
    gc.set_threshold(count)
    gc.enable()
    try:
        model(small, big)
    except og.ArgumentError:
        pass
""",
    "what a class says of an output": """
class Liar(np.ndarray):
    @property
    def strides(self):
        return (4 << 20, 4)

g = og.Graph()
g.output("y", g.relu(g.input("x", og.f32, (64, 64))), strides=(1 << 20, 1))
target = np.zeros((64, 64), "f4").view(Liar)
assert g.compile()(np.ones((64, 64), "f4"), out=target) is target
assert np.asarray(target).all()
""",
}


@pytest.mark.parametrize("change", CHANGES)
def test_arrays_that_change_during_the_call(change):
    in_a_process(COMMON + CHANGES[change])


def test_rejects_shapes_found_to_mismatch_while_running():
    g = og.Graph()
    x, u, q = g.input("x", og.f32, (4,)), g.input("u", og.f32, (None, None)), g.input("q", og.f32, (2,))
    at = g.gen_index(q, axis=0)
    y = g.op("DynamicReshape", [x, at], {"special_zero": True}, edition="legacy-1")
    g.output("z", g.add(y, u, auto_broadcast="none", name="sum"))
    model = g.compile()
    given = {"x": np.ones(4, F32), "q": np.zeros(2, F32)}
    for work in (model, lambda **arrays: og.reference.run(g, arrays)["z"]):
        assert work(**given, u=np.ones((4, 1), F32)).shape == (4, 1)
        for shape in ((4, 4), (3, 3), (4, 0)):
            with pytest.raises(og.SpecError, match=r"Add 'sum': src_1: shape .*as auto_broadcast is none"):
                work(**given, u=np.ones(shape, F32))


@pytest.mark.parametrize(
    ("shape", "arrays", "error", "text"),
    [
        ((3, 4), [np.ones((2, 3), F32), np.ones((5, 4), F32)], og.ArgumentError, r"inputs\[1\]: shape \(5, 4\)"),
        ((3, 4), [np.ones((2, 3), F32), None], og.ArgumentError, r"inputs\[1\]: None; expected .*shape=\(3, 4\)"),
        ((None, 4), [np.ones((2, 3), F32), np.ones((5, 4), F32)], og.SpecError, "weights: 5 rows .*expected 3"),
    ],
)
def test_reference_op_rejects_arrays_of_other_shapes(shape, arrays, error, text):
    g = og.Graph()
    g.matmul(g.input("x", og.f32, (2, 3)), g.input("w", og.f32, shape))
    with pytest.raises(error, match=text):
        og.reference.run_op(g.ops[0], arrays)


class Apart(np.ndarray):
    """An array subclass that denies sharing memory."""

    def __array_function__(self, function, types, arguments, keywords):
        return False


def test_finds_shared_memory_of_array_subclasses(model):
    given = arrays()
    target = given["a"].view(Apart)
    for call in (lambda: model.bind(**given, total=target), lambda: model(**given, out={"total": target})):
        with pytest.raises(og.ArgumentError, match="output 'total' shares memory with 'a'"):
            call()


@pytest.mark.parametrize("inputs", [(), ("b",)], ids=["in C", "copied outside"])
def test_bound_array_reinterpreted_in_place(inputs):
    g = og.Graph()
    a, b = g.input("a", og.f32, SHAPE), g.input("b", og.f32, SHAPE)
    g.output("total", g.add(a, b))
    for name in inputs:
        g.output("copy", {"a": a, "b": b}[name])
    given, target = arrays(), np.zeros(SHAPE, F32)
    run = g.compile().bind(**given, total=target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy discourages setting these attributes
        given["b"].dtype = np.int32
        target.shape = (2, 6)
    run()
    assert (target == 8).all()
    if inputs:
        assert (run.outputs["copy"] == 2).all()


# Resized, replaced and copied arrays ----------------------------------------------------------------------------------


def relu(size=4, strides=None):
    graph = og.Graph()
    graph.output(
        "y", graph.relu(graph.input("x", "f32", size if isinstance(size, tuple) else (size,), strides=strides))
    )
    return graph.compile()


def alone(code):
    """Run ``code`` in another process, because a failure may be a signal."""
    return forked_python("import numpy as np, onegraph as og\n" + textwrap.dedent(code))


class Pretender:
    """Claims the class ndarray, and gives a new array on each request."""

    __class__ = np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.zeros(4, F32)


def test_rejects_objects_that_pretend_to_be_arrays():
    model = relu()
    with pytest.raises(og.ArgumentError, match=r"'y'.*Pretender"):
        model(np.ones(4, F32), out=Pretender())
    with pytest.raises(og.ArgumentError, match=r"'x'.*Pretender"):
        model(Pretender())
    with pytest.raises(og.ArgumentError, match=r"'y'.*Pretender"):
        model.bind(x=np.ones(4, F32), y=Pretender())


class Sub(np.ndarray):
    pass


@pytest.mark.parametrize("kind", ["array", "subclass", "view"])
def test_bound_arrays_cannot_be_resized(kind):
    whole = np.ndarray.__new__(Sub if kind == "subclass" else np.ndarray, (8,), F32)
    whole[:] = 2
    run = relu(8).bind(x=whole[:] if kind == "view" else whole)
    with pytest.raises(ValueError, match="resize"):
        whole.resize(2, refcheck=False)
    assert (run.run() == 2).all()


@pytest.mark.parametrize("by_numpy", [False, True])
def test_rejects_bound_arrays_with_replaced_memory(by_numpy):
    graph = og.Graph()
    x = graph.input("x", "f32", (8,))
    graph.output("y", graph.op("Pow", [x], {"beta": 1.7}) if by_numpy else graph.relu(x))
    array = np.full(8, 2, F32)
    run = graph.compile().bind(x=array)
    before = run.run().copy()
    array.__setstate__((1, (1,), np.dtype(F32), False, b"\0" * 4))
    with pytest.raises(og.StateError, match="other memory"):
        run.run()
    assert before[0] > 1


def test_constants_cannot_be_resized():
    graph, array = og.Graph(), np.full(8, 3, F32)
    graph.output("y", graph.add(graph.input("x", "f32", (8,)), graph.constant(array, copy=False)))
    for owner in (graph, graph.compile(), pickle.loads(pickle.dumps(graph))):
        assert owner is not None
        with pytest.raises(ValueError, match="resize"):
            array.resize(2, refcheck=False)
    model = graph.compile()
    del graph
    with pytest.raises(ValueError, match="resize"):
        array.resize(2, refcheck=False)
    assert (model(np.ones(8, F32)) == 4).all()


def test_only_bind_creates_bound_runs():
    run = relu().bind(x=np.ones(4, F32))
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="bind the arrays again"):
            make(run)
    with pytest.raises(TypeError, match="bind"):
        type(run)()
    with pytest.raises(TypeError, match="bind"):
        run.__init__()
    done = alone("""
        from types import SimpleNamespace as S
        g = og.Graph()
        g.output("y", g.relu(g.input("x", "f32", (4,))))
        run = g.compile().bind(x=np.ones(4, np.float32))
        try:
            type(run)(S(in_c=True, owner_thread=None), S(plan=S(number=8)), {}, {}, None, None).run()
        except TypeError:
            print("refused")
        try:
            type(run).__new__(type(run)).run()
        except og.StateError:
            print("refused")
    """)
    assert (done.returncode, done.stdout) == (0, "refused\nrefused\n"), done.stderr


def test_rejects_output_over_a_copied_input():
    model, x = relu((2, 3), strides=(1, 2)), -np.ones((2, 3), F32)
    with pytest.raises(og.ArgumentError, match="shares memory with 'x'"):
        model(x, out=x)
    with pytest.raises(og.ArgumentError, match="shares memory with 'x'"):
        model(x=x, out={"y": x})
    assert (x == -1).all()
    assert (model(x, out=np.empty((2, 3), F32)) == 0).all()
    assert model.copies == 3  # refused calls count too


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.int8])
def test_strided_inputs_of_types_foreign_to_numpy(dtype):
    graph = og.Graph()
    zps = {"zps": [0]} if dtype is np.int8 else {}
    graph.output("y", graph.dequantize(graph.input("x", dtype, (2, 3), strides=(1, 2)), scales=[0.5], **zps))
    given = np.arange(6).reshape(2, 3).astype(dtype)
    assert (graph.compile()(given) == np.arange(6).reshape(2, 3) / 2).all()


LIST, TWO = "a list", ("a", "b")
# Functions that examine one argument, what else they get, a value, and what they return or say of it.
ARGUMENTS = [
    (validation.choice, (TWO,), "b", "b"),
    (validation.choice, (TWO,), "ab", "x: 'ab'; expected one of 'a', 'b'"),
    (validation.choice, (TWO,), None, "x: None; expected one of 'a', 'b'"),
    (validation.string, (), "s", "s"),
    (validation.string, (), 1, "x: 1; expected a string"),
    (validation.string, (LIST,), 1, "x: 1; expected a list"),
    (validation.flag, (), False, False),
    (validation.flag, (), 1, "x: 1; expected True or False"),
    (validation.expect, (int,), 3, None),
    (validation.expect, (int,), "s", "x: 's'; expected a int"),
    (validation.expect, (ArithmeticError,), "s", "x: 's'; expected an ArithmeticError"),
    (validation.expect, (int, LIST), "s", "x: 's'; expected a list"),
    (validation.function, (), len, None),
    (validation.function, (), 1, "x: 1; expected a function"),
    (validation.callback, (), len, len),
    (validation.callback, (), 1, "x: 1; expected a function"),
    (validation.as_list, (int,), (1, 2), [1, 2]),
    (validation.as_list, (int,), 1, "x: 1; expected a list of int objects"),
    (validation.as_list, (int, LIST), "s", "x: 's'; expected a list"),
    (validation.as_list, (int,), [1, "s"], "x[1]: 's'; expected a int"),
    (validation.as_dict, (LIST,), {"a": 1}, {"a": 1}),
    (validation.as_dict, (LIST,), [], "x: []; expected a list"),
    (validation.integer, (1, 3), 1, 1),
    (validation.integer, (1, 3), 3, 3),
    (validation.integer, (1, 3), 0, "x: 0; expected an integer, 1 to 3"),
    (validation.integer, (1, 3), 4, "x: 4; expected an integer, 1 to 3"),
    (validation.integer, (1, 3), 2.0, "x: 2.0; expected an integer, 1 to 3"),
    (validation.integer, (1, 3, LIST), None, "x: None; expected a list"),
    (validation.number, (0.5, 3), 0.5, 0.5),
    (validation.number, (0.5, 3), 3, 3.0),
    (validation.number, (0.5, 3), 0.4, "x: 0.4; expected a number, 0.5 to 3"),
    (validation.number, (0.5, 3), 3.1, "x: 3.1; expected a number, 0.5 to 3"),
    (validation.number, (0.5, 3), "1", "x: '1'; expected a number, 0.5 to 3"),
    (validation.identifier, (), 0, 0),
    (validation.identifier, (), 2**64 - 2, 2**64 - 2),
    (validation.identifier, (), -1, "x: -1; expected an integer, 0 to 2**64 - 2"),
    (validation.identifier, (), 2**64 - 1, f"x: {2**64 - 1}; expected an integer, 0 to 2**64 - 2"),
]


@pytest.mark.parametrize(("function", "more", "value", "wanted"), ARGUMENTS)
def test_single_arguments_are_returned_or_refused(function, more, value, wanted):
    try:
        found = function("x", value, *more)
    except og.ArgumentError as error:
        found = str(error)
    assert found == wanted
    assert type(found) is type(wanted)


def test_none_is_a_function_that_does_nothing():
    assert validation.callback("x", None)(1, a=2) is None


class Word(str):
    __slots__ = ()

    def __eq__(self, other):
        return False

    __hash__ = str.__hash__


# Functions that read a value of any type, values, and what is read.
READ = [
    (exact_types.whole, 3, 3),
    (exact_types.whole, np.int8(-3), -3),
    (exact_types.whole, np.uint64(2**64 - 1), 2**64 - 1),
    (exact_types.whole, True, None),
    (exact_types.whole, np.bool_(True), None),
    (exact_types.whole, np.timedelta64(3), None),
    (exact_types.whole, 3.0, None),
    (exact_types.whole, "3", None),
    (exact_types.real, 3, 3.0),
    (exact_types.real, np.float32(0.5), 0.5),
    (exact_types.real, 10**400, float("inf")),
    (exact_types.real, True, None),
    (exact_types.real, np.timedelta64(3), None),
    (exact_types.real, 1j, None),
    (exact_types.text, "a", "a"),
    (exact_types.text, Word("a"), "a"),
    (exact_types.text, b"a", None),
    (exact_types.elements, [1, 2], [1, 2]),
    (exact_types.elements, (1, 2), [1, 2]),
    (exact_types.elements, range(2), None),
    (exact_types.entries, {"a": 1}, {"a": 1}),
    (exact_types.entries, {Word("a"): 1, 2: 3}, {"a": 1, 2: 3}),
    (exact_types.entries, [("a", 1)], None),
    (exact_types.plain, np.float32(0.5), 0.5),
    (exact_types.plain, np.bool_(True), True),
    (exact_types.plain, np.array(3), 3),
    (exact_types.plain, np.array([3, 4], np.int8), [3, 4]),
    (exact_types.plain, (1, np.int8(2), Word("a")), [1, 2, "a"]),
    (exact_types.plain, range(3), [0, 1, 2]),
    (exact_types.plain, b"a", "a"),
    (exact_types.plain, og.bf16.numpy.type(0.5), 0.5),
    (exact_types.plain, None, exact_types.NOT_PLAIN),
    (exact_types.plain, {}, exact_types.NOT_PLAIN),
]


@pytest.mark.parametrize(("function", "value", "wanted"), READ)
def test_values_are_read_by_their_real_type(function, value, wanted):
    found = function(value)
    assert type(found) is type(wanted)
    assert found == wanted
    if isinstance(found, list):
        assert [*map(type, found)] == [*map(type, wanted)]


def test_long_lists_are_read_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(exact_types, "MAX_LENGTH", 3)

    class Long(list):
        __slots__ = ()

    assert exact_types.elements(Long(range(9))) == [0, 1, 2, 3]
    assert exact_types.elements([*range(9)]) == [*range(9)]
