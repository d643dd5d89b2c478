"""Dequantized tensors with several readers, as files in the QDQ form have them."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import onegraph as og
from onegraph.capi.settings import has_vnni, is_native
from onegraph.ir.op import LogicalTensor
from onegraph.native.library import VERSION

WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "weights_format": "OIX"}
SCALE = 1 / 16  # exact, as are the sums and products of such numbers
Real = Callable[[og.Graph, LogicalTensor], LogicalTensor]


def dequantized(g: og.Graph, codes: LogicalTensor) -> LogicalTensor:
    return g.dequantize(codes, scales=[SCALE], zps=[0])


def in_bf16(g: og.Graph, codes: LogicalTensor) -> LogicalTensor:
    return g.type_cast(dequantized(g, codes), dtype="bf16")


def weights(g: og.Graph, out: int, source: int) -> LogicalTensor:
    return g.constant((np.arange(out * source) % 7 - 3).astype(np.int8).reshape(out, source, 1, 1))


def residual_block(real: Real, *, shared: bool, returned: bool = False) -> og.Graph:
    """Two convolutions and their residual; ``shared`` gives its two readers one dequantized tensor."""
    g = og.Graph()
    codes = g.input("x", "u8", (2, 6, 6, 16))
    x = real(g, codes)
    if returned:
        g.output("real", x)
    inner = g.op("Convolution", [x, real(g, weights(g, 8, 16))], WINDOW, dtype=x.dtype)
    y = real(g, as_codes(g, g.relu(inner)))
    total = g.add(
        g.op("Convolution", [y, real(g, weights(g, 16, 8))], WINDOW, dtype=x.dtype), x if shared else real(g, codes)
    )
    g.output("y", as_codes(g, g.relu(total)))
    return g


def as_codes(g: og.Graph, x: LogicalTensor) -> LogicalTensor:
    x = x if x.dtype is og.f32 else g.type_cast(x, dtype="f32")
    return g.quantize(x, dtype="u8", scales=[SCALE], zps=[0])


def codes(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 32, shape, np.uint8)


def results(g: og.Graph, given: dict[str, np.ndarray], policy: str = "fusion") -> dict[str, np.ndarray]:
    found = g.compile(policy=policy)(**given)
    return dict(zip(g.outputs, found, strict=True)) if len(g.outputs) > 1 else {next(iter(g.outputs)): found}


@pytest.mark.parametrize("real", [dequantized, in_bf16])
def test_a_shared_dequantize_fuses_like_two(real):
    models = [residual_block(real, shared=shared).compile() for shared in (True, False)]
    shared, own = (Counter(tuple(sorted(part.kinds)) for part in model.report().partitions) for model in models)
    if real is dequantized or is_native(og.bf16):  # without bf16, casts are around each op, and run together or alone
        assert not shared - own
        # What no fusion takes in, such as every op without VNNI, runs once if it is shared.
        assert all(len(kinds) == 1 for kinds in own - shared)
    x = codes((2, 6, 6, 16))
    assert (models[0](x) == models[1](x)).all()


@pytest.mark.skipif(VERSION >= (3, 3) or not has_vnni(), reason="others run some of the ops one by one")
def test_a_residual_block_is_two_partitions():
    model = residual_block(dequantized, shared=True).compile()
    assert [len(part.kinds) for part in model.report().partitions] == [5, 7]


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("policy", ["fusion", "debug"])
def test_repeated_steps_give_the_reference_results(policy, returned):
    g = residual_block(dequantized, shared=True, returned=returned)
    x = codes((2, 6, 6, 16))
    found, expected = results(g, {"x": x}, policy=policy), og.reference.run(g, {"x": x})
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name] == array).all()


def test_repeated_steps_outside_fusions_run_once():
    g = og.Graph()
    x = dequantized(g, g.input("x", "u8", (4, 64)))
    for axis in (0, 1):
        g.output(f"y{axis}", g.op("LogSoftmax", [x], {"axis": axis}))
    kinds = [kind for part in g.compile().report().partitions for kind in part.kinds]
    assert kinds.count("Dequantize") == 1
    given = {"x": codes((4, 64))}
    found = results(g, given)
    for name, array in og.reference.run(g, given).items():
        assert np.allclose(found[name], array, rtol=1e-5)


def test_numpy_reads_a_repeated_step():
    g = og.Graph()
    codes_of_x = g.input("x", "u8", (4, 6))
    x = dequantized(g, codes_of_x)
    w = dequantized(g, g.constant(np.ones((6, 6), np.int8)))
    g.output("product", g.matmul(x, w))
    g.output("root", g.pow(x, beta=1.7))
    given = {"x": codes((4, 6))}
    found = results(g, given)
    for name, array in og.reference.run(g, given).items():
        assert np.allclose(found[name], array, rtol=1e-5)


@pytest.mark.skipif(not has_vnni(), reason="without int8 dot products, int8 patterns run one by one")
def test_weights_are_dequantized_right_before_their_product(monkeypatch):
    """The library gets a large graph in pieces; the file has all weights first."""
    monkeypatch.setattr("onegraph.compiler.partitioner.PIECE", 4)
    monkeypatch.setattr("onegraph.compiler.partitioner.OVERLAP", 2)
    g = og.Graph()
    x = g.input("x", "u8", (4, 16))
    weights = [dequantized(g, g.constant(np.full((16, 16), n, np.int8))) for n in range(3)]
    for w in weights:
        x = g.quantize(g.matmul(dequantized(g, x), w), scales=[SCALE], zps=[0], dtype="u8")
    g.output("y", x)
    kinds = [part.kinds for part in g.compile().report().partitions]
    assert kinds == [("Dequantize", "Dequantize", "MatMul", "Quantize")] * 3
