"""Caches that grow: results of a step lie behind those of the step before, and belong to the caller all the same."""

import gc
import threading

import numpy as np
import pytest

import onegraph as og
import onegraph.onnx
from onegraph.errors import ArgumentError
from onegraph.native.library import HASHES_CONSTANTS
from onegraph.runtime import growing
from onegraph.runtime.growing import capacity_of

HEADS, SIZE = 3, 5
# Where tokens, heads and numbers of a head lie in a cache of one batch.
LAYOUTS = {"heads first": (0, 2, 1, 3), "tokens first": (0, 1, 2, 3), "keys as columns": (0, 2, 3, 1)}


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch):
    monkeypatch.setattr(growing, "SMALL", 0)


def shape_of(layout, batch, tokens):
    dims = batch, tokens, HEADS, SIZE
    return tuple(dims[axis] for axis in LAYOUTS[layout])


def decoder(layout="heads first", dtype=og.f32, batch=1, **options):
    """(past, new tokens) to (sums of all tokens, cache with the new tokens)."""
    g, order = og.Graph(), LAYOUTS[layout]
    past = g.input("past", dtype, shape_of(layout, batch, None))
    new = g.input("new", dtype, (batch, None, HEADS, SIZE))
    axis = order.index(1)
    turned = g.static_transpose(new, order=order) if order != (0, 1, 2, 3) else new
    present = g.concat(past, turned, axis=axis)
    wide = present if dtype is og.f32 else g.type_cast(present, dtype=og.f32)
    g.output("sums", g.reduce_sum(g.relu(wide), axes=(axis,), keep_dims=False))
    g.output("present", present)
    return g.compile(**options)


class Steps:
    """A generation, with numpy beside it."""

    def __init__(self, layout="heads first", dtype=og.f32, batch=1, **options):
        self.model = decoder(layout, dtype, batch, **options)
        self.layout, self.dtype, self.batch = layout, dtype.numpy, batch
        self.axis = LAYOUTS[layout].index(1)
        self.cache = np.zeros(shape_of(layout, batch, 0), self.dtype)
        self.known = self.cache.copy()
        self._rng = np.random.default_rng(0)

    def new(self, tokens=1):
        return self._rng.standard_normal((self.batch, tokens, HEADS, SIZE)).astype(self.dtype)

    def run(self, tokens=1):
        """One step; returns whether its cache lies in the memory of the one before."""
        before, new = self.cache, self.new(tokens)
        sums, self.cache = self.model(before, new)
        self.known = np.concatenate([self.known, new.transpose(LAYOUTS[self.layout])], self.axis)
        np.testing.assert_array_equal(self.cache, self.known)
        wanted = np.maximum(self.known.astype(np.float64), 0).sum(self.axis)
        np.testing.assert_allclose(sums, wanted, rtol=1e-5, atol=1e-5)
        return np.may_share_memory(before, self.cache)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", [og.f32, og.bf16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_steps_write_behind_the_tokens_before(layout, dtype, batch):
    steps = Steps(layout, dtype, batch)
    steps.run(9)
    shared = [steps.run(tokens) for tokens in (1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1)]
    assert not shared[0]  # the cache of the first call has no room
    assert shared.count(False) <= 2
    assert steps.cache.flags.writeable


def test_a_generation_needs_one_program_for_many_sizes():
    steps = Steps()
    for _ in range(60):
        steps.run()
    info = steps.model.cache_info()
    # Compiled as a whole: the first calls, and where the window of the sum over tokens has another power of 2.
    assert info.misses == 60
    assert info.misses - info.reused <= 12 or HASHES_CONSTANTS


