"""Losses against their definitions in loops of Python, and their gradients against finite differences and PyTorch."""

import math

import numpy as np
import pytest

import onegraph as og

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(6, 5)).astype(np.float32)
LABELS = np.array([0, 4, 2, 2, 1, 3], np.int32)


def graph_of(loss, *arrays, wrt=0, **options):
    """The graph of a loss, with its gradient with respect to one input."""
    g = og.Graph()
    inputs = [
        g.input(f"x{place}", array.dtype if array.dtype != np.int64 else og.s64, array.shape)
        for place, array in enumerate(arrays)
    ]
    g.output("loss", loss(g, *inputs, **options))
    g.output("gradient", g.gradient(g.outputs["loss"], inputs[wrt])[0])
    return g


def run(loss, *arrays, **options):
    """The loss and its gradient by the library."""
    return graph_of(loss, *arrays, **options).compile()(*arrays)


def reference(loss, *arrays, **options):
    """The loss and its gradient by numpy, for the systems without the library."""
    named = {f"x{place}": array for place, array in enumerate(arrays)}
    found = og.reference.run(graph_of(loss, *arrays, **options), named)
    return found["loss"], found["gradient"]


def cross_entropies(logits, labels):
    """By definition, for each row."""
    found = []
    for row, label in zip(logits.reshape(-1, logits.shape[-1]).tolist(), labels.reshape(-1).tolist(), strict=True):
        most = max(row)
        total = math.log(math.fsum(math.exp(one - most) for one in row)) + most
        found.append(total - row[label] if 0 <= label < len(row) else 0.0)
    return np.array(found)


def softmax_minus_one_hot(logits, labels):
    """The gradient of the sum of the cross-entropies."""
    powers = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    found = powers / powers.sum(-1, keepdims=True)
    for place in np.ndindex(labels.shape):
        if 0 <= labels[place] < logits.shape[-1]:
            found[(*place, labels[place])] -= 1
        else:
            found[place] = 0
    return found


@pytest.mark.library
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize(("reduction", "share"), [("mean", 6), ("sum", 1)])
def test_cross_entropy_is_its_definition(dtype, shape, reduction, share):
    logits, labels = LOGITS.reshape(*shape, 5), LABELS.astype(dtype).reshape(shape)
    loss, gradient = run(og.training.cross_entropy, logits, labels, reduction=reduction)
    assert loss == pytest.approx(cross_entropies(logits, labels).sum() / share, rel=1e-5)
    np.testing.assert_allclose(gradient, softmax_minus_one_hot(logits, labels) / share, atol=4e-6)


def test_reference_of_cross_entropy():
    loss, gradient = reference(og.training.cross_entropy, LOGITS, LABELS)
    assert loss == pytest.approx(cross_entropies(LOGITS, LABELS).mean(), rel=1e-5)
    np.testing.assert_allclose(gradient, softmax_minus_one_hot(LOGITS, LABELS) / 6, atol=4e-6)


@pytest.mark.library
def test_one_hot_labels_equal_integer_labels():
    one_hot = np.eye(5, dtype=np.float32)[LABELS]
    first, second = run(og.training.cross_entropy, LOGITS, LABELS), run(og.training.cross_entropy, LOGITS, one_hot)
    assert first.loss == pytest.approx(second.loss, rel=1e-5)
    np.testing.assert_allclose(first.gradient, second.gradient, atol=4e-6)


@pytest.mark.library
def test_gradient_with_respect_to_probabilities():
    labels = RNG.dirichlet(np.ones(5), 6).astype(np.float32)
    _, gradient = run(og.training.cross_entropy, LOGITS, labels, wrt=1)
    logs = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient, -logs / 6, rtol=1e-5, atol=4e-6)


