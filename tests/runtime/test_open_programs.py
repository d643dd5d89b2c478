"""Programs that hold sizes as parameters: a further size computes what known dims compute, without a compilation."""

import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from conftest import draws
from helpers.open_graphs import IMAGES, MATRICES, OF_MATRICES, assert_same, drawn, normalized, opened

import onegraph as og
from onegraph.capi.settings import is_native
from onegraph.compiler.kernels.kernel import COMPILED_ANEW
from onegraph.compiler.library_steps import NoParametersError
from onegraph.native.library import HASHES_CONSTANTS, ffi
from onegraph.opset.dtypes import DataType
from onegraph.runtime import executable, open_programs
from onegraph.runtime.sized_program import SizedProgram

# Newer libraries find prepared constants by a hash, so that the first programs have constants of their own.
SIZES = draws((17, 18, 19, 22, 25, 29, 31, 20), (17, 18, 19, 21, 22, 23, 25, 26, 29, 31, 20, 24))
LEAST = 0 if HASHES_CONSTANTS else len(SIZES) - 5


def is_sized(model):
    return isinstance(model._programs.cache.latest().program, SizedProgram)


def called(model, build, shape, sizes):
    """How many of the sizes had the steps for another one; all compute what known dims compute."""
    count = 0
    for size in sizes:
        x = drawn(*(size if dim is None else dim for dim in shape), seed=size)
        assert_same(model(x), opened(build, x.shape).compile()(x), model)
        count += is_sized(model)
    assert model._programs._open.error is None
    return count