@pytest.mark.parametrize("size", [3, 4, 16])
@pytest.mark.parametrize("dtype", [og.s8, og.u8, og.boolean, og.s32, og.s64], ids=str)
def test_caches_of_other_types_grow(dtype, size):
    g, rng = og.Graph(), np.random.default_rng(size)
    past, new = (g.input(name, dtype, (2, None, size)) for name in ("past", "new"))
    g.output("present", g.op("Concat", [past, new], {"axis": 1}, edition="host"))
    model, known = g.compile(), rng.integers(0, 2, (2, 2, size)).astype(dtype.numpy)
    cache = known
    for _ in range(6):
        new = rng.integers(0, 2, (2, 1, size)).astype(dtype.numpy)
        cache, known = model(cache, new), np.concatenate([known, new], 1)
        np.testing.assert_array_equal(cache, known)
    assert model.cache_info().grown == (0 if dtype is og.s64 else 5)  # numpy copies 64 bits


def extending(shape, rows):
    """(past, rows, lengths) to a cache with the rows at the end of so many tokens."""
    g = og.Graph()
    ends = [g.input("past", og.f32, shape), g.input("rows", og.f32, rows), g.input("lengths", og.s64, shape[:1])]
    g.output("present", g.op("ExtendCache", ends, {"room": 8}, edition="host"))
    return g.compile()


@pytest.mark.parametrize("tokens", [None, 12], ids=["open", "known"])
def test_rows_are_written_into_a_cache_of_the_caller(tokens):
    model, rng = extending((2, 3, tokens, 4), (2, 3, 2, 4)), np.random.default_rng(0)
    cache = rng.standard_normal((2, 3, 12, 4)).astype(np.float32)
    known = cache.copy()
    for lengths in ([2, 5], [4, 12], [1, 3]):
        rows = rng.standard_normal((2, 3, 2, 4)).astype(np.float32)
        for batch, length in enumerate(lengths):
            start = max(length - 2, 0)
            known[batch, :, start : start + 2] = rows[batch]
        assert model(cache, rows, np.array(lengths), out=cache) is cache
        np.testing.assert_array_equal(cache, known)


def test_a_cache_gets_room_for_rows_behind_its_tokens():
    model, rng = extending((1, 2, None, 4), (1, 2, 1, 4)), np.random.default_rng(0)
    buffer = np.full((1, 2, 32, 4), np.nan, np.float32)
    buffer[:, :, :5] = known = rng.standard_normal((1, 2, 5, 4)).astype(np.float32)
    rows = rng.standard_normal((1, 2, 1, 4)).astype(np.float32)
    wanted = np.concatenate([known, rows, np.zeros((1, 2, 2, 4), np.float32)], 2)
    model(buffer[:, :, :5], rows, np.array([6]), out=buffer[:, :, :8])
    np.testing.assert_array_equal(buffer[:, :, :8], wanted)
    assert np.isnan(buffer[:, :, 8:]).all()


def test_rows_are_not_written_where_others_read_the_past():
    g, shape = og.Graph(), (1, 2, 8, 4)
    past, rows = g.input("past", og.f32, shape), g.input("rows", og.f32, (1, 2, 1, 4))
    lengths = g.input("lengths", og.s64, (1,))
    g.output("present", g.op("ExtendCache", [past, rows, lengths], {"room": 8}, edition="host"))
    g.output("before", g.relu(past))
    model, cache, rows = g.compile(), np.ones(shape, np.float32), np.full((1, 2, 1, 4), 2, np.float32)
    with pytest.raises(ArgumentError, match="shares memory with 'past'"):
        model(cache, rows, np.array([3]), out={"present": cache})
    np.testing.assert_array_equal(cache, np.ones(shape))
    np.testing.assert_array_equal(model(cache, rows, np.array([3])).before, np.ones(shape))


def test_earlier_caches_keep_their_values():
    steps, kept = Steps(), []
    for _ in range(12):
        steps.run()
        kept.append((steps.cache, steps.known))
    for cache, known in kept:
        np.testing.assert_array_equal(cache, known)


