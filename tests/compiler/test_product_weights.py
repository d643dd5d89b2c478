"""Constant weights of MatMuls at addresses where the kernel without AVX-512 packs them."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph._util import cache_folder
from onegraph.compiler import transformed_weights
from onegraph.compiler.passes import product_weights
from onegraph.compiler.passes.product_weights import NOTE
from onegraph.compiler.transformed_weights import BY_COLUMNS, BY_ROWS, weights_in
from onegraph.native import library
from onegraph.native.library import address_of

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.skipif(library.VERSION >= (3, 10), reason="its kernel packs all weights")


@pytest.fixture(autouse=True)
def without_avx512(monkeypatch):
    """Prepare programs as for a CPU without AVX-512; what they compute is the same on any CPU."""
    for module in (product_weights, transformed_weights):
        monkeypatch.setattr(module, "has_avx512", lambda: False)
        monkeypatch.setattr(module, "has_avx2", lambda: True)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def product(g, x, weights, form):
    """The product of x with constant weights (..., inputs, outputs), which the graph has in a form."""
    turned = np.ascontiguousarray(weights.swapaxes(-1, -2))
    if form == "plain":
        return g.matmul(x, g.constant(weights))
    if form == "turned":
        return g.matmul(x, g.constant(turned), transpose_b=True)
    order = (*range(weights.ndim - 2), weights.ndim - 1, weights.ndim - 2)
    return g.matmul(x, g.static_transpose(g.constant(turned), order=order))


def compare(x, weights, form="plain"):
    """Compare a product with numpy's; returns the steps whose weights were moved."""
    g = og.Graph()
    g.output("y", product(g, g.input("x", "f32", x.shape), weights, form))
    model = g.compile()
    np.testing.assert_allclose(model(x), x.astype(np.float64) @ weights, rtol=1e-4, atol=1e-4)
    return [part for part in model.report().partitions if NOTE in part.reasons]


@pytest.mark.parametrize("form", ["plain", "turned", "view"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_weights_with_rows_of_2_kib_are_moved(form, batch):
    assert len(compare(drawn(*batch, 40, 24), drawn(*batch, 24, 512), form)) == 1


@pytest.mark.parametrize(
    ("rows", "columns"), [(8, 512), (40, 500), (40, 768), (1, 1024), (600, 1024)], ids=lambda size: str(size)
)
def test_other_weights_stay(rows, columns):
    assert not compare(drawn(rows, 24), drawn(24, columns))
    assert not compare(drawn(rows, 24), drawn(24, columns), "turned")


def test_with_avx512_weights_stay(monkeypatch):
    for module in (product_weights, transformed_weights):
        monkeypatch.setattr(module, "has_avx512", lambda: True)
    assert not compare(drawn(40, 24), drawn(24, 512))


def test_variables_and_other_types_stay():
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", "f32", (40, 24)), g.input("w", "f32", (24, 512))))
    weights = g.constant(drawn(24, 512).astype(ml_dtypes.bfloat16))
    g.output("z", g.matmul(g.input("v", "bf16", (40, 24)), weights))
    assert not any(NOTE in part.reasons for part in g.compile().report().partitions)


def test_two_products_share_a_copy():
    weights, x = drawn(24, 512), drawn(2, 40, 24)
    g = og.Graph()
    known = g.constant(weights)
    for index, name in enumerate("ab"):
        g.output(name, g.matmul(g.input(f"x{index}", "f32", (40, 24)), known))
    model = g.compile()
    results = model(x0=x[0], x1=x[1])
    for found, wanted in zip(results, x @ weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    moved = {value.name for part in model.report().partitions for value in part.sources if "(moved)" in value.name}
    assert len(moved) == 1


@pytest.mark.parametrize("form", [BY_ROWS, BY_COLUMNS])
def test_a_copy_starts_16_bytes_behind_a_multiple_of_32(form):
    weights = drawn(3, 24, 40)
    moved = weights_in(form, weights)
    assert address_of(moved) % 32 == 16
    assert moved.strides == ((3840, 160, 4) if form == BY_ROWS else (3840, 4, 96))
    assert not moved.flags.writeable
    np.testing.assert_array_equal(moved, weights)


def test_unknown_forms_are_refused():
    with pytest.raises(ValueError, match="no form 'diagonal' of weights"):
        weights_in("diagonal", drawn(4, 4))


@pytest.mark.parametrize("is_turned", [False, True], ids=["plain", "turned"])
def test_a_kept_program_moves_its_weights_again(is_turned, tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    import onegraph.onnx

    monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / "cache"])
    weights, x = drawn(64, 512), drawn(40, 64)
    stored = np.ascontiguousarray(weights.T) if is_turned else weights
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"], transB=int(is_turned))
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (40, 64)), ("y", (40, 512)))
    ]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(stored, "w")])
    file = tmp_path / "m.onnx"
    # The contents of the weights start at a multiple of 64 bytes of the mapped file.
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.doc_string = "." * 64
    model.doc_string += "." * (-model.SerializeToString().index(stored.tobytes()) % 64)
    file.write_bytes(model.SerializeToString())
    programs = []
    for _ in range(2):
        compiled = onegraph.onnx.load(file).compile()
        np.testing.assert_allclose(compiled(x), x @ weights, rtol=1e-4, atol=1e-4)
        programs.append(compiled._programs.find({"x": x}).program)
    assert [type(one).__name__ for one in programs] == ["CompiledProgram", "KeptProgram"]
    for program in programs:
        (constant,) = [one for one in program.placement.constants.values() if one.size == weights.size]
        assert address_of(constant) % 32 == 16


@pytest.mark.parametrize("how", ["first", "written", "next"])
def test_variables_start_where_products_pack_them(how):
    weights, x = drawn(24, 512), drawn(40, 24)
    g = og.Graph()
    variable = g.variable("w", weights)
    g.output("y", g.matmul(g.input("x", "f32", x.shape), variable))
    g.assign(variable, g.multiply(variable, g.constant(np.full((1,), 2, np.float32))))
    model = g.compile()
    if how == "written":
        weights = model.variables["w"] = drawn(24, 512)
    for _ in range(1 + (how == "next")):
        found = model(x)
    np.testing.assert_allclose(found, x @ weights * (2 if how == "next" else 1), rtol=1e-4, atol=1e-4)
    present = model._interface.present["w"]
    assert address_of(present) % 64 == 16


@pytest.mark.parametrize("variable", [drawn(24, 500), drawn(512), drawn(2, 24, 512), drawn(24, 512).astype(np.float16)])
def test_other_variables_start_at_a_multiple_of_64(variable):
    assert transformed_weights.skew_of_variable(variable) == 0
