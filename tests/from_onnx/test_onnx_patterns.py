"""Decomposed forms in models become the op that computes the same, with the numbers of the decomposed form."""

import itertools
import re

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx")
ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
load = pytest.importorskip("onegraph.onnx").load

from helpers.onnx_patterns import HEAD, HEADS, PATTERNS, REPEATED, ROTARY, X, heads, model, parser  # noqa: E402


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_becomes_its_op(name):
    graph = load(model(PATTERNS[name]))
    # Transposes keep the channels of images last.
    assert [op.kind for op in graph.ops if op.kind != "StaticTranspose"] == PATTERNS[name][0]


def with_open_dims(pattern):
    """The pattern with a name of its own for each dim of the inputs and of y."""
    count = itertools.count()
    _, inputs, shape, body = pattern
    return (
        [],
        *(re.sub(r"\b\d+\b(?=[\d,]*\]|[\d,]*$)", lambda _: f"D{next(count)}", one) for one in (inputs, shape)),
        body,
    )


@pytest.mark.parametrize("is_open", [False, True], ids=["known dims", "unknown dims"])
@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_keeps_the_numbers(name, is_open):
    proto, rng = model(with_open_dims(PATTERNS[name]) if is_open else PATTERNS[name]), np.random.default_rng(0)
    graph, known = load(proto), load(model(PATTERNS[name]))
    feeds = {key: rng.uniform(-3, 4, tensor.shape).astype(np.float32) for key, tensor in known.inputs.items()}
    assert is_open == any(dim is None for tensor in graph.inputs.values() for dim in tensor.shape)
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(graph.compile()(*feeds.values()), wanted, rtol=1e-4, atol=2e-5)
    special = graph.specialise({name: array.shape for name, array in feeds.items()})
    assert all(
        one in [op.kind for op in special.ops]
        for one in PATTERNS[name][0]
        if one in ("Attention", "GroupNorm", "Rotary")
    )


@pytest.mark.parametrize(
    "body",
    [
        "h=Constant<value_float=0.6>() o=Constant<value_float=1.0>() a=Erf(x) c=Add(a,o) d=Mul(x,c) y=Mul(d,h)",
        "a=Softplus(x) b=Tanh(a) c=Mul(x,b) y=Mul(c,c)",
        "a=HardSigmoid<alpha=0.2,beta=0.5>(x) y=Mul(x,a)",
    ],
    ids=["GELU of another factor", "square of Mish", "HardSwish of another slope"],
)
def test_similar_forms_stay_apart(body):
    graph = load(model(([], X, "2,3,8", body)))
    array = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 3, 8)
    (wanted,) = ReferenceEvaluator(model(([], X, "2,3,8", body))).run(None, {"x": array})
    np.testing.assert_allclose(graph.compile()(array), wanted, rtol=1e-5, atol=1e-5)
    assert graph.ops[-1].kind == "Multiply"


@pytest.mark.parametrize(
    "body",
    [
        "a,b=Split<axis=3>(x) n=Neg(a) t=Concat<axis=3>(n,b) p=Mul(x,c) q=Mul(t,s) y=Add(p,q)",
        "a,b=Split<axis=3>(x) n=Neg(b) t=Concat<axis=3>(a,n) p=Mul(x,c) q=Mul(t,s) y=Add(p,q)",
        "a,b=Split<axis=3>(x,w) n=Neg(b) t=Concat<axis=3>(n,a) p=Mul(x,c) q=Mul(t,s) y=Add(p,q)",
        "a,b=Split<axis=3>(x) n=Neg(b) t=Concat<axis=3>(n,a) p=Mul(t,c) q=Mul(t,s) y=Add(p,q)",
    ],
    ids=["the other half negative", "the other order", "unequal halves", "no plain factor"],
)
def test_other_rotations_stay_apart(body):
    proto = model(([], ROTARY, "2,3,5,8", f"w=Constant<value_ints=[3,5]>() {body}"))
    graph, rng = load(proto), np.random.default_rng(0)
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(graph.compile()(**feeds), wanted, rtol=1e-5, atol=1e-5)
    assert "Rotary" not in [op.kind for op in graph.ops]