@pytest.mark.parametrize("build", MATRICES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("shape", [(None, 16), (2, None, 16)], ids=["matrix", "batch"])
def test_steps_for_one_size_serve_others(build, shape):
    if len(shape) == 3 and build in OF_MATRICES:
        shape = (None, 16)
    model = opened(build, shape).compile()
    assert called(model, build, shape, SIZES) >= LEAST
    assert model.cache_info().reused >= LEAST
    assert all(form.like is None for form in model._programs._open._forms)  # the first program is not kept
    assert not LEAST or "with the steps for another size" in str(model.report())


@pytest.mark.parametrize("build", IMAGES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("shape", [(None, 4, 8, 8), (1, 4, None, None)], ids=["batch", "image"])
def test_layouts_that_the_library_chooses_follow_sizes(build, shape):
    assert called(opened(build, shape).compile(), build, shape, (9, 11, 13, 14, 10)) >= bool(LEAST)


def test_numpy_steps_follow_sizes():
    g = og.Graph()
    x = g.input("x", og.f32, (None, 3))
    g.output("rows", g.gen_index(x, axis=0))
    g.output("y", g.relu(x))
    model = g.compile()
    for size in SIZES:
        given = drawn(size, 3)
        rows, y = model(given)
        np.testing.assert_array_equal(rows, np.indices(given.shape)[0])
        np.testing.assert_array_equal(y, np.maximum(given, 0))
    assert model.cache_info().reused >= LEAST


def test_a_part_that_only_kernels_compute_follows_sizes():
    """The sum over no axes is a part of a gradient, which the library refuses; ReduceSum of host ops has its kernel."""
    g, kinds = og.Graph(), (None, None, (), ())
    x, grad, mean, variance = (g.input(name, og.f32, shape) for name, shape in zip("xdmv", kinds, strict=True))
    norm = {"begin_norm_axis": 0, "epsilon": 0.5, "use_affine": False}
    g.output("y", g.op("LayerNormBackward", [x, grad, mean, variance], norm))
    model = g.compile()
    for size in SIZES[:3]:
        arrays = [drawn(size, seed=size), drawn(size, seed=1), np.float32(0.5), np.float32(1.5)]
        wanted = og.reference.run(g, dict(zip("xdmv", arrays, strict=True)))["y"]
        np.testing.assert_allclose(model(*arrays), wanted, rtol=1e-5, atol=1e-5)
    assert model._programs._open.error is None
    assert is_sized(model)


def test_two_sizes_change_apart_and_together():
    g = og.Graph()
    x, y = g.input("x", og.f32, (None, 8)), g.input("y", og.f32, (8, None))
    g.output("z", g.softmax(g.matmul(g.relu(x), y), axis=-1))
    model = g.compile()
    for rows, columns in ((9, 9), (10, 12), (11, 12), (12, 12), (13, 9), (9, 9), (10, 15), (15, 10), (1, 12), (0, 12)):
        a, b = drawn(rows, 8), drawn(8, columns)
        scores = np.maximum(a, 0).astype(np.float64) @ b
        shares = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        np.testing.assert_allclose(model(a, b), shares / shares.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    assert model.cache_info().reused >= (3 if LEAST else 0)
    assert model._programs._open.error is None


def test_a_size_that_sets_a_constant_is_compiled_as_a_whole():
    """The mean divides by the number of rows, which is a constant of the program."""
    g = og.Graph()
    x = g.input("x", og.f32, (None, 4))
    g.output("y", g.reduce_mean(g.tanh(x), axes=(0,), keep_dims=True))
    model = g.compile()
    for rows in (9, 10, 11, 12, 13):
        a = drawn(rows, 4)
        np.testing.assert_allclose(model(a), np.tanh(a).mean(0, keepdims=True), rtol=1e-5, atol=1e-6)


def test_places_behind_an_open_size_follow_it():
    """What is behind the rows of a Pad has a known shape, and its place depends on the number of rows."""
    g = og.Graph()
    x, pads = g.input("x", og.f32, (None, 3)), g.constant(np.array([1, 0, 2, 0]), dtype=og.s64)
    g.output("y", g.relu(g.op("Pad", [x, pads, g.constant(np.float32(7))], {"mode": "constant"}, edition="host")))
    model = g.compile()
    for rows in (17, 18, 19, 21, 25, 30):
        a = drawn(rows, 3)
        wanted = np.maximum(np.pad(a, ((1, 2), (0, 0)), constant_values=7), 0)
        np.testing.assert_array_equal(model(a), wanted)
    assert model.cache_info().reused >= (3 if LEAST else 0)


@pytest.mark.parametrize("stage", ["OpenProgram", "SizedProgram"])
@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (og.UnsupportedError("refused"), True),
        (ValueError("a mistake"), True),
        (og.OutOfMemoryError("compile", "out_of_memory"), False),
    ],
    ids=["refusal", "mistake", "memory"],
)
def test_calls_outlive_what_open_programs_cannot_do(stage, error, passes, monkeypatch):
    def failing(*arguments):
        raise error

    model = opened(normalized, (None, 16)).compile()
    monkeypatch.setattr(open_programs, stage, failing)
    for size in (5, 6, 7, 8, 9):
        x = drawn(size, 16)
        if passes or size == 5:
            np.testing.assert_array_equal(model(x), opened(normalized, x.shape).compile()(x))
        else:
            with pytest.raises(og.OutOfMemoryError):
                model(x)
    assert not passes or str(error) in model.cache_info().reason


def test_results_are_new_arrays_and_programs_are_kept():
    model = opened(MATRICES[0], (None, 16)).compile()
    xs = [drawn(size, 16) for size in SIZES]
    results = [model(x) for x in xs]
    assert model.cache_info().reused >= bool(LEAST)
    for x, result in zip(xs, results, strict=True):
        out = np.empty_like(result)
        assert model(x, out=out) is out
        np.testing.assert_array_equal(out, result)
        np.testing.assert_array_equal(model.bind(x).run(), result)
    assert model.cache_info().misses == len(SIZES)


def mixed():
    """A graph whose kernels get dense tensors, tensors with gaps, axes of size 1, and numbers that follow the size."""
    g = og.Graph()
    x, t = g.input("x", og.f32, (None, 1, 8)), g.input("t", og.s64, (None, 6))
    g.output("y", g.relu(g.static_transpose(x, order=(2, 0, 1))))
    g.output("z", g.op("Add", [t, t], edition="host"))
    return g.compile(), lambda rows: {"x": drawn(rows, 1, 8), "t": np.arange(rows * 6).reshape(rows, 6)}


@pytest.mark.parametrize("make", [mixed, lambda: (decoder(1, 16, True, False), tokens_of_decoder)])
def test_kernels_are_filled_as_they_are_made_for_known_sizes(make):
    model, given = make()
    for size in (70, 71, 72, 90):
        model(**given(size))
    form = model._programs._open._forms[-1]
    for size in (70, 75, 93):
        sizes = [size] * len(form.parameters.places)
        evaluated = form.evaluated(sizes)
        rows, keeps = form.kernels.at(np.array(evaluated, np.int64))
        filled = ffi.new("onegraph_step_t[]", len(rows))
        ffi.memmove(filled, ffi.from_buffer(rows), rows.nbytes)
        assert len(form.sources) == len(filled) > 0
        assert keeps
        for source, step in zip(form.sources, filled, strict=True):
            made = source.at(form.at(sizes, evaluated)).made()
            assert (step.kernel, step.n_inputs, step.n_outputs) == (made.pointer, *made.ports[:2])
            assert ffi.unpack(step.code, step.n_code) == [*made.code]
            for place, tensor in enumerate(made.ports[2]):
                assert bytes(ffi.buffer(step.tensors[place])) == bytes(ffi.buffer(tensor))


def test_numbers_too_large_for_a_kernel_are_left_to_a_compilation():
    model, given = mixed()
    for size in (70, 71):
        model(**given(size))
    form = model._programs._open._forms[-1]
    for size in (1 << 31, 1 << 48):
        with pytest.raises(NoParametersError, match="too large"):
            form.kernels.at(np.array(form.evaluated([size] * len(form.parameters.places)), np.int64))


def test_a_call_of_a_new_size_needs_no_check_of_each_array(monkeypatch):
    model = opened(normalized, (None, 16)).compile()
    for size in (30, 31):
        model(drawn(size, 16))
    monkeypatch.setattr(executable, "slow_call", lambda *_: "checked")
    found = {size: model(drawn(size, 16)) for size in (32, 33)}
    np.testing.assert_array_equal(model(drawn(32, 16)), found[32])
    assert model.cache_info()[:2] == (1, 4)
    strange = [
        drawn(34, 16).astype(np.float64),
        drawn(34, 15),
        drawn(34 * 16),
        drawn(1, 34, 16),
        drawn(34, 16).T,
        "text",
    ]
    assert [model(x) for x in strange] == ["checked"] * len(strange)
    assert (model(), model(drawn(34, 16), 1), model(y=drawn(34, 16))) == ("checked",) * 3
    monkeypatch.undo()
    for size, result in found.items():
        assert_same(result, opened(normalized, (size, 16)).compile()(drawn(size, 16)), model)
    for x in strange[1:4]:
        with pytest.raises(og.ArgumentError, match="shape"):
            model(x)
    assert model.cache_info().misses == 4


# Attention ------------------------------------------------------------------------------------------------------------


def tokens_of_decoder(tokens):
    shapes = {"q": (2, 3, 1, 16), "k": (2, 3, tokens, 16), "v": (2, 3, tokens, 16), "m": (1, 1, 1, tokens)}
    return {name: drawn(*shape) for name, shape in shapes.items()}


def decoder(queries, size, mask, turned, tokens=None):
    g = og.Graph()
    q = g.input("q", og.f32, (2, 3, queries, size))
    k, v = (g.input(name, og.f32, (2, 3, tokens, size)) for name in "kv")
    keys = k if turned else g.static_transpose(k, order=(0, 1, 3, 2))
    scores = g.multiply(g.matmul(q, keys, transpose_b=turned), g.constant(np.float32(0.25)))
    if mask:
        scores = g.add(scores, g.input("m", og.f32, (1, 1, queries, tokens)))
    g.output("y", g.matmul(g.softmax(scores, axis=-1), v))
    return g.compile()


def attention(q, k, v, m=0.0):
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * 0.25 + m
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(("queries", "size"), [(1, 16), (3, 7), (4, 33), (5, 16)])
@pytest.mark.parametrize("mask", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("turned", [False, True], ids=["transposed", "as it is"])
def test_growing_caches_are_attended_without_a_compilation(queries, size, mask, turned):
    model = decoder(queries, size, mask, turned)
    for tokens in (1, 2, 3, 7, 16, 17, 128, 129, 131, 300):
        given = [drawn(2, 3, count, size, seed=count) for count in (queries, tokens, tokens)]
        if mask:
            hidden = np.random.default_rng(tokens).random((1, 1, queries, tokens)) < 0.5
            hidden[..., 0] = tokens == 7  # all keys are hidden from some rows, whose result is NaN
            given.append(np.where(hidden, -np.inf, 0).astype(np.float32))
        np.testing.assert_allclose(model(*given), attention(*given), rtol=1e-5, atol=1e-5)
    assert "sizes change, and the library would compile its ops" in str(model.report())
    assert not model.cache_info().partitions or HASHES_CONSTANTS


# What models write of scores and a mask, beside the same in numpy. ``on``: the host ops.
MASKED = {
    "a number where the mask is false": (
        lambda g, on, s, m: on("Where", [m, s, g.constant(np.float32(-1e9))]),
        lambda s, m: np.where(m, s, -1e9),
    ),
    "a number where the mask is true": (
        lambda g, on, s, m: on("Where", [m, g.constant(np.full((1, 1), np.finfo(np.float32).min)), s]),
        lambda s, m: np.where(m, np.finfo(np.float32).min, s),
    ),
    "minus infinity": (
        lambda g, on, s, m: on("Where", [m, s, g.constant(np.float32(-np.inf))]),
        lambda s, m: np.where(m, s, -np.inf),
    ),
    "a limit": (
        lambda g, on, s, m: on("Where", [m, 3 * g.tanh(s / 3), g.constant(np.float32(-9))]),
        lambda s, m: np.where(m, 3 * np.tanh(s / 3), -9),
    ),
    "a limit alone": (lambda g, on, s, m: g.tanh(s), lambda s, m: np.tanh(s)),
}


def forms_of_decoders(mask, heads, ways):
    """A decoder whose ``heads`` are repeated for those of the query, or whose rows are one matrix for each of them, or
    whose heads of a group are an axis of their own.
    """
    g = og.Graph()
    q, m = g.input("q", og.f32, (2, 4, 3, 16)), g.input("m", og.boolean, (2, 1, 3, None))
    k, v = (g.input(name, og.f32, (2, 2 if heads else 4, None, 16)) for name in "kv")

    def on(kind, ends, **attrs):
        return g.op(kind, ends, attrs, edition="host")

    def repeated(one):
        wide = on("Unsqueeze", [one], axes=[2])
        times = g.constant(np.array([1, 1, 2, 1, 1]), dtype=og.s64)
        return g.static_reshape(on(heads, [wide, times]), shape=(0, 4, -1, 16), special_zero=True)

    scaled = g.multiply(q, g.constant(np.float32(0.5)))
    if heads == "rows":
        scores = g.matmul(g.static_reshape(scaled, shape=(2, 2, 6, 16)), k, transpose_b=True)
        scores = g.static_reshape(scores, shape=(2, 4, 3, -1))
    elif heads == "axes":
        keys, v, m = (on("Unsqueeze", [one], axes=[2]) for one in (k, v, m))
        keys = g.static_transpose(g.multiply(keys, g.constant(np.float32(0.5))), order=(0, 1, 2, 4, 3))
        scores = g.matmul(g.static_reshape(scaled, shape=(2, 2, 2, 3, 16)), keys)
    else:
        keys = g.multiply(repeated(k) if heads else k, g.constant(np.float32(0.5)))
        scores = g.matmul(scaled, g.static_transpose(keys, order=(0, 1, 3, 2)))
    shares = g.softmax(MASKED[mask][0](g, on, scores, m), axis=-1)
    if ways:
        shares = on("ReplaceNaN", [shares, g.constant(np.float32(0))])
    if heads == "rows":
        y = g.matmul(g.static_reshape(shares, shape=(2, 2, 6, -1)), v)
        g.output("y", g.relu(g.static_reshape(y, shape=(2, 4, 3, 16))))
    elif heads == "axes":
        g.output("y", g.static_reshape(g.matmul(shares, v), shape=(2, 4, 3, 16)))
    else:
        g.output("y", g.matmul(shares, repeated(v) if heads else v))
    return g.compile()


@pytest.mark.parametrize("ways", [False, True], ids=["NaN", "no NaN"])
@pytest.mark.parametrize("heads", ["", "Expand", "Tile", "rows", "axes"])
@pytest.mark.parametrize("mask", MASKED)
def test_forms_of_attention_are_one_step(mask, heads, ways):
    model = forms_of_decoders(mask, heads, ways)
    for tokens in (65, 66, 67, 130):
        q, k, v = drawn(2, 4, 3, 16, seed=1), *(drawn(2, 2 if heads else 4, tokens, 16, seed=n) for n in (2, 3))
        m = np.random.default_rng(tokens).random((2, 1, 3, tokens)) < 0.5
        m[1, 0, 0] = tokens == 66  # all keys are hidden from some rows
        m[1, 0, 1] = tokens != 66
        wide = [np.repeat(each, 2, 1) if heads else each for each in (k, v)]
        scores = MASKED[mask][1](q.astype(np.float64) @ wide[0].swapaxes(2, 3) * (0.5 if heads == "rows" else 0.25), m)
        with np.errstate(invalid="ignore"):
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
        wanted = np.nan_to_num(shares) @ wide[1] if ways else shares @ wide[1]
        found = model(q=q, m=m, k=k, v=v)
        np.testing.assert_allclose(found, np.maximum(wanted, 0) if heads == "rows" else wanted, rtol=1e-5, atol=1e-5)
    parts = [part for part in model.report().partitions if "SoftMax" in part.kinds]
    assert [part.kinds.count("MatMul") for part in parts] == [2]
    assert not any({"Expand", "Tile"} & {*part.kinds} and part.executor != "view" for part in model.report().partitions)
    assert model.cache_info().reused >= (2 if LEAST else 0)


@pytest.mark.parametrize("dtype", [og.f16, og.bf16], ids=str)
@pytest.mark.parametrize("is_permitted", [True, False])
def test_caches_of_16_bits_are_attended_as_they_are(dtype, is_permitted):
    """Shares that a model rounds stay f32 where the graph permits it."""
    g = og.Graph()
    q, m = g.input("q", og.f32, (2, 4, 1, 16)), g.input("m", og.boolean, (2, 1, 1, None))
    k, v = (g.input(name, dtype, (2, 4, None, 16)) for name in "kv")
    keys = g.type_cast(g.static_transpose(k, order=(0, 1, 3, 2)), dtype=og.f32)
    scores = g.op("Where", [m, g.matmul(q, keys), g.constant(np.float32(-6e4))], edition="host")
    shares = g.type_cast(g.type_cast(g.softmax(scores, axis=-1), dtype=dtype), dtype=og.f32)
    g.output("y", g.matmul(shares, g.type_cast(v, dtype=og.f32)))
    g._roundings = frozenset() if is_permitted else None
    model = g.compile()
    for tokens in (65, 66, 67, 130):
        given = {"q": drawn(2, 4, 1, 16), "m": np.arange(2 * tokens).reshape(2, 1, 1, tokens) % 3 > 0}
        given |= {name: drawn(2, 4, tokens, 16, seed=tokens).astype(dtype.numpy) for name in "kv"}
        given["m"][1] = tokens == 66  # all keys are hidden from a row
        given["v"][0, 0, 5, 3] = np.nan
        wanted = og.reference.run(g, given)["y"]
        np.testing.assert_allclose(model(**given), wanted, rtol=2e-2 if is_permitted else 1e-5, atol=2e-3)
    parts = [part for part in model.report().partitions if part.kinds.count("MatMul") == 2]
    assert len(parts) == is_permitted
    assert not is_permitted or [source.dtype for source in parts[0].sources[1:3]] == [dtype, dtype]
    assert not is_permitted or model.cache_info().partitions == 0


@pytest.mark.parametrize("dtype", [og.f32, og.boolean], ids=str)
@pytest.mark.parametrize(
    ("mask", "is_one"),
    [
        ((1, 1, 1, 3, None), [og.f32]),
        ((2, 1, 1, 3, None), [og.f32]),
        ((2, 2, 3, 3, None), [og.f32]),
        ((2, 3, 3, None), [og.f32]),
        ((1, 1, 3, None), [og.f32, og.boolean]),
        ((3, None), [og.f32, og.boolean]),
        ((2, 2, 1, 3, None), []),
        ((2, 1, 3, 3, None), []),
        ((3, 3, None), []),
    ],
    ids=str,
)
def test_masks_of_grouped_heads_meet_the_right_ones(mask, is_one, dtype):
    """Three heads of a group are an axis behind that of the two groups."""
    g = og.Graph()
    q, m = g.input("q", og.f32, (2, 2, 3, 3, 16)), g.input("m", dtype, mask)
    k, v = (g.input(name, og.f32, (2, 2, 1, None, 16)) for name in "kv")
    scores = g.matmul(q, k, transpose_b=True)
    if dtype is og.boolean:
        scores = g.op("Where", [m, scores, g.constant(np.float32(-9))], edition="host")
    else:
        scores = g.add(scores, m)
    g.output("y", g.matmul(g.softmax(scores, axis=-1), v))
    model = g.compile()
    for tokens in (65, 66, 67):
        given = {"q": drawn(2, 2, 3, 3, 16), **{name: drawn(2, 2, 1, tokens, 16, seed=tokens) for name in "kv"}}
        shape = [tokens if dim is None else dim for dim in mask]
        given["m"] = drawn(*shape, seed=3) * 5 if dtype is og.f32 else drawn(*shape, seed=3) > 0
        np.testing.assert_allclose(model(**given), og.reference.run(g, given)["y"], rtol=1e-4, atol=1e-5)
    joined = [part for part in model.report().partitions if part.kinds.count("MatMul") == 2]
    assert bool(joined) == (dtype in is_one)


OTHER_SCORES = {
    "a score of a run": lambda g, s, m: g.op("Where", [m, s, g.input("n", og.f32, ())], edition="host"),
    "NaN": lambda g, s, m: g.op("Where", [m, s, g.constant(np.float32(np.nan))], edition="host"),
    "a negative limit": lambda g, s, m: g.tanh(s / 3) * -3,
    "two limits": lambda g, s, m: g.tanh(g.tanh(s)),
    "the sum of rows": lambda g, s, m: s + g.reduce_sum(s, axes=[3], keep_dims=True),
    "scores of other scores": lambda g, s, m: g.op("Where", [m, s, s * 2], edition="host"),
}


@pytest.mark.parametrize("form", OTHER_SCORES)
def test_other_scores_are_computed_as_they_are(form):
    g = og.Graph()
    q, m = g.input("q", og.f32, (1, 2, 1, 16)), g.input("m", og.boolean, (1, 1, 1, None))
    k, v = (g.input(name, og.f32, (1, 2, None, 16)) for name in "kv")
    scores = OTHER_SCORES[form](g, g.matmul(q, k, transpose_b=True), m)
    g.output("y", g.matmul(g.softmax(scores, axis=-1), v))
    model = g.compile()
    for tokens in (65, 66, 67):
        given = {name: drawn(1, 2, count, 16, seed=count) for name, count in (("q", 1), ("k", tokens), ("v", tokens))}
        given["m"] = np.arange(tokens).reshape(1, 1, 1, -1) % 3 > 0
        given |= {"n": np.array(-2, np.float32)} if "n" in g.inputs else {}
        wanted = og.reference.run(g, given)["y"]
        np.testing.assert_allclose(model(**given), wanted, rtol=1e-4, atol=1e-5)
    assert not any(part.kinds.count("MatMul") == 2 for part in model.report().partitions)


@pytest.mark.parametrize(
    ("queries", "tokens", "is_one"), [(1, 64, True), (16, 70, True), (17, 70, False), (1, 9, False)]
)
def test_few_queries_read_keys_as_they_are(queries, tokens, is_one):
    given = [drawn(2, 3, count, 16, seed=count) for count in (queries, tokens, tokens)]
    model = decoder(queries, 16, False, False, tokens)
    np.testing.assert_allclose(model(*given), attention(*given), rtol=1e-5, atol=1e-5)
    assert ("few queries take as long" in str(model.report())) == is_one


def test_attention_keeps_special_values():
    model = decoder(1, 16, False, True)
    q, k, v = drawn(2, 3, 1, 16), drawn(2, 3, 20, 16), drawn(2, 3, 20, 16)
    for array, value in ((q, np.nan), (k, np.inf), (v, np.nan), (v, -np.inf)):
        kept, array[0, 1, 0, 3] = array[0, 1, 0, 3], value
        np.testing.assert_allclose(model(q, k, v), attention(q, k, v), rtol=1e-5, atol=1e-5)
        array[0, 1, 0, 3] = kept


# Memory ---------------------------------------------------------------------------------------------------------------

MANY_SIZES = """
import numpy as np
import onegraph as og
from onegraph.capi.settings import is_native

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10

g, rng = og.Graph(), np.random.default_rng(0)
x = g.input("x", og.f32, (1, None, 1024))
for _ in range(4):
    weights = g.constant(rng.standard_normal((1024, 1024), np.float32) / 32)
    x = g.gelu(g.add(g.matmul(x, weights), g.constant(np.zeros(1024, np.float32))))
g.output("y", x)
model = g.compile()
rows = np.zeros((1, 200, 1024), np.float32)
model(rows)
before = peak()
for size in (199, *range(130, 199, 3), *range(60, 128, 5)):
    model(rows[:, :size])
print(peak() / before)
"""


@pytest.mark.skipif(HASHES_CONSTANTS, reason="each size is compiled as a whole")
def test_memory_does_not_grow_with_sizes():
    """38 sizes of a model with 17 MB of weights, of which each number of rows would have a copy."""
    found = subprocess.run([sys.executable, "-c", MANY_SIZES], check=True, capture_output=True, text=True)
    assert float(found.stdout) < 1.5


def test_threads_share_the_memory_of_intermediates():
    model = opened(MATRICES[0], (None, 16)).compile(threads=1)
    xs = [drawn(size, 16) for size in SIZES]
    wanted, found = [model(x) for x in xs], {}
    for x, result in zip(xs, wanted, strict=True):
        np.testing.assert_allclose(result, opened(MATRICES[0], x.shape).compile()(x), rtol=1e-5, atol=1e-6)

    def work(number):
        found[number] = [model(x) for x in xs[number:] + xs[:number] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, results in found.items():
        order = [*range(number, len(xs)), *range(number)]
        for place, result in zip(np.repeat(order, 20), results, strict=True):
            np.testing.assert_array_equal(result, wanted[place])


# Sizes that will come -------------------------------------------------------------------------------------------------


def test_warm_up_makes_the_programs_of_calls():
    model = opened(MATRICES[0], (None, 16)).compile()
    first, *others = ({"x": (size, 16)} for size in SIZES)
    model.warm_up(first)
    model.warm_up(others)
    misses = model.cache_info().misses
    for size in SIZES:
        model(drawn(size, 16))
    assert model.cache_info().misses == misses == len(SIZES)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([{"x": (5, 17)}], "expected known dims that fit"),
        ([{"x": (None, 16)}], "expected known dims that fit"),
        ([{}], "expected known dims that fit"),
        ([{"z": (5, 16)}], "expected a dictionary of shapes"),
        ([3], "expected a dictionary of shapes"),
        ({"z": (5, 16)}, "expected a dictionary of shapes"),
        (3, "sizes: 3; expected a dictionary of shapes"),
    ],
)
def test_warm_up_refuses_other_sizes(sizes, message):
    model = opened(MATRICES[0], (None, 16)).compile()
    with pytest.raises(og.ArgumentError, match=message):
        model.warm_up(sizes)
    assert model.cache_info().misses == 0


def test_warm_up_of_known_shapes_does_nothing():
    model = opened(MATRICES[0], (4, 16)).compile()
    model.warm_up([{}])
    assert model.cache_info().misses == 1


def test_calls_that_fail_do_not_end_programs_with_open_sizes():
    g = og.Graph()
    x = g.input("x", og.f32, (None, None))
    g.output("y", g.softmax(g.matmul(x, g.constant(np.ones((8, 4), np.float32))), axis=-1))
    model = g.compile()
    for columns in (7, 9, 10, 11):
        with pytest.raises(og.SpecError, match="MatMul"):
            model(drawn(5, columns))
    for rows in (0, 1, 9, 10, 11, 12):
        assert model(drawn(rows, 8)).shape == (rows, 4)
    assert model.cache_info().reused >= (2 if LEAST else 0)


@pytest.mark.parametrize("rows", [None, 2])
def test_forks_wait_for_the_import_of_the_compiler_and_open_sizes(rows, monkeypatch):
    """A module that another thread imports at the moment of a fork stays locked in the child."""
    from onegraph.runtime import program_finder

    names, import_late = [], program_finder.import_late
    monkeypatch.setattr(program_finder, "import_late", lambda *late: (names.append(late), import_late(*late)))
    g = og.Graph()
    g.output("y", g.tanh(g.input("x", og.f32, (rows, 3))))
    g.compile()(np.ones((2, 3), np.float32))
    compiler = program_finder.COMPILER
    first = [] if rows else [(*compiler, program_finder.OPEN), (program_finder.SHAPES,)]
    assert names == [*first, compiler]


def test_a_reshape_that_infers_a_dim_is_no_partition_for_all_sizes():
    g = og.Graph()
    x = g.input("x", og.f32, (None, 64))
    weights = drawn(64, 64)
    rows = g.static_reshape(g.matmul(x, g.constant(weights)), shape=(-1, 4, 16), special_zero=False)
    g.output("y", g.static_transpose(rows, order=(1, 2, 0)))
    model = g.compile()
    for size in (300, 350, 400, 450, 500):  # more rows than the package's own product takes
        given = drawn(size, 64, seed=size)
        expected = (given.astype(np.float64) @ weights).reshape(-1, 4, 16).transpose(1, 2, 0)
        np.testing.assert_allclose(model(given), expected, rtol=1e-4, atol=1e-4)
    assert model.cache_info().reused >= (3 if LEAST else 0)
    assert model.cache_info().reason == "" or not LEAST


def test_thousands_of_elementwise_ops_are_not_gone_through_for_a_size(monkeypatch):
    """What a size reaches is evaluated once: the number of kernels that are made does not depend on that of steps."""
    from onegraph.compiler.kernels import native

    g = og.Graph()
    x = y = g.input("x", og.f32, (None, 16))
    factors = drawn(200)
    for factor in factors:
        y = g.relu(g.tanh(g.add(g.multiply(y, g.constant(np.float32(factor))), x)))
    g.output("y", y)
    model = g.compile()
    model(drawn(17, 16)), model(drawn(18, 16))
    count, made = [], native.CompiledKernel.__init__
    monkeypatch.setattr(native.CompiledKernel, "__init__", lambda *given: count.append(1) or made(*given))
    for size in (19, 20):
        given = drawn(size, 16, seed=size)
        expected = given.astype(np.float64)
        for factor in factors:
            expected = np.maximum(np.tanh(expected * np.float32(factor) + given), 0)
        np.testing.assert_allclose(model(given), expected, rtol=1e-4, atol=1e-5)
        assert is_sized(model) or not LEAST
    assert len(count) < 10 or not LEAST
    assert not LEAST or len(model._programs._open._forms[-1].kinds) < 10


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_reductions_and_elementwise_ops_are_kernels_where_sizes_are_open(dtype):
    g = og.Graph()
    x = g.input("x", dtype, (1, None, None, 8))
    mean = g.reduce_mean(x, axes=(1, 2), keep_dims=True)
    g.output("scaled", g.subtract(g.multiply(x, mean), x))
    g.output("sums", g.reduce_sum(x, axes=(3,)))
    model = g.compile()
    for size in (5, 9, 14):
        src = drawn(1, size, size + 1, 8)
        src = src if dtype == "f32" else src.astype(ml_dtypes.bfloat16)
        exact = src.astype(np.float64)
        expected = exact * exact.mean((1, 2), keepdims=True) - exact, exact.sum(3)
        for found, wanted in zip(model(src), expected, strict=True):
            np.testing.assert_allclose(found.astype(np.float64), wanted, atol=1e-5 if dtype == "f32" else 0.2)
    report, is_wide = str(model.report()), dtype == "f32" or not is_native(DataType.bf16)
    assert report.count(COMPILED_ANEW) == (2 if is_wide else 0)
    assert ("compiled for these sizes" in report) != is_wide


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"reproducible": True}, "reproducible"), ({"policy": "debug"}, "policy"), ({"threads": {0: 1}}, "threads")],
)
def test_reason_tells_which_option_wants_a_program_for_each_size(options, reason):
    model = opened(MATRICES[0], (None, 16)).compile(**options)
    for size in (17, 18, 19):
        model(drawn(size, 16))
    assert reason in model.cache_info().reason


