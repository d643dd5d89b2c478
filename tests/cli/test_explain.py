"""What explain says: arithmetic by hand, times that add up, and why partitions are apart, with known answers."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import onegraph as og
from onegraph.cli import cli

pytestmark = pytest.mark.library

from onegraph.capi.settings import has_vnni, is_native  # noqa: E402
from onegraph.native.library import VERSION  # noqa: E402
from onegraph.runtime import peaks  # noqa: E402

N = (4, 32)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The peaks need not be right here."""
    monkeypatch.setattr(peaks, "_kept", lambda make, kind, threads: 1e10)


def product(g, x, name="mm"):
    return g.matmul(x, np.ones((32, 32), np.float32), name=name)


def norm(g, x, **more):
    return g.layer_norm(x, keep_stats=False, use_affine=False, **more)


def explained(build, dtype=og.f32, **options):
    """The explanation of a graph of one input; ``build`` returns the result, or several."""
    g = og.Graph()
    results = build(g, g.input("x", dtype, N))
    for number, one in enumerate(results if isinstance(results, tuple) else (results,)):
        g.output(f"y{number}", one)
    return g.compile(finite_math=True, **options).explain(runs=1)


def test_a_notebook_shows_ops_steps_and_reasons():
    html = explained(two_readers)._repr_html_()
    assert html.count('<div style="overflow-x:auto"><table>') == 3
    assert "MatMul &#x27;mm&#x27;" in html
    assert "why partitions are apart" in html


def two_readers(g, x):
    bent = product(g, x)
    return g.relu(bent), g.tanh(bent)


def inner_output(g, x):
    bent = product(g, x)
    return bent, g.relu(bent)


def requantized(g, x):
    return g.dequantize(g.quantize(x, scales=[0.5], zps=[7], dtype=og.u8), scales=[0.5], zps=[7])


def coded(g, x, zps, axis=1):
    """A product of codes, whose weights have these zero points along an axis."""
    scales, codes = [0.5] * 32, np.ones((32, 32), np.int8)
    weights = g.dequantize(g.constant(codes), qtype="per_channel", axis=axis, scales=scales, zps=zps, name="w")
    return g.matmul(requantized(g, x), weights, name="mm")


def codes_apart(g, x):
    """Numbers of codes whose zero points differ, so that the library computes them by other ops."""
    return g.dequantize(x, qtype="per_channel", axis=1, scales=[0.5] * 32, zps=[*range(32)])


def pooled(g, y):
    image = g.static_reshape(y, shape=[1, 4, 32, 1], special_zero=False)
    return g.max_pool(image, kernel=2, strides=2, name="pool")


