"""Sizes that change: programs of one executable share what no size reaches, and compute what known dims compute."""

import numpy as np
import pytest
from helpers.executables import at_once
from helpers.open_graphs import (
    IMAGES,
    MATRICES,
    OF_MATRICES,
    assert_same,
    drawn,
    layers,
    normalized,
    opened,
    product,
    two_products,
)

import onegraph as og
from onegraph.capi import CompiledPartition
from onegraph.capi import graph as capi_graph
from onegraph.capi.caches import get_compiled_partition_cache_capacity, set_compiled_partition_cache_capacity
from onegraph.compiler.rounded_rows import rounded_count
from onegraph.native.library import HASHES_CONSTANTS

SIZES = (3, 5, 1, 7, 5, 64, 33, 2)


def filters(monkeypatch):
    """How often the library has searched a graph for partitions."""
    searches, search = [], capi_graph.Graph._partitions

    def counted(self, policy):
        searches.append(policy)
        return search(self, policy)

    monkeypatch.setattr(capi_graph.Graph, "_partitions", counted)
    return searches


@pytest.mark.parametrize(
    ("build", "shape"),
    [(build, (None, 16)) for build in MATRICES]
    + [(build, (2, None, 16)) for build in MATRICES if build not in OF_MATRICES],
    ids=lambda value: getattr(value, "__name__", str(len(value)) if isinstance(value, tuple) else ""),
)
def test_each_size_computes_what_known_dims_compute(build, shape):
    model = opened(build, shape).compile()
    for size in SIZES:
        x = drawn(*(size if dim is None else dim for dim in shape), seed=size)
        assert_same(model(x), opened(build, x.shape).compile()(x), model)