def test_reason_tells_that_a_variable_or_an_input_wants_a_program_for_each_size():
    g = og.Graph()
    x, total = g.input("x", og.f32, (None, 4)), g.variable("total", np.zeros(4, np.float32))
    g.assign(total, g.add(total, g.reduce_sum(x, axes=[0])))
    g.output("y", g.relu(x))
    model = g.compile()
    for size in (17, 18):
        model(drawn(size, 4))
    assert model.cache_info().reason == "the graph has variables"
    g = og.Graph()
    x, dims = g.input("x", og.f32, (None, 4)), g.input("dims", og.s64, (2,))
    g.output("y", g.relu(g.op("Reshape", [x, dims], edition="host")))
    model = g.compile()
    for size in (18, 20):
        model(drawn(size, 4), np.array([2, -1]))
    assert model.cache_info().reason == "the contents of 'dims' set a shape"


def test_products_of_codes_share_a_partition_of_more_rows():
    """Weights that are codes follow from constants alone, so they have no rows."""
    codes = np.random.default_rng(0).integers(-127, 128, (64, 32)).astype(np.int8)
    g = og.Graph()
    x = g.dequantize(
        g.quantize(g.input("x", og.f32, (None, 64)), dtype=og.u8, scales=[0.02], zps=[128]), scales=[0.02], zps=[128]
    )
    weights = g.dequantize(g.constant(codes), scales=[0.01], zps=[0])
    g.output("y", g.relu(g.matmul(x, weights)))
    model = g.compile()
    for size in (65, 66, 67, 70, 71, 72):
        given = drawn(size, 64, seed=size)
        rounded = np.clip(np.rint(given / np.float32(0.02)) + 128, 0, 255) - 128
        expected = np.maximum(rounded @ codes.astype(np.float64) * 0.02 * 0.01, 0)
        np.testing.assert_allclose(model(given), expected, rtol=1e-5, atol=2e-2)
    assert model.cache_info().reused >= (4 if LEAST else 0)
    assert model.cache_info().partitions == 0 or not LEAST
    for size in (200, 300):
        model(drawn(size, 64))
    kernels = {
        id(step.compiled): step.compiled for one in model._programs.cache.entries.values() for step in one.program.steps
    }
    prepared = [
        one for one in kernels.values() if any(end.property == "constant" for end in getattr(one, "inputs", ()))
    ]
    assert len(prepared) == 1 or not LEAST  # others read the weights as they are