@pytest.mark.library
@pytest.mark.parametrize("ignored", [-100, 2])
def test_ignored_labels_do_not_count(ignored):
    labels = np.where(LABELS == 2, ignored, LABELS).astype(np.int32)
    kept = LABELS != 2
    loss, gradient = run(og.training.cross_entropy, LOGITS, labels, ignore_index=ignored)
    total, _ = run(og.training.cross_entropy, LOGITS, labels, ignore_index=ignored, reduction="sum")
    expected = cross_entropies(LOGITS[kept], LABELS[kept])
    assert (loss, total) == (pytest.approx(expected.mean(), rel=1e-5), pytest.approx(expected.sum(), rel=1e-5))
    assert not gradient[~kept].any()
    np.testing.assert_allclose(gradient[kept], softmax_minus_one_hot(LOGITS[kept], LABELS[kept]) / 4, atol=4e-6)


@pytest.mark.library
def test_loss_of_ignored_labels_alone_is_zero():
    loss, gradient = run(og.training.cross_entropy, LOGITS, np.full(6, -1, np.int32), ignore_index=-1)
    assert (loss, gradient.any()) == (0, False)


@pytest.mark.library
def test_labels_that_are_no_class_count_and_add_nothing():
    labels = np.int32([-1, 5, 1, 2**31 - 1, -(2**31), 3])
    loss, gradient = run(og.training.cross_entropy, LOGITS, labels)
    kept = np.array([2, 5])
    assert loss == pytest.approx(cross_entropies(LOGITS[kept], labels[kept]).sum() / 6, rel=1e-5)
    assert not np.delete(gradient, kept, 0).any()


@pytest.mark.library
def test_no_numpy_step_of_a_loss_reads_all_classes_with_each_label():
    g = og.Graph()
    x, labels = g.input("x", "f32", (64, 1000)), g.input("labels", "s64", (64,))
    loss = g.output("loss", og.training.cross_entropy(g, x, labels))
    g.output("gradient", *g.gradient(loss, x))
    parts = [part for part in g.compile().report().partitions if part.executor in ("host", "reference")]
    assert not [part for part in parts if any(len(one.shape) == 2 and one.shape[-1] > 1 for one in part.results)]


@pytest.mark.library
def test_cross_entropy_of_extreme_logits_is_finite():
    logits = np.float32([[1e4, -1e4, 0], [-1e30, 0, 1e30], [88, 89, 90]])
    labels = np.int32([1, 2, 2])
    loss, gradient = run(og.training.cross_entropy, logits, labels)
    assert loss == pytest.approx(cross_entropies(logits, labels).mean(), rel=1e-5)
    np.testing.assert_allclose(gradient, softmax_minus_one_hot(logits, labels) / 3, atol=4e-6)


@pytest.mark.library
def test_masked_classes_leave_the_loss_finite():
    logits = np.float32([[1, -np.inf, 2]])
    loss, _ = run(og.training.cross_entropy, logits, np.int32([0]))
    assert loss == pytest.approx(math.log(1 + math.e), rel=1e-5)


@pytest.mark.library
def test_losses_of_bf16_are_f32():
    g = og.Graph()
    x, labels = g.input("x", og.bf16, (6, 5)), g.input("labels", og.s32, (6,))
    loss = g.output("loss", og.training.cross_entropy(g, x, labels))
    (gradient,) = g.gradient(loss, x)
    assert (loss.dtype, loss.shape, gradient.dtype) == (og.f32, (), og.bf16)
    found = g.compile()(LOGITS.astype(og.bf16.numpy), LABELS)
    exact = LOGITS.astype(og.bf16.numpy).astype(np.float64)
    assert found == pytest.approx(cross_entropies(exact, LABELS).mean(), rel=1e-5)