@pytest.mark.parametrize("build", IMAGES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("shape", [(None, 4, 8, 8), (1, 4, None, None)], ids=["batch", "image"])
def test_each_image_size_computes_what_known_dims_compute(build, shape):
    model = opened(build, shape).compile()
    for size in SIZES:
        x = drawn(*(max(size, 2) if dim is None else dim for dim in shape), seed=size)
        assert_same(model(x), opened(build, x.shape).compile()(x), model)


def test_further_sizes_search_no_graph_for_fusions(monkeypatch):
    model = opened(normalized, (None, 16)).compile()
    for size in (3, 5, 6, 8):
        model(drawn(size, 16))
    searches = filters(monkeypatch)
    model(drawn(7, 16))
    assert searches == []


def test_partitions_that_no_size_reaches_are_shared():
    g = og.Graph()
    x, past = g.input("x", og.f32, (17000, 16)), g.input("past", og.f32, (None, 16))
    g.output("y", g.matmul(x, g.constant(drawn(16, 24))))
    g.output("z", g.softmax(past, axis=-1))
    model = g.compile(threads=1)
    programs = []
    for size in (3, 5, 7):
        model(drawn(17000, 16), drawn(size, 16))
        programs.append(model._programs.cache.latest().program)
    products = {
        id(step.compiled)
        for program in programs
        for step in program.steps
        if isinstance(step.compiled, CompiledPartition)
        and any(part.kind == "MatMul" for part in program.notes[step.note].steps)
    }
    assert len(products) == (len(programs) if HASHES_CONSTANTS else 1)


def test_shared_partitions_go_with_the_last_program():
    model = opened(product, (None, 16)).compile()
    model.cache_capacity = 1
    for size in (3, 5, 7):
        model(drawn(size, 16))
    (known,) = model._programs._shared.partitions._known.values()
    assert len(known.patterns) == len(model._programs.cache.latest().program._patterns)


def test_threads_compile_sizes_at_once():
    model = opened(two_products, (None, 16)).compile()
    results = at_once(4, lambda index: model(drawn(SIZES[index], 16)))
    for size, got in zip(SIZES, results, strict=False):
        known = opened(two_products, (size, 16)).compile()(drawn(size, 16))
        np.testing.assert_allclose(got, known, rtol=1e-5, atol=1e-5)


# Rounded rows ---------------------------------------------------------------------------------------------------------


def test_rows_are_rounded_by_an_eighth_at_most():
    for rows in range(1, 5000):
        count = rounded_count(rows)
        assert rows <= count <= max(rows * 9 / 8 + 1, rows + 3)
        assert rounded_count(count) == count
    assert len({rounded_count(rows) for rows in range(1, 1025)}) < 70


def compiled_of(model, kind):
    """The compiled partitions of the program that ran last whose steps have this kind."""
    program = model._programs.cache.latest().program
    steps = [step for step in program.steps if isinstance(step.compiled, CompiledPartition)]
    kinds = [[part.kind for part in program.notes[step.note].steps] for step in steps]
    return [step.compiled for step, names in zip(steps, kinds, strict=True) if kind in names]


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
def test_close_sizes_share_a_product_with_its_weights():
    model = opened(two_products, (None, 16)).compile(threads=1)
    seen = set()
    for size in (18432, 17000, 17500, 18000):  # for fewer rows than 2^14, a kernel takes any number
        x = drawn(size, 16)
        assert_same(model(x), opened(two_products, (size, 16)).compile()(x), model)
        seen.update(map(id, compiled_of(model, "MatMul")))
    assert len(seen) == 2
    assert "rows rounded up to 18432, so that other sizes share the partition" in str(model.report())


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
def test_few_programs_serve_a_stream_of_lengths():
    model = opened(two_products, (None, 16)).compile()
    lengths = [64, 63, 16, 128, 33, 31, 17, 127, 100, 32, 40, 48, 96, 20]
    for size in lengths:
        x = drawn(size, 16)
        assert_same(model(x), opened(two_products, (size, 16)).compile()(x), model)
    info = model.cache_info()
    # As wholes: the first one, and those whose steps are new.
    assert info.misses == len(lengths)
    assert info.misses - info.reused <= 3


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
def test_reports_say_for_which_sizes_partitions_were_compiled():
    graph, found = opened(two_products, (None, 16)), []
    model = graph.compile()
    for size in (18432, 17000, 19000, 20000):
        model(drawn(size, 16))
        report = model.report()
        found.append([partition.reason for partition in report.partitions if partition.executor == "oneDNN"])
    # The first one is compiled as a whole; 19,000 and 20,000 rows are 20,480.
    assert not any("sizes" in reason.replace("so that other sizes", "") for reason in found[0])
    assert all("compiled for these sizes" in reason for reason in found[1] + found[2])
    assert all("compiled for earlier sizes" in reason for reason in found[3])
    assert "compiled for earlier sizes" in og.view.page(graph, report)


def test_rows_behind_the_last_one_change_nothing():
    """What lies behind the rows may be NaN, or what an earlier call has left."""
    model = opened(normalized, (None, 16)).compile()
    for size, fill in ((37, np.nan), (33, np.inf), (35, 1e38), (34, 0.0)):
        x = drawn(size, 16)
        assert_same(model(x), opened(normalized, x.shape).compile()(x), model)
        frames = model._programs.cache.latest().program.free_frames
        for frame in frames:
            arena = frame.own_arena()
            arena[: arena.size // 4 * 4].view(np.float32)[:] = fill
        assert_same(model(x), opened(normalized, x.shape).compile()(x), model)


def test_rows_of_a_part_leave_the_whole_its_memory():
    """The product reads the first rows of a value that is longer than their rounded number."""
    graph, rng = og.Graph(), np.random.default_rng(4)
    x, shift = graph.input("x", og.f32, (None, 4, 8)), graph.constant(rng.standard_normal((4, 1)).astype(np.float32))
    scores = graph.softmax(graph.add(x, shift), axis=1)
    ends = [graph.constant(np.array([number]), dtype=og.s64) for number in (0, 100, 0)]
    first = graph.op("Slice", [scores, *ends], edition="host")
    graph.output("first", graph.matmul(first, graph.constant(rng.standard_normal((8, 8)).astype(np.float32))))
    graph.output("all", graph.softmax(graph.add(scores, graph.softmax(scores, axis=1)), axis=1))
    model, given = graph.compile(), rng.standard_normal((200, 4, 8)).astype(np.float32)
    for found, expected in zip(model(given), og.reference.run(graph, {"x": given}).values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_reproducible_results_need_no_more_rows():
    model = opened(two_products, (None, 16)).compile(reproducible=True)
    whole = model(drawn(37, 16))
    assert "rounded" not in str(model.report())
    np.testing.assert_array_equal(model(drawn(37, 16)[:5]), whole[:5])


def test_cached_partitions_of_layers_keep_their_own_weights():
    """The library's cache of compiled partitions would find prepared constants by the partition."""
    capacity = get_compiled_partition_cache_capacity()
    set_compiled_partition_cache_capacity(64)
    try:
        model = opened(layers, (None, 16)).compile()
        for size in (36, 33, 5, 34, 35, 64):
            x = drawn(size, 16)
            assert_same(model(x), opened(layers, x.shape).compile()(x), model)
    finally:
        set_compiled_partition_cache_capacity(capacity)