# Graphs whose ops stay apart: how to build them, the options, the cause, and what the reason has to name.
APART = {
    "a second consumer": (two_readers, {}, "second consumer", "mm.dst has a second consumer, Tanh"),
    "an output inside": (inner_output, {}, "second consumer", "output 'y0'"),
    "ReLU and LayerNorm": (lambda g, x: norm(g, g.relu(x)), {}, "no pattern", "LayerNorm behind ReLU"),
    "two products": (
        lambda g, x: product(g, product(g, x), "mm2"),
        {},
        "no pattern",
        "MatMul 'mm' and MatMul 'mm2' each begin a pattern",
    ),
    "product and SoftMax": (
        lambda g, x: g.softmax(product(g, x), axis=-1),
        {},
        "no pattern",
        "the nearest pattern of oneDNN is 'attention: MatMul, scale, mask, SoftMax, MatMul'; here no MatMul reads the",
    ),
    "SoftMax and product": (
        lambda g, x: product(g, g.softmax(x, axis=-1)),
        {},
        "no pattern",
        "MatMul'; here no MatMul makes what the SoftMax reads",
    ),
    "a computed constant": (
        lambda g, x: g.matmul(x, g.tanh(g.constant(np.ones((32, 32), np.float32)), name="bent")),
        {},
        "constant",
        "Tanh 'bent' was computed once, at compilation",
    ),
    "Quantize behind a pool without Dequantize": (
        lambda g, x: g.quantize(pooled(g, x), scales=[0.5], zps=[0], dtype=og.u8),
        {},
        "own kernel",
        "the library takes MaxPool and Quantize together behind a Dequantize; here no Dequantize makes the source of "
        "MaxPool 'pool'",
    ),
    "zero points of weights that differ": (
        lambda g, x: coded(g, x, [0] * 31 + [3]),
        {},
        "fault",
        "an int8 kernel takes MatMul 'mm' with a Dequantize of its source and one of its weights, but Dequantize 'w' "
        "runs as other ops: computed once, at compilation; zero points apart",
    ),
    "scales of weights along the axis of the sum": (
        lambda g, x: g.quantize(coded(g, x, [0] * 32, axis=0), scales=[0.5], zps=[0], dtype=og.u8),
        {},
        "fault",
        "an int8 kernel takes MatMul 'mm' with a Dequantize of its source and one of its weights, but oneDNN takes "
        "scales along another axis",
    ),
    "a reshape that changes the shapes behind it": (
        lambda g, x: g.static_reshape(product(g, x), shape=[2, 2, 32]) + g.input("z", og.f32, (2, 2, 32)),
        {},
        "view",
        "the nearest pattern is 'matmul fusion patterns', but the table of patterns of MatMul has no StaticReshape",
    ),
    "codes of the source alone": (
        lambda g, x: product(g, requantized(g, x)),
        {},
        "own kernel",
        "with a Dequantize of its source and one of its weights, and a Quantize behind it; here no Dequantize makes "
        "its weights",
    ),
    "an op that oneDNN lacks": (
        lambda g, x: g.tanh(g.cum_sum(product(g, x), axis=1, name="running")),
        {},
        "own kernel",
        "oneDNN has no op CumSum; a kernel of onegraph runs CumSum 'running'",
    ),
    "policy": (lambda g, x: g.relu(product(g, x)), {"policy": "debug"}, "policy", "policy='debug'"),
    "a view": (
        lambda g, x: g.relu(g.static_reshape(product(g, x), shape=[128], special_zero=False), name="bent"),
        {},
        "view",
        "strides on the same memory; the library joins MatMul 'mm' and ReLU 'bent' if it does not stand between them",
    ),
    "a host op": (
        lambda g, x: g.op("Tan", [product(g, x)], name="tan", edition="host"),
        {},
        "host op",
        "numpy runs Tan 'tan'",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_reason_why_two_partitions_are_apart(name):
    build, options, cause, words = APART[name]
    found = [(edge.cause, edge.reason) for edge in explained(build, **options).edges]
    if "int8 kernel takes" in words and not has_vnni():
        pytest.skip("the CPU has no VNNI, without which no int8 pattern is tried")
    assert any(one == cause and words in reason for one, reason in found), found


IMAGE = (2, 8, 8, 16)
HEADS = (2, 4, 8, 16)
POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
KERNEL = np.ones((3, 3, 16, 16), np.float32)
FOUR = np.ones(16, np.float32)


def chain(g, y):
    """A product and more ops behind it than a pattern of 3.2 takes."""
    for name in "ab":
        y = g.tanh(g.add(y, g.input(name, "f32", N)))
    return y


def attention(g, q):
    k, v = (g.input(name, "f32", HEADS) for name in "kv")
    return g.matmul(g.softmax(g.matmul(q, k, transpose_b=True), axis=-1), v)


def weights_of_codes(g):
    return g.dequantize(g.constant(np.ones((3, 3, 16, 16), np.int8)), scales=[0.5], zps=[0])


def coded_image(g, x, name="conv"):
    return g.convolution(g.dequantize(x, scales=[0.5], zps=[0]), weights_of_codes(g), **SAME, name=name)


def beside_itself(g, y):
    return g.add(y, g.tanh(y))


# What an expert reads in the patterns of oneDNN 3.2: shape and data type of x, the graph, the cause, and what the
# reason has to name.
QUESTIONS = {
    "second operand of Subtract": (
        N,
        "f32",
        lambda g, x: g.subtract(g.input("a", "f32", N), product(g, x), name="sub"),
        "no pattern",
        "'matmul fusion patterns', which computes the first operand of Subtract; of 'sub' this is the second",
    ),
    "divided by a product": (
        N,
        "f32",
        lambda g, x: g.divide(g.input("a", "f32", N), product(g, x), name="div"),
        "no pattern",
        "'matmul fusion patterns', which computes the first operand of Divide",
    ),
    "more ops than a pattern takes": (
        N,
        "f32",
        lambda g, x: chain(g, product(g, x)),
        "no pattern",
        "at most 3 of unary and binary ops, and this is one more Tanh; the guide has it since 3.9",
    ),
    "unary op behind a pool": (
        IMAGE,
        "f32",
        lambda g, x: g.relu(g.max_pool(x, **POOL)),
        "no pattern",
        "the table of patterns of pools has no ReLU; the guide has it since 3.9",
    ),
    "operand that a pool gets wrong": (
        IMAGE,
        "f32",
        lambda g, x: g.add(g.max_pool(x, **POOL), g.input("a", "f32", (2, 4, 4, 16))),
        "fault",
        "MaxPool + Add wrong for an operand of shape [2, 4, 4, 16]",
    ),
    "batch normalization and Tanh": (
        IMAGE,
        "f32",
        lambda g, x: g.tanh(g.batch_norm_inference(x, *[FOUR] * 4, epsilon=1e-3)),
        "no pattern",
        "the table of patterns of BatchNormInference has no Tanh",
    ),
    "reference kernel behind SoftMax": (
        N,
        "f32",
        lambda g, x: g.multiply(g.softmax(x, axis=-1), g.input("a", "f32", N)),
        "fault",
        "reference kernel only for SoftMax + Multiply with an operand of shape [4, 32]",
    ),
    "LayerNorm and Multiply": (
        N,
        "f32",
        lambda g, x: g.multiply(norm(g, x), g.input("a", "f32", N)),
        "no pattern",
        "has no pattern that begins with LayerNorm; the guide has it since 3.5",
    ),
    "LogSoftmax and Add": (
        N,
        "f32",
        lambda g, x: g.add(g.log_softmax(x, axis=-1), g.input("a", "f32", N)),
        "no pattern",
        "no pattern of oneDNN begins with LogSoftmax",
    ),
    "op before a product": (
        N,
        "f32",
        lambda g, x: product(g, g.relu(x)),
        "no pattern",
        "MatMul behind ReLU: MatMul begins a pattern",
    ),
    "two unary ops": (
        N,
        "f32",
        lambda g, x: g.exp(g.tanh(x)),
        "no pattern",
        "the table of patterns of unary ops has no Exp; the guide has it since 3.9",
    ),
    "Concat and ReLU": (
        N,
        "f32",
        lambda g, x: g.relu(g.concat(x, g.input("a", "f32", N), axis=1)),
        "no pattern",
        "no pattern of oneDNN begins with Concat",
    ),
    "gradient and ReLU": (
        IMAGE,
        "f32",
        lambda g, x: g.relu(g.convolution_backward_data(x, KERNEL, dst_shape=IMAGE, **SAME)),
        "no pattern",
        "no pattern of oneDNN begins with ConvolutionBackwardData",
    ),
    "op without a kernel": (
        N,
        "f32",
        lambda g, x: g.pow(product(g, x), beta=2.5, name="pow"),
        "reference kernel",
        "numpy runs Pow 'pow': the library does not support the partition of Pow; other ops take its place for the "
        "exponents -2, -1, -0.5, 0.5, 1, 2, 3, 4 alone",
    ),
    "behind a transposition that a product takes": (
        (2, 4, 32),
        "f32",
        lambda g, x: g.tanh(
            g.static_transpose(
                g.static_reshape(product(g, x), shape=[2, 4, 8, 4], special_zero=False), order=[0, 2, 1, 3]
            )
        ),
        "no pattern",
        "no pattern of oneDNN has Tanh behind MatMul + StaticReshape + StaticTranspose; the nearest is",
    ),
    "sum of two products": (
        N,
        "f32",
        lambda g, x: g.add(product(g, x), product(g, x, "other")),
        "no pattern",
        "MatMul 'other' and MatMul 'mm' each begin a pattern of their own",
    ),
    "one tensor on both sides": (
        N,
        "f32",
        lambda g, x: beside_itself(g, product(g, x)),
        "fault",
        "reference kernel only for Tanh + Add of one tensor",
    ),
    "Quantize without Dequantize": (
        N,
        "f32",
        lambda g, x: g.quantize(product(g, x), scales=[0.1], zps=[0], dtype="u8"),
        "own kernel",
        "here no Dequantize makes its source and its weights",
    ),
    "cast behind a product of bf16": (
        N,
        "bf16",
        lambda g, x: g.type_cast(g.matmul(x, g.input("w", "bf16", (32, 32))), dtype="f32"),
        "no pattern",
        "the table of patterns of MatMul has no TypeCast; the guide has it since 3.10",
    ),
    "one number for each pixel": (
        IMAGE,
        "f32",
        lambda g, x: g.add(g.convolution(x, KERNEL, **SAME), g.input("a", "f32", (2, 8, 8, 1))),
        "fault",
        "reference kernel only for Convolution + Add with an operand of shape [2, 8, 8, 1]",
    ),
    "convolution and pool": (
        IMAGE,
        "f32",
        lambda g, x: g.max_pool(g.convolution(x, KERNEL, **SAME), **POOL),
        "no pattern",
        "Convolution 'convolution_0' and MaxPool 'max_pool_1' each begin a pattern of their own",
    ),
    "attention": (
        HEADS,
        "f32",
        attention,
        "no pattern",
        "'attention: MatMul, scale, mask, SoftMax, MatMul', documented since 3.6",
    ),
    "slopes": (
        N,
        "f32",
        lambda g, x: g.prelu(product(g, x), g.input("s", "f32", (32,))),
        "no pattern",
        "has PReLU behind MatMul; the nearest is 'matmul fusion patterns'",
    ),
    "named fault": (
        (1, 4, 4, 3),
        "f32",
        lambda g, x: g.relu(g.interpolate(x, sizes=[8, 8], mode="nearest")),
        "fault",
        "(fault slow_interpolate), so that the ops run apart",
    ),
    "codes, convolution and pool": (
        IMAGE,
        "u8",
        lambda g, x: g.max_pool(coded_image(g, x), **POOL, name="pool"),
        "no pattern",
        "Convolution 'conv' and MaxPool 'pool' each begin a pattern of their own",
    ),
    "codes, convolution and one in f32": (
        IMAGE,
        "u8",
        lambda g, x: g.convolution(coded_image(g, x), weights_of_codes(g), **SAME, name="last"),
        "no pattern",
        "an int8 kernel takes Convolution with a Dequantize of its source and one of its weights, and a Quantize "
        "behind it; here no Dequantize makes its source",
    ),
    "two convolutions of codes": (
        IMAGE,
        "u8",
        lambda g, x: coded_image(g, g.quantize(coded_image(g, x), scales=[0.5], zps=[0], dtype="u8"), "last"),
        "no pattern",
        "Convolution 'conv' and Convolution 'last' each begin a pattern of their own",
    ),
    "op that runs as others behind a product": (
        N,
        "f32",
        lambda g, x: g.gelu(product(g, x), mode="gelu_tanh", name="gelu"),
        "rewritten",
        "GELU 'gelu' runs as several ops: by Sigmoid: no GELU by tanh",
    ),
    "Select behind a product": (
        N,
        "f32",
        lambda g, x: g.select(g.input("c", "boolean", N), product(g, x), 0.0),
        "copy",
        "the table of patterns of MatMul has no Select; the guide has it since 3.5",
    ),
    "one op more behind the parts of an op": (
        N,
        "u8",
        lambda g, x: g.sqrt(g.add(g.tanh(codes_apart(g, x)), g.input("z", "f32", N))),
        "no pattern",
        "the table of patterns of binary ops has at most 3 of unary and binary ops, and this is one more Sqrt",
    ),
    "op that runs as others": (
        N,
        "f32",
        lambda g, x: g.multiply(g.reciprocal(x, name="r"), g.input("a", "f32", N)),
        "rewritten",
        "both compute a part of Reciprocal 'r', which runs as several ops",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_answer_is_that_of_the_patterns_of_3_2(name):
    shape, dtype, build, cause, words = QUESTIONS[name]
    g = og.Graph()
    g.output("y", build(g, g.input("x", dtype, shape)))
    found = [(edge.cause, edge.reason) for edge in g.compile(finite_math=True).explain(runs=1).edges]
    # Newer libraries join some of them; without bf16, the product runs in f32; without VNNI, no product runs in int8.
    is_apart = (
        VERSION[:2] > (3, 2) or (dtype == "bf16" and not is_native(og.bf16)) or (dtype == "u8" and not has_vnni())
    )
    assert is_apart or any(one == cause and words in reason for one, reason in found), found


def test_fused_ops_have_no_edge():
    found = explained(lambda g, x: g.relu(product(g, x), name="bent"))
    assert found.edges == ()
    assert [(op.name, op.steps, op.beside) for op in found.ops] == [("mm", (0,), ("bent",)), ("bent", (0,), ("mm",))]


def test_equal_zero_points_keep_codes_fused():
    apart = set[str]() if has_vnni() else {"dequantize_2.dst", "w.dst"}  # which product reads codes
    found = explained(lambda g, x: coded(g, x, [0] * 32))
    assert {edge.tensor for edge in found.edges} == {"quantize_1.dst", *apart}


def test_a_reason_to_keep_ops_apart_is_that_of_these_ops():
    """Not of an op before or behind them, which no pattern joins with them."""
    g = og.Graph()
    x = g.input("x", og.f32, N)
    bent = g.relu(product(g, x), name="bent")
    second = product(g, bent, "mm2")
    g.output("y", norm(g, g.multiply(g.add(second, bent), second, name="twice")))
    edges = {edge.tensor: edge for edge in g.compile(finite_math=True).explain(runs=1).edges}
    assert edges["twice.dst"].cause == "no pattern"
    assert "MatMul" in edges["bent.dst"].reason or "second consumer" in edges["bent.dst"].reason
    assert "of one tensor" in edges["mm2.dst"].reason


def test_rounded_rows_have_edges():
    g = og.Graph()
    g.output("y", norm(g, g.relu(product(g, g.input("x", og.f32, (None, 32)), "mm"))))
    (edge,) = [edge for edge in g.explain(np.ones((37, 32), np.float32)).edges if edge.tensor.startswith("mm.dst")]
    assert "compile(finite_math=True) lets the library join the two" in edge.reason


def test_a_kernel_for_any_size_does_not_name_an_option_that_keeps_it():
    g = og.Graph()
    g.output("y", g.gelu(product(g, g.input("x", og.f32, (None, 32)))))
    for finite_math in (False, True):
        model = g.compile(finite_math=finite_math)
        model(np.ones((5, 32), np.float32))
        edges = model.explain(np.ones((37, 32), np.float32)).edges
        assert not [edge for edge in edges if "lets the library join" in edge.reason]
        assert "for any number of rows" in next(edge.reason for edge in edges if edge.tensor == "mm.dst")


def test_an_op_that_is_computed_again_names_the_option_that_fuses():
    g = og.Graph()
    soft = g.softmax(g.input("x", og.bf16, N), axis=-1, name="soft")
    g.output("y", product(g, g.type_cast(soft, dtype=og.f32)))
    edge = g.explain().edges[0]
    joined = len(g.compile(finite_math=True).report().partitions) == 2
    assert ("compile(finite_math=True) lets the library join the two" in edge.reason) == joined


def test_an_own_kernel_does_not_hide_a_second_consumer():
    g = og.Graph()
    inner, bent = inner_output(g, g.input("x", og.f32, N))
    g.output("y0", inner)
    g.output("y1", bent)
    (edge,) = g.explain().edges
    assert edge.reason.endswith("mm.dst has a second consumer too, output 'y0'")


def test_both_lists_of_reasons_name_the_same_fault():
    g = og.Graph()
    bent = product(g, g.input("x", og.f32, N))
    g.output("y", g.add(g.tanh(bent), bent))
    model = g.compile()
    reasons = {edge.reason.partition("oneDNN has")[2] for edge in model.explain(runs=1).edges}
    assert {pair.reason.partition("oneDNN has")[2] for pair in model.report().unfused()} == reasons


def test_own_kernel_names_the_option_that_fuses():
    g = og.Graph()
    g.output("y", g.relu(product(g, g.input("x", og.f32, N))))
    (edge,) = g.explain().edges
    assert edge.cause == "own kernel"
    assert "loses NaN" in edge.reason
    assert "compile(finite_math=True) lets the library join the two" in edge.reason
    assert g.compile(finite_math=True).explain().edges == ()


def test_option_that_fuses_nothing_is_not_named():
    g = og.Graph()
    weights = g.softmax(g.input("x", og.f32, N), axis=-1)
    g.output("y", g.multiply(weights, np.ones(N, np.float32)))
    (edge,) = g.explain().edges
    joined = len(g.compile(finite_math=True).report().partitions) == 1
    assert ("lets the library join the two" in edge.reason) == joined


def test_sizes_of_a_compilation_are_no_reason():
    g = og.Graph()
    x = g.input("x", og.f32, (None, 5, 6, 8))
    g.output("y", g.reduce_mean(g.tanh(x), axes=[1, 2], keep_dims=False))
    reasons = [edge.reason for edge in g.explain(x=np.ones((4, 5, 6, 8), np.float32)).edges]
    assert reasons
    assert not [reason for reason in reasons if "these sizes" in reason]


def test_arithmetic_is_counted_by_hand():
    found = explained(lambda g, x: norm(g, g.relu(product(g, x)), name="norm"))
    op = {op.name: op for op in found.ops}
    assert op["mm"].multiply_adds == 4 * 32 * 32
    assert op["mm"].bytes == 4 * (4 * 32 + 32 * 32 + 4 * 32)
    assert op["norm"].multiply_adds == 0
    assert sum(step.multiply_adds for step in found.steps) == 4 * 32 * 32


def test_convolution_counts_its_multiply_adds():
    g = og.Graph()
    x, w = g.input("x", og.f32, (2, 8, 8, 3)), np.ones((3, 3, 3, 16), np.float32)
    g.output("y", g.convolution(x, w, strides=1, pads_begin=1, pads_end=1, dilations=1, name="conv"))
    (op,) = g.explain().ops
    assert op.multiply_adds == 2 * 8 * 8 * 16 * 9 * 3


def test_times_of_ops_add_up_to_those_of_partitions():
    found = explained(lambda g, x: norm(g, g.relu(product(g, x))))
    ops, steps = ([one.seconds for one in rows if one.seconds is not None] for rows in (found.ops, found.steps))
    assert sum(ops) == pytest.approx(sum(steps))
    carrier = next(op for op in found.ops if op.name == "mm")
    assert carrier.compute == pytest.approx(2 * 4 * 32 * 32 / carrier.seconds / 1e10)
    assert carrier.memory == pytest.approx(carrier.bytes / carrier.seconds / 1e10)


def test_ops_of_several_partitions_are_summed():
    g = og.Graph()
    g.output("y", g.op("ReduceL2", [g.input("x", og.f32, N)], {"axes": [1]}, name="norm"))
    found = g.compile(finite_math=True).explain()
    (op,) = found.ops
    assert set(op.steps) == {step.index for step in found.steps}


def test_every_executor_of_a_report_has_a_cause():
    from onegraph.compiler.report import PartitionReport
    from onegraph.runtime.apart import OTHERS

    named = set(PartitionReport.__doc__.split("executor:")[1].split("kinds, names:")[0].split("``")[1::2])
    assert named == {*OTHERS, "oneDNN", "kernel"}


def test_shapes_that_are_open_need_arrays():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 32))))
    with pytest.raises(og.ArgumentError, match=r"input 'x' has the shape \[\?, 32\]; expected an array"):
        g.explain()
    assert g.explain(np.ones(N, np.float32)).ops[0].bytes == 2 * 4 * 4 * 32