@pytest.mark.parametrize(
    ("pads", "number", "shape", "node"),
    [
        ("0,0,1,1,0,0,1,1", "0.5", "1,2,5,6", "y=Conv(a,w)"),
        ("0,1,0,0,0,0,0,0", "0.0", "1,2,3,4", "y=Conv(a,v)"),
        ("0,0,3,0,0,0,0,0", "0.0", "1,2,6,4", "y=Conv(a,w)"),
        ("0,0,1,1,0,0,1,1", "0.0", "1,2,5,6", "y=MaxPool<kernel_shape=[3,3]>(a)"),
    ],
    ids=["another number", "another channel", "a window on zeros alone", "zeros for a pool"],
)
def test_other_padding_stays_apart(pads, number, shape, node):
    body = f"p=Constant<value_ints=[{pads}]>() n=Constant<value_float={number}>() a=Pad(x,p,n) {node}"
    proto = model(([], "float[1,2,5,6] x, float[2,2,3,3] w, float[2,3,3,3] v", shape, body))
    graph, rng = load(proto), np.random.default_rng(0)
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(graph.compile()(**feeds), wanted, rtol=1e-5, atol=1e-5)
    assert "Pad" in [op.kind for op in graph.ops]


def test_joined_vectors_are_no_rotation():
    text = "<ir_version: 8, opset_import: ['' : 17]> g (float[3] x) => (float[2,3] y) {"
    proto = parser.parse_model(
        text.replace("'", '"') + " n=Neg(x) a=Concat<axis=0>(n,x) s=Constant<value_ints=[2,3]>() y=Reshape(a,s) }"
    )
    np.testing.assert_array_equal(load(proto).compile()(np.float32([1, 2, 3])), [[-1, -2, -3], [1, 2, 3]])


def test_a_known_causal_mask_becomes_causality():
    rows = 64
    text = "float[1,2,64,4] q, float[1,2,4,64] k, float[1,2,64,3] v"
    body = (
        "n=Constant<value_ints=[64,64]>() l=Constant<value_float=-3.4e38>() f=Expand(l,n) m=Trilu<upper=1>(f,o) "
        "a=MatMul(q,k) b=Add(a,m) p=Softmax<axis=-1>(b) y=MatMul(p,v)"
    )
    proto = model(([], text, "1,2,64,3", f"o=Constant<value=int64 {{1}}>() {body}"))
    graph, rng = load(proto), np.random.default_rng(0)
    (op,) = [op for op in graph.ops if op.kind == "Attention"]
    assert op.attrs["causal"]
    assert op.inputs[3:] == ()
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    assert wanted.shape[2] == rows
    np.testing.assert_allclose(graph.compile()(*feeds.values()), wanted, rtol=1e-4, atol=2e-5)


SELF_ATTENTION = (
    "float[B,T,24] x, float[24,24] w",
    "B,T,24",
    "k=MatMul(x,w) d=Shape(x) b=Shape<start=0,end=2>(x) n=Constant<value_ints=[3,8]>() h=Concat<axis=0>(b,n) "
    "q1=Reshape(x,h) k1=Reshape(k,h) q=Transpose<perm=[0,2,1,3]>(q1) v=Transpose<perm=[0,2,1,3]>(k1) "
    "t=Transpose<perm=[0,2,3,1]>(k1) a=MatMul(q,t) s=Constant<value_float=0.3>() c=Mul(a,s) p=Softmax<axis=-1>(c) "
    "e=MatMul(p,v) f=Transpose<perm=[0,2,1,3]>(e) y=Reshape(f,d)",
)


