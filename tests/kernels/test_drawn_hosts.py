"""Kernels of host ops for language models and learned tables, on drawn sizes, contents, attributes and threads.

The report proves that the kernel ran, or the kernel is called itself; the oracle computes in float64, or in a loop.
"""

from __future__ import annotations

from itertools import chain
from zlib import crc32

import numpy as np
import pytest
from conftest import draws
from helpers.drawn import near_size
from helpers.host_cases import HostCase, graph_of
from kernels import test_coded_attention as coded
from kernels import test_linear_attention as linear
from kernels import test_packed_experts as experts

from onegraph import reference
from onegraph.compiler.kernels import attention, native
from onegraph.opset.host.learned import OPPOSITES, TRANSFORMS
from tests.helpers.kernels import run

pytestmark = pytest.mark.library
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40)


def threads_of(rng):
    return int(rng.integers(1, 4))


def with_special(rng, array, share):
    return np.where(rng.random(array.shape) < share, rng.choice(SPECIAL, array.shape), array).astype(array.dtype)


def run_case(rng, monkeypatch, case):
    """The results of a kernel and of the reference."""
    g, given = graph_of(case)
    monkeypatch.setattr(native, "LEVEL", int(rng.integers(0, 4)))
    model = g.compile(threads=threads_of(rng))
    assert [part.executor for part in model.report().partitions] == ["kernel"], model.report()
    found, wanted = model(**given), reference.run(g, given)
    return found if isinstance(found, tuple) else (found,), [*wanted.values()]


def linear_attention(rng, monkeypatch, said):
    batch, tokens, heads, queries = (int(rng.integers(1, most)) for most in (4, 8, 5, 4))
    size, depth = near_size(rng, 65), near_size(rng)
    decays, rates = [(None, None), (1, None), (size, 1), (1, heads)][rng.integers(4)]
    monkeypatch.setattr(linear, "RNG", rng)
    arrays = linear.operands(batch, tokens, heads, queries, size, depth, decays, rates)
    share = float(rng.choice([0, 0, 0.02]))
    arrays = [None if array is None else with_special(rng, array, share) for array in arrays]
    founds, _ = run_case(rng, monkeypatch, HostCase("LinearAttention", arrays, []))
    for found, wanted in zip(founds, linear.attended(*arrays), strict=True):
        most = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * most, err_msg=said)


def packed_experts(rng, monkeypatch, said):
    monkeypatch.setattr(experts, "DEPTH", int(rng.choice([1, 2, 3, 30, 32, 34, 62, 64, 66, 254, 256, 258])))
    monkeypatch.setattr(experts, "EXPERTS", int(rng.integers(1, 6)))
    coding, group = str(rng.choice([*experts.LIMITS])), int(rng.choice([0, 16, 32, 128]))
    own = experts.Experts(coding, group, bool(rng.integers(2)), int(rng.integers(2**30)), near_size(rng))
    rows, each = int(rng.choice([1, 2, 7, 16, 17, 40])), int(rng.integers(1, 4))
    places = rng.integers(-1, experts.EXPERTS + 1, (rows, each)).astype(rng.choice([np.int32, np.int64]))
    shape = (rows, experts.DEPTH) if rng.integers(2) else (rows, each, experts.DEPTH)
    src = rng.standard_normal(shape).astype(np.float32)
    found = own.run(src, places, level=int(rng.integers(0, 5)), threads=threads_of(rng))
    wanted = own.exact(src, places)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6 * np.abs(wanted).max(initial=1), err_msg=said)


def coded_attention(rng, monkeypatch, said):
    monkeypatch.setattr(coded, "RNG", rng)
    own, batch, dtype = int(rng.integers(1, 4)), int(rng.integers(1, 3)), rng.choice([np.int8, np.uint8])
    queries, keys, size, value_size = (near_size(rng, most) for most in (17, 257, 65, 65))
    query = rng.standard_normal((batch, own * int(rng.choice([1, 2, 4])), queries, size)).astype(np.float32)
    codes, numbers, real = [], [], []
    for width in (size, value_size):
        array = coded.codes(dtype, (batch, own, keys, width))
        if rng.integers(2):
            array = np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
        axes = [*coded.SCALES.values()][rng.integers(len(coded.SCALES))]
        scale, zero = coded.parameters(array.shape, axes, rng.choice([np.int32, np.int8]))
        codes.append(array)
        numbers += [scale, zero]
        real.append((array - 1.0 * zero) * scale)
    causal, past = bool(rng.integers(2)), max(keys - queries, 0)
    window = int(rng.choice([0, 3, 20])) if causal else 0
    behind = np.arange(queries)[:, None] + past - np.arange(keys)
    hidden = causal & ((behind < 0) | (window > 0) & (behind >= window))
    hidden = np.broadcast_to(hidden, (*query.shape[:3], keys))
    out = np.full((*query.shape[:3], value_size), np.nan, np.float32)
    flags = {"backward": 0, "mask": 0, "lengths": 0, "plain": 0, "causal": causal, "past": past * causal}
    level = int(rng.integers(0, 4))
    run("attention", query, *codes, *numbers, out, scale=0.0625, level=level, threads=threads_of(rng), window=window,
        **flags, **attention.PLAIN)  # fmt: skip
    sees = ~hidden.all(-1)
    coded.assert_near(out[sees], coded.exact(query, *real, 0.0625, hidden)[sees])
    assert not out[~sees].any(), said