def test_text_and_dictionary_have_the_same_figures():
    found = explained(two_readers)
    text, data = str(found), json.loads(json.dumps(found.to_dict()))
    assert "MatMul 'mm'" in text
    assert "4,096" in text
    assert "second consumer" in text
    assert [op["multiply_adds"] for op in data["ops"]] == [4096, 0, 0]
    assert data["edges"][0]["cause"] == "second consumer"
    assert set(data) == {"library", "peaks", "ops", "steps", "edges"}


def test_kernels_are_named_on_request():
    g = og.Graph()
    g.output("y", product(g, g.input("x", og.f32, N)))
    (op,) = g.compile().explain(runs=1, implementations=True).ops
    assert op.implementation.startswith("matmul ")


def test_command_prints_the_explanation(tmp_path):
    g = og.Graph()
    g.output("y", norm(g, product(g, g.input("x", og.f32, N)), name="norm"))
    g.save(tmp_path / "g.json")
    done = CliRunner().invoke(cli, ["explain", str(tmp_path / "g.json"), "--runs", "1"])
    assert done.exit_code == 0, done.output
    assert "no pattern of oneDNN has both: MatMul 'mm' and LayerNorm 'norm' each begin a pattern" in done.stdout
    done = CliRunner().invoke(cli, ["explain", str(tmp_path / "g.json"), "--json"])
    assert json.loads(done.stdout)["ops"][0]["multiply_adds"] == 4096