def kinds_for(graph, batch, tokens):
    return [op.kind for op in graph.specialise({"x": (batch, tokens, 24)}).ops]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_attention_of_unknown_length_becomes_one_op(dtype):
    """In 16 bits always, as the op has scores in f32; in f32 where it is long."""
    proto, rng = model(([], *SELF_ATTENTION)), np.random.default_rng(0)
    graph = load(proto) if dtype == "f32" else onegraph.onnx.load(proto, dtype=dtype)
    assert "Attention" not in [op.kind for op in graph.ops]
    assert ("Attention" in kinds_for(graph, 2, 256), "Attention" in kinds_for(graph, 2, 16)) == (True, dtype == "bf16")
    run, reference, weights = graph.compile(), ReferenceEvaluator(proto), rng.standard_normal((24, 24), np.float32)
    for batch, tokens in ((2, 256), (1, 16), (1, 300)):
        feeds = {"x": rng.standard_normal((batch, tokens, 24), np.float32), "w": weights}
        (wanted,) = reference.run(None, feeds)
        largest = np.abs(wanted).max()  # bf16 has 8 bits, and several results are rounded one after another
        np.testing.assert_allclose(run(**feeds), wanted, rtol=1e-4, atol=2e-5 if dtype == "f32" else largest / 64)
    bits = graph.compile(reproducible=True)
    several = bits(x=np.concatenate([feeds["x"], feeds["x"]]), w=weights)
    np.testing.assert_array_equal(several, np.concatenate([bits(**feeds)] * 2))


def test_shapes_one_after_another_are_the_same_model():
    graph = load(model(([], *SELF_ATTENTION)))
    first = graph.specialise({"w": (24, 24)})
    assert "Attention" not in [op.kind for op in first.ops]
    assert kinds_for(first, 2, 256) == kinds_for(graph, 2, 256)


def test_saved_executable_tries_the_patterns_too(tmp_path):
    load(model(([], *SELF_ATTENTION))).compile().save(tmp_path / "model")
    run, rng = og.load(tmp_path / "model"), np.random.default_rng(0)
    run(x=rng.standard_normal((1, 256, 24), np.float32), w=rng.standard_normal((24, 24), np.float32))
    assert any("Attention" in op for part in run.report().partitions for op in part.ops)


def test_ops_that_a_user_added_are_kept():
    """Else a gradient, which reads the shares of the attention, would keep them beside the op."""
    graph = load(model(([], *SELF_ATTENTION)))
    graph.output("more", graph.relu(graph.outputs["y"]))
    assert "Attention" not in kinds_for(graph, 2, 256)
    assert "Attention" in kinds_for(load(model(([], *SELF_ATTENTION))), 2, 256)


QDQ = (
    "s=Constant<value_float=0.05>() z=Constant<value={tensor}>() a=QuantizeLinear(x,s,z) b=DequantizeLinear(a,s,z) "
    "{move} d=QuantizeLinear(c,s,z) y=DequantizeLinear(d,s,z)"
)


@pytest.mark.parametrize(
    ("move", "shape", "kind"),
    [
        ("c=Transpose<perm=[0,2,1]>(b)", "2,8,3", "Transpose"),
        ("k=Constant<value_ints=[2,24]>() c=Reshape(b,k)", "2,24", "Reshape"),
        ("c=Concat<axis=1>(b,b)", "2,6,8", "Concat"),
    ],
)
def test_movement_between_quantized_tensors_moves_bytes(move, shape, kind):
    body = QDQ.format(tensor="uint8 zero {9}", move=move)
    proto = model(([], X, shape, body), 21)
    graph = load(proto)
    kinds = [op.kind.removeprefix("Static") for op in graph.ops]
    assert sorted(kinds) == sorted(["Quantize", kind, "Dequantize"])
    array = np.random.default_rng(0).uniform(-3, 4, (2, 3, 8)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": array})
    np.testing.assert_allclose(graph.compile()(array), wanted, atol=1e-6)


def test_first_convolution_of_a_quantized_image_is_fused():
    body = (
        "s=Constant<value_float=0.05>() z=Constant<value=int8 zero {3}>() k=Constant<value=int8 kz {0}>() "
        "a=QuantizeLinear(x,s,z) b=DequantizeLinear(a,s,z) v=DequantizeLinear(w,s,k) y=Conv<pads=[1,1,1,1]>(b,v)"
    )
    weights = ", ".join(str(number % 19 - 9) for number in range(4 * 3 * 3 * 3))
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19]> g (float[1,3,6,5] x) => (float[1,4,6,5] y) '
        f"<int8[4,3,3,3] w = {{{weights}}}> {{ {body} }}"
    )
    graph = load(proto)
    kinds = [op.kind for op in graph.ops]
    assert kinds == ["Dequantize", "StaticTranspose", "Quantize", "Dequantize", "Convolution", "StaticTranspose"]
    array = np.random.default_rng(0).uniform(-3, 4, (1, 3, 6, 5)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": array})
    np.testing.assert_allclose(graph.compile()(array), wanted, atol=1e-4)


def test_products_of_long_sums_stay_exact():
    inner = 1024
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (uint8[1,1024] x, uint8[1024,1] w) => (int32[1,1] y) '
        "{ y=MatMulInteger(x,w) }"
    )
    ones = np.full((1, inner), 255, np.uint8)
    ones[0, 0] = 254
    found = load(proto).compile()(ones, np.full((inner, 1), 255, np.uint8))
    assert found.item() == 255 * 255 * (inner - 1) + 254 * 255
    assert found.item() > 2**24


