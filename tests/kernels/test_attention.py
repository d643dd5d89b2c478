"""The op Attention and its gradient: the kernel on every instruction set, gradients, memory, and who reaches it."""

import numpy as np
import pytest
from conftest import LONG
from helpers.executables import in_a_process
from helpers.kernels import run
from helpers.wide_reference import run_wide
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels import attention as kernel
from onegraph.compiler.kernels import native
from onegraph.lowering import attention as lowering
from onegraph.lowering.emitter import Emitter
from onegraph.reference.run import run_op

TESTED_KERNELS = ("attention",)


pytestmark = pytest.mark.library
LEVELS = {"any CPU": 0, "AVX2": 1, "AVX-512": 2, "AVX-512 bf16": 3, "AMX": 4}
# Largest error, as a part of the largest number, of results that are rounded once.
TOLERANCE = {"f32": 4e-6, "bf16": 1.2e-2, "f16": 2e-3}
# Of gradients, which are sums of differences of sums: with one key, sums of up to 40 products of normal numbers cancel.
CANCELLED = {"f32": 2e-5, "bf16": 2.5e-2, "f16": 2e-3}


def attention(g, *inputs, outputs=("dst", "logsumexp"), **attrs):
    return g.op("Attention", inputs, attrs, edition="host", outputs=[*outputs])


def backward(g, *inputs, **attrs):
    return g.op("AttentionBackward", inputs, attrs, edition="host")


def arrays_of(g, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.random(tensor.shape) > 0.3
        if tensor.dtype is og.boolean
        else rng.standard_normal(tensor.shape).astype(tensor.dtype.numpy)
        for name, tensor in g.inputs.items()
    }


def agree(found, wanted, dtype, tolerance=TOLERANCE):
    """Whether numbers agree up to rounding; infinities must be the same."""
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    largest = np.abs(wanted[finite]).max(initial=1.0)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=0, atol=tolerance[dtype] * largest)


def with_gradients(dtype, query, key, value, mask=None, mask_dtype="f32", layout=(0, 1, 2, 3), **attrs):
    """A graph with the results of an attention, and of its gradient. ``layout`` is the order of the axes in memory."""
    g = og.Graph()

    def source(name, shape):
        laid = g.input(name, dtype, [shape[axis] for axis in layout])
        return g.static_transpose(laid, order=np.argsort(layout).tolist())

    ends = [source(name, shape) for name, shape in (("q", query), ("k", key), ("v", value))]
    masks = [] if mask is None else [g.input("mask", mask_dtype, mask)]
    dst, total = attention(g, *ends, *masks, **attrs)
    grads = backward(g, *ends, dst, total, source("diff", (*query[:3], value[3])), *masks, **attrs)
    for name, tensor in zip(("dst", "total", "dq", "dk", "dv"), (dst, total, *grads), strict=True):
        g.output(name, tensor)
    return g


def check(g, dtype, seed=0):
    arrays = arrays_of(g, seed)
    model = g.compile()
    assert {part.executor for part in model.report().partitions} <= {"kernel", "view", "copy"}
    found = model(**arrays)._asdict()
    for name, wanted in references(g, arrays, found).items():
        agree(found[name], wanted, dtype, TOLERANCE if name in ("dst", "total") else CANCELLED)


def references(g, arrays, found):
    """The reference of each output. The gradient reads dst as the kernel has rounded it, because its sums cancel."""
    values = {tensor.id: arrays[name] for name, tensor in g.inputs.items()}
    names = {tensor.id: name for name, tensor in g.outputs.items()}
    wanted = {}
    for op in g.ops:
        results = run_op(op, [None if tensor is None else values[tensor.id] for tensor in op.inputs])
        for tensor, result in zip(op.outputs, results, strict=True):
            values[tensor.id] = result
            if tensor.id in names:
                name = names[tensor.id]
                wanted[name], values[tensor.id] = result, found[name]
    return wanted


