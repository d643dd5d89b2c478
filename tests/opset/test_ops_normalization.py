"""Normalization: literal numbers, plain loops, finite differences, shapes and rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers.finite_differences import finite_differences
from helpers.specification import check_op
from numpy.typing import NDArray

from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.values import convert
from onegraph.reference.run import reference_function

Floats = NDArray[np.float64]
EPS = 1e-3
F32 = DataType.f32


def make(kind: str, attrs: dict[str, Any], tensors: list[TensorType | None], outputs: int | None = None) -> Call:
    schema = BASE[kind]
    return Call(schema, {k: convert(schema.attribute(k), v) for k, v in attrs.items()}, tensors, outputs)


def run(kind: str, attrs: dict[str, Any], *arrays: Floats, outputs: int | None = None) -> tuple[Floats, ...]:
    call = make(kind, attrs, [TensorType(F32, array.shape, array) for array in arrays], outputs)
    with np.errstate(all="ignore"):
        result = reference_function(BASE[kind])(call, *arrays)
    results: tuple[Floats, ...] = result if isinstance(result, tuple) else (result,)
    for array, shape in zip(results, call.schema.shape(call), strict=True):
        assert array.shape == shape
    return results


def infer(kind: str, attrs: dict[str, Any], *shapes: Any) -> Any:
    call = make(kind, attrs, [None if shape == () else TensorType(F32, shape) for shape in shapes])
    return call.schema.shape(call)


def noise(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape)


def near(actual: Floats, expected: object, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(actual, np.asarray(expected), atol=tolerance, rtol=1e-6)


def moments(numbers: list[float]) -> tuple[float, float]:
    mean = sum(numbers) / len(numbers)
    return mean, sum((x - mean) ** 2 for x in numbers) / len(numbers)


# Batch normalization -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data_format", "expected"), [("NXC", [[[3, 9], [-1, 29]]]), ("NCX", [[[3, -1], [9, 29]]])])
def test_batch_norm_inference_literal(data_format: str, expected: object) -> None:
    gamma, beta, mean, variance = (np.array(v) for v in ([2.0, 10.0], [1.0, -1.0], [3.0, 0.0], [3.75, 0.75]))
    attrs = {"epsilon": 0.25, "data_format": data_format}
    near(
        run("BatchNormInference", attrs, np.array([[[5.0, 1.0], [1.0, 3.0]]]), gamma, beta, mean, variance)[0], expected
    )


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_batch_norm_training_literal(data_format: str) -> None:
    # Two channels of four elements, one (1, 2, 3, 6): mean 3, biased variance 3.5; one constant 4.
    src = np.array([[[1, 2], [4, 4]], [[3, 6], [4, 4]]], dtype=float)
    swap = data_format == "NXC"
    given = np.moveaxis(src, 1, -1) if swap else src
    attrs = {"epsilon": 0.5, "momentum": 0.75, "data_format": data_format}
    old_mean, old_variance = np.array([7.0, 0.0]), np.array([1.5, 8.0])
    gamma, beta = np.array([2.0, 5.0]), np.array([10.0, -1.0])
    dst, mean, variance, batch_mean, batch_variance = run(
        "BatchNormForwardTraining", attrs, given, old_mean, old_variance, gamma, beta
    )
    near(np.moveaxis(dst, -1, 1) if swap else dst, [[[8, 9], [-1, -1]], [[10, 13], [-1, -1]]])
    near(batch_mean, [3, 4])
    near(batch_variance, [3.5, 0])
    near(mean, [6, 1])
    near(variance, [2, 6])
    plain = run("BatchNormForwardTraining", attrs, given, old_mean, old_variance)[0]
    near(np.moveaxis(plain, -1, 1) if swap else plain, [[[-1, -0.5], [0, 0]], [[0, 1.5], [0, 0]]])


def test_momentum_default() -> None:
    src, zero = np.array([[2.0], [4.0]]), np.zeros(1)
    _, mean, variance, *_ = run("BatchNormForwardTraining", {"epsilon": 1.0}, src, zero, zero)
    near(mean, [1.5])
    near(variance, [0.5])


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_batch_norm_gradients(data_format: str, affine: bool) -> None:
    src, diff_dst = noise(2, 3, 2, 3), noise(2, 3, 2, 3, seed=1)
    attrs = {"epsilon": EPS, "data_format": data_format}
    gamma, beta, zero = noise(3, seed=2), noise(3, seed=3), np.zeros(3)

    def forward(x: Floats, scale: Floats, shift: Floats) -> Floats:
        return run("BatchNormForwardTraining", attrs, x, zero, zero, scale, shift)[0]

    scale = gamma if affine else np.ones(3)
    mean, variance = run("BatchNormForwardTraining", attrs, src, zero, zero)[3:]
    vectors = (mean, variance, gamma) if affine else (mean, variance)
    found = run("BatchNormTrainingBackward", attrs, src, diff_dst, *vectors, outputs=3)
    near(found[0], finite_differences(lambda x: forward(x, scale, beta), src, diff_dst), 1e-6)
    near(found[1], finite_differences(lambda x: forward(src, x, beta), scale, diff_dst), 1e-6)
    near(found[2], finite_differences(lambda x: forward(src, scale, x), beta, diff_dst), 1e-6)
    # Without the two other outputs gamma is not used.
    alone = run("BatchNormTrainingBackward", attrs, src, diff_dst, *vectors, outputs=1)[0]
    near(alone, finite_differences(lambda x: forward(x, np.ones(3), beta), src, diff_dst), 1e-6)


@pytest.mark.parametrize(
    ("kind", "attrs", "src", "vectors"),
    [
        ("BatchNormForwardTraining", {"epsilon": EPS, "momentum": 0.5, "data_format": "NCX"}, (0, 3, 4), 2),
        ("LayerNorm", {"use_affine": False}, (3, 0), 0),
        ("GroupNorm", {"groups": 1, "use_affine": False, "data_format": "NCX"}, (2, 3, 0), 0),
        ("RMSNorm", {}, (3, 0), 0),
    ],
)
def test_statistics_of_empty_batches_are_nan(
    kind: str, attrs: dict[str, object], src: tuple[int, ...], vectors: int
) -> None:
    """numpy gives no warning."""
    dst, *statistics = run(kind, attrs, np.zeros(src), *[np.ones(3)] * vectors)
    assert dst.shape == src
    assert np.isnan([*map(np.max, statistics)]).all()


# Layer, group and RMS normalization ----------------------------------------------------------------------------------


def test_layer_norm_literal() -> None:
    src = np.array([[1.0, 2.0, 3.0, 6.0]])
    dst, mean, variance = run("LayerNorm", {"epsilon": 0.5}, src, np.array([1.0, 2, 3, 4]), np.array([0.0, 0, 1, 1]))
    near(dst, [[-1, -1, 1, 7]])
    near(mean, [3])
    near(variance, [3.5])


@pytest.mark.parametrize("begin", [-1, 2, -2, 1, 0, -3])
def test_layer_norm_loops_and_gradients(begin: int) -> None:
    src, diff_dst = noise(2, 3, 4), noise(2, 3, 4, seed=1)
    gamma, beta = noise(4, seed=2), noise(4, seed=3)
    attrs = {"begin_norm_axis": begin, "epsilon": EPS}
    dst, mean, variance = run("LayerNorm", attrs, src, gamma, beta)
    outer = src.shape[: begin if begin >= 0 else 3 + begin]
    assert mean.shape == variance.shape == outer
    for place in np.ndindex(*outer):
        m, v = moments([float(x) for x in src[place].ravel()])
        near(mean[place], m)
        near(variance[place], v)
        near(dst[place], (src[place] - m) / math.sqrt(v + EPS) * gamma + beta)

    def forward(x: Floats, scale: Floats, shift: Floats) -> Floats:
        return run("LayerNorm", attrs, x, scale, shift)[0]

    found = run("LayerNormBackward", attrs, src, diff_dst, mean, variance, gamma, beta)
    near(found[0], finite_differences(lambda x: forward(x, gamma, beta), src, diff_dst), 1e-6)
    near(found[1], finite_differences(lambda x: forward(src, x, beta), gamma, diff_dst), 1e-6)
    near(found[2], finite_differences(lambda x: forward(src, gamma, x), beta, diff_dst), 1e-6)
    plain = attrs | {"use_affine": False}
    near(
        run("LayerNormBackward", plain, src, diff_dst, mean, variance)[0],
        finite_differences(lambda x: run("LayerNorm", plain, x)[0], src, diff_dst),
        1e-6,
    )


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm_loops(groups: int, data_format: str) -> None:
    src, gamma, beta = noise(2, 4, 3, 2), noise(4, seed=2), noise(4, seed=3)
    given = src if data_format == "NCX" else np.moveaxis(src, 1, -1)
    attrs = {"groups": groups, "epsilon": EPS, "data_format": data_format}
    dst, mean, variance = run("GroupNorm", attrs, given, gamma, beta)
    plain = run("GroupNorm", attrs | {"use_affine": False}, given)[0]
    if data_format == "NXC":
        dst, plain = np.moveaxis(dst, -1, 1), np.moveaxis(plain, -1, 1)
    for n, c in np.ndindex(2, 4):
        group = c * groups // 4
        members = [d for d in range(4) if d * groups // 4 == group]
        m, v = moments([float(x) for d in members for x in src[n, d].ravel()])
        near(mean[n, group], m)
        near(variance[n, group], v)
        near(plain[n, c], (src[n, c] - m) / math.sqrt(v + EPS))
        near(dst[n, c], (src[n, c] - m) / math.sqrt(v + EPS) * gamma[c] + beta[c])


def test_rms_norm_literal() -> None:
    src = np.array([[3.0, 4.0], [0.0, 1.0]])
    near(run("RMSNorm", {"epsilon": 3.5}, src)[0], [[0.75, 1], [0, 0.5]])  # roots of 12.5 + 3.5 and of 0.5 + 3.5
    near(run("RMSNorm", {"epsilon": 3.5}, src, np.array([4.0, 2.0]))[0], [[3, 2], [0, 1]])
    near(run("RMSNorm", {"epsilon": 3.5}, src, np.array([[4.0], [2.0]]))[0], [[3, 4], [0, 1]])
    near(run("RMSNorm", {"epsilon": 2.5, "begin_norm_axis": 0}, src)[0], src / 3)


# Softmax -------------------------------------------------------------------------------------------------------------


def test_softmax_literal() -> None:
    src = np.log(np.array([[1.0, 3.0], [2.0, 2.0]]))
    dst, stats = run("SoftMax", {}, src)
    near(dst, [[0.25, 0.75], [0.5, 0.5]])
    near(stats, [[math.log(4)], [math.log(4)]])
    dst, stats = run("SoftMax", {"axis": 0}, src)
    near(dst, [[1 / 3, 0.6], [2 / 3, 0.4]])
    near(stats, [[math.log(3), math.log(5)]])
    near(run("LogSoftmax", {}, src)[0], np.log([[0.25, 0.75], [0.5, 0.5]]))
    near(run("LogSoftmax", {"axis": -2}, src)[0], np.log([[1 / 3, 0.6], [2 / 3, 0.4]]))


def test_softmax_of_large_numbers() -> None:
    src = np.array([[1e4, 1e4 + math.log(3)]])
    near(run("SoftMax", {}, src)[0], [[0.25, 0.75]])
    near(run("LogSoftmax", {}, src)[0], np.log([[0.25, 0.75]]))


def test_softmax_modes() -> None:
    src = np.array([[-np.inf, 0.0], [-np.inf, -np.inf]])
    near(run("SoftMax", {}, src)[0], [[0, 1], [np.nan, np.nan]])
    dst, stats = run("SoftMax", {"mode": "inf_as_zero"}, src)
    near(dst, [[0, 1], [0, 0]])
    near(stats, [[0], [0]])
    near(np.exp(src - stats), dst)  # the same as in training


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax"])
def test_softmax_gradients(kind: str, axis: int) -> None:
    src, diff_dst = noise(2, 3, 4), noise(2, 3, 4, seed=1)
    attrs = {"axis": axis}
    numeric = finite_differences(lambda x: run(kind, attrs, x)[0], src, diff_dst)
    near(run(kind + "Backward", attrs, diff_dst, run(kind, attrs, src)[0])[0], numeric, 1e-6)


# Shapes and tables ---------------------------------------------------------------------------------------------------

NCX = {"epsilon": EPS, "data_format": "NCX"}
SRC, C = (2, 3, None), (3,)


@pytest.mark.parametrize(
    ("kind", "attrs", "shapes", "expected"),
    [
        ("BatchNormInference", NCX, [None, C, C, C, C], [None]),
        ("BatchNormForwardTraining", NCX, [SRC, (None,), None], [SRC, C, C, C, C]),
        ("BatchNormForwardTraining", NCX, [None, C, None], [None, C, C, C, C]),
        ("BatchNormForwardTraining", NCX, [None, None, None], [None, *[(None,)] * 4]),
        ("BatchNormTrainingBackward", NCX, [SRC, None, None, None], [SRC, C, C]),
        ("LayerNorm", {}, [SRC], [SRC, (2, 3), (2, 3)]),
        ("LayerNorm", {"begin_norm_axis": 0}, [SRC], [SRC, (), ()]),
        ("LayerNorm", {}, [None], [None, None, None]),
        ("LayerNormBackward", {}, [(2, None), None, None, None, C, None], [(2, None), C, C]),
        ("GroupNorm", {"groups": 2}, [(None, 5, 4)], [(None, 5, 4), (None, 2), (None, 2)]),
        ("GroupNorm", {"groups": 2}, [None], [None, (None, 2), (None, 2)]),
        ("RMSNorm", {}, [SRC], [SRC]),
        ("SoftMax", {}, [SRC], [SRC, (2, 1, None)]),
        ("SoftMax", {"axis": -1}, [SRC], [SRC, (2, 3, 1)]),
        ("SoftMax", {}, [None], [None, None]),
        ("SoftMaxBackward", {}, [SRC, None], [SRC]),
    ],
)
def test_unknown_dims(kind: str, attrs: dict[str, Any], shapes: list[Any], expected: list[Any]) -> None:
    assert list(infer(kind, attrs, *shapes)) == expected
    assert not [v for v in check_op(kind, attrs, [("f32", s) for s in shapes]) if v.rule not in ("affine_inputs",)]


@pytest.mark.parametrize(
    ("kind", "attrs", "count"),
    [
        ("LayerNorm", {}, 3),
        ("LayerNorm", {"keep_stats": False}, 1),
        ("GroupNorm", {"groups": 1, "keep_stats": False}, 1),
        ("LayerNormBackward", {}, 3),
        ("LayerNormBackward", {"use_affine": False}, 1),
    ],
)
def test_implied_outputs(kind: str, attrs: dict[str, Any], count: int) -> None:
    implied = BASE[kind].implied_outputs
    assert implied is not None
    assert implied(make(kind, attrs, [])) == count


def test_ops_by_version() -> None:
    kinds = {minor: edition(f"onednn-3.{minor}").schemas for minor in (0, 5, 6, 7, 8, 9, 10, 11)}
    assert "GroupNorm" not in kinds[5]
    assert "GroupNorm" in kinds[6]
    assert "RMSNorm" not in kinds[10]
    assert "RMSNorm" in kinds[11]
    softmax = {minor: schemas["SoftMax"] for minor, schemas in kinds.items()}
    assert [softmax[m].has_attribute("mode") for m in (7, 8)] == [False, True]
    assert [len(softmax[m].outputs) for m in (8, 9)] == [1, 2]
    assert [len(softmax[m].types) for m in (0, 7, 8, 10, 11)] == [3, 3, 5, 5, 7]
    assert [len(kinds[m]["SoftMaxBackward"].types) for m in (9, 10)] == [3, 5]


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "outputs", "fine"),
    [
        ("SoftMax", {}, ["bf16"], ["f32", "f32"], True),
        ("SoftMax", {}, ["bf16"], ["f16"], False),
        ("SoftMax", {}, ["f32"], ["f32", "bf16"], False),
        ("SoftMaxBackward", {}, ["bf16", "bf16"], ["f32"], True),
        ("SoftMaxBackward", {}, ["bf16", "f32"], ["f32"], False),
        ("LayerNorm", {}, ["bf16", "f32", "f32"], ["bf16", "f32", "f32"], True),
        ("LayerNorm", {}, ["bf16", "bf16", "f32"], ["bf16", "f32", "f32"], False),
        ("LayerNorm", {}, ["f16", "f16", "f16"], ["f16", "f16", "f16"], False),
        ("RMSNorm", {}, ["f16", "f16"], ["f16"], True),
    ],
)
def test_type_rows(kind: str, attrs: dict[str, Any], inputs: list[str], outputs: list[str], fine: bool) -> None:
    found = check_op(kind, attrs, [(t, None) for t in inputs], [(t, None) for t in outputs])
    assert {v.rule for v in found} == (set() if fine else {"data_type"})


# Rules ---------------------------------------------------------------------------------------------------------------

X, V, W = (2, 3, 4), (4,), (3,)
BN, BT, BB = "BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"
E = {"epsilon": EPS}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "outputs", "rule", "where"),
    [
        (BN, E, [(4,), V, V, V, V], None, "has_channels", "src"),
        (BN, E, [X, V, V, W, V], None, "channel_vectors", "mean"),
        (BN, NCX, [X, W, W, W, V], None, "channel_vectors", "variance"),
        (BN, E, [X, (1, 4), V, V, V], None, "channel_vectors", "gamma"),
        (BN, E, [None, V, W, V, V], None, "channel_vectors", "beta"),
        (BN, {}, [X, V, V, V, V], None, "missing_attribute", "epsilon"),
        (BN, {"epsilon": 0.0}, [X, V, V, V, V], None, "attribute_range", "epsilon"),
        (BT, E | {"momentum": -0.5}, [X, V, V], None, "attribute_range", "momentum"),
        (BT, E, [X, V, V, V], None, "affine_pair", "beta"),
        (BB, E, [X, X, V, V, V], [X, V], "gradient_pair", "diff_beta"),
        (BB, E, [X, (2, 3, 5), V, V], None, "gradient_alike", "diff_dst"),
        (BB, E, [X, X, V, V, V], [X, V, W], "output_shape", "diff_beta"),
        ("LayerNorm", {}, [X], None, "affine_inputs", "gamma"),
        ("LayerNorm", {}, [X, V], None, "affine_inputs", "beta"),
        ("LayerNorm", {"use_affine": False}, [X, V, V], None, "affine_inputs", "gamma"),
        ("LayerNorm", {"begin_norm_axis": 3}, [X, V, V], None, "begin_axis_in_range", "begin_norm_axis"),
        ("LayerNorm", {"begin_norm_axis": -4}, [X, V, V], None, "begin_axis_in_range", "begin_norm_axis"),
        ("LayerNorm", {}, [(), V, V], None, "begin_axis_in_range", "begin_norm_axis"),
        ("LayerNorm", {}, [X, V, V], [X], "output_count", "mean"),
        ("LayerNorm", {}, [X, V, V], [X, (2, 3)], "output_count", "variance"),
        ("LayerNorm", {"keep_stats": False}, [X, V, V], [X, (2, 3), (2, 3)], "output_count", "mean"),
        ("LayerNorm", {}, [X, V, W], None, "channel_vectors", "beta"),
        ("LayerNorm", {}, [X, V, V], [X, (2, 3), (2, 3, 1)], "output_shape", "variance"),
        ("LayerNormBackward", {}, [X, X, (2, 3), (2, 3)], None, "affine_inputs", "gamma"),
        ("LayerNormBackward", {}, [X, X, (2, 3), (2, 3), V, V], [X], "output_count", "diff_gamma"),
        ("LayerNormBackward", {}, [X, X, (2, 3), (2,), V, V], None, "stats_shape", "variance"),
        ("LayerNormBackward", {}, [X, (3, 4), (2, 3), (2, 3), V, V], None, "gradient_alike", "diff_dst"),
        ("GroupNorm", {"groups": 3}, [X, V, V], None, "groups_divide", "groups"),
        ("GroupNorm", {"groups": 8}, [X, V, V], None, "groups_divide", "groups"),
        ("GroupNorm", {"groups": 0}, [X, V, V], None, "attribute_range", "groups"),
        ("GroupNorm", {"groups": 1}, [(4,), V, V], None, "has_channels", "src"),
        ("GroupNorm", {"groups": 1}, [X, W, V], None, "channel_vectors", "gamma"),
        ("GroupNorm", {"groups": 1}, [X, V, V], [X], "output_count", "mean"),
        ("RMSNorm", {}, [X, W], None, "gamma_broadcasts", "gamma"),
        ("RMSNorm", {}, [(2, 1, 4), (3, 1)], None, "gamma_broadcasts", "gamma"),
        ("RMSNorm", {}, [X, (1, 2, 3, 4)], None, "gamma_broadcasts", "gamma"),
        ("RMSNorm", {"begin_norm_axis": 5}, [X], None, "begin_axis_in_range", "begin_norm_axis"),
        ("SoftMax", {}, [(4,)], None, "axis_in_range", "axis"),
        ("SoftMax", {"mode": "zero"}, [X], None, "attribute_value", "mode"),
        ("SoftMax", {}, [X], [X, (2, 4)], "output_shape", "stats"),
        ("LogSoftmax", {"axis": -4}, [X], None, "axis_in_range", "axis"),
        ("SoftMaxBackward", {}, [X, (2, 3, 5)], None, "inputs_alike", "dst"),
        ("LogSoftmaxBackward", {}, [X, (2, 3)], None, "inputs_alike", "dst"),
    ],
)
def test_rules(
    kind: str, attrs: dict[str, Any], inputs: list[Any], outputs: list[Any] | None, rule: str, where: str
) -> None:
    typed = None if outputs is None else [("f32", shape) for shape in outputs]
    found = check_op(kind, attrs, [("f32", shape) for shape in inputs], typed)
    assert (rule, where) in {(violation.rule, violation.where) for violation in found}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "outputs"),
    [
        (BT, E, [X, V, V, V, V], [X, V, V, V, V]),
        (BB, E, [X, X, V, V], [X]),
        ("LayerNorm", {"use_affine": False, "keep_stats": False}, [X], [X]),
        ("LayerNorm", {"begin_norm_axis": 1}, [X, V, V], [X, (2,), (2,)]),
        ("LayerNormBackward", {"use_affine": False}, [X, X, (2, 3), (2, 3)], [X]),
        ("GroupNorm", {"groups": 2}, [X, V, V], [X, (2, 2), (2, 2)]),
        ("RMSNorm", {}, [X, (3, 1)], [X]),
        ("SoftMax", {}, [X], [X, (2, 1, 4)]),
    ],
)
def test_valid_calls(kind: str, attrs: dict[str, Any], inputs: list[Any], outputs: list[Any]) -> None:
    assert check_op(kind, attrs, [("f32", s) for s in inputs], [("f32", s) for s in outputs]) == []