def test_shared_memory_is_read_only_until_one_array_has_it():
    steps = Steps()
    for _ in range(3):
        steps.run()
    earlier = steps.cache
    assert steps.run()
    for array in (earlier, steps.cache):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    del array, earlier
    gc.collect()
    steps.cache += 1
    steps.known += 1
    assert steps.run()


@pytest.mark.parametrize("part", [np.s_[...], np.s_[:, :, :1], np.s_[0, 0, 0, :]], ids=["whole", "token", "row"])
def test_views_of_earlier_caches_are_left_alone(part):
    steps = Steps()
    for _ in range(3):
        steps.run()
    view, values = steps.cache[part], steps.known[part].copy()
    assert not steps.run()
    view[...] += 1  # as any result, it is the caller's own
    np.testing.assert_array_equal(view, values + 1)
    np.testing.assert_array_equal(steps.cache, steps.known)


def test_two_continuations_of_one_cache_differ():
    steps = Steps()
    for _ in range(4):
        steps.run()
    past, known = steps.cache, steps.known
    branches = []
    for _ in range(3):
        steps.cache, steps.known = past, known
        steps.run(2)
        branches.append((steps.cache, steps.known))
    for cache, values in branches:
        np.testing.assert_array_equal(cache, values)


def test_threads_may_continue_one_cache():
    steps = Steps()
    for _ in range(4):
        steps.run()
    past, known, found = steps.cache, steps.known, {}

    def branch(number):
        cache, values = past, known
        for token in range(20):
            new = np.full((1, 1, HEADS, SIZE), number * 100 + token, np.float32)
            cache = steps.model(cache, new).present
            values = np.concatenate([values, new.transpose(LAYOUTS["heads first"])], 2)
        found[number] = cache, values

    threads = [threading.Thread(target=branch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache, values in found.values():
        np.testing.assert_array_equal(cache, values)


def test_shorter_and_changed_caches_are_continued():
    steps = Steps()
    for _ in range(9):
        steps.run()
    steps.cache, steps.known = steps.cache[:, :, :4], steps.known[:, :, :4]
    assert steps.run()
    steps.cache[:, 1] = steps.known[:, 1] = 3
    assert steps.run()
    steps.cache, steps.known = steps.cache[:, :, 2:], steps.known[:, :, 2:]
    assert not steps.run()
    steps.cache = steps.cache.copy()
    assert not steps.run()


def test_one_array_for_two_caches_grows_apart():
    g = og.Graph()
    pasts = [g.input(name, og.f32, (2, None, 4)) for name in ("k", "v")]
    new = g.input("new", og.f32, (2, None, 4))
    for name, past, factor in zip(("keys", "values"), pasts, (1.0, 2.0), strict=True):
        g.output(name, g.concat(past, g.multiply(new, g.constant(np.float32(factor))), axis=1))
    model, ones = g.compile(), np.ones((2, 1, 4), np.float32)
    k = np.zeros((2, 8, 4), np.float32)
    for _ in range(3):
        k = model(k, k, ones).keys
    keys, values = model(k, k, ones)
    np.testing.assert_array_equal(values[:, -1], np.full((2, 4), 2))
    np.testing.assert_array_equal(keys[:, -1], np.ones((2, 4)))
    np.testing.assert_array_equal(keys[:, :-1], values[:, :-1])


# Memory of the caller -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["call", "bind"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_steps_write_into_a_buffer_of_the_caller(layout, way):
    steps = Steps(layout, batch=2 if layout != "tokens first" else 1)
    buffer = np.full(shape_of(layout, steps.batch, 64), np.nan, np.float32)
    rows, known = np.moveaxis(buffer, steps.axis, 0), steps.known
    for start in range(6):
        past, present = (np.moveaxis(rows[:stop], 0, steps.axis) for stop in (start, start + 1))
        new = steps.new()
        if way == "call":
            sums = steps.model(past, new, out={"present": present}).sums
        else:
            sums = steps.model.bind(past, new, present=present).run().sums
        known = np.concatenate([known, new.transpose(LAYOUTS[layout])], steps.axis)
        np.testing.assert_array_equal(present, known)
        np.testing.assert_allclose(sums, np.maximum(known, 0).sum(steps.axis), rtol=1e-5, atol=1e-5)
        assert np.isnan(rows[start + 1 :]).all()
    assert not steps.model.copies


@pytest.mark.parametrize("way", ["call", "bind"])
def test_other_shared_memory_is_refused(way):
    model, buffer = decoder(), np.zeros((1, HEADS, 64, SIZE), np.float32)
    new = np.ones((1, 1, HEADS, SIZE), np.float32)

    def run(past, present):
        if way == "call":
            return model(past, new, out={"present": present})
        return model.bind(past, new, present=present).run()

    with pytest.raises(ArgumentError, match="shares memory with 'past'"):
        run(buffer[:, :, 1:5], buffer[:, :, :5])
    with pytest.raises(ArgumentError, match="shares memory with 'past'"):
        run(buffer[:, :, :4], buffer[:, :, 1:6])
    other = np.zeros((1, HEADS, 32, SIZE), np.float32)
    with pytest.raises(ArgumentError, match="not C-contiguous, and not of the strides"):
        run(buffer[:, :, :4], other[:, :, :5])


def test_only_what_begins_with_an_input_may_lie_over_it():
    g = og.Graph()
    past, new = (g.input(name, og.f32, (1, None, 4)) for name in ("past", "new"))
    g.output("present", g.concat(new, past, axis=1))
    model, buffer = g.compile(), np.zeros((1, 8, 4), np.float32)
    with pytest.raises(ArgumentError, match="shares memory with 'past'"):
        model(buffer[:, :3], np.ones((1, 1, 4), np.float32), out=buffer[:, :4])


# Caches that are bound once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_bound_run_serves_all_lengths(layout, batch):
    steps = Steps(layout, batch=batch)
    cache = og.Cache(steps.cache, 24, steps.axis)
    prompt, token = steps.new(7), steps.new(1)
    runs = [steps.model.bind(past=cache, new=prompt), *[steps.model.bind(past=cache, new=token)] * 12]
    known = cache.array.copy()
    for run in runs:
        new = prompt if run is runs[0] else token
        new[...] = steps.new(new.shape[1])
        known = np.concatenate([known, new.transpose(LAYOUTS[layout])], steps.axis)
        sums, present = run()
        np.testing.assert_array_equal(present, known)
        np.testing.assert_allclose(sums, np.maximum(known, 0).sum(steps.axis), rtol=1e-5, atol=1e-5)
        assert np.may_share_memory(present, cache.array)
        assert len(cache) == cache.length == known.shape[steps.axis]
    np.testing.assert_array_equal(run.outputs["present"], known)
    assert not steps.model.copies
    assert "float32" in repr(cache)
    assert "19 of 24 tokens" in repr(cache)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_warmed_up_runs_compile_nothing(layout, batch):
    steps = Steps(layout, batch=batch)
    cache = og.Cache(steps.cache, 12, steps.axis)
    run = steps.model.bind(past=cache, new=steps.new(2))
    run.warm_up(4)
    made = steps.model.cache_info().misses
    assert (made, cache.length) == (4, 0)
    for _ in range(4):
        run()
    assert steps.model.cache_info().misses == made
    run.warm_up(100)  # the cache has room for two runs more
    run(), run()
    assert steps.model.cache_info().misses <= made + 3
    with pytest.raises(ArgumentError, match="a run makes 14 tokens"):
        run()
    with pytest.raises(ArgumentError, match="runs: 0"):
        run.warm_up(0)


def test_a_cache_forgets_tokens_and_is_full_at_its_capacity():
    steps = Steps()
    cache, sums = og.Cache(np.zeros((1, HEADS, 0, SIZE), np.float32), 9), np.zeros((1, HEADS, SIZE), np.float32)
    token = np.ones((1, 1, HEADS, SIZE), np.float32)
    run = steps.model.bind(cache, token, sums=sums)
    for _ in range(9):
        assert run.run().sums is sums
    with pytest.raises(ArgumentError, match=r"'past': a run makes 10 tokens; 9 of 9 tokens are in use"):
        run()
    assert len(cache) == 9
    cache.length = 4
    assert run().present.shape == (1, HEADS, 5, SIZE)
    np.testing.assert_array_equal(sums, np.full_like(sums, 5))
    cache.length = 9  # what was written before
    np.testing.assert_array_equal(cache.array, np.ones((1, HEADS, 9, SIZE)))
    for length in (10, -1, 2.5):
        with pytest.raises(ArgumentError, match=r"length: .* expected an integer, 0 to the 9 written tokens"):
            cache.length = length


def test_caches_that_do_not_fit_are_refused():
    g = og.Graph()
    pasts = [g.input(name, og.f32, (2, None, 4)) for name in ("k", "v")]
    new = g.input("new", og.f32, (2, None, 4))
    for name, past in zip(("keys", "values"), pasts, strict=True):
        g.output(name, g.concat(past, new, axis=1))
    model, ones, past = g.compile(), np.ones((2, 1, 4), np.float32), np.zeros((2, 3, 4), np.float32)
    k, v = og.Cache(past, 8), og.Cache(past, 8)
    for given, message in [
        ({"k": k, "v": past}, "'v': .*expected a Cache, as the others are"),
        ({"k": k, "v": k}, "a Cache is bound to two inputs"),
        ({"k": k, "v": og.Cache(past, 9)}, "different capacities"),
        ({"k": k, "v": og.Cache(past, 8, axis=0)}, "'v': a Cache along axis 0; expected axis 1"),
        ({"k": k, "v": v, "values": past}, "'values' lies in the Cache 'v'"),
        ({"k": k, "v": v, "new": og.Cache(ones, 8)}, "'new' is a Cache, but no output begins with it"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            model.bind(**{"new": ones, **given})
    with pytest.raises(ArgumentError, match="capacity: 2; expected an integer from the 3 tokens of 'past' on"):
        og.Cache(past, 2)
    model.bind(k, v, ones).run()
    assert (len(k), len(v)) == (4, 4)


def grouped_attention(tokens=1, heads=4, pairs=2, size=8):
    """An ONNX decoder as exporters write it: lengths and the total are computed of a mask over all tokens."""
    onnx = pytest.importorskip("onnx")
    node, value, f32 = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [
        node("Shape", ["mask"], ["dims"]),
        node("Gather", ["dims", "last"], ["total"]),
        node("Cast", ["total"], ["total32"], to=onnx.TensorProto.INT32),
        node("ReduceSum", ["mask", "axes"], ["counts"], keepdims=0),
        node("Sub", ["counts", "last"], ["before"]),
        node("Cast", ["before"], ["lengths"], to=onnx.TensorProto.INT32),
        node(
            "GroupQueryAttention",
            ["q", "k", "v", "keys", "values", "lengths", "total32"],
            ["y", "new_keys", "new_values"],
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=pairs,
        ),
    ]
    inputs = [value("q", f32, [1, tokens, heads * size])]
    inputs += [value(name, f32, [1, tokens, pairs * size]) for name in "kv"]
    inputs += [value(name, f32, [1, pairs, "past", size]) for name in ("keys", "values")]
    inputs.append(value("mask", onnx.TensorProto.INT64, [1, "total"]))
    known = [onnx.numpy_helper.from_array(np.array(1), "last"), onnx.numpy_helper.from_array(np.array([1]), "axes")]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "new_keys", "new_values")]
    graph = onnx.helper.make_graph(nodes, "decoder", inputs, outputs, known)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return og.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)).compile()