def classify(rng, monkeypatch, said):
    rows, classes = near_size(rng), int(rng.choice([1, 1, 2, 3, 16, 17, 40]))
    src = (rng.standard_normal((rows, classes)) * rng.choice([0.01, 1, 80])).astype(
        rng.choice([np.float32, np.float64])
    )
    src = with_special(rng, np.round(src) if rng.integers(2) else src, float(rng.choice([0, 0.02, 0.3])))
    labels = rng.permutation(1000)[: 2 if classes == 1 and rng.integers(4) else classes].astype(np.int64)
    attrs = {"transform": str(rng.choice(TRANSFORMS)), "threshold": float(rng.choice([0, 0.5, -1]))}
    attrs |= {"opposite": str(rng.choice(OPPOSITES)), "absent": bool(rng.integers(2))}
    found, wanted = run_case(rng, monkeypatch, HostCase("Classify", [src, labels], [], attrs))
    np.testing.assert_array_equal(found[0], wanted[0], err_msg=said)
    np.testing.assert_allclose(found[1], wanted[1], rtol=2e-5, atol=1e-6, err_msg=said)


def find_keys(rng, monkeypatch, said):
    of_keys, of_values = (rng.choice([np.int64, np.float32, np.float64]) for _ in range(2))
    keys = np.unique((rng.standard_normal(near_size(rng)) * 30).astype(of_keys))
    if of_keys is not np.int64 and rng.integers(2):
        keys = np.append(np.unique(np.append(keys, [np.inf, -np.inf, 0.0])), np.nan).astype(of_keys)
    shape = tuple(int(n) for n in rng.choice([1, 2, 17, 33], rng.integers(1, 4)))
    src = np.where(rng.random(shape) < 0.7, rng.choice(keys, shape), rng.standard_normal(shape) * 30).astype(of_keys)
    if of_keys is not np.int64:
        src = with_special(rng, src, 0.05)
    arrays = [src, keys, (rng.standard_normal(len(keys)) * 9).astype(of_values), np.array(7, of_values)]
    (found,), (wanted,) = run_case(rng, monkeypatch, HostCase("LookUp", arrays, [], {}, frozenset([1, 2, 3])))
    np.testing.assert_array_equal(found, wanted, err_msg=said)


def count_tuples(rng, monkeypatch, said):
    letters, count = rng.choice([0, 1, 2, -1, 2**33, -(2**33), 2**31, 2**32], 3), int(rng.integers(1, 9))
    tuples = [rng.choice(letters, rng.integers(1, 5)).tolist() for _ in range(count)]
    width, length, skips = int(rng.integers(1, count + 2)), near_size(rng, 33), int(rng.choice([0, 1, 2, 5, 40]))
    columns, src = rng.integers(0, width, count).tolist(), rng.choice(letters, (near_size(rng, 65), length))
    wanted = np.zeros((len(src), width), np.float32)
    for each, column in zip(tuples, columns, strict=True):
        for step in range(1, skips + 2 if len(each) > 1 else 2):
            last = max(length - step * (len(each) - 1), 0)
            parts = [src[:, at * step : at * step + last] == number for at, number in enumerate(each)]
            wanted[:, column] += np.logical_and.reduce(parts).sum(1)
    attrs = {"tuples": [*chain(*tuples)], "sizes": [*map(len, tuples)], "columns": columns, "skips": skips}
    (found,), _ = run_case(rng, monkeypatch, HostCase("CountTuples", [src], [], {**attrs, "width": width}))
    np.testing.assert_array_equal(found, wanted, err_msg=said)


KERNELS = {
    one.__name__: one for one in (linear_attention, packed_experts, coded_attention, classify, find_keys, count_tuples)
}


@pytest.mark.parametrize("name", KERNELS)
def test_drawn_uses_are_right(name, monkeypatch):
    with np.errstate(all="ignore"):
        for seed in range(draws(5, 1000)):
            rng = np.random.default_rng(crc32(f"{name} {seed}".encode()))
            KERNELS[name](rng, monkeypatch, f"{name} {seed}")