@pytest.mark.library
def test_cross_entropy_of_any_batch_size():
    g = og.Graph()
    x, labels = g.input("x", og.f32, (None, 5)), g.input("labels", og.s32, (None,))
    g.output("loss", og.training.cross_entropy(g, x, labels))
    g.output("gradient", g.gradient(g.outputs["loss"], x)[0])
    model = g.compile()
    for rows in (6, 2):
        loss, gradient = model(LOGITS[:rows], LABELS[:rows])
        assert loss == pytest.approx(cross_entropies(LOGITS[:rows], LABELS[:rows]).mean(), rel=1e-5)
        expected = softmax_minus_one_hot(LOGITS[:rows], LABELS[:rows]) / rows
        np.testing.assert_allclose(gradient, expected, atol=4e-6)


@pytest.mark.library
@pytest.mark.parametrize(("reduction", "share"), [("mean", 12), ("sum", 1)])
def test_mean_squared_error_is_its_definition(reduction, share):
    one, other = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    loss, gradient = run(og.training.mean_squared_error, one, other, reduction=reduction)
    assert loss == pytest.approx(sum((a - b) ** 2 for a, b in zip(one.flat, other.flat, strict=True)) / share, rel=1e-5)
    np.testing.assert_allclose(gradient, 2 * (one - other) / share, rtol=1e-5, atol=4e-6)


@pytest.mark.library
@pytest.mark.parametrize("options", [{}, {"ignore_index": 2}, {"reduction": "sum"}])
def test_cross_entropy_equals_torch(options):
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS).long(), **options)
    expected.backward()
    loss, gradient = run(og.training.cross_entropy, LOGITS, LABELS, **options)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, logits.grad.numpy(), atol=4e-6)


@pytest.mark.parametrize(
    ("loss", "inputs", "options", "message"),
    [
        ("cross_entropy", [("f32", (6, 5)), ("s32", (5,))], {}, "labels: shape [5]; expected [6], one label"),
        ("cross_entropy", [("f32", (6, 5)), ("f32", (6,))], {}, "labels: shape [6]; expected [6, 5], as logits has"),
        ("cross_entropy", [("s32", (6, 5)), ("s32", (6,))], {}, "logits: 'x0' is s32; expected f32, bf16, f16"),
        ("cross_entropy", [("f32", (6, None)), ("s32", (6,))], {}, "expected a known number of classes"),
        ("cross_entropy", [("f32", (6, 5)), ("s32", (6,))], {"reduction": "max"}, "expected one of 'mean', 'sum'"),
        ("cross_entropy", [("f32", (6, 5)), ("s32", (6,))], {"ignore_index": 0.5}, "ignore_index: 0.5; expected an"),
        ("cross_entropy", [("f32", (6, 5)), ("f32", (6, 5))], {"ignore_index": 1}, "because labels are probabilities"),
        ("mean_squared_error", [("f32", (2, 3)), ("f32", (3,))], {}, "target: shape [3]; expected [2, 3]"),
        ("mean_squared_error", [("f32", (2, 3)), ("f32", (2, 3))], {"reduction": 1}, "reduction: 1; expected one of"),
        ("mean_squared_error", [("f32", None), ("f32", (2, 3))], {}, "prediction: 'x0' has an unknown rank"),
        ("mean_squared_error", [("f32", (2, 3)), ("f32", None)], {}, "target: 'x1' has an unknown rank"),
    ],
)
def test_losses_name_the_wrong_argument(loss, inputs, options, message):
    g = og.Graph()
    tensors = [g.input(f"x{place}", *one) for place, one in enumerate(inputs)]
    with pytest.raises(og.ArgumentError) as caught:
        getattr(og.training, loss)(g, *tensors, **options)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{loss}: ")
    assert g.ops == ()


def test_losses_refuse_tensors_of_other_graphs():
    g, other = og.Graph(), og.Graph()
    x, y = g.input("x", og.f32, (2,)), other.input("y", og.f32, (2,))
    with pytest.raises(og.ArgumentError, match="mean_squared_error: target"):
        og.training.mean_squared_error(g, x, y)
    with pytest.raises(og.ArgumentError, match="graph: 'g'; expected a Graph"):
        og.training.mean_squared_error("g", x, x)
