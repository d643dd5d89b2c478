"""Rotary embeddings, caches of keys and values, and attention over them: the kernels on every instruction set."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels import native
from onegraph.compiler.kernels.attention import PLAIN
from onegraph.compiler.kernels.native import compiled, packed
from onegraph.native.library import address_of, ffi
from onegraph.opset.dtypes import OF_NUMPY
from tests.helpers.kernels import plan_of, run, values_of

TESTED_KERNELS = ("attention", "extend_cache", "rotary")
pytestmark = pytest.mark.library
SETS = [("f32", 0), ("f32", 1), ("f32", 2), ("bf16", 3), ("f16", 1)]  # data types and instruction sets
TOLERANCE = {"f32": 4e-6, "bf16": 1.2e-2, "f16": 2e-3}


def graph_of(kind, arrays, attrs, laid=(0, 1, 2, 3)):
    """A graph of one op and its inputs; tensors of four axes have them in the order ``laid`` in memory."""
    g, given = og.Graph(), {}
    ends = []
    for place, array in enumerate(arrays):
        is_turned = array.ndim == 4 and min(array.shape) > 0
        given[f"x{place}"] = np.ascontiguousarray(array.transpose(laid)) if is_turned else array
        end = g.input(f"x{place}", OF_NUMPY[array.dtype], given[f"x{place}"].shape)
        order = np.argsort(laid).tolist()
        if is_turned and array.dtype.name in ("float32", "bfloat16", "float16"):
            end = g.static_transpose(end, order=order)
        elif is_turned:
            end = g.op("Transpose", [end], {"order": order}, edition="host")
        ends.append(end)
    g.output("y", g.op(kind, ends, attrs, edition="host"))
    return g, given


def check(kind, arrays, attrs, dtype, laid=(0, 1, 2, 3)):
    g, given = graph_of(kind, arrays, attrs, laid)
    model = g.compile()
    assert {part.executor for part in model.report().partitions} <= {"kernel", "view", "copy"}
    found, (wanted,) = model(**given), reference.run(g, given).values()
    limit = TOLERANCE.get(dtype, 0) * np.abs(wanted.astype(np.float64)).max(initial=1)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=limit)


def run_op_of(kind, arrays, attrs):
    """The results of the reference."""
    g, given = graph_of(kind, arrays, attrs)
    return reference.run(g, given).values()


def numbers(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(og.DataType[dtype].numpy)


@pytest.mark.parametrize(("dtype", "level"), SETS)
def test_rotary_embeddings_agree(dtype, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    rng = np.random.default_rng(level)
    for place, (size, pairs, tokens) in enumerate([(6, 3, 5), (40, 20, 90), (64, 16, 5)]):  # threads share the second
        for flags in ({}, {"interleaved": True}, {"whole": True}, {"interleaved": True, "whole": True}):
            width = pairs * (2 if "whole" in flags else 1)
            src, rows = numbers(rng, dtype, 2, 3, tokens, size), tokens + 7
            tables = [numbers(rng, dtype, rows, width) for _ in range(2)]
            laid = [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)][place]
            check("Rotary", [src, *tables, np.array([rows, 2])], flags, dtype, laid)
            check("Rotary", [src, *(table[None, None, :tokens] for table in tables)], flags, dtype, laid)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8"])
@pytest.mark.parametrize("laid", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_caches_are_extended(dtype, laid):
    for past, tokens, room in ((0, 4, 4), (7, 1, 8), (7, 3, 5), (4, 2, 9), (690, 3, 700)):
        kept, rows = (np.arange(2 * 3 * count * 5).reshape(2, 3, count, 5) % 100 for count in (past, tokens))
        kept, rows = (array.astype(og.DataType[dtype].numpy) for array in (kept, rows))
        for lengths in ([max(past, room), 1], [tokens, 0]):
            check("ExtendCache", [kept, rows, np.array(lengths)], {"room": room}, dtype, laid)


@pytest.mark.parametrize(("dtype", "level"), SETS)
def test_attention_sees_the_keys_of_each_row(dtype, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    rng = np.random.default_rng(level)
    for heads, kv_heads, tokens, keys in ((4, 2, 1, 150), (6, 1, 30, 40), (3, 3, 5, 5)):
        arrays = [numbers(rng, dtype, 3, *dims, 20) for dims in ((heads, tokens), (kv_heads, keys), (kv_heads, keys))]
        mask = numbers(rng, dtype, 3, 1, tokens, keys)
        for attrs in ({}, {"window": 3}, {"scale": 0.1}, {"softcap": 0.5}, {"softcap": 1e-40}, {"softcap": 3e38}):
            lengths = np.array([keys, tokens // 2, (keys + tokens) // 2])
            check("CachedAttention", [*arrays, lengths], attrs, dtype)
            check("CachedAttention", [*arrays, lengths, mask], attrs, dtype)


def test_sums_of_a_cache_are_those_of_its_keys():
    rng = np.random.default_rng(0)
    arrays = [numbers(rng, "f32", 1, 2, count, 16) for count in (3, 9, 9)]
    g = og.Graph()
    ends = [g.input(name, "f32", array.shape) for name, array in zip("qkv", arrays, strict=True)]
    ends.append(g.input("lengths", "s64", (1,)))
    _, total = g.op("CachedAttention", ends, {"scale": 1.0}, edition="host", outputs=["dst", "logsumexp"])
    g.output("total", total)
    scores = (arrays[0] @ arrays[1].swapaxes(2, 3)).astype(np.float64)
    seen = np.arange(9) <= np.arange(4, 7)[:, None]
    exact = np.log(np.where(seen, np.exp(scores), 0).sum(-1))
    np.testing.assert_allclose(g.compile()(*arrays, np.array([7])), exact, rtol=1e-5, atol=1e-5)


def test_keys_behind_the_last_are_not_read():
    rng = np.random.default_rng(0)
    query, key, value = (numbers(rng, "f32", 2, 2, count, 16) for count in (1, 9, 9))
    lengths = np.array([4, 9])
    g, given = graph_of("CachedAttention", [query, key, value, lengths], {})
    model = g.compile()
    exact = model(**given)
    given["x1"][0, :, 4:], given["x2"][0, :, 4:] = np.nan, np.inf
    np.testing.assert_array_equal(model(**given), exact)


@pytest.mark.parametrize("tokens", [1, 6])
def test_kernels_read_the_lengths_of_their_rows_alone(tokens):
    """Behind them lies a page that nobody may touch."""
    rng, lengths = np.random.default_rng(0), np.array([50, 9, 30])
    query, key, value = (numbers(rng, "f32", 3, 2, count, 16) for count in (tokens, 50, 50))
    found = np.empty_like(query)
    flags = {"causal": True, "lengths": True} | dict.fromkeys(("backward", "mask", "plain", "past", "window"), 0)
    run("attention", query, key, value, lengths, found, **PLAIN | flags | {"scale": 0.25})
    (dst,) = run_op_of("CachedAttention", [query, key, value, lengths], {"scale": 0.25})
    np.testing.assert_allclose(found, dst, rtol=1e-5, atol=1e-5)
    tables = [numbers(rng, "f32", 50, 8) for _ in range(2)]
    run("rotary", query, *tables, lengths, found, interleaved=False, whole=False, lengths=True)
    (dst,) = run_op_of("Rotary", [query, *tables, lengths], {})
    np.testing.assert_allclose(found, dst, rtol=1e-5, atol=1e-5)
    run("extend_cache", key, query, lengths, value, takes_back=False)
    (dst,) = run_op_of("ExtendCache", [key, query, lengths], {"room": 50})
    np.testing.assert_array_equal(value, dst)


def test_rows_that_a_run_has_written_over_come_back():
    """Of each batch and head, until the run is finished."""
    rng = np.random.default_rng(0)
    cache, rows, lengths = numbers(rng, "f32", 2, 3, 8, 4), numbers(rng, "f32", 2, 3, 2, 4), np.array([3, 7])
    values = values_of([cache, rows, lengths, cache])
    kernel = compiled("extend_cache", values[:3], values[3:], packed("extend_cache", {"takes_back": True}))
    plan, turn, before = plan_of(kernel, 4), ffi.new("int *"), cache.copy()
    for place, array in enumerate([cache, rows, lengths, cache]):
        plan.bind(place, address_of(array))
    plan.exchange(turn)
    wanted = before.copy()
    for row, length in enumerate(lengths):
        wanted[row, :, length - 2 : length], wanted[row, :, length:] = rows[row], before[row, :, length:]
    for _ in range(2):
        plan.run_steps(0, 1)
        np.testing.assert_array_equal(cache, wanted)
        plan.take_back()
        np.testing.assert_array_equal(cache, before)
    plan.run_steps(0, 1)
    plan.finish()
    plan.take_back()
    np.testing.assert_array_equal(cache, wanted)


@pytest.mark.parametrize("lengths", [[9], [-1]], ids=str)
@pytest.mark.parametrize("kind", ["Rotary", "ExtendCache", "CachedAttention"])
def test_lengths_beyond_a_cache_are_refused(kind, lengths):
    x, table = np.ones((1, 1, 8, 4), np.float32), np.ones((8, 2), np.float32)
    arrays = {"Rotary": [x, table, table], "ExtendCache": [x, x[:, :, :2]], "CachedAttention": [x, x, x]}[kind]
    g, given = graph_of(kind, [*arrays, np.array(lengths)], {})
    model = g.compile()
    place = f"x{len(arrays)}"
    for called in (lambda **given: model(**given), lambda **given: reference.run(g, given)):
        called(**{**given, place: np.array([8])})
        with pytest.raises(og.ArgumentError, match=f"lengths: {lengths[0]} of row 0"):
            called(**given)
        called(**{**given, place: np.array([8])})


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "rule"),
    [
        ("Rotary", [(1, 2, 3, 4), (3, 2), (3, 2)], {}, "beside lengths"),
        ("Rotary", [(1, 2, 3, 4), (1, 1, 3, 3), (1, 1, 3, 3)], {}, "3 angles"),
        ("Rotary", [(1, 2, 3, 4), (1, 1, 3, 2), (1, 1, 3, 1)], {}, "as cos has"),
        ("Rotary", [(1, 2, 3, 4), (1, 1, 2, 2), (1, 1, 2, 2)], {}, "broadcasts"),
        ("Rotary", [(2, 3, 4), (1, 1, 3, 2), (1, 1, 3, 2)], {}, "batch, heads, tokens, size"),
        ("ExtendCache", [(1, 2, 3, 4), (1, 2, 1, 5), (1,)], {}, "where None is any number"),
        ("ExtendCache", [(1, 2, 3, 4), (1, 2, 1, 4), (2,)], {}, "one for each batch"),
        ("ExtendCache", [(2, 3, 4), (1, 2, 1, 4), (2,)], {}, "batch, heads, tokens, size"),
        ("CachedAttention", [(2, 2, 3, 4), (2, 1, 3, 4), (2, 1, 3, 4), (1,)], {}, "one for each batch"),
        ("CachedAttention", [(2, 2, 3, 4), (2, 1, 3, 4), (2, 1, 3, 4), (2,)], {"softcap": -1.0}, "non-negative"),
    ],
)
def test_operands_that_do_not_fit_are_refused(kind, shapes, attrs, rule):
    g = og.Graph()
    ends = [g.input(f"x{at}", og.s64 if len(shape) == 1 else og.f32, shape) for at, shape in enumerate(shapes)]
    with pytest.raises(og.SpecError, match=rule):
        g.op(kind, ends, attrs, edition="host")
