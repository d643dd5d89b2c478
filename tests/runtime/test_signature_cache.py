"""The cache of examined ops: a cached signature equals a new one, and users cannot change it."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.builder import signature_cache
from onegraph.builder.signature_cache import MAX_ELEMENTS, MAX_SIGNATURES, attrs_key, read_attrs, signature
from onegraph.inference.infer import infer_op
from onegraph.inference.op_inference import MAX_INPUTS
from onegraph.ir.op import LogicalTensor
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.testing.cases import CASES, Case

BASE = edition("onednn-3.13")
READ = {
    *("axes", "sizes", "order", "shape", "indices", "probability"),
    *("src_shape", "dst_shape", "weights_shape", "input_shape", "output_shape", "filter_shape"),
}
WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


# Keys -----------------------------------------------------------------------------------------------------------------

ONES = [1, 1.0, True, "1", [1], [1.0], [True], [1, 1], [], np.float32(0.1), 0.1]
ZEROS = [0, 0.0, -0.0, False, "0.0", [0], [0.0], [-0.0], [False], [0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, -0.0]]


@pytest.mark.parametrize("values", [ONES, ZEROS], ids=["ones", "zeros"])
def test_equal_values_of_different_types_differ(values):
    keys = [attrs_key({"a": value}) for value in values]
    assert None not in keys
    assert len({*keys}) == len(values)


def test_keys_read_back_with_types_and_signs():
    attrs = {"a": 1, "b": True, "c": -0.0, "d": 2.5, "e": "none", "f": (1, 2), "g": (0.0, -0.0, 1.5), "h": (False,)}
    key = attrs_key(attrs)
    assert key is not None
    back = read_attrs(key)
    assert repr(back) == repr(attrs)
    assert list(back) == list(attrs)


@pytest.mark.parametrize(
    ("same", "other"),
    [
        ([1, 2], (1, 2)),
        ([1, 2], np.array([1, 2], np.int32)),
        ([0.5, 0.25], np.array([0.5, 0.25], np.float32)),
        (3, np.int64(3)),
        (0.5, np.float16(0.5)),
        (True, np.bool_(True)),
        ([True], np.array([True])),
        (2, np.array(2)),
    ],
)
def test_equivalent_values_share_a_key(same, other):
    assert attrs_key({"a": same}) == attrs_key({"a": other})


class Number(int):
    """An integer subclass, whose value may be overridden."""


class Names(dict):
    """A dictionary subclass, whose methods may be overridden."""


@pytest.mark.parametrize(
    "attrs",
    [
        {"a": Number(1)},
        {"a": [Number(1)]},
        {"a": [1, 1.0]},
        {"a": [[1]]},
        {"a": b"none"},
        {"a": None},
        {"a": object()},
        {"a": ["none"]},
        {"a": range(3)},
        {"a": np.ones((2, 2))},
        {"a": np.array([object()])},
        {"a": ml_dtypes.bfloat16(1)},
        {"a": np.ones(3, ml_dtypes.bfloat16)},
        {"a": np.timedelta64(1, "s")},
        {"a": [1] * (MAX_ELEMENTS + 1)},
        {"a": np.zeros(MAX_ELEMENTS + 1)},
        {1: 1},
        Names(a=1),
        MappingProxyType({"a": 1}),
        [("a", 1)],
        3,
    ],
    ids=lambda attrs: type(attrs).__name__,
)
def test_unkeyable_attributes_are_not_cached(attrs):
    assert attrs_key(attrs) is None


# Cached signatures are right ------------------------------------------------------------------------------------------


def tensor(number: int, array: np.ndarray, constant: bool) -> LogicalTensor:
    dtype = DataType.s64 if array.dtype == np.int64 else DataType.of(array.dtype)
    return LogicalTensor(number, dtype, array.shape, None, f"x{number}", array if constant else None)


class Poison(np.ndarray):
    """Contents that raise when they are read."""

    def __getattribute__(self, name):
        raise AssertionError(f"the contents were read: {name}")


@grouped("case", CASES)
def test_rules_read_only_contents_in_the_key(case: Case):
    schema = BASE.schema(case.kind)
    inputs = [tensor(number, array, number in schema.read_inputs) for number, array in enumerate(case.inputs)]
    poisoned = [
        t if t.constant else LogicalTensor(t.id, t.dtype, t.shape, None, t.name, np.ndarray.__new__(Poison, 0))
        for t in inputs
    ]
    dtype = None if case.dtype is None else DataType.of(case.dtype)
    checked = infer_op(case.kind, case.attrs, poisoned, edition=BASE, dtype=dtype)
    assert not checked.errors
    for _ in range(2):  # computed, then cached
        found = signature(BASE, case.kind, case.attrs, inputs, dtype=dtype)
        assert dict(found.attrs) == checked.attrs
        assert found.shapes == checked.shapes[: len(found.dtypes)]
        assert [None if t is None else t.type for t in inputs] == list(found.inputs)
    if len(inputs) <= MAX_INPUTS:
        assert signature(BASE, case.kind, case.attrs, inputs, dtype=dtype) is found


def test_ports_whose_contents_are_read():
    schemas = [schema for name in EDITIONS for schema in edition(name).schemas.values()]
    assert {schema.inputs[index].name for schema in schemas for index in schema.read_inputs} == READ


def test_distinguishes_types_of_attributes():
    g = og.Graph()
    x, w = g.input("x", og.f32, (1, 4, 4, 2)), g.input("w", og.f32, (1, 1, 2, 2))
    for _ in range(2):
        g.convolution(x, w, groups=1, **WINDOW)
        for wrong in (True, 1.0, "1"):
            with pytest.raises(og.SpecError, match="groups"):
                g.convolution(x, w, groups=wrong, **WINDOW)
            with pytest.raises(og.SpecError, match="strides"):
                g.convolution(x, w, **{**WINDOW, "strides": [wrong, wrong]})
    assert len(g.ops) == 2
    for alpha in (0.0, -0.0, 0, 1, 1.0):
        g.leaky_relu(x, alpha=alpha)
    assert [str(op.attrs["alpha"]) for op in g.ops[2:]] == ["0.0", "-0.0", "0.0", "1.0", "1.0"]


def test_distinguishes_types_shapes_and_editions():
    g = og.Graph()
    for dtype in (og.f32, og.bf16):
        for shape in ((2, 3), (3, 2), (2, None), (None, None), None, (6,)):
            y = g.relu(g.input(f"x{len(g.inputs)}", dtype, shape))
            assert (y.dtype, y.shape) == (dtype, shape)
    x = g.input("x", og.f32, (2, 8))
    assert [g.quantize(x, scales=[0.1], zps=[0], dtype=t).dtype for t in ("u8", "s8", "u8")] == [og.u8, og.s8, og.u8]
    names = {13: ["stats"], 2: []}
    new, old = (g.op("SoftMax", [x], outputs=names[minor], edition=f"onednn-3.{minor}") for minor in names)
    assert len(new) == 2
    assert old.shape == (2, 8)
    assert g.layer_norm(x, keep_stats=False, use_affine=False).shape == (2, 8)
    assert len(g.layer_norm(x, use_affine=False)) == 3


def test_distinguishes_contents_that_give_a_shape():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3, 4))
    for axes, shape in (([0], (3, 4)), ([1], (2, 4)), ([0, 1], (4,)), ([1, 2], (2,)), ([0], (3, 4))):
        assert g.reduce_sum(x, axes=g.constant(np.array(axes, np.int32))).shape == shape
    assert g.reduce_sum(x, axes=g.constant(np.empty(0, np.int32))).shape == (2, 3, 4)
    with pytest.raises(og.SpecError, match="axes"):
        g.reduce_sum(x, axes=g.constant(np.array([7], np.int32)))


def test_distinguishes_contents_that_rules_read():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 3))
    for _ in range(2):
        for wrong, right in ((7, 1), (-5, -4)):
            g.op("Index", [x, g.constant(np.array([right], np.int32))], edition="legacy-1")
            with pytest.raises(og.SpecError, match="indices from -4 to 3"):
                g.op("Index", [x, g.constant(np.array([wrong], np.int32))], edition="legacy-1")


def test_ignores_contents_of_weights():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 4, 4, 5))
    g.convolution(x, g.constant(np.zeros((1, 1, 5, 2), np.float32)), **WINDOW)
    g.convolution(x, g.constant(np.ones((1, 1, 5, 2), np.float32)), **WINDOW)
    first, second = (op.signature for op in g.ops)
    assert first is second
    assert all(t.value is None for t in first.inputs)
    assert [op.inputs[1].value.max() for op in g.ops] == [0, 1]


def test_mistakes_and_notes_name_their_own_op():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    for name in ("one", "two"):
        with pytest.raises(og.SpecError, match=f"Clamp '{name}': min"):
            g.clamp(x, min=2, max=1, name=name)
        with pytest.raises(og.SpecError, match="dtype: not given"):
            g.quantize(x, scales=[0.1], zps=[0], name=name)
    y, w = g.input("y", og.f32, (1, 4, 4, 2)), g.input("w", og.f32, (1, 1, 3, 2))
    for name in ("three", "four"):
        # a disputed name, which gives a note
        g.op("ConvTranspose", [y, w], {**WINDOW, "weights_format": "XIO"}, name=name)
    assert [op.name for op in g.ops] == ["three", "four"]
    assert g.ops[0].attrs == g.ops[1].attrs


# Users share no state -------------------------------------------------------------------------------------------------


def test_holds_no_objects_of_users():
    g = og.Graph()
    x, w = g.input("x", og.f32, (1, 8, 8, 2)), g.input("w", og.f32, (1, 1, 2, 2))
    strides = [2, 2]
    attrs = {**WINDOW, "strides": strides}
    first = g.op("Convolution", [x, w], attrs)
    strides[0] = 4
    attrs["groups"] = 2
    with pytest.raises(og.SpecError):
        g.op("Convolution", [x, w], attrs)
    assert first.shape == (1, 4, 4, 2)
    assert g.op("Convolution", [x, w], {**WINDOW, "strides": [2, 2]}).shape == (1, 4, 4, 2)
    assert dict(g.ops[0].attrs) == dict(g.ops[1].attrs)
    with pytest.raises(TypeError):
        g.ops[0].attrs["strides"] = (9, 9)
    axes = np.array([0], np.int32)
    total = g.reduce_sum(x, axes=g.constant(axes, copy=False))
    assert g.reduce_sum(x, axes=g.constant(np.array([1], np.int32))).shape == (1, 8, 2)
    assert total.shape == (8, 8, 2)


def test_rejects_other_objects_as_signature():
    with pytest.raises(og.ArgumentError, match="signature: 'x'; expected that of an op of a graph, or None"):
        og.Op(0, "Square", (), (), {}, "op", "onednn-3.13", "x")


def test_copied_op_drops_its_signature():
    g = og.Graph()
    g.output("y", g.leaky_relu(g.input("x", og.f32, (2,)), alpha=0.5))
    op = g.ops[0]
    assert op.signature.attrs is op.attrs
    other = pickle.loads(pickle.dumps(op))
    assert other.signature is None
    attrs = {"alpha": 0.5}
    own = og.Op(0, op.kind, op.inputs, op.outputs, attrs, op.name, op.edition, op.signature)
    attrs["alpha"] = 2.0
    assert dict(own.attrs) == dict(other.attrs) == {"alpha": 0.5}
    assert og.check_graph([other]) == []


def test_specialised_ops_share_signatures():
    g = og.Graph()
    y = g.input("x", og.f32, (None, 4))
    for _ in range(3):
        y = g.relu(y)
    g.output("y", g.quantize(y, scales=[0.1], zps=[3], dtype="s8", name="last"))
    other = g.specialise({"x": (7, 4)})
    assert repr(other) == repr(g).replace("[?, 4]", "[7, 4]")
    assert len({op.signature for op in other.ops}) == 2
    assert other.outputs["y"].dtype is og.s8
    with pytest.raises(og.ArgumentError, match="name 'last' is taken"):
        other.relu(other.inputs["x"], name="last")
    assert og.reference.run(other, {"x": np.full((7, 4), 0.5, np.float32)})["y"].tolist() == [[8] * 4] * 7


# Bounds and threads ---------------------------------------------------------------------------------------------------


def test_size_is_bounded():
    info = signature_cache._remembered.cache_info
    assert info().maxsize == MAX_SIGNATURES
    g = og.Graph()
    for size in range(1, MAX_SIGNATURES + 100):
        assert g.relu(g.input(f"x{size}", og.f32, (size, 1, 1))).shape == (size, 1, 1)
    assert info().currsize == MAX_SIGNATURES
    signature_cache._remembered.cache_clear()
    many = g.concat(*[g.inputs["x1"]] * (MAX_INPUTS + 1), axis=0)
    assert many.shape == (MAX_INPUTS + 1, 1, 1)
    long = np.full(MAX_ELEMENTS + 1, 0.5, np.float32)
    x = g.input("x", og.f32, (1, len(long)))
    assert g.dequantize(g.quantize(x, qtype="per_channel", scales=long, dtype="u8"), scales=long[:1]).shape == x.shape
    assert info().currsize == 1, "the last op alone is short enough"


def test_threads_build_equal_graphs():
    def build(seed: int) -> str:
        g = og.Graph()
        y = g.input("x", og.f32, (2, 6))
        for number in range(200):
            kind = (number * seed) % 4
            if kind == 0:
                y = g.leaky_relu(y, alpha=number % 7)
            elif kind == 1:
                y = g.reduce_sum(y, axes=[number % 2], keep_dims=True)
            elif kind == 2:
                y = g.add(y, g.constant(np.ones((2, 6), np.float32)))
            else:
                with pytest.raises(og.SpecError):
                    g.leaky_relu(y, alpha=True)
        return repr(g)

    seeds = [1, 3, 5, 7] * 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(build, seeds))
    signature_cache._remembered.cache_clear()
    assert found == [build(seed) for seed in seeds]
