"""Kernels of host ops for learned tables, on drawn sizes, contents, attributes and threads.

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

from onegraph import reference
from onegraph.compiler.kernels import native
from onegraph.opset.host.learned import OPPOSITES, TRANSFORMS

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


KERNELS = {one.__name__: one for one in (classify, find_keys, count_tuples)}


@pytest.mark.parametrize("name", KERNELS)
def test_drawn_uses_are_right(name, monkeypatch):
    with np.errstate(all="ignore"):
        for seed in range(draws(5, 1000)):
            rng = np.random.default_rng(crc32(f"{name} {seed}".encode()))
            KERNELS[name](rng, monkeypatch, f"{name} {seed}")