@pytest.mark.parametrize("level", LEVELS.values())
@pytest.mark.parametrize("selects", ["none", "where_false", "where_true"])
@pytest.mark.parametrize(("queries", "masked"), [(1, 1), (3, 3), (40, 40), (40, 1)])
def test_limits_and_conditions_of_scores(queries, masked, selects, level):
    """Scores that other scores take the place of, in some rows of all of them, behind a limit."""
    rng = np.random.default_rng(queries)
    q, k, v = (rng.standard_normal((2, 4 if n == queries else 2, n, 40), np.float32) for n in (queries, 150, 151))
    v, condition = v[:, :, :150].copy(), rng.random((2, 1, masked, 150)) < 0.5
    condition[1, 0, 0] = selects == "where_true"
    out = np.empty((2, 4, queries, 40), np.float32)
    for limit, hidden in ((0.0, -1e9), (3.0, -np.inf), (30.0, float(np.finfo(np.float32).min)), (2.0, -2.5)):
        numbers = {"scale": 0.5, "softcap": limit, "hidden": hidden, "selects": selects, "mask": True, "plain": True}
        flags = dict.fromkeys(("backward", "lengths", "causal", "past", "window"), 0)
        run("attention", q, k, v, condition, out, level=level, **flags, **{**kernel.PLAIN, **numbers})
        scores = 0.5 * q.astype(np.float64) @ np.repeat(k, 2, 1).swapaxes(2, 3)
        scores = limit * np.tanh(scores / limit) if limit else scores
        replaced = condition if selects == "where_true" else ~condition
        scores = np.where(replaced, -np.inf if selects == "none" else hidden, scores)
        with np.errstate(invalid="ignore"):
            shares = np.exp(scores - scores.max(-1, keepdims=True))
        agree(out, shares / shares.sum(-1, keepdims=True) @ np.repeat(v, 2, 1), "f32")


@pytest.mark.parametrize("level", LEVELS.values())
@pytest.mark.parametrize("queries", [1, 3, 40])
def test_sinks_have_shares(queries, level):
    """The score of a key without a value, of each head or row, some beside no other key, or not finite."""
    rng = np.random.default_rng(queries)
    q, k, v = (rng.standard_normal((2, 4 if n == queries else 2, n, 40), np.float32) for n in (queries, 150, 150))
    hidden = np.where(rng.random((2, 1, queries, 150)) < 0.5, np.float32(-np.inf), np.float32(0))
    hidden[1, 0, 0] = -np.inf
    out = np.empty((2, 4, queries, 40), np.float32)
    flags = dict.fromkeys(("backward", "lengths", "causal", "past", "window"), 0)
    for sink in (
        4 * rng.standard_normal((1, 4, 1, 1), np.float32),
        4 * rng.standard_normal((2, 4, queries, 1), np.float32),
        np.float32([-np.inf, 1e30, -3e38, 3e38]).reshape(1, 4, 1, 1),
        np.float32([np.nan, np.inf, 0, -np.inf]).reshape(1, 4, 1, 1),
    ):
        numbers = {"scale": 0.5, "mask": True, "sink": True, "plain": True}
        run("attention", q, k, v, hidden, sink, out, level=level, **flags, **{**kernel.PLAIN, **numbers})
        scores = 0.5 * q.astype(np.float64) @ np.repeat(k, 2, 1).swapaxes(2, 3) + hidden
        column = np.broadcast_to(sink.astype(np.float64), (*scores.shape[:3], 1))
        scores = np.concatenate([scores, column], -1)
        with np.errstate(invalid="ignore"):
            shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares = (shares / shares.sum(-1, keepdims=True))[..., :-1]
        agree(out, shares @ np.repeat(v, 2, 1), "f32")


def sunk(*, sink=(1, 4, 1, 1), end=64, less=True, axis=-1, returned=False, factor=False):
    """Attention of which a further column of scores is joined to those of the keys, and cut off behind the SoftMax."""
    g = og.Graph()
    ends = [g.input(name, og.f32, (1, 4, tokens, 16)) for name, tokens in (("q", 3), ("k", 64), ("v", 64))]
    scores = g.matmul(ends[0], ends[1], transpose_b=True)
    by = g.input("factor", og.f32, ()) if factor else g.constant(np.array(0.3, np.float32))
    scores = g.add(g.multiply(scores, by), g.input("mask", og.f32, (1, 1, 3, 64)))
    column = g.op(
        "Expand",
        [g.input("sink", og.f32, sink), g.constant(np.array([1, 4, 3, sink[-1]]), dtype=og.s64)],
        edition="host",
    )
    both = g.concat(scores, column, axis=axis)
    if returned:
        g.output("both", both)
    if less:
        both = g.subtract(both, g.reduce_max(both, axes=[-1], keep_dims=True))
    shares = g.softmax(both, axis=-1)
    kept = [g.constant(np.array([number]), dtype=og.s64) for number in (end - 64, end, 3, 1)]
    g.output("y", g.matmul(g.op("Slice", [shares, *kept], edition="host"), ends[2]))
    return g


