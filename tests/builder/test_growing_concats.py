"""Concats of more and more tensors, which share memory, and the normalizations that read parts of rows."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.capi.settings import is_native

BF16 = ml_dtypes.bfloat16
SHAPE = 2, 5, 6, 16


def vectors(drawn, count):
    return [drawn.random(count, dtype=np.float32) + np.float32(0.5) for _ in range(4)]


def normalized(x, gamma, beta, mean, variance):
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


def block(dtype, layers, activation):
    """A dense block: each layer normalizes a Concat of all tensors before it. The model, and a numpy function."""
    g, drawn = og.Graph(), np.random.default_rng(0)
    found, norms = [g.relu(g.input("x", dtype, SHAPE))], []
    for layer in range(layers):
        norms.append(vectors(drawn, SHAPE[-1] * (layer + 1)))
        whole = g.concat(*found, axis=-1) if layer else found[0]
        norm = g.batch_norm_inference(whole, *[g.constant(v) for v in norms[-1]], epsilon=1e-5, data_format="NXC")
        norm = g.relu(norm) if activation else norm
        part = g.reduce_mean(norm, axes=[-1], keep_dims=True)
        found.append(g.multiply(found[0], part))
    g.output("y", g.concat(*found, axis=-1))

    def expected(x):
        results = [np.maximum(x, 0)]
        for norm in norms:
            y = normalized(np.concatenate(results, -1), *norm)
            results.append(results[0] * (np.maximum(y, 0) if activation else y).mean(-1, keepdims=True))
        return np.concatenate(results, -1)

    return g, expected


@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-5), ("bf16", 0.1)])
def test_dense_block_shares_the_memory(dtype, tolerance, activation, policy):
    g, expected = block(dtype, 5, activation)
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    x = x if dtype == "f32" else x.astype(BF16)
    model = g.compile(policy=policy)
    for _ in range(2):
        np.testing.assert_allclose(model(x).astype(np.float64), expected(x.astype(np.float64)), tolerance, tolerance)
    parts = model.report().partitions
    scaled = [part for part in parts if part.executor == "kernel" and part.kinds[0] == "BatchNormInference"]
    # The norms of all Concats but that of the last, which lies alone. Without bf16 arithmetic, ops run between casts.
    assert len(scaled) == (3 if dtype == "f32" or is_native(og.bf16) else 0)


def test_returned_concat_has_its_own_memory():
    g = og.Graph()
    a, b, c = (g.relu(g.input(name, "f32", (1, 4, 4, 8))) for name in "abc")
    first = g.concat(a, b, axis=-1)
    norm = g.batch_norm_inference(first, *[g.constant(np.ones(16, np.float32))] * 4, epsilon=1e-9, data_format="NXC")
    g.output("first", first)
    g.output("norm", norm)
    g.output("second", g.concat(a, b, c, axis=-1))
    given = {name: np.full((1, 4, 4, 8), number, np.float32) for number, name in enumerate("abc", 1)}
    one, norm, two = g.compile()(**given)
    assert one.flags.c_contiguous
    np.testing.assert_array_equal(one[0, 0, 0], [1] * 8 + [2] * 8)
    np.testing.assert_array_equal(two[0, 0, 0], [1] * 8 + [2] * 8 + [3] * 8)
    np.testing.assert_allclose(norm[0, 0, 0], [1] * 8 + [2] * 8, 1e-5)


def test_part_that_another_op_reads_stays_dense():
    g = og.Graph()
    a, b, c = (g.relu(g.input(name, "f32", (1, 4, 4, 8))) for name in "abc")
    first = g.concat(a, b, axis=-1)
    g.output("sum", g.reduce_sum(first, axes=[-1]))
    g.output("norm", g.batch_norm_inference(first, *[g.constant(np.ones(16, np.float32))] * 4, data_format="NXC"))
    g.output("second", g.relu(g.concat(a, b, c, axis=-1)))
    model = g.compile()
    assert "copy" not in [part.executor for part in model.report().partitions]
    total, _, _ = model(*[np.ones((1, 4, 4, 8), np.float32)] * 3)
    np.testing.assert_array_equal(total.ravel(), np.full(16, 16))


@pytest.mark.usefixtures("finite_math")
def test_normalization_of_a_part_of_rows():
    drawn = np.random.default_rng(0)
    constants = vectors(drawn, 24)
    g = og.Graph()
    x = g.input("x", "f32", (2, 3, 4, 24), strides=(3 * 4 * 40, 4 * 40, 40, 1))
    norm = g.batch_norm_inference(x, *[g.constant(v) for v in constants], epsilon=1e-5, data_format="NXC")
    g.output("y", g.relu(norm))
    given = drawn.standard_normal((2, 3, 4, 40)).astype(np.float32)[..., :24]
    model = g.compile()
    (part,) = model.report().partitions
    assert part.executor == "kernel"
    np.testing.assert_allclose(model(given), np.maximum(normalized(given, *constants), 0), 1e-5, 1e-6)
