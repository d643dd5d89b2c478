"""The quantization category: hand-computed numbers, shapes and every rule."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers.specification import check_op

import onegraph as og
from onegraph.inference.infer import infer_op
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.signature import AttrValue
from onegraph.reference.by_element import BLOCK
from onegraph.reference.run import narrow, reference_function

KINDS = ("Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize", "TypeCast")


def run(kind: str, attrs: dict[str, AttrValue], dtype: str, *arrays: object) -> list[object]:
    inputs = [np.asarray(array) for array in arrays]
    call = Call(BASE[kind], attrs, [TensorType(None, array.shape, array) for array in inputs])
    result = narrow(reference_function(BASE[kind])(call, *inputs), DataType[dtype])
    assert [result.shape] == list(BASE[kind].shape(call))
    return result.tolist()  # type: ignore[no-any-return]


def quantized(x: float, scale: float, zp: int, low: int, high: int) -> int:
    return max(low, min(high, round(x / scale + zp)))


def test_quantize_saturates_and_rounds_halves_to_even() -> None:
    attrs: dict[str, AttrValue] = {"scales": (0.5,), "zps": (10,)}
    assert run("Quantize", attrs, "u8", [-9.0, 0.25, 0.75, 1.0, 500.0]) == [0, 10, 12, 12, 255]
    assert run("Quantize", attrs, "s8", [-90.0, 0.25, 500.0]) == [-128, 10, 127]


def test_quantize_without_zero_points() -> None:
    assert run("Quantize", {"scales": (2.0,)}, "s8", [-4.0, 5.0]) == [-2, 2]


def test_dequantize_does_not_round() -> None:
    assert run("Dequantize", {"scales": (0.25,), "zps": (3,)}, "f32", [0, 3, 4]) == [-0.75, 0.0, 0.25]


@pytest.mark.parametrize("zero", [2**63 - 1, -(2**63) + 1])
def test_zero_point_difference_wider_than_64_bits(zero: int) -> None:
    expected = -(2.0**62) if zero > 0 else 2.0**62  # f32 does not show a difference of 128 here
    assert run("Dequantize", {"scales": (0.5,), "zps": (zero,)}, "f32", np.int64([-128, 0, 127])) == [expected] * 3


def test_tensors_larger_than_a_block_are_exact() -> None:
    src = np.random.default_rng(3).standard_normal((7, 3, BLOCK)).astype(np.float32).transpose(2, 1, 0)
    scales, zps = (0.5, 0.03, 0.001), (1, 0, -2)
    attrs: dict[str, AttrValue] = {"qtype": "per_channel", "axis": 1, "scales": scales, "zps": zps}
    whole = src / np.float64(np.float32(scales)).reshape(3, 1) + np.reshape(zps, (3, 1))
    assert run("Quantize", attrs, "s8", src) == np.clip(np.rint(whole), -128, 127).astype(int).tolist()
    assert run("DynamicQuantize", {"qtype": "per_channel", "axis": 1}, "s8", src, *map(np.array, (scales, zps))) == [
        *np.clip(np.rint(src / np.reshape(scales, (3, 1)) + np.reshape(zps, (3, 1))), -128, 127).astype(int).tolist()
    ]
    assert np.array_equal(run("TypeCast", {}, "bf16", src), src.astype(DataType.bf16.numpy))


def test_large_tensors_need_no_wide_copy() -> None:
    g = og.Graph()
    src = g.input("src", "f32", (1 << 20,))
    g.output("dst", g.quantize(src, dtype="s8", scales=[0.5], zps=[1]))
    given = {"src": np.ones(1 << 20, np.float32)}
    tracemalloc.start()
    try:
        og.reference.run(g, given)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20  # one copy in f64 takes 8 MB


def test_scales_are_32_bit_floats() -> None:
    assert run("Dequantize", {"scales": (0.1,)}, "f32", [3]) == [float(np.float32(np.float32(0.1) * np.float32(3)))]


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_per_channel_against_a_loop(axis: int, dynamic: bool) -> None:
    src = np.arange(-12.0, 12.0).reshape(2, 3, 4)
    scales, zps = (0.5, 1.0, 2.0), (1, 0, -2)
    expected = [
        [[quantized(src[i, j, k], scales[j], zps[j], -128, 127) for k in range(4)] for j in range(3)] for i in range(2)
    ]
    attrs: dict[str, AttrValue] = {"qtype": "per_channel", "axis": axis}
    if dynamic:
        got = run("DynamicQuantize", attrs, "s8", src, np.array(scales), np.array(zps))
    else:
        got = run("Quantize", {**attrs, "scales": scales, "zps": zps}, "s8", src)
    assert got == expected
    back = [[[(src[i, j, k] - zps[j]) * scales[j] for k in range(4)] for j in range(3)] for i in range(2)]
    if dynamic:
        got = run("DynamicDequantize", attrs, "f32", src.astype(int), np.array(scales), np.array(zps))
    else:
        got = run("Dequantize", {**attrs, "scales": scales, "zps": zps}, "f32", src.astype(int))
    assert got == back


def test_dynamic_ops_without_zero_points() -> None:
    assert run("DynamicQuantize", {}, "u8", [1.0, 4.0], [2.0]) == [0, 2]
    assert run("DynamicDequantize", {}, "f32", [1, 4], [2.0]) == [2.0, 8.0]


def test_per_channel_of_an_empty_axis() -> None:
    attrs: dict[str, AttrValue] = {"qtype": "per_channel", "scales": (), "zps": ()}
    assert run("Quantize", attrs, "s8", np.zeros((2, 0))) == [[], []]


def test_per_group_against_a_loop() -> None:
    src, scales, zps = np.arange(8).reshape(4, 2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 1], [2, 3]])
    expected = [[(src[i, j] - zps[i // 2, j]) * scales[i // 2, j] for j in range(2)] for i in range(4)]
    attrs: dict[str, AttrValue] = {"qtype": "per_group", "group_shape": (2, 1)}
    assert run("DynamicDequantize", attrs, "f32", src, scales, zps) == expected


def test_type_cast_rounds_to_even() -> None:
    assert run("TypeCast", {}, "f16", [2049.0, 2051.0]) == [2048.0, 2052.0]
    assert run("TypeCast", {}, "bf16", [257.0, 259.0]) == [256.0, 260.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [None, (None, 3), (2, None), (2, 3)])
def test_keeps_the_source_shape(kind: str, shape: tuple[int | None, ...] | None) -> None:
    assert BASE[kind].shape(Call(BASE[kind], {"scales": (1.0,)}, [TensorType(None, shape)])) == (shape,)


@pytest.mark.parametrize(
    ("kind", "inputs", "dtypes"),
    [
        ("Quantize", ["f32"], "u8 s8 f8_e4m3 f8_e5m2"),
        ("Dequantize", ["f8_e5m2"], "f32"),
        ("DynamicQuantize", ["f32", "f32", "s32"], "s8 u8"),
        ("DynamicDequantize", ["u4", "bf16", "s4"], "bf16"),
        ("TypeCast", ["f32"], "f16 bf16"),
        ("TypeCast", ["bf16"], "f32"),
    ],
)
def test_output_types(kind: str, inputs: list[str], dtypes: str) -> None:
    attrs = {"scales": [1.0]} if kind in ("Quantize", "Dequantize") else {}
    types = [(dtype, (4,) if index == 0 else (1,)) for index, dtype in enumerate(inputs)]
    checked = infer_op(kind, attrs, types, edition=edition("onednn-3.13"))
    assert checked.violations == ()
    assert {str(dtype) for dtype in checked.dtype_choices[0]} == set(dtypes.split())


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs"),
    [
        ("Quantize", {"scales": [1.0]}, [("bf16", (4,))]),
        ("DynamicDequantize", {}, [("s8", (4,)), ("f32", (1,)), ("s4", (1,))]),
        ("DynamicDequantize", {}, [("s4", (4,)), ("f32", (1,)), ("s8", (1,))]),
        ("TypeCast", {}, [("s8", (4,))]),
    ],
)
def test_rejects_types_outside_the_tables(kind: str, attrs: dict[str, object], inputs: list[object]) -> None:
    assert [violation.rule for violation in check_op(kind, attrs, inputs)] == ["data_type"]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_rejects_cast_to_the_same_type(dtype: str) -> None:
    found = check_op("TypeCast", {}, [(dtype, (2,))], [(dtype, (2,))])
    assert [violation.rule for violation in found] == ["data_type"]


def test_later_features_are_absent_from_earlier_editions() -> None:
    assert check_op("Dequantize", {"scales": [1.0]}, [("f8_e4m3", (4,))], edition="onednn-3.4") == []
    found = check_op("Dequantize", {"scales": [1.0]}, [("f8_e4m3", (4,))], edition="onednn-3.3")
    assert {violation.rule for violation in found} == {"missing_attribute", "data_type"}
    group = {"qtype": "per_group", "group_shape": [2, 1]}
    tensors = [("s4", (4, 2)), ("f32", (2, 2))]
    assert check_op("DynamicDequantize", group, tensors, edition="onednn-3.7") == []
    found = check_op("DynamicDequantize", group, tensors, edition="onednn-3.6")
    assert "unknown_attribute" in [violation.rule for violation in found]


F32 = ("f32", (2, 3))
S8 = ("s8", (4, 6))
CHANNEL, GROUP = {"qtype": "per_channel"}, {"qtype": "per_group", "group_shape": [2, 1]}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule", "where"),
    [
        ("Quantize", {**CHANNEL, "axis": 2, "scales": [1.0]}, [F32], "channel_axis", "axis"),
        ("Dequantize", {**CHANNEL, "axis": -3, "scales": [1.0]}, [S8], "channel_axis", "axis"),
        ("DynamicQuantize", CHANNEL, [("f32", (3,)), ("f32", (3,))], "channel_axis", "axis"),
        ("DynamicQuantize", CHANNEL, [("f32", ()), ("f32", (1,))], "channel_axis", "axis"),
        ("Quantize", {"scales": [1.0, 2.0]}, [F32], "scale_count", "scales"),
        ("Quantize", {"scales": []}, [F32], "scale_count", "scales"),
        ("Quantize", {**CHANNEL, "scales": [1.0, 2.0]}, [F32], "scale_count", "scales"),
        ("DynamicDequantize", {}, [S8, ("f32", (2,))], "scale_count", "scales"),
        ("DynamicQuantize", CHANNEL, [F32, ("f32", (2,))], "scale_count", "scales"),
        ("Dequantize", {"scales": [1.0], "zps": [0, 0]}, [S8], "zero_point_count", "zps"),
        ("Dequantize", {"scales": [1.0], "zps": []}, [S8], "zero_point_count", "zps"),
        ("DynamicQuantize", CHANNEL, [F32, ("f32", (None,)), ("s8", (2,))], "zero_point_count", "zps"),
        ("DynamicQuantize", {}, [F32, ("f32", (1, 1))], "parameter_vectors", "scales"),
        ("DynamicQuantize", {}, [F32, ("f32", (1,)), ("s8", ())], "parameter_vectors", "zps"),
        ("Dequantize", {"scales": [1.0], "zps": [0]}, [("f8_e5m2", (2,))], "no_zero_points", "zps"),
        ("DynamicDequantize", {"qtype": "per_group"}, [S8, ("f32", (2, 6))], "group_shape_fits", "group_shape"),
        ("DynamicDequantize", {**GROUP, "group_shape": [2]}, [S8, ("f32", (2,))], "group_shape_fits", "group_shape"),
        (
            "DynamicDequantize",
            {**GROUP, "group_shape": [3, 1]},
            [S8, ("f32", (1, 6))],
            "group_shape_fits",
            "group_shape",
        ),
        ("DynamicDequantize", GROUP, [S8, ("f32", (2, 5))], "group_shape_fits", "scales"),
        ("DynamicDequantize", GROUP, [S8, ("f32", (2, 6)), ("s8", (1, 6))], "group_shape_fits", "zps"),
        ("Quantize", {"scales": [1.0], "qtype": "per_group"}, [F32], "attribute_value", "qtype"),
        (
            "DynamicDequantize",
            {**GROUP, "group_shape": [0, 1]},
            [S8, ("f32", (2, 6))],
            "attribute_range",
            "group_shape",
        ),
    ],
)
def test_rules(kind: str, attrs: dict[str, object], inputs: list[object], rule: str, where: str) -> None:
    assert [(violation.rule, violation.where) for violation in check_op(kind, attrs, inputs)] == [(rule, where)]


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs"),
    [
        ("Quantize", {"scales": [1.0]}, [("f32", (3,))]),
        ("Quantize", {**CHANNEL, "axis": 7, "scales": [1.0]}, [("f32", None)]),
        ("Quantize", {**CHANNEL, "scales": [1.0, 2.0]}, [("f32", (2, None))]),
        ("DynamicQuantize", CHANNEL, [("f32", None), ("f32", None), ("s8", None)]),
        ("DynamicDequantize", {}, [S8, ("f32", ())]),
        ("DynamicDequantize", GROUP, [("s8", (None, 6)), ("f32", (5, None)), ("s32", None)]),
        ("DynamicDequantize", GROUP, [("s8", None), ("f32", (5, 7))]),
    ],
)
def test_accepts_unknown_shapes(kind: str, attrs: dict[str, object], inputs: list[object]) -> None:
    assert check_op(kind, attrs, inputs) == []