@pytest.mark.parametrize(
    ("form", "is_one"),
    [
        ({}, True),
        ({"less": False}, True),
        ({"sink": (1, 4, 3, 1)}, True),
        ({"factor": True}, True),
        ({"end": 65}, False),
        ({"sink": (1, 4, 1, 2)}, False),
        ({"returned": True}, False),
    ],
    ids=str,
)
def test_attention_with_a_column_that_is_cut_off_is_one_step(form, is_one):
    g = sunk(**form)
    model, arrays = g.compile(), arrays_of(g)
    steps = [part for part in model.report().partitions if part.executor == "kernel" and "SoftMax" in part.kinds]
    assert any({"MatMul", "Concat", "Slice"} <= {*step.kinds} for step in steps) is is_one
    found = model(**arrays)
    agree(found[-1] if form.get("returned") else found, reference.run(g, arrays)["y"], "f32")


FORMS = {
    "one head": {"query": (1, 1, 7, 1), "key": (1, 1, 3, 1), "value": (1, 1, 3, 1)},
    "several tiles": {"query": (2, 2, 150, 64), "key": (2, 2, 300, 64), "value": (2, 2, 300, 64)},
    "causal": {"query": (1, 2, 256, 32), "key": (1, 2, 256, 32), "value": (1, 2, 256, 32), "causal": True},
    "a cache": {"query": (1, 2, 3, 16), "key": (1, 2, 140, 16), "value": (1, 2, 140, 16), "causal": True, "past": 137},
    "fewer keys": {"query": (1, 1, 140, 8), "key": (1, 1, 9, 8), "value": (1, 1, 9, 8), "causal": True},
    "a window": {"query": (1, 2, 290, 8), "key": (1, 2, 290, 8), "value": (1, 2, 290, 8), "causal": True, "window": 20},
    "groups": {"query": (2, 6, 37, 20), "key": (2, 2, 140, 20), "value": (2, 2, 140, 37), "causal": True, "past": 103},
    "one key head": {"query": (1, 4, 1, 80), "key": (1, 1, 129, 80), "value": (1, 1, 129, 96)},
    "a mask of keys": {"query": (2, 2, 9, 8), "key": (2, 2, 33, 8), "value": (2, 2, 33, 8), "mask": (2, 1, 1, 33)},
    "a whole mask": {"query": (1, 4, 40, 8), "key": (1, 2, 133, 8), "value": (1, 2, 133, 8), "mask": (4, 40, 133)},
    "a mask of queries": {"query": (1, 2, 9, 8), "key": (1, 2, 5, 8), "value": (1, 2, 5, 8), "mask": (9, 1)},
    "kept keys": {
        "query": (1, 2, 40, 8),
        "key": (1, 2, 133, 8),
        "value": (1, 2, 133, 8),
        "mask": (40, 133),
        "mask_dtype": "boolean",
    },
    "tokens before heads": {
        "query": (2, 3, 20, 24),
        "key": (2, 3, 31, 24),
        "value": (2, 3, 31, 24),
        "layout": (0, 2, 1, 3),
    },
    "sizes that lie apart": {
        "query": (1, 2, 20, 7),
        "key": (1, 2, 31, 7),
        "value": (1, 2, 31, 9),
        "layout": (3, 1, 0, 2),
    },
    "long rows": {"query": (1, 1, 5, 8), "key": (1, 1, 9, 8), "value": (1, 1, 9, 1030)},
    "long rows that lie apart": {
        "query": (1, 1, 6, 1030),
        "key": (1, 1, 9, 1030),
        "value": (1, 1, 9, 9),
        "layout": (3, 1, 0, 2),
    },
    "a scale": {"query": (1, 1, 20, 7), "key": (1, 1, 31, 7), "value": (1, 1, 31, 7), "scale": -0.3},
}


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_kernel_computes_what_the_reference_does(dtype, level, monkeypatch):
    """By default, every second form, and the others at the next level."""
    monkeypatch.setattr(native, "LEVEL", level)
    first = [*LEVELS.values()].index(level) % 2
    for form in FORMS.values() if LONG else [*FORMS.values()][first::2]:
        check(with_gradients(dtype, **form), dtype)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*TOLERANCE]),
    *[st.integers(1, most) for most in (2, 3, 3, 140, 140, 40, 40)],
    st.sampled_from([(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 3, 1)]),
    st.booleans(),
    st.sampled_from([None, *np.ndindex(2, 2, 2, 2)]),
    st.sampled_from([*TOLERANCE, "boolean"]),
    st.integers(0, 3),
)
def test_any_shape_agrees_with_the_reference(
    dtype, batch, heads, group, queries, keys, size, width, layout, causal, parts, mask_dtype, seed
):
    whole = batch, heads * group, queries, keys
    mask = None if parts is None else tuple(dim if part else 1 for dim, part in zip(whole, parts, strict=True))
    form = {"mask": mask, "mask_dtype": mask_dtype, "layout": layout, "causal": causal, "past": max(keys - queries, 0)}
    shapes = (batch, heads * group, queries, size), (batch, heads, keys, size), (batch, heads, keys, width)
    check(with_gradients(dtype, *shapes, **form), dtype, seed)


