"""Which weights of products are packed: single conditions on both sides, with stand-ins for steps and values."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.options import Options
from onegraph.compiler.packed_weights import Packed
from onegraph.compiler.passes import codes, packed_products
from onegraph.opset.editions.registry import HOST

ROW = np.ones(4, np.float32)


def products(*values, consumer=None, **options):
    """The pass on a graph of these values, each a shape, a type and the contents of a constant."""
    named = [SimpleNamespace(shape=shape, dtype=dtype, constant=one) for shape, dtype, one in values]
    found = object.__new__(packed_products._PackedProducts)
    found._graph = SimpleNamespace(values=named, only_consumer=lambda number: consumer)
    found._options = Options(**options)
    return found


def step(kind, inputs, outputs, executor="library", **more):
    return SimpleNamespace(kind=kind, inputs=inputs, outputs=outputs, executor=executor, **more)


@pytest.mark.parametrize(("shape", "order", "exchanges"), [
    ((3, 4), (1, 0), True), ((3, 4), (-1, -2), True), ((3, 4), (0, 1), False), ((3, 4), [1, 0], False),
    ((1, 3, 4), (0, 2, 1), True), ((1, 3, 4), (1, 0, 2), False), ((2, 3, 4), (0, 2, 1), False), ((4,), (0,), False),
    ((1, 3, 4), (2, 1, 0), False), ((3, 4), None, False),
])  # fmt: skip
def test_transposes_of_one_matrix_exchange_its_axes(shape, order, exchanges):
    turned = step("StaticTranspose", (0,), (1,), attrs={} if order is None else {"order": order})
    assert products((shape, og.f32, None))._exchanges(turned) is exchanges


@pytest.mark.parametrize(("shape", "dtype", "is_constant", "packs"), [
    ((3, 4), og.bf16, True, True), ((1, 3, 4), og.f16, True, True), ((3, 4), og.f32, True, False),
    ((3, 4), og.bf16, False, False), ((2, 3, 4), og.bf16, True, False),
])  # fmt: skip
def test_tables_of_16_bits_are_read_as_they_are(shape, dtype, is_constant, packs):
    found = products((shape, dtype, ROW if is_constant else None))._halves_of_table(0)
    assert found == (Packed(dtype.value, 1, 0, (0,), False, True) if packs else None)


@pytest.mark.parametrize(("row", "dtype", "result", "constant", "kind", "executor", "joins"), [
    ((4,), og.f32, og.f32, ROW, "Add", "library", True), ((1, 4), og.f32, og.f32, ROW, "Add", "library", True),
    ((4,), og.f32, og.f32, None, "Add", "library", False), ((), og.f32, og.f32, ROW, "Add", "library", False),
    ((1,), og.f32, og.f32, ROW, "Add", "library", False), ((2, 4), og.f32, og.f32, ROW, "Add", "library", False),
    ((4,), og.bf16, og.f32, ROW, "Add", "library", False), ((4,), og.bf16, og.bf16, ROW, "Add", "library", False),
    ((4,), og.f32, og.bf16, ROW, "Add", "library", False), ((4,), og.f32, og.f32, ROW, "Multiply", "library", False),
    ((4,), og.f32, og.f32, ROW, "Add", "reference", False), ((4, 1), og.f32, og.f32, ROW, "Add", "library", False),
])  # fmt: skip
def test_rows_that_are_constants_are_added_by_the_product(row, dtype, result, constant, kind, executor, joins):
    for inputs in ((1, 0), (0, 1)):
        added = step(kind, inputs, (2,), executor)
        found = products(((2, 4), og.f32, None), (row, dtype, constant), ((2, 4), result, None), consumer=added)
        assert found._biased(step("MatMul", (5, 6), (0,))) is (added if joins else None)
    assert products()._biased(step("MatMul", (5, 6), (0,))) is None


@pytest.mark.parametrize("reproducible", [True, False])
@pytest.mark.parametrize("is_finite", [True, False])
def test_kernels_unpack_what_sums_of_groups_would_change(reproducible, is_finite):
    attrs = products(reproducible=reproducible)._attrs(Packed("s4", 32, 8, (0,), True, is_finite), True)
    assert attrs == {"coding": "s4", "group": 32, "zero": 8, "zeros": True, "coded": True} | {
        "unpacks": reproducible or not is_finite
    }


@pytest.mark.parametrize(("options", "source", "types", "has_avx2", "worth"), [
    ({}, (packed_products.MOST_ROWS, 8), (og.f32,) * 3, True, True),
    ({}, (packed_products.MOST_ROWS + 1, 8), (og.f32,) * 3, True, False),
    ({}, (2, packed_products.MOST_ROWS, 8), (og.f32,) * 3, True, False),
    ({}, (1, 8), (og.f32,) * 3, False, False), ({"opens": False}, (1, 8), (og.f32,) * 3, True, False),
    ({"fpmath_mode": "bf16"}, (1, 8), (og.f32,) * 3, True, False),
    ({}, (1, 8), (og.bf16, og.f32, og.f32), True, False), ({}, (1, 8), (og.f32, og.bf16, og.f32), True, False),
    ({}, (1, 8), (og.f32, og.f32, og.bf16), True, False),
])  # fmt: skip
def test_weights_of_32_bits_are_packed_for_few_rows_of_open_sizes(options, source, types, has_avx2, worth, monkeypatch):
    monkeypatch.setattr(packed_products, "has_avx2", lambda: has_avx2)
    shapes = source, (8, 4), (*source[:-1], 4)
    found = products(*zip(shapes, types, (None,) * 3, strict=True), **{"opens": True, **options})
    weights = SimpleNamespace(dtype=types[1])
    assert found._is_worth_full(weights, step("MatMul", (0, 1), (2,))) is worth
    assert not found._is_worth_full(SimpleNamespace(dtype=og.bf16), step("MatMul", (0, 1), (2,)))


@pytest.mark.parametrize(("kind", "executor", "edition", "computed"), [
    ("ReLU", "library", "", True), ("Add", "library", "", True), ("MatMul", "library", "", False),
    ("Sin", "reference", HOST, True), ("Sin", "reference", "", False), ("Sin", "library", HOST, False),
    ("Gather", "reference", HOST, False), ("ReLU", "reference", "", False),
])  # fmt: skip
def test_elements_of_codes_that_are_computed_alone(kind, executor, edition, computed):
    one = step(kind, (0,), (1,), executor, op=SimpleNamespace(edition=edition))
    assert codes._is_computed(one) is computed
