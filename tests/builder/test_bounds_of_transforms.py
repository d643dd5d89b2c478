"""Bounds of what is computed when a graph gets other shapes or types: long contents are left as they are."""

import numpy as np
import pytest

import onegraph as og
from onegraph.builder.constants import first_contents_of
from onegraph.serialize.document import UNKNOWN
from onegraph.transform.batch_inputs import _keeps_batch
from onegraph.transform.rebuild import _cut, _kept
from onegraph.transform.rewrite_values import strides_of
from onegraph.transform.specialise import MAX_ELEMENTS, MAX_NUMBERS, _Settled
from onegraph.transform.widen import SMALL, widened

F32 = np.float32


def settled(op, sources, *, is_model=False):
    """The sizes of the results that follow from some sources; None if they are not computed."""
    results = _Settled(is_model).results(op, sources)
    return None if results is None else [array.size for array in results]


@pytest.mark.parametrize("is_model", [False, True])
@pytest.mark.parametrize("beyond", [0, 1])
def test_host_ops_of_few_elements_are_computed(beyond, is_model):
    g = og.Graph()
    count = MAX_ELEMENTS + beyond
    parts = [g.constant(np.full(size, 0.5, F32)) for size in (count - 3, 3)]
    g.op("Concat", parts, {"axis": 0}, edition="host")
    expected = None if beyond else [count]
    assert settled(g.ops[0], parts, is_model=is_model) == expected
    one, target = g.constant(np.ones(1, F32)), g.constant(np.array([count]), dtype=og.s64)
    g.op("Expand", [one, target], {}, edition="host")  # a result of more elements than its sources
    assert settled(g.ops[1], [one, target], is_model=is_model) == expected


@pytest.mark.parametrize("beyond", [0, 1])
def test_ops_of_models_compute_few_numbers(beyond):
    g = og.Graph()
    source = g.constant(np.full(MAX_NUMBERS + beyond, -1, F32))
    g.abs(source)
    assert settled(g.ops[0], [source], is_model=True) == (None if beyond else [MAX_NUMBERS])
    assert settled(g.ops[0], [source]) is None  # the compiler computes it
    single = g.constant(np.full(1, -1, F32))
    g.abs(single)
    assert settled(g.ops[1], [single]) is None
    assert settled(g.ops[1], [single], is_model=True) == [1]


def test_equal_ops_are_computed_once():
    g = og.Graph()
    sources = [g.constant(np.array([number], F32)) for number in (1, 1, 2)]
    for one in sources:
        g.op("Floor", [one], {}, edition="host")
    table = _Settled(False)
    first, same, other = (table.results(op, op.inputs) for op in g.ops)
    assert same is first
    assert [array.tolist() for array in (*first, *other)] == [[1], [2]]
    assert not first[0].flags.writeable


@pytest.mark.parametrize(
    ("shape", "found"), [((2, 3), [[2, 3], [6]]), ((2, None), None), (None, None), ((), [[], [1]])]
)
def test_shapes_are_known_where_all_dims_are(shape, found):
    g = og.Graph()
    x = g.input("x", "f32", shape)
    for kind in ("Shape", "Size"):
        g.op(kind, [x], {}, edition="host")
    results = [_Settled(False).results(op, [x]) for op in g.ops]
    if found is None:
        assert results == [None, None]
    else:
        assert [arrays[0].ravel().tolist() for arrays in results] == found
        assert all(arrays[0].dtype == np.int64 for arrays in results)


@pytest.mark.parametrize("beyond", [0, 1])
def test_small_constants_become_f32_at_once(beyond):
    count = SMALL + beyond
    g = og.Graph()
    x = g.input("x", "bf16", (2, count))
    y = g.add(g.tanh(x), g.constant(np.ones(count, og.bf16.numpy), name="c"))
    g.output("y", g.tanh(y))
    g._roundings = frozenset()
    made = widened(g, [og.bf16])
    (add,) = (op for op in made.ops if op.kind == "Add")
    constant = add.inputs[1]
    assert constant.dtype is og.f32
    assert (constant.value is None) == bool(beyond)
    casts = [op.name for op in made.ops if op.kind == "TypeCast"]
    assert ("c/f32" in casts) == bool(beyond)


def test_labels_of_casts_are_free():
    g = og.Graph()
    x = g.input("x", "bf16", (2, 3))
    y = g.tanh(g.add(g.tanh(x, name="x/f32"), x, name="x/f32_"))
    g.output("y", y)
    g._roundings = frozenset()
    assert "x/f32__" in [op.name for op in widened(g, [og.bf16]).ops]


@pytest.mark.parametrize(
    ("dims", "text", "found"),
    [
        ([2, 3], "3x1", [3, 1]),
        ([2, 3], "1x2", [1, 2]),
        ([2, 2], "1x1", None),
        ([0, 2], "1x1", [1, 1]),
        ([UNKNOWN, 2, 2], "4x1x1", [4, 1, 1]),
        ([2, 3], "ba", [1, 2]),
        ([2, 3], "bb", None),
        ([2, 3], "1", None),
    ],
)
def test_strides_are_taken_unless_elements_share_memory(dims, text, found):
    if found is not None:
        assert strides_of(dims, text) == found
        return
    with pytest.raises(og.ArgumentError, match=r"in_shapes: '\*"):
        strides_of(dims, text)


