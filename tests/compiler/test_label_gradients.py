"""The gradient of a cross-entropy in the memory of the log-probabilities: the numbers, and when it happens."""

import numpy as np
import pytest
from helpers.pass_graphs.labels import CLASSES, ROWS, with_gradient

import onegraph as og
from onegraph.capi.settings import has_avx512
from onegraph.compiler.passes.label_gradients import LEAST
from tests.helpers.kernels import run

TESTED_KERNELS = ("log_softmax_gradient",)
RNG = np.random.default_rng(0)


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def notes(model):
    return [part for part in model.report().partitions if "log-probabilities" in part.reason]


@pytest.mark.parametrize("shape", [(ROWS, CLASSES), (2, ROWS // 2, CLASSES)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_gradient_is_softmax_minus_labels(shape, dtype):
    model = with_gradient(shape, dtype=dtype).compile()
    assert [part.executor for part in notes(model)] == (["kernel", "kernel"] if has_avx512() else [])
    logits = RNG.standard_normal(shape).astype(np.float32).astype(og.DataType(dtype).numpy)
    labels = RNG.integers(0, CLASSES, shape[:-1]).astype(np.int32)
    wanted = softmax(logits.astype(np.float64))
    losses = -np.log(np.take_along_axis(wanted, labels[..., None], -1))
    np.put_along_axis(wanted, labels[..., None], np.take_along_axis(wanted, labels[..., None], -1) - 1, -1)
    for _ in range(2):
        loss, slope = model(logits, labels)
        np.testing.assert_allclose(loss, losses.sum(), rtol=1e-5)
        np.testing.assert_allclose(slope.astype(float), wanted, rtol=1e-5 if dtype == "f32" else 2**-8, atol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_powers_of_any_number(level):
    """Numbers above 0 are no log-probabilities, but a graph may have them there."""
    rows, sums = -RNG.uniform(0, 110, (70, 300)).astype(np.float32), RNG.standard_normal((70, 1)).astype(np.float32)
    rows[3, 5], rows[:, 7], rows[:, 8] = np.nan, -87, -np.inf
    rows[5, :6], sums[5] = [1, 87.5, 88.7, 88.75, 150, np.inf], -1
    with np.errstate(over="ignore"):
        wanted = (-np.exp(rows.astype(np.float64)) * sums).astype(np.float32)
    for threads in (1, 3):
        found = np.full_like(rows, 7)
        run("log_softmax_gradient", rows, sums, found, level=level, threads=threads)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=5e-38)


def test_rows_without_a_class_have_no_gradient():
    model = with_gradient((ROWS, CLASSES), ignore_index=7).compile()
    logits = RNG.standard_normal((ROWS, CLASSES)).astype(np.float32)
    labels = RNG.integers(0, CLASSES, ROWS).astype(np.int32)
    labels[:3] = 7, -1, CLASSES
    _, slope = model(logits, labels)
    assert not slope[:3].any()
    np.testing.assert_allclose(slope[3:].sum(-1), 0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"shape": (ROWS - 1, CLASSES)}, {"returned": True}, {"probabilities": True}],
    ids=["small", "read", "dense"],
)
def test_other_gradients_stay_ops_of_the_library(options):
    model = with_gradient(**{"shape": (ROWS, CLASSES), **options}).compile()
    assert notes(model) == []


@pytest.mark.skipif(not has_avx512(), reason="LogSoftmaxBackward is four other ops without AVX-512")
def test_memory_has_room_for_one_tensor_of_the_size_of_the_logits():
    placement = with_gradient((4 * ROWS, CLASSES)).compile()._programs.find({}).program.placement
    assert placement.arena_size < 1.25 * 4 * LEAST
