"""Scales and zero points: which quantized ops they fit, and the numbers by the formulas."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.lowering.emitter import Emitter, NotLowered
from onegraph.lowering.quantization import Scale, dequantize, known_bias, quantize, symmetric
from onegraph.transform.part import without_unread

HALF, TWO = np.array(0.5, np.float32), np.float32([0.5, 0.25])
SIX = np.arange(1, 7, dtype=np.float32) / 8
TENSOR = og.Graph().input("scale", og.f32, (1,))
CODES = np.arange(24).reshape(4, 6)


@pytest.mark.parametrize(
    ("scale", "rank", "expected"),
    [
        (Scale(HALF), 3, {"scales": [0.5], "zps": [0], "qtype": "per_tensor"}),
        (Scale(HALF, np.array(3, np.uint8)), 0, {"scales": [0.5], "zps": [3], "qtype": "per_tensor"}),
        (Scale(TWO[:1], None, 2), 3, {"scales": [0.5], "zps": [0], "qtype": "per_tensor"}),
        (Scale(TWO, None, -1), 3, {"scales": [0.5, 0.25], "zps": [0, 0], "qtype": "per_channel", "axis": 2}),
        (Scale(TWO, np.int8([-1, 2])), 2, {"scales": [0.5, 0.25], "zps": [-1, 2], "qtype": "per_channel", "axis": 1}),
        (Scale(TWO, None), 0, {"scales": [0.5, 0.25], "zps": [0, 0], "qtype": "per_tensor"}),
        (Scale(TWO, block=2), 3, None),
        (Scale(TENSOR), 3, None),
        (Scale(HALF, TENSOR), 3, None),
    ],
)
def test_known_scales_are_attributes(scale, rank, expected):
    assert scale.attrs(rank) == expected


@pytest.mark.parametrize(
    ("scale", "codes", "expected"),
    [
        (Scale(HALF), CODES, {"qtype": "per_tensor"}),
        (Scale(SIX), CODES, {"qtype": "per_channel", "axis": 1}),
        (Scale(SIX, None, -1), CODES, {"qtype": "per_channel", "axis": 1}),
        (Scale(SIX, None, 0), CODES, None),
        (Scale(HALF), CODES[0], None),
        (Scale(HALF), CODES[None], None),
        (Scale(HALF), CODES[0, 0], None),
        (Scale(HALF, TENSOR), CODES, None),
        (Scale(TENSOR), CODES, None),
        (Scale(np.ones((2, 6), "f"), None, 0, 2), CODES, {"qtype": "per_group", "axis": 0, "group_shape": [2, 1]}),
        (Scale(np.ones((4, 2), "f"), None, -1, 3), CODES, {"qtype": "per_group", "axis": 1, "group_shape": [1, 3]}),
        (Scale(np.ones((3, 6), "f"), None, 0, 2), CODES, None),
        (Scale(np.ones((2, 6, 1), "f"), None, 0, 2), CODES, None),
        (Scale(np.ones(2, "f"), None, 0, 2), CODES, None),
    ],
)
def test_known_codes_keep_scales_of_these_forms(scale, codes, expected):
    assert scale.of_codes(np.asarray(codes, np.int8)) == expected
    assert scale.of_codes(np.asarray(codes, np.int32)) is None


def kinds_and_result(lower, **given):
    """The ops that a lowering of the inputs leaves, and what they compute."""
    graph = og.Graph()
    ends = [graph.input(name, array.dtype, array.shape) for name, array in given.items()]
    graph.output("y", lower(Emitter(graph), *ends))
    return [op.kind for op in without_unread(graph).ops], reference.run(graph, given)["y"]


@pytest.mark.parametrize(
    ("dtype", "scale", "kinds"),
    [
        (np.uint8, Scale(HALF, np.array(3, np.uint8)), ["Dequantize"]),
        (np.uint8, Scale(SIX, np.arange(6, dtype=np.uint8)), ["Dequantize"]),
        (np.int32, Scale(HALF), ["Cast", "Multiply"]),
        (np.int32, Scale(HALF, np.array(0, np.int32)), ["Cast", "Multiply"]),
        (np.int32, Scale(HALF, np.array(3, np.int32)), ["Cast", "Subtract", "Multiply"]),
        (np.int32, Scale(SIX, np.arange(6, dtype=np.int32)), ["Cast", "Subtract", "Multiply"]),
        (np.int32, Scale(SIX[:4], np.arange(4, dtype=np.int32), 0), ["Cast", "Subtract", "Multiply"]),
        (np.int8, Scale(np.float32([[1, 2], [3, 4], [5, 6], [7, 8]]), None, 1, 4), ["Cast", "Multiply"]),
    ],
)
def test_codes_stand_for_numbers(dtype, scale, kinds):
    codes = CODES.astype(dtype)
    found = kinds_and_result(lambda emit, codes: dequantize(emit, codes, scale), codes=codes)
    factor = np.repeat(scale.scale, 4, 1)[:, :6] if scale.block else scale.scale
    zero = np.zeros(1) if scale.zero is None else scale.zero.astype(np.int64)
    if scale.axis == 0:
        factor, zero = factor[:, None], zero[:, None]
    wanted = (CODES - zero) * factor
    assert found[0] == kinds
    np.testing.assert_allclose(found[1], wanted, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_scales_of_a_run_make_dynamic_ops(shape):
    scale, codes = np.full(shape, 0.5, np.float32), CODES.astype(np.uint8)
    kinds, found = kinds_and_result(lambda e, codes, s: dequantize(e, codes, Scale(s)), codes=codes, scale=scale)
    assert kinds[-1] == "DynamicDequantize"
    np.testing.assert_array_equal(found, CODES / 2)
    numbers = CODES.astype(np.float32)
    kinds, found = kinds_and_result(lambda e, x, s: quantize(e, x, Scale(s), og.u8), x=numbers, scale=scale)
    assert kinds[-1] == "DynamicQuantize"
    np.testing.assert_array_equal(found, 2 * CODES)


@pytest.mark.parametrize(
    ("dtype", "scale", "kinds"),
    [
        ("u8", Scale(HALF, np.array(4, np.uint8)), ["Quantize"]),
        ("int16", Scale(HALF, np.array(3, np.int16)), ["Divide", "Round", "Add", "Maximum", "Minimum", "Cast"]),
        ("uint16", Scale(np.array(0.001, np.float32)), ["Divide", "Round", "Maximum", "Minimum", "Cast"]),
    ],
)
def test_numbers_are_rounded_into_the_range(dtype, scale, kinds):
    dtype = og.DataType(dtype)
    x = np.float32([[-1e9, -1.25, -0.75, -0.25, 0, 0.25, 0.75, 1.25, 1e9]])
    found = kinds_and_result(lambda emit, x: quantize(emit, x, scale, dtype), x=x)
    limits = np.iinfo(dtype.numpy)
    exact = np.rint(x.astype(np.float64) / np.float64(scale.scale)) + (0 if scale.zero is None else int(scale.zero))
    assert found[0] == kinds
    np.testing.assert_array_equal(found[1], np.clip(exact, limits.min, limits.max))


def test_codes_of_16_bits_alone_are_rounded_numbers():
    """One step rounds to multiples of the scale, and nobody reads the codes."""
    x = np.float32([[-1e9, -1.3, 0.1, 0.4, 7, 1e9]])

    def there_and_back(dtype, scale, other):
        return kinds_and_result(lambda e, x: dequantize(e, quantize(e, x, scale, dtype), other), x=x)

    kinds, found = there_and_back(og.DataType.int16, Scale(HALF), Scale(HALF))
    assert kinds == ["FakeQuantize"]
    np.testing.assert_array_equal(found, [[-16384, -1.5, 0, 0.5, 7, 16383.5]])
    assert "FakeQuantize" not in there_and_back(og.DataType.int16, Scale(HALF), Scale(2 * TWO[:1]))[0]
    half = Scale(np.array(0.5, np.float16))
    kinds, found = there_and_back(og.u8, half, half)
    assert kinds[:5] == ["Divide", "Round", "Maximum", "Minimum", "Cast"]
    np.testing.assert_array_equal(found, [[0, 0, 0, 0.5, 7, 127.5]])


STEPS = (TWO, np.int16([1, 2]))


@pytest.mark.parametrize(
    ("dtype", "kind", "scales", "ends"),
    [
        ("int16", "f32", [Scale(HALF, np.array(3, np.int16))] * 2, (-32771, 32764)),
        ("uint16", "f32", [Scale(HALF, np.array(9, np.uint16))] * 2, (-9, 65526)),
        ("uint16", "f32", [Scale(TWO[:1], None, 0), Scale(HALF)], (0, 65535)),
        ("int16", "f16", [Scale(HALF)] * 2, None),
        ("int16", "f32", [Scale(HALF, np.array(3, np.int16)), Scale(HALF, np.array(4, np.int16))], None),
        ("int16", "f32", [Scale(HALF), Scale(TWO[1:])], None),
        ("int16", "f32", [Scale(*STEPS)] * 2, None),
        ("int16", "f32", [Scale(TENSOR)] * 2, None),
        ("int16", "f32", [Scale(TENSOR), Scale(HALF)], None),
        ("int16", "f32", [Scale(np.array(0, np.float32))] * 2, None),
        ("int16", "f32", [Scale(np.array(-0.5, np.float32))] * 2, None),
        ("int16", "f32", [Scale(np.array(np.inf, np.float32))] * 2, None),
    ],
)
def test_codes_of_16_bits_with_equal_known_steps_are_multiples(dtype, kind, scales, ends):
    graph = og.Graph()
    emit, src = Emitter(graph), graph.input("x", kind, (4, 2))
    tensor = graph.input("scale", og.f32, (1,))
    own = [Scale(tensor, one.zero, one.axis) if one.scale is TENSOR else one for one in scales]
    with np.errstate(all="ignore"):
        dequantize(emit, quantize(emit, src, own[0], og.DataType(dtype)), own[1])
    found = [(op.attrs["low"], op.attrs["high"]) for op in graph.ops if op.kind == "FakeQuantize"]
    assert found == ([] if ends is None else [ends])


@pytest.mark.parametrize(
    ("weights", "zero", "moved"),
    [
        (np.uint8([[0, 255]]), np.array(128, np.uint8), [[-128, 127]]),
        (np.uint8([[0, 255]]), np.array(127, np.uint8), None),
        (np.uint8([[0, 255]]), np.array(129, np.uint8), None),
        (np.uint8([[0, 255]]), np.uint8([128, 200]), [[-128, 55]]),
        (np.int8([[1, 2]]), np.array(0, np.int8), None),
        (np.int8([[1, 2]]), np.array(1, np.int8), [[0, 1]]),
        (np.uint8([[1, 2]]), np.array(0, np.uint8), [[1, 2]]),
        (np.uint8([[1, 2]]), None, None),
        (np.zeros((1, 0), np.uint8), np.array(7, np.uint8), [[]]),
    ],
)
def test_known_weights_lose_their_zero_point(weights, zero, moved):
    scale = Scale(HALF, None if zero is None else np.asarray(zero), 1)
    found, of_found = symmetric(weights, scale)
    if moved is None:
        assert (found is weights, of_found is scale) == (True, True)
    else:
        assert (found.dtype, found.tolist(), of_found.zero, of_found.axis) == (np.int8, moved, None, 1)


def test_a_bias_has_the_product_of_scales():
    assert known_bias(None, Scale(HALF), Scale(SIX)) is None
    assert known_bias(np.int32([8, -4]), Scale(HALF), Scale(TWO)).tolist() == [2, -0.5]
    for src, weights in ((Scale(TENSOR), Scale(TWO)), (Scale(HALF), Scale(TENSOR))):
        with pytest.raises(NotLowered, match="unknown scales"):
            known_bias(np.int32([8, -4]), src, weights)