def test_contents_are_cut_along_each_axis():
    value = np.arange(12, dtype=F32).reshape(4, 3)
    assert np.array_equal(_cut(value, (4, 2)), value[:, :2])
    assert np.array_equal(_cut(value, (4, 3)), value)
    assert np.array_equal(_cut(value, (5, 2)), np.resize(value, (5, 2)))
    assert np.array_equal(_cut(value, (2,)), value.ravel()[:2])
    kept = _kept(value, og.bf16)
    assert (kept.dtype, kept.shape, kept.flags.writeable) == (og.bf16.numpy, (4, 3), False)


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((1,), (4,)), ((2,), (0,)), ((2, 3), (0, 0)), ((0, 3), (12, 4))]
)
def test_a_repeated_number_takes_the_memory_of_one(shape, strides):
    dtype, kept = first_contents_of(np.broadcast_to(F32(3), shape), None)
    assert (dtype, kept.shape, kept.strides, kept.flags.writeable) == (og.f32, shape, strides, False)
    assert np.all(kept == 3)


def test_rows_that_are_repeated_are_copied():
    rows = np.broadcast_to(np.arange(3, dtype=F32), (2, 3))
    _, kept = first_contents_of(rows, None)
    assert (kept.strides, kept.flags.writeable) == ((12, 4), False)
    assert np.array_equal(kept, rows)


@pytest.mark.parametrize("rank", [12, 13])
def test_constants_have_a_rank_up_to_the_greatest(rank):
    value = np.ones((1,) * rank, F32)
    if rank == 12:
        assert og.Graph().constant(value).shape == value.shape
        return
    with pytest.raises(og.ArgumentError, match="constant: rank 13; expected at most 12 dimensions"):
        og.Graph().constant(value)


ROWS, OTHER, NONE = (4, 3), (2, 3), None


@pytest.mark.parametrize(
    ("kind", "index", "shapes", "keeps"),
    [
        ("ReLU", 0, [ROWS], True),
        ("ReLU", 1, [ROWS, ROWS], False),
        ("Concat", 5, [ROWS] * 6, True),
        ("ReLUBackward", 0, [ROWS, ROWS], True),
        ("ReLUBackward", 1, [ROWS, ROWS], True),
        ("ReLUBackward", 2, [ROWS] * 3, False),
        ("ConvolutionBackwardData", 1, [ROWS, ROWS], True),
        ("ConvolutionBackwardWeights", 2, [ROWS] * 3, False),
        ("LayerNormBackward", 1, [ROWS] * 3, True),
        *(("LayerNormBackward", index, [ROWS] * 6, index < 4) for index in range(2, 6)),
        *(("LayerNormBackward", 3, [first, ROWS, ROWS, (3,)], False) for first in (ROWS, NONE, ())),
        *(("LayerNormBackward", 2, [ROWS, ROWS, second], False) for second in (NONE, (), (3,))),
        ("LayerNormBackward", 2, [NONE, ROWS, NONE], False),
        *(("Add", index, [ROWS, ROWS], True) for index in (0, 1)),
        *(("GreaterEqual", index, [ROWS, ROWS, ROWS], index < 2) for index in (0, 1, 2)),
        *(("Add", index, [ROWS, (3,)], index == 0) for index in (0, 1)),
        *(("Add", index, [(1, 3), ROWS], index == 1) for index in (0, 1)),
        *(("Multiply", index, [ROWS, OTHER], False) for index in (0, 1)),
        *(("Multiply", index, [ROWS, NONE], False) for index in (0, 1)),
        ("Add", 0, [(), ()], True),
        ("PReLU", 0, [ROWS, OTHER], True),
        ("PReLU", 1, [ROWS, ROWS], True),
        ("PReLU", 1, [ROWS, OTHER], False),
        *(("PReLU", 1, [ROWS, second], False) for second in ((4,), (4, 3, 1), NONE)),
        *(("PReLU", 1, [first, ROWS], False) for first in (NONE, (4,))),
        ("PReLU", 1, [(), ()], False),
        ("PReLU", 1, [NONE, NONE], False),
        ("MatMul", 0, [ROWS, (3, 2)], True),
        ("MatMul", 1, [ROWS, (3, 2)], False),
        ("MatMul", 1, [(4, 2, 3), (4, 3, 2)], True),
        ("MatMul", 1, [ROWS, NONE], False),
        ("MatMul", 2, [ROWS, (3, 2), (4, 1, 2)], False),
    ],
)
def test_ops_that_keep_a_batch(kind, index, shapes, keeps):
    assert _keeps_batch(kind, index, shapes) is keeps
