"""Whatever an executable has compiled or opened is freed with it, and does not wait for the garbage collector.

Python's collector counts objects, and not the memory of weights and kernels that they hold.
"""

import gc
import os
import weakref

import numpy as np
import pytest
from helpers.called_graphs import CALLED, F32, counted

import onegraph as og
from onegraph.compiler.ir.step import Step

pytestmark = pytest.mark.library


@pytest.fixture(name="collector")
def paused_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def sizes(arrays):
    """The arrays, and further ones with other sizes of their first axes."""
    return [arrays, *[[np.repeat(array, times, 0) if array.ndim else array for array in arrays] for times in (2, 3)]]


def steps_alive():
    """The number of steps of programs that exist."""
    return sum(type(one) is Step for one in gc.get_objects())


@pytest.mark.parametrize("make", CALLED, ids=[make.__name__ for make in CALLED])
def test_programs_are_freed_with_their_executable(make, collector):
    graph, arrays, *options = make()
    model = graph.compile(**(options[0] if options else {}))
    is_open = any(None in tensor.shape for tensor in graph.inputs.values())
    for one in sizes(arrays) if is_open and len(arrays) == 1 else [arrays] * 3:
        model(*one)
    model.report()
    programs = [entry.program for entry in model._programs.cache.entries.values()]
    found = [*map(weakref.ref, [model._programs, *programs])]
    del model, programs
    assert [one() for one in found] == [None] * len(found)


def test_reports_leave_no_steps(collector):
    """The types of operands are those before their casts, which a report asks of each step."""
    before = steps_alive()
    g = og.Graph()
    x = g.dequantize(g.input("x", og.u8, (2, 8)), scales=[0.5], zps=[3], qtype="per_tensor")
    g.output("y", g.matmul(x, g.constant(np.ones((8, 8), F32))))
    model = g.compile()
    model(counted(2, 8, dtype=np.uint8))
    assert "f32" in str(model.report())
    assert steps_alive() > before
    del g, x, model
    assert steps_alive() == before


@pytest.fixture(name="onnx")
def module_onnx():
    pytest.importorskip("onnx", reason="onnx is not installed")
    import onegraph.onnx

    return onegraph.onnx


def products(number):
    g = og.Graph()
    constant = g.constant(np.full((64, 64), number, F32))
    g.output("y", g.relu(g.matmul(g.input("x", og.f32, (4, 64)), constant)))
    return g, weakref.ref(constant.value.base)  # each ``value`` is a view of its own


@pytest.mark.parametrize("kind", ["model.onnx", "graph.json", "executable.onegraph"])
def test_files_of_replaced_models_are_closed(kind, onnx, collector, tmp_path):
    og.set_cache_folder(tmp_path / "cache")
    path, counts = tmp_path / kind, list[int]()
    try:
        for number in (1, 2, 3, 4, 4, 5):
            graph, _ = products(number)
            if kind == "model.onnx":
                onnx.save(graph, path)
                model = onnx.load(path).compile()
            elif kind == "graph.json":
                graph.save(path)
                model = og.Graph.load(path).compile()
            else:
                graph.compile().save(path)
                model = og.load(path)
            assert model(np.ones((4, 64), F32))[0, 0] == 64 * number
            del model
            counts.append(len(os.listdir("/proc/self/fd")))
    finally:
        og.set_cache_folder(None)
    assert counts == counts[:1] * len(counts)


def test_saving_a_model_frees_its_weights(onnx, collector, tmp_path):
    graph, weights = products(1)
    onnx.save(graph, tmp_path / "model.onnx")
    assert weights() is not None
    del graph
    assert weights() is None
