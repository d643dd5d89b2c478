"""Tests of partitions that are compiled together, after the steps of a graph are known."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import onegraph as og

pytestmark = pytest.mark.library


def layers(count, seed=0):
    """Layers with the same ops and weights of their own, in two sizes, and a sum that no product takes in."""
    rng = np.random.default_rng(seed)
    g = og.Graph()
    x = y = g.input("x", og.f32, (32, 48))
    for _ in range(count):
        for size in (64, 48):
            weights = rng.standard_normal((y.shape[1], size)).astype(np.float32) / 8
            y = g.relu(y @ weights + rng.standard_normal(size).astype(np.float32))
    g.output("y", g.softmax(y + x, axis=1))
    g.output("z", g.exp(y))
    return g


def inputs(seed=1):
    return np.random.default_rng(seed).standard_normal((32, 48)).astype(np.float32)


@pytest.mark.parametrize("count", [2, 4])
def test_results_do_not_depend_on_the_compiling_threads(monkeypatch, count):
    from onegraph.compiler import library_steps as compiling

    original, most, x = compiling.compile_postponed, [], inputs()

    def compiled(groups, given):
        most.append(given)
        return original(groups, 1 if len(most) == 1 else given)

    monkeypatch.setattr(compiling, "compile_postponed", compiled)
    graph = layers(6)
    alone, together = graph.compile(threads=count), graph.compile(threads=count)
    assert most == [count, count]
    assert [result.tobytes() for result in alone(x)] == [result.tobytes() for result in together(x)]
    assert np.allclose(together(x).y, og.reference.run(graph, {"x": x})["y"], atol=1e-5)


def test_threads_of_the_caller_stay():
    before = og.get_num_threads()
    with og.num_threads(3):
        layers(2).compile()
        assert og.get_num_threads() == 3
    assert og.get_num_threads() == before


@pytest.fixture
def attempts(monkeypatch):
    """For each attempt to compile a graph, whether partitions are postponed."""
    from onegraph.compiler import compile as compiling

    found: list[bool] = []
    original = compiling._StepCompiler.__init__

    def counted(self, *args, postpones, **options):
        found.append(postpones)
        original(self, *args, postpones=postpones, **options)

    monkeypatch.setattr(compiling._StepCompiler, "__init__", counted)
    return found


def test_compiles_in_one_attempt(attempts):
    layers(3).compile()
    assert attempts == [True]


def test_compiles_in_order_if_the_library_refuses_a_partition(monkeypatch, attempts):
    from onegraph.compiler import library_steps as compiling
    from onegraph.native.library import lib

    original, x = compiling.compile_postponed, inputs()
    expected = [result.tobytes() for result in layers(3).compile()(x)]
    attempts.clear()

    def refused(groups, most):
        statuses = original(groups, most)
        return [lib.dnnl_unimplemented, *statuses[1:]] if len(attempts) == 1 else statuses

    monkeypatch.setattr(compiling, "compile_postponed", refused)
    model = layers(3).compile()
    assert attempts == [True, False]
    assert [result.tobytes() for result in model(x)] == expected


def test_compiles_in_order_if_the_library_infers_another_shape(monkeypatch, attempts):
    from onegraph.compiler import partition_cache

    original, x = partition_cache.Pattern.settle, inputs()
    expected = [result.tobytes() for result in layers(2).compile()(x)]
    attempts.clear()

    def settle(self):
        if len(attempts) == 1:
            raise og.UnsupportedError("the library infers (1,) for y, not (2,)")
        original(self)

    monkeypatch.setattr(partition_cache.Pattern, "settle", settle)
    model = layers(2).compile()
    assert attempts == [True, False]
    assert [result.tobytes() for result in model(x)] == expected


def test_lack_of_memory_is_raised(monkeypatch, attempts):
    from onegraph.compiler import library_steps as compiling
    from onegraph.native.library import lib

    def failed(groups, most):
        return [lib.dnnl_out_of_memory for _ in groups]

    monkeypatch.setattr(compiling, "compile_postponed", failed)
    with pytest.raises(og.OutOfMemoryError):
        layers(2).compile()
    assert attempts == [True, False]


def test_threads_compile_at_the_same_time():
    x, wrong = inputs(), []
    expected = [[result.tobytes() for result in layers(3, seed).compile()(x)] for seed in range(4)]

    def work(seed):
        for _ in range(5):
            results = [result.tobytes() for result in layers(3, seed).compile()(x)]
            wrong.extend([seed] * (results != expected[seed]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_cached_partitions_of_equal_layers_are_all_compiled(attempts):
    before = og.capi.get_compiled_partition_cache_capacity()
    og.capi.set_compiled_partition_cache_capacity(1024)
    try:
        graph, x = layers(4), inputs()
        assert np.allclose(graph.compile()(x).y, og.reference.run(graph, {"x": x})["y"], atol=1e-5)
        assert attempts == [True]
    finally:
        og.capi.set_compiled_partition_cache_capacity(before)


@pytest.mark.parametrize(
    ("keeps", "changes", "capacity", "wanted"),
    [
        (False, (1, 1), 0, [(False, True)]),
        (False, (1, 2), 0, [(False, True), (True, True)]),
        (False, (1, 1), 8, [(False, True), (True, True)]),
        (True, (1, 2), 8, [(True, True)]),
    ],
)
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_cache_that_came_on_meanwhile_is_heeded(monkeypatch, keeps, changes, capacity, wanted, is_refused):
    from onegraph.compiler import compile as compiling
    from onegraph.compiler.lower import lower

    made, counts = [], iter(changes)

    class Compiler:
        def __init__(self, *_, keeps, postpones, **__):
            made.append((keeps, postpones))

        def run(self, _):
            return None if is_refused and made[-1][1] else made[-1]

    monkeypatch.setattr(compiling, "_StepCompiler", Compiler)
    monkeypatch.setattr(compiling, "library_keeps", lambda: keeps)
    monkeypatch.setattr(compiling, "compiled_partition_cache_changes", lambda: next(counts))
    monkeypatch.setattr(compiling, "get_compiled_partition_cache_capacity", lambda: capacity)
    found = compiling.compile_steps(lower(layers(1)), policy="fusion", fpmath_mode="strict", share=False)
    assert made == [each for one in wanted for each in ([one, (one[0], False)] if is_refused else [one])]
    assert found == made[-1]


@pytest.mark.parametrize("capacity", [0, 1])
@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_the_library_keeps_constants_by_its_caches(monkeypatch, capacity, hashes, keeps):
    from onegraph.compiler import compile as compiling

    monkeypatch.setattr(compiling, "get_compiled_partition_cache_capacity", lambda: capacity)
    monkeypatch.setattr(compiling, "HASHES_CONSTANTS", hashes)
    monkeypatch.setattr(compiling, "programs_keep_constants", lambda: keeps)
    assert compiling.library_keeps() is (capacity > 0 or (hashes and keeps))