def test_quantized_weights_stay_bytes():
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (uint8[2,4] x) => (float[2,3] y) '
        "<int8[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float s = {0.1}> "
        "{ a=DequantizeLinear(x,s) b=DequantizeLinear(w,s) t=Transpose<perm=[1,0]>(b) y=MatMul(a,t) }"
    )
    graph = load(proto)
    assert [op.kind for op in graph.ops] == ["Dequantize", "Dequantize", "MatMul"]
    from onegraph.capi.settings import has_vnni

    report = graph.compile().report()
    # int8 kernels without VNNI saturate, so that the ops run one by one
    assert [len(partition.ops) for partition in report.partitions] == ([3] if has_vnni() else [1, 1, 1])


def test_rows_of_minus_infinities_are_found():
    body = (
        "o=Constant<value_float=-1.0>() z=Constant<value_float=0.0>() n=Div(o,z) "
        "m=ReduceMax<axes=[-1],keepdims=1>(x) e=Equal(m,n) y=Where(e,z,x)"
    )
    graph = load(model(([], X, "2,3,8", body)))
    array = np.ones((2, 3, 8), np.float32)
    array[1] = -np.inf
    np.testing.assert_array_equal(graph.compile()(array), np.where(np.isneginf(array), 0, array))


@pytest.mark.parametrize("name", HEADS)
def test_heads_that_share_keys_need_no_copies_of_them(name):
    proto = heads(name)
    graph, rng = load(proto), np.random.default_rng(0)
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    if "m" in feeds:
        feeds["m"][..., -3:] = -np.inf
        feeds["m"][..., 1, :] = -np.inf  # a query that sees nothing
    with np.errstate(invalid="ignore"):
        (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    assert np.isnan(wanted).any() == ("m" in feeds)
    model_ = graph.compile()
    np.testing.assert_allclose(model_(**feeds), wanted, rtol=1e-4, atol=1e-5)
    assert not any("Expand" in part.kinds for part in model_.report().partitions)


@pytest.mark.parametrize(
    "scores", ["a=Mul(p,f) r=Softmax<axis=-1>(a)", "a=Mul(p,e) n=Softmax<axis=-1>(a) i=IsNaN(n) r=Where(i,f,n)"]
)
def test_shared_heads_without_scale_or_with_replaced_numbers_keep_their_results(scores):
    text = "float[1,6,2,4] q, float[1,2,7,4] k, float[1,2,7,4] v"
    body = (
        f"{REPEATED} k5=Unsqueeze(k,u) k6=Expand(k5,s) k4=Reshape(k6,h) v5=Unsqueeze(v,u) v6=Expand(v5,s) "
        "v4=Reshape(v6,h) t=Transpose<perm=[0,1,3,2]>(k4) f=Constant<value_float=0.0>() e=Constant<value_float=0.5>() "
        f"p=MatMul(q,t) {scores} y=MatMul(r,v4)"
    )
    proto = model(([], text, "1,6,2,4", body), opset=20)
    graph, rng = load(proto), np.random.default_rng(0)
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    if "IsNaN" in scores:
        feeds["q"][0, 1, 0, 2] = np.nan
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    assert not np.isnan(wanted).any()
    np.testing.assert_allclose(graph.compile()(**feeds), wanted, rtol=1e-4, atol=1e-5)


def test_other_repeated_heads_stay_apart():
    body = (
        "s=Constant<value_ints=[1,3,2,7,4]>() h=Constant<value_ints=[1,6,7,4]>() u=Constant<value_ints=[1]>() "
        "k5=Unsqueeze(k,u) k6=Expand(k5,s) k4=Reshape(k6,h) v5=Unsqueeze(v,u) v6=Expand(v5,s) v4=Reshape(v6,h) "
        "t=Transpose<perm=[0,1,3,2]>(k4) p=MatMul(q,t) r=Softmax<axis=-1>(p) y=MatMul(r,v4)"
    )
    proto = model(([], "float[1,6,2,4] q, float[1,2,7,4] k, float[1,2,7,4] v", "1,6,2,4", body))
    graph, rng = load(proto), np.random.default_rng(0)
    feeds = {key: rng.standard_normal(tensor.shape).astype(np.float32) for key, tensor in graph.inputs.items()}
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(graph.compile()(**feeds), wanted, rtol=1e-4, atol=1e-5)


def bags(spans, reduction="ReduceSum", tables=("t",)):
    """A model that reduces the rows that spans of indices name, one bag behind another."""
    nodes = ["z=Constant<value_ints=[0]>()"]
    for place, (start, end) in enumerate(spans):
        table = tables[place % len(tables)]
        nodes.append(f"s{place}=Constant<value_ints=[{start}]>() e{place}=Constant<value_ints=[{end}]>()")
        nodes.append(f"i{place}=Slice(i,s{place},e{place},z) g{place}=Gather<axis=0>({table},i{place})")
        reduced = f"{reduction}(g{place},z)" if reduction == "ReduceSum" else f"{reduction}<axes=[0]>(g{place})"
        nodes.append(f"y{place}={reduced}")
    names = ",".join(f"y{place}" for place in range(len(spans)))
    body = " ".join([*nodes, f"y=Concat<axis=0>({names})"])
    inputs = "int64[12] i, float[9,5] t, float[9,5] u"
    text = HEAD.format(opset=17, inputs=inputs, shape=f"{len(spans)},5", body=body)
    return parser.parse_model(text)


@pytest.mark.library
@pytest.mark.parametrize(
    ("spans", "options", "gathers"),
    [
        ([(0, 4), (4, 8), (8, 12)], {}, 1),
        ([(1, 3), (3, 5)], {"reduction": "ReduceMax"}, 1),
        ([(0, 4), (4, 8), (8, 99)], {"reduction": "ReduceMean"}, 1),
        ([(0, 3), (3, 8), (8, 12)], {}, 3),  # of other lengths
        ([(4, 8), (0, 4), (8, 12)], {}, 3),  # in another order
        ([(0, 4), (4, 8)], {"tables": ("t", "u")}, 2),
    ],
)
def test_equal_bags_of_rows_are_reduced_at_once(spans, options, gathers):
    proto = bags(spans, **options)
    rng = np.random.default_rng(0)
    arrays = {"i": rng.integers(0, 9, 12), **{name: rng.standard_normal((9, 5)).astype("f") for name in "tu"}}
    g = load(proto)
    assert [op.kind for op in g.ops].count("Gather") == gathers
    (wanted,) = ReferenceEvaluator(proto).run(None, arrays)
    np.testing.assert_allclose(g.compile()(**arrays), wanted, rtol=1e-5, atol=1e-6)


LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
g ({inputs}) => (float[{bags},5] y) {{
    z = Constant<value_ints=[0]>()
    o = Constant<value_ints=[1]>()
    most = Constant<value_ints=[9223372036854775807]>()
    yes = Constant<value=bool {{1}}>()
    n = Shape(i)
    starts = Concat<axis=0>(at, n)
    ends = {ends}
    counts = Shape({counted})
    count = Squeeze(counts, z)
    y = Loop(count, yes)<body = body (int64 k, bool c) => (bool again, float[w] row) {{
        again = Identity(yes)
        first = Gather<axis=0>(starts, k)
        last = Gather<axis=0>(ends, k)
        firsts = Unsqueeze(first, z)
        lasts = Unsqueeze(last, z)
        own = Slice(i, firsts, lasts, z)
        rows = Gather<axis=0>(t, own)
        row = {reduced}
    }}>
}}
"""
SUM = "ReduceSum<keepdims=0>(rows, z)"


def loop_of_bags(reduced=SUM, known=True, ends="Slice(starts, o, most, z)", counted="ends"):
    shapes = ("12", "4") if known else ("n", "b")
    inputs = "int64[{}] i, int64[{}] at, float[9,5] t".format(*shapes)
    bags = shapes[1]
    return parser.parse_model(LOOP.format(inputs=inputs, bags=bags, reduced=reduced, ends=ends, counted=counted))


@pytest.mark.library
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("kind", "empty"), [("Sum", 0.0), ("Mean", 0.0), ("Max", -np.inf)])
def test_a_loop_over_bags_of_rows_is_one_scatter(kind, empty, known):
    """Beside numpy for each bag: with rows in front of the first bag, and bags without rows."""
    reduced = SUM if kind == "Sum" else f"Reduce{kind}<axes=[0], keepdims=0>(rows)"
    g = load(loop_of_bags(reduced, known))
    assert "Loop" not in {op.kind for op in g.ops}
    model, compute = g.compile(), {"Sum": np.sum, "Mean": np.mean, "Max": np.max}[kind]
    rng = np.random.default_rng(0)
    table = rng.standard_normal((9, 5)).astype("f")
    table[8] = np.nan
    for at in ([0, 3, 4, 9], [0, 0, 12, 12], [2, 5, 5, 40], *([] if known else ([1], [0, 2]))):
        indices = rng.integers(0, 9, 12 if known else rng.integers(12, 20))
        spans = zip(at, [*at[1:], len(indices)], strict=True)
        rows = [table[indices[start:end]] for start, end in spans]
        wanted = [compute(one, 0) if len(one) else np.full(5, empty) for one in rows]
        np.testing.assert_allclose(model(i=indices, at=np.int64(at), t=table), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.library
@pytest.mark.parametrize("at", [[0, 5, 4, 9], [-2, 3, 4, 9]])
def test_bags_that_run_backwards_are_refused(at):
    model = load(loop_of_bags()).compile()
    with pytest.raises(og.ArgumentError, match="out of range"):
        model(i=np.zeros(12, np.int64), at=np.int64(at), t=np.zeros((9, 5), "f"))


@pytest.mark.library
def test_more_iterations_than_bags_are_refused():
    model = load(loop_of_bags(known=False, counted="starts")).compile()
    with pytest.raises(og.ArgumentError, match="out of range"):
        model(i=np.zeros(3, np.int64), at=np.int64([0, 2]), t=np.zeros((9, 5), "f"))


@pytest.mark.library
@pytest.mark.parametrize("options", [{"reduced": "ReduceProd<axes=[0], keepdims=0>(rows)"}, {"ends": "Add(at, o)"}])
def test_loops_over_other_bags_stay_loops(options):
    """Another reduction; and bags that may overlap."""
    g = load(loop_of_bags(known=False, **options))
    assert "Loop" in {op.kind for op in g.ops}
    indices, at, table = np.arange(9), np.int64([5, 3, 3]), np.random.default_rng(0).random((9, 5), np.float32)
    ends = at + 1 if "ends" in options else [3, 3, 9]
    compute = np.sum if "ends" in options else np.prod
    wanted = [compute(table[start:end], 0) for start, end in zip(at, ends, strict=True)]
    np.testing.assert_allclose(g.compile()(i=indices, at=at, t=table), wanted, rtol=1e-6)
