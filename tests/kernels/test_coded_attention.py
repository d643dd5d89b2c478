"""Attention that reads keys and values as codes of 8 bits, with scales for a token, a head or a number of a head."""

import ml_dtypes
import numpy as np
import pytest
from helpers.pass_graphs.coded import WAYS, cached, dequantized, products, whole

import onegraph as og
from onegraph.compiler.kernels import attention as kernel
from onegraph.runtime import growing
from tests.helpers.kernels import run

TESTED_KERNELS = ("attention",)
RNG = np.random.default_rng(0)
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
# By name, the axes of (batch, heads, tokens, size) that have scales of their own.
SCALES = {"tensor": (), "head": (1,), "token": (0, 1, 2), "channel": (1, 3), "all": (0, 1, 2, 3)}


def codes(dtype, shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def parameters(shape, axes, zero_dtype):
    """Scales and zero points that broadcast to a shape."""
    dims = [dim if axis in axes else 1 for axis, dim in enumerate(shape)]
    return RNG.uniform(0.005, 0.02, dims).astype(np.float32), RNG.integers(-5, 6, dims).astype(zero_dtype)


def exact(query, key, value, scale=None, hidden=None):
    """Attention in float64; hidden: (batch, heads, queries, keys)."""
    group = query.shape[1] // key.shape[1]
    query, key, value = (np.asarray(each, np.float64) for each in (query, key, value))
    key, value = (np.repeat(each, group, 1) for each in (key, value))
    scores = query @ key.swapaxes(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ value


def assert_near(found, wanted, share=3e-6):
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=share * np.abs(wanted).max())


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("way", SCALES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_codes_are_read_as_the_numbers_they_stand_for(dtype, way, level):
    for heads, queries, keys, size, value_size in ((2, 1, 5, 64, 64), (8, 1, 300, 30, 7), (8, 9, 140, 260, 520)):
        query = RNG.standard_normal((2, heads, queries, size)).astype(np.float32)
        arrays, numbers = [query], []
        for width in (size, value_size):
            shape = 2, 2, keys, width
            arrays.append(codes(dtype, shape))
            numbers.append(parameters(shape, SCALES[way], np.int32 if width == size else np.int8))
        real = [(each - 1.0 * zero) * scale for each, (scale, zero) in zip(arrays[1:], numbers, strict=True)]
        out = np.empty((2, heads, queries, value_size), np.float32)
        flags = dict.fromkeys(("backward", "mask", "lengths", "causal", "plain", "past", "window"), 0)
        ends = [each for pair in numbers for each in pair]
        run("attention", *arrays, *ends, out, scale=0.0625, level=level, **flags, **kernel.PLAIN)
        assert_near(out, exact(query, *real, scale=0.0625))


def test_codes_of_keys_alone_meet_values_of_any_strides():
    query, key = RNG.standard_normal((1, 4, 1, 32)).astype(np.float32), codes(np.int8, (1, 50, 2, 32))
    value = RNG.standard_normal((1, 2, 16, 50)).astype(np.float32)
    scale, zero = parameters((1, 2, 50, 32), (1,), np.int32)
    out, turned = np.empty((1, 4, 1, 16), np.float32), (key.swapaxes(1, 2), value.swapaxes(2, 3))
    flags = dict.fromkeys(("backward", "mask", "lengths", "causal", "plain", "past", "window"), 0)
    run("attention", query, *turned, scale, zero, out, scale=1.0, **flags, **kernel.PLAIN)
    assert_near(out, exact(query, (turned[0] - 1.0 * zero) * scale, turned[1], 1.0))


# The pass -------------------------------------------------------------------------------------------------------------


def inputs_of(g):
    drawn = {}
    for name, tensor in g.inputs.items():
        if name == "lengths":
            drawn[name] = np.array([70])
        elif str(tensor.dtype) in ("s8", "u8", "s32"):
            drawn[name] = codes(np.int8, tensor.shape).astype(tensor.dtype.numpy)
        else:
            drawn[name] = RNG.uniform(0.01, 0.02, tensor.shape).astype(tensor.dtype.numpy)
    return drawn


@pytest.mark.library
@pytest.mark.parametrize("form", [products, cached, whole])
@pytest.mark.parametrize("way", WAYS)
def test_a_dequantized_cache_is_read_in_codes(way, form):
    g = og.Graph()
    ends = [dequantized(g, way, name, (1, 2, 80, 16)) for name in "kv"]
    g.output("y", form(g, g.input("q", "f32", (1, 2, 3, 16)), *ends))
    model, given = g.compile(), inputs_of(g)
    reasons = [part.reason for part in model.report().partitions]
    assert kernel.OF_CODES in reasons
    assert not any("Dequantize" in kind or "Cast" in kind for part in model.report().partitions for kind in part.kinds)
    assert_near(model(**given), og.reference.run(g, given)["y"].astype(np.float64))


@pytest.mark.library
def test_numbers_of_16_bits_are_not_rounded_first():
    g = og.Graph()
    key, value = (g.type_cast(dequantized(g, "token", name, (1, 2, 80, 16)), dtype="bf16") for name in "kv")
    g.output("y", whole(g, g.input("q", "bf16", (1, 4, 1, 16)), key, value))
    model, given = g.compile(), inputs_of(g)
    assert [part.reason for part in model.report().partitions] == [kernel.OF_CODES]
    real = [given[name] * given[f"{name}_scale"].astype(np.float64) for name in "kv"]
    assert_near(model(**given), exact(given["q"], *real, 0.5), 8e-3)


@pytest.mark.library
def test_several_scales_of_a_row_stay_with_the_dequantize():
    g = og.Graph()
    ends = [
        g.dynamic_dequantize(
            g.input(name, "s8", (1, 2, 80, 16)),
            g.input(f"{name}_scale", "f32", (1, 2, 80, 2)),
            qtype="per_group",
            group_shape=[1, 1, 1, 8],
        )
        for name in "kv"
    ]
    g.output("y", whole(g, g.input("q", "f32", (1, 2, 1, 16)), *ends))
    model, given = g.compile(), inputs_of(g)
    assert kernel.OF_CODES not in [part.reason for part in model.report().partitions]
    assert_near(model(**given), og.reference.run(g, given)["y"].astype(np.float64))


@pytest.mark.library
def test_numbers_that_others_read_are_dequantized_too():
    g = og.Graph()
    key, value = (dequantized(g, "head", name, (1, 2, 80, 16)) for name in "kv")
    g.output("y", whole(g, g.input("q", "f32", (1, 2, 1, 16)), key, value))
    g.output("keys", key)
    model, given = g.compile(), inputs_of(g)
    found, wanted = model(**given), og.reference.run(g, given)
    assert kernel.OF_CODES in [part.reason for part in model.report().partitions]
    assert_near(found[0], wanted["y"].astype(np.float64))
    np.testing.assert_allclose(found[1], wanted["keys"], rtol=1e-6)


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_a_cache_of_codes_grows_in_place(dtype, monkeypatch):
    monkeypatch.setattr(growing, "SMALL", 0)
    g, caches = og.Graph(), []
    for name in "kv":
        ends = [g.input(f"{part}_{name}", dtype, (1, 2, None, 16)) for part in ("past", "new")]
        caches.append(g.op("Concat", ends, {"axis": 2}, edition="host"))
    real = [g.dequantize(cache, scales=[0.01], zps=[4]) for cache in caches]
    g.output("y", products(g, g.input("q", "f32", (1, 2, 1, 16)), *real))
    for name, cache in zip("kv", caches, strict=True):
        g.output(name, cache)
    model, numpy = g.compile(), og.DataType[dtype].numpy
    known = past = [codes(numpy, (1, 2, 70, 16)) for _ in "kv"]
    for _ in range(6):
        new, query = [codes(numpy, (1, 2, 1, 16)) for _ in "kv"], RNG.uniform(-1, 1, (1, 2, 1, 16)).astype(np.float32)
        given = {"q": query, "past_k": past[0], "past_v": past[1], "new_k": new[0], "new_v": new[1]}
        y, *past = model(**given)
        known = [np.concatenate(pair, 2) for pair in zip(known, new, strict=True)]
        np.testing.assert_array_equal(past, known)
        assert_near(y, exact(query**2, *[(each - 4.0) * 0.01 for each in known], 1.0))
    assert model.cache_info().grown == 10


@pytest.mark.library
def test_more_keys_than_there_are_are_refused():
    g = og.Graph()
    ends = [dequantized(g, "head", name, (1, 2, 80, 16)) for name in "kv"]
    g.output("y", cached(g, g.input("q", "f32", (1, 2, 3, 16)), *ends))
    model, given = g.compile(), inputs_of(g)
    with pytest.raises(og.ArgumentError, match="81 of row 0; expected numbers from 0 to 80"):
        model(**given | {"lengths": np.array([81])})