def attended(query, keys, values, size=8):
    """One token's attention over all keys, in float64."""
    heads = query.astype(np.float64).reshape(2, 2, size)  # groups of two
    scores = np.einsum("ghd,gtd->ght", heads, keys[0].astype(np.float64)) / size**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("ght,gtd->ghd", weights / weights.sum(-1, keepdims=True), values[0].astype(np.float64))


@pytest.mark.parametrize("way", ["call", "bind"])
def test_caches_of_models_grow_once_their_ops_are_known(way):
    model, rng = grouped_attention(), np.random.default_rng(0)

    def drawn(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    keys, values = drawn(1, 2, 5, 8), drawn(1, 2, 5, 8)
    past, given = (keys, values), {"q": drawn(1, 1, 32), "k": drawn(1, 1, 16), "v": drawn(1, 1, 16)}
    if way == "bind":
        caches = og.Cache(keys, 32), og.Cache(values, 32)
        run = model.bind(**given, keys=caches[0], values=caches[1], mask=np.ones((1, 6), np.int64))
    for step in range(8):
        keys = np.concatenate([keys, given["k"].reshape(1, 1, 2, 8).transpose(0, 2, 1, 3)], 2)
        values = np.concatenate([values, given["v"].reshape(1, 1, 2, 8).transpose(0, 2, 1, 3)], 2)
        mask = np.ones((1, 6 + step), np.int64)
        if way == "bind":
            found = run.run(mask=mask)
        else:
            found = model(**given, keys=past[0], values=past[1], mask=mask)
            past = found[1:]
        np.testing.assert_array_equal(found.new_keys, keys)
        np.testing.assert_array_equal(found.new_values, values)
        np.testing.assert_allclose(found.y.ravel(), attended(given["q"], keys, values).ravel(), rtol=1e-5, atol=1e-5)
        for array in given.values():
            array[...] = drawn(*array.shape)
    if way == "call":
        assert model.cache_info().grown >= 10
        return
    assert [len(cache) for cache in caches] == [13, 13]
    for name in ("keys", "other"):
        with pytest.raises(ArgumentError, match=f"run: unknown name '{name}'; inputs that are no Cache: q, k, v, mask"):
            run.run(**{name: keys})


# Bits and strides -----------------------------------------------------------------------------------------------------


def test_repeatable_programs_have_the_bits_of_dense_caches():
    grown, dense = Steps(reproducible=True), Steps(reproducible=True)
    for _ in range(8):
        grown.run()
        new = grown.new()
        given = np.ascontiguousarray(grown.cache)
        for one, other in zip(grown.model(grown.cache, new), dense.model(given, new), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("shape", "strides", "axis", "capacity"),
    [
        ((2, 3, 4), (12, 4, 1), 1, 3),
        ((2, 3, 4), (40, 4, 1), 1, 10),
        ((2, 3, 4), (40, 4, 1), 2, None),
        ((2, 3, 4), (41, 4, 1), 1, None),
        ((2, 3, 4), (8, 4, 1), 1, None),
        ((1, 3, 4), (99, 4, 1), 1, 0),
        ((5, 3, 4), (12, 4, 1), 0, 0),
        ((2, 3, 4), (60, 20, 1), 2, 20),
        ((2, 1, 3, 4), (40, 7, 4, 1), 2, 10),
        ((2, 2, 3, 4), (80, 40, 4, 1), 2, 10),
        ((2, 2, 3, 4), (90, 40, 4, 1), 2, None),
        ((2, 0, 4), (40, 4, 1), 1, 10),
        ((2, 3, 0), (0, 0, 1), 1, None),
        ((2, 3, 4), (12, 4, 2), 1, None),
    ],
)
def test_capacity_is_that_of_the_whole_array(shape, strides, axis, capacity):
    assert capacity_of(shape, strides, axis) == capacity
