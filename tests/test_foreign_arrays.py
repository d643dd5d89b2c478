"""Arrays that are not what they say, or do not stay what they were."""

import copy
import pickle
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import onegraph as og

F32 = np.float32


def relu(size=4, strides=None):
    graph = og.Graph()
    graph.output(
        "y", graph.relu(graph.input("x", "f32", size if isinstance(size, tuple) else (size,), strides=strides))
    )
    return graph.compile()


def alone(code):
    """In a process of its own, as what is tested here once ended in signals."""
    code = "import numpy as np, onegraph as og\n" + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


class Pretender:
    """Says that it is an array, and gives a new one whenever it is asked."""

    __class__ = np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.zeros(4, F32)


def test_what_says_that_it_is_an_array():
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
def test_bound_arrays_that_take_other_memory(by_numpy):
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


def test_a_bound_run_is_made_by_bind():
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


def test_an_output_over_an_input_that_is_copied():
    model, x = relu((2, 3), strides=(1, 2)), -np.ones((2, 3), F32)
    with pytest.raises(og.ArgumentError, match="shares memory with 'x'"):
        model(x, out=x)
    with pytest.raises(og.ArgumentError, match="shares memory with 'x'"):
        model(x=x, out={"y": x})
    assert (x == -1).all()
    assert (model(x, out=np.empty((2, 3), F32)) == 0).all()
    assert model.copies == 3  # those of the refused calls, too


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.int8])
def test_strided_inputs_of_types_that_numpy_has_not(dtype):
    graph = og.Graph()
    zps = {"zps": [0]} if dtype is np.int8 else {}
    graph.output("y", graph.dequantize(graph.input("x", dtype, (2, 3), strides=(1, 2)), scales=[0.5], **zps))
    given = np.arange(6).reshape(2, 3).astype(dtype)
    assert (graph.compile()(given) == np.arange(6).reshape(2, 3) / 2).all()