# Rows without keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 2, 9])
@pytest.mark.parametrize("past", [0, 3])
def test_a_window_hides_keys_of_causal_queries_alone(causal, window, past):
    g = with_gradients("f32", (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 7), causal=causal, window=window, past=past)
    check(g, "f32")


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_query_that_sees_no_key_gets_zeros(dtype, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    g = with_gradients(dtype, (1, 1, 6, 8), (1, 1, 5, 8), (1, 1, 5, 8), (6, 5), "boolean")
    arrays = arrays_of(g)
    arrays["mask"][[1, 4]] = False
    dst, total, by_query, _, _ = (one[0, 0] for one in g.compile()(**arrays))
    assert not dst[[1, 4]].any()
    assert not by_query[[1, 4]].any()
    np.testing.assert_array_equal(total[[1, 4]], -np.inf)
    assert np.isfinite(total[[0, 2, 3, 5]]).all()


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_the_least_finite_number_everywhere_gives_equal_shares(level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    g = with_gradients("f32", (1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4), (2, 3))
    arrays = arrays_of(g)
    arrays["mask"] = np.full((2, 3), np.finfo(np.float32).min)
    found = g.compile()(**arrays)
    np.testing.assert_allclose(found.dst[0, 0], np.broadcast_to(arrays["v"][0, 0].mean(0), (2, 4)), rtol=1e-5)
    assert all(np.isfinite(one).all() for one in found[2:])


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_numbers_that_are_not_finite_reach_the_result(level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    g = with_gradients("f32", (1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4))
    arrays = arrays_of(g)
    arrays["q"][0, 0, 1, 2] = np.nan
    dst = g.compile()(**arrays).dst[0, 0]
    assert np.isnan(dst[1]).all()
    assert np.isfinite(dst[[0, 2]]).all()


# Gradients -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [("dst",), ("dst", "total"), ("total",)], ids="+".join)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_gradients_agree_with_finite_differences(read, twice):
    g, rng = og.Graph(), np.random.default_rng(1)
    shapes = (1, 2, 4, 3), (1, 1, 3, 3), (1, 1, 3, 2), (4, 3)
    ends = [g.input(name, og.DataType.float64, shape) for name, shape in zip("qkvm", shapes, strict=True)]
    results = dict(zip(("dst", "total"), attention(g, *ends, causal=True, past=1), strict=True))
    weights = {name: rng.standard_normal(results[name].shape) for name in read}
    summed = {name: results[name] for name in read}
    given = [g.constant(one, dtype=og.DataType.float64) for one in weights.values()]
    found = g.gradient([*summed.values()], ends, given)
    if twice:  # of the sum of some of the gradients, each times weights
        summed = {f"by {name}": one for name, one in zip("qkv", found, strict=False)}
        weights = {name: rng.standard_normal(one.shape) for name, one in summed.items()}
        given = [g.constant(one, dtype=og.DataType.float64) for one in weights.values()]
        found = g.gradient([*summed.values()], ends, given)
    for name, tensor in {**summed, **{f"d{name}": one for name, one in zip("qkvm", found, strict=True)}}.items():
        g.output(name, tensor)
    arrays = arrays_of(g)
    slopes = reference.run(g, arrays)

    def total(name, place, step):
        moved = {**arrays, name: arrays[name].copy()}
        moved[name][place] += step
        values = run_wide(g, moved, [*summed.values()])  # without the gradients
        return sum((one * weight).sum() for one, weight in zip(values, weights.values(), strict=True))

    for name in "qkvm":
        for place in np.ndindex(arrays[name].shape):
            slope = (total(name, place, 1e-5) - total(name, place, -1e-5)) / 2e-5
            assert slopes[f"d{name}"][place] == pytest.approx(slope, rel=1e-5, abs=1e-7), (name, place)


def test_the_gradient_runs_in_the_kernel():
    g = og.Graph()
    ends = [g.input(name, "f32", (1, 2, 140, 16)) for name in "qkv"]
    dst, _ = attention(g, *ends, causal=True)
    for name, tensor in zip("abc", g.gradient(dst, ends), strict=True):
        g.output(name, tensor)
    assert [op.kind for op in g.ops] == ["Attention", "AttentionBackward"]
    assert {part.executor for part in g.compile().report().partitions} == {"kernel"}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_repeated_runs_are_equal_bit_by_bit(threads):
    g = with_gradients("f32", (1, 3, 300, 16), (1, 3, 300, 16), (1, 3, 300, 16), causal=True)
    arrays = arrays_of(g)
    model = g.compile(threads=threads)
    first = [one.copy() for one in model(**arrays)]
    for _ in range(5):
        for found, wanted in zip(model(**arrays), first, strict=True):
            np.testing.assert_array_equal(found, wanted)


# Memory --------------------------------------------------------------------------------------------------------------

PEAK = """
import resource
import sys
import numpy as np
import onegraph as og

tokens = int(sys.argv[1])
g = og.Graph()
ends = [g.input(name, "f32", (1, 1, tokens, 16)) for name in "qkv"]
dst, total = g.op("Attention", ends, {"causal": True, "window": 64}, edition="host", outputs=["dst", "logsumexp"])
for name, tensor in zip("abc", g.gradient(dst, ends)):
    g.output(name, tensor)
array = np.ones((1, 1, tokens, 16), np.float32)
model = g.compile(threads=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model(array, array, array)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_grows_linearly_with_the_tokens():
    peaks = [int(in_a_process(PEAK, count)) for count in (8192, 65536)]
    # All scores of 65536 tokens would take 16 GiB; the tensors take 4 MiB each.
    assert peaks[1] < 128 * 1024, peaks
    assert peaks[1] < 8 * (peaks[0] + 4096), peaks


# Mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "attrs", "text"),
    [
        (((2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)), {}, r"query: shape \[2, 3, 4\]"),
        (((1, 3, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8)), {}, "2 heads"),
        (((1, 2, 4, 8), (1, 2, 5, 7), (1, 2, 5, 8)), {}, r"key: shape \[1, 2, 5, 7\]"),
        (((1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 6, 8)), {}, r"value: shape \[1, 2, 6, 8\]"),
        (((1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8), (4, 6)), {}, r"mask: shape \[4, 6\]"),
        (((1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8)), {"past": -1}, "past"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(shapes, attrs, text):
    g = og.Graph()
    ends = [g.input(f"x{place}", "f32", shape) for place, shape in enumerate(shapes)]
    with pytest.raises(og.SpecError, match=text):
        attention(g, *ends, **attrs)
    assert not g.ops


# Who reaches it ------------------------------------------------------------------------------------------------------


def lowered(tokens, **form):
    g = og.Graph()
    ends = [g.input(name, "f32", (1, 2, tokens, 8)) for name in "qkv"]
    masking = form.pop("masking", lowering.Masking())
    g.output("dst", lowering.attention(Emitter(g), *ends, masking=masking, **form).output)
    return g


def test_long_sequences_are_lowered_to_the_op():
    assert [op.kind for op in lowered(256).ops] == ["Attention"]
    assert [op.kind for op in lowered(64, masking=lowering.Masking(causal=True)).ops] == ["Attention"]


def test_short_sequences_and_other_forms_keep_the_fusions_of_the_library():
    assert "SoftMax" in [op.kind for op in lowered(255).ops]
    assert "SoftMax" in [op.kind for op in lowered(63, masking=lowering.Masking(causal=True)).ops]
    assert "SoftMax" in [op.kind for op in lowered(256, softcap=3.0).ops]
    assert "SoftMax" in [op.kind for op in lowered(256, masking=lowering.Masking(right=5)).ops]


@pytest.mark.parametrize(
    "masking", [{}, {"causal": True}, {"causal": True, "left": 9}, {"right": 0}, {"past": 3, "right": 0}]
)
def test_both_lowerings_agree(masking, monkeypatch):
    found = []
    for limit in (1, 1 << 40):
        monkeypatch.setattr(lowering, "TILED_SCORES", (limit, limit))
        g = lowered(70, masking=lowering.Masking(**masking))
        found.append(g.compile()(**arrays_of(g)))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)
