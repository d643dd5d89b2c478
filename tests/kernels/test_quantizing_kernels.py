"""Kernels of quantized models: codes by a range, fake quantization and the error function, against definitions."""

import math

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.native import compiled, packed
from tests.helpers.kernels import run_compiled, values_of

TESTED_KERNELS = ("dynamic_quantize", "erf", "fake_quantize")
RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf
LIMITS = {np.uint8: (0, 255), np.int8: (-128, 127)}


def by_definition(src, low, high, least):
    """Codes, scale and zero point by the formulas of ONNX, one element at a time, with scalars of f32."""
    one = np.float32
    with np.errstate(all="ignore"):
        is_nan = any(math.isnan(number) for number in src)
        first, last = one(min(0, *src)), one(max(0, *src))
        scale = one(NAN) if is_nan else max((last - first) / one(high - low), one(least))
        scale = one(1) if scale == 0 else scale
        raw = one(low) - first / scale
        zero = low if math.isnan(raw) else round(float(np.clip(raw, low, high)))
        codes = []
        for number in src:
            quotient = one(number) / scale
            code = low - zero if math.isnan(quotient) else quotient
            codes.append(int(np.clip(float(np.rint(code)) + zero, low, high)))
    return codes, scale, zero


def by_kernel(src, dtype, *, low, high, least=0.0, level=3, threads=1):
    arrays = [src, np.empty(src.shape, dtype), np.empty((), np.float32), np.empty((), dtype)]
    ends = values_of(arrays)
    numbers = packed("dynamic_quantize", {"low": low, "high": high, "least": least, "level": level})
    run_compiled(compiled("dynamic_quantize", ends[:1], ends[1:], numbers), *arrays, threads=threads, results=3)
    return arrays[1:]


SPECIAL = {
    "nan": [1, NAN, -2],
    "infinity": [INF, 1, -2, 0],
    "minus infinity": [-INF, 1, -2, 0],
    "both": [INF, -INF, 1],
    "zeros": [0, -0.0, 0],
    "positive": [3, 4, 5],
    "negative": [-3, -4, -5],
    "subnormal": [1e-44, -1e-44, 2e-40],
    "halves": [-127.5, 127.5, 0.5, 1.5, 2.5, -0.5],
    "large": [3e38, -3e38, 1],
}


@pytest.mark.parametrize("level", range(4))
def test_codes_are_those_of_the_definition(level):
    sizes = {f"{size} numbers": RNG.standard_normal(size) * 3 + 1 for size in (1, 15, 16, 17, 100)}
    for name, numbers in {**SPECIAL, **sizes}.items():
        for dtype, (low, high) in LIMITS.items():
            for least in (0.0, 2.0**-12):
                src = np.array(numbers, np.float32)
                codes, scale, zero = by_kernel(src, dtype, low=low, high=high, least=least, level=level)
                wanted = by_definition(src, low, high, least)
                assert codes.tolist() == wanted[0], name
                np.testing.assert_array_equal(scale, wanted[1], name)
                assert zero == wanted[2], name


@pytest.mark.parametrize("place", [0, 30_001, 99_999])
def test_results_do_not_depend_on_threads(place):
    src = RNG.standard_normal(100_000).astype(np.float32)
    src[place] = 40
    first = by_kernel(src, np.uint8, low=0, high=255)
    assert first[1] == (np.float32(40) - src.min()) / np.float32(255)
    for threads in (2, 3, 7):
        for one, other in zip(first, by_kernel(src, np.uint8, low=0, high=255, threads=threads), strict=True):
            np.testing.assert_array_equal(one, other)
    src[place] = NAN
    for threads in (1, 3):
        codes, scale, zero = by_kernel(src, np.uint8, low=0, high=255, threads=threads)
        assert (codes.any(), np.isnan(scale), zero) == (False, True, 0)


def test_a_graph_runs_it_in_one_step():
    g = og.Graph()
    results = g.op("DynamicQuantizeLinear", [g.input("x", "f32", (5, 7))], {}, dtype="u8", edition="host")
    for name, tensor in zip("abc", results, strict=True):
        g.output(name, tensor)
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    src = RNG.standard_normal((5, 7)).astype(np.float32)
    found, wanted = model(x=src), by_definition(src.reshape(-1), 0, 255, 0)
    assert found[0].reshape(-1).tolist() == wanted[0]
    assert (found[1], found[2]) == (wanted[1], wanted[2])


@pytest.mark.parametrize(("low", "high", "dtype"), [(0, 256, "u8"), (-1, 255, "u8"), (5, 5, "s8"), (-129, 0, "s8")])
def test_codes_beyond_their_data_type_are_refused(low, high, dtype):
    g = og.Graph()
    with pytest.raises(og.SpecError, match="low < high"):
        g.op(
            "DynamicQuantizeLinear",
            [g.input("x", "f32", (2,))],
            {"low": low, "high": high},
            dtype=dtype,
            edition="host",
        )


# One op on each element ----------------------------------------------------------------------------------------------


def compiled_op(kind, src, **attrs):
    g = og.Graph()
    g.output("y", g.op(kind, [g.input("x", src.dtype.name, src.shape)], attrs, edition="host"))
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    return model(x=src)


@pytest.mark.parametrize("shape", [(1,), (3, 17), (4, 5, 300)], ids=str)
def test_fake_quantization_gives_the_nearest_multiples(shape):
    src = (RNG.standard_normal(shape) * 30).astype(np.float32)
    src.flat[0] = 0.375  # halfway between two multiples
    found = compiled_op("FakeQuantize", src, step=0.25, low=-100.0, high=27.0)
    np.testing.assert_array_equal(found, np.clip(np.rint(src.astype(np.float64) / 0.25), -100, 27) * 0.25)
    assert found.flat[0] == 0.5


def test_fake_quantization_keeps_nan_and_limits_infinity():
    src = np.float32([NAN, INF, -INF, 1e-45, -0.0])
    found = compiled_op("FakeQuantize", src, step=0.1, low=-5.0, high=7.0)
    step = np.float32(0.1)
    np.testing.assert_array_equal(found, [NAN, 7 * step, -5 * step, 0, 0])


def test_the_error_function_has_all_digits_of_f32():
    src = np.concatenate([np.linspace(-5, 5, 3001), np.logspace(-38, 0, 50)]).astype(np.float32)
    wanted = np.array([math.erf(number) for number in src.tolist()])
    assert (np.abs(compiled_op("Erf", src) - wanted) <= 4e-7 * np.abs(wanted)).all()
    ends = np.float32([NAN, INF, -INF, 0.0, -0.0])
    np.testing.assert_array_equal(compiled_op("Erf", ends), [NAN, 1, -1, 0, 0])
