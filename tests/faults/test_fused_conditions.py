"""Conditions of faults of fused ops on all combinations of what they read, with verdicts written out apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from helpers.fault_subjects import fused

import onegraph as og
from onegraph.faults import slow_fusions, slow_images, slow_operands
from onegraph.faults.fusions import attention, convolution, int8_convolutions, scales
from onegraph.faults.fusions.quantized_uses import dequantized
from onegraph.faults.ops.windows import IMAGE, ROW
from onegraph.opset.schema import Call, TensorType

FEW = 64


# Scales ---------------------------------------------------------------------------------------------------------------

# By weights of a product: the op, the shapes, the attributes, and the axes of scales that are those of the channels.
CHANNEL_AXES = [
    ("MatMul", (2, 8), (8,), {}, ()),
    ("MatMul", (2, 8), (8, 4), {}, (1,)),
    ("MatMul", (2, 8), (4, 8), {"transpose_b": True}, (0,)),
    ("MatMul", (3, 2, 8), (3, 8, 4), {}, (2,)),
    ("MatMul", (3, 2, 8), (3, 4, 8), {"transpose_b": True}, (1,)),
    ("Convolution", (1, 5, 5, 4), (6, 4, 3, 3), {"weights_format": "OIX"}, (0,)),
    ("Convolution", (1, 5, 5, 4), (3, 3, 4, 6), {"weights_format": "XIO"}, (3,)),
    ("Convolution", (1, 5, 5, 4), (3, 3, 2, 6), {"weights_format": "XIO", "groups": 2}, (3,)),
    ("ConvTranspose", (1, 5, 5, 4), (4, 6, 3, 3), {"weights_format": "IOX"}, (1,)),
    ("ConvTranspose", (1, 5, 5, 4), (3, 3, 6, 4), {"weights_format": "XOI"}, (2,)),
    ("ConvTranspose", (1, 5, 5, 4), (4, 1, 3, 3), {"weights_format": "IOX", "groups": 4}, (0,)),
    ("ConvTranspose", (1, 5, 5, 4), (3, 3, 1, 4), {"weights_format": "XOI", "groups": 4}, (3,)),
    ("ConvTranspose", (1, 5, 5, 4), (4, 1, 3, 3), {"weights_format": "IOX", "groups": 2}, ()),
    ("ConvTranspose", (1, 5, 5, 4), (4, 2, 3, 3), {"weights_format": "IOX", "groups": 4}, ()),
    ("ConvTranspose", (1, 5, 5, 4), (3, 3, 2, 4), {"weights_format": "XOI", "groups": 4}, ()),
]


@pytest.mark.parametrize(("kind", "source", "weights", "attrs", "axes"), CHANNEL_AXES)
def test_scales_along_other_axes_than_the_channels_are_foreign(kind, source, weights, attrs, axes):
    window = {} if kind == "MatMul" else IMAGE
    rank = len(weights)
    for axis, cast, how in product(range(-rank, rank), (False, True), ("per_channel", "per_tensor")):
        g, count = og.Graph(), weights[axis] if how == "per_channel" else 1
        ends = [dequantized(g, "x", "u8", source)]
        ends += [dequantized(g, "w", "s8", weights, qtype=how, axis=axis, scales=[0.5] * count, zps=[0] * count)]
        ends = [g.type_cast(end, dtype="bf16") for end in ends] if cast else ends
        g.op(kind, ends, {**window, **attrs})
        (use,) = (one for one in fused(g).uses if one.kind == kind)
        assert scales._channel_axes(use) == axes
        assert scales.foreign_scales(fused(g).uses) is (how == "per_channel" and axis % rank not in axes)


@pytest.mark.parametrize("behind", ["", "relu", "type_cast"])
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_that_no_dequantize_makes_have_no_right_scales(behind, axis):
    g = og.Graph()
    w = g.input("w", "f32", (8, 8))
    if behind:
        codes = dequantized(g, "codes", "s8", (8, 8), qtype="per_channel", axis=axis, scales=[0.5] * 8, zps=[0] * 8)
        w = g.relu(codes) if behind == "relu" else g.type_cast(codes, dtype="bf16")
    g.matmul(g.input("x", w.dtype, (2, 8)), w)
    assert scales.foreign_scales(fused(g).uses) is (behind == "relu" or (behind == "type_cast" and axis == 0))


# Products of int8 -----------------------------------------------------------------------------------------------------


def packed(rank, rows, turned, source, zero, weights, cast):
    """A product of codes, whose zero point is a number, left out (-1), an input (None), or left out beside one ("")."""
    g, batch = og.Graph(), (2,) * (rank - 2)
    ends = []
    for name, dtype, shape in (
        ("x", source, (*batch, rows, 6)),
        ("w", "s8", (*batch, 8, 6) if turned else (*batch, 6, 8)),
    ):
        points = [g.input(f"scale {name}", "f32", (1,)), g.input(f"zero {name}", "s32", (1,))]
        codes = g.input(name, dtype, shape) if dtype != "f32" else None
        if codes is None or (name == "w" and weights == "f32"):
            end = g.input(f"{name} of floats", "f32", shape)
        elif name == "x" and not isinstance(zero, int):
            end = g.op("DynamicDequantize", [codes, *points[: 2 if zero is None else 1]])
        else:
            points = {} if zero == -1 and name == "x" else {"zps": [zero if name == "x" else 3]}
            end = g.dequantize(codes, scales=[0.5], **points)
        ends.append(g.type_cast(end, dtype="bf16") if cast else end)
    ends += [g.input("bias", ends[0].dtype, (8,))] if rows == 1 else []
    g.output("y", g.matmul(*ends, transpose_b=turned))
    return g


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("cast", [False, True])
def test_transposed_variables_of_int8_are_packed_slowly(rank, turned, cast):
    several = product((1, FEW, FEW + 1), ("u8", "s8", "f32"), (0, 3, -1, None, ""), ("s8", "f32", "constant"))
    for rows, source, zero, weights in several:
        g = packed(rank, rows, turned, source, zero, weights, cast)
        part = fused(g)
        if weights == "constant":
            part = replace(part, constants=frozenset([g.inputs["w"].id]))
        needs_sums = source == "s8" or zero in (3, None)
        slow = turned and rank < 4 and rows <= FEW and source != "f32" and weights == "s8" and needs_sums
        assert slow_fusions._packs_slowly(part) is slow, (rows, source, zero, weights)


# Ops of one tensor ----------------------------------------------------------------------------------------------------

# What is computed of a product p, of another one q and of an input x, and the pair that a reference kernel computes.
PAIRS = {
    "p * tanh(p)": (lambda g, p, q, x: g.multiply(p, g.tanh(p)), "Tanh + Multiply"),
    "tanh(p) * p": (lambda g, p, q, x: g.multiply(g.tanh(p), p), "Tanh + Multiply"),
    "p + tanh(p)": (lambda g, p, q, x: g.add(p, g.tanh(p)), "Tanh + Add"),
    "exp(p) * tanh(p)": (lambda g, p, q, x: g.multiply(g.exp(p), g.tanh(p)), "Tanh + Multiply"),
    "p * sigmoid(p)": (lambda g, p, q, x: g.multiply(p, g.sigmoid(p)), ""),
    "p + sigmoid(p)": (lambda g, p, q, x: g.add(p, g.sigmoid(p)), "Sigmoid + Add"),
    "p * p": (lambda g, p, q, x: g.multiply(p, p), ""),
    "p * q": (lambda g, p, q, x: g.multiply(p, q), ""),
    "p * tanh(q)": (lambda g, p, q, x: g.multiply(p, g.tanh(q)), ""),
    "p * x": (lambda g, p, q, x: g.multiply(p, x), ""),
    "x * tanh(p)": (lambda g, p, q, x: g.multiply(x, g.tanh(p)), ""),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_one_tensor_is_slow_unless_it_is_a_swish(name):
    make, pair = PAIRS[name]
    g = og.Graph()
    p, q = (g.matmul(g.input(f"{one} a", "f32", (4, 5)), g.input(f"{one} b", "f32", (5, 6))) for one in "pq")
    g.output("y", make(g, p, q, g.input("x", "f32", (4, 6))))
    told = f"oneDNN has a reference kernel only for {pair} of one tensor" if pair else ""
    assert slow_fusions._joins_itself(fused(g)) == told


# Convolutions behind convolutions -------------------------------------------------------------------------------------

# The format of weights, their shape and groups, and whether the library takes them for single channels.
SINGLE_CHANNELS = [
    ("XIO", (3, 3, 1, 1), 1, True),
    ("XIO", (3, 3, 1, 8), 1, False),
    ("XIO", (3, 3, 1, 4), 4, True),
    ("XIO", (3, 3, 1, 8), 4, False),
    ("XIO", (3, 3, 2, 4), 4, False),
    ("XIO", (3, 2, 1, 4), 4, False),
    ("XIO", (2, 3, 1, 4), 4, False),
    ("XIO", (3, 1, 1), 1, False),
    ("OIX", (1, 1, 3, 3), 1, True),
    ("OIX", (4, 1, 3, 3), 4, True),
    ("OIX", (4, 1, 3, 3), 1, False),
]


@pytest.mark.parametrize(("form", "weights", "groups", "is_single"), SINGLE_CHANNELS)
def test_single_channels_are_those_of_the_groups_of_a_window_of_3_by_3(form, weights, groups, is_single):
    axes, (ins, outs) = len(weights) - 2, (weights[-2:] if form == "XIO" else weights[1::-1])
    window, single = (IMAGE if axes == 2 else ROW), {"weights_format": form, "groups": groups}
    for between, is_first in product((False, True), repeat=2):
        g = og.Graph()
        y = g.input("x", "f32", (1, *(6,) * axes, ins * groups if is_first else 5))
        other = (*(1,) * axes, *((outs, 5) if is_first else (5, ins * groups)))
        for shape, attrs in ((weights, single), (other, {}))[:: 1 if is_first else -1]:
            y = g.op("Convolution", [y, g.input(f"w{len(g.inputs)}", "f32", shape)], {**window, **attrs})
            y = g.relu(y) if between and len(g.ops) == 1 else y
        assert convolution.STAGE_OF_SINGLE_CHANNELS.when(fused(g)) is (is_single and between and not is_first)


@pytest.mark.parametrize(("first", "second"), [*product(("NXC", "NCX"), repeat=2)])
def test_formats_of_normalizations_alone_are_foreign(first, second):
    for kind in ("Convolution", "BatchNormInference"):
        g = og.Graph()
        x, w = g.input("x", "f32", (1, 4, 4, 4)), g.input("w", "f32", (1, 1, 4, 4))
        y = g.op("Convolution", [x, w], {**IMAGE, "data_format": first})
        ends = [g.input(f"v{place}", "f32", (4,)) for place in range(4)]
        if kind == "Convolution":
            g.op(kind, [y, g.input("v", "f32", (1, 1, 4, 4))], {**IMAGE, "data_format": second})
        else:
            g.op(kind, [y, *ends], {"epsilon": 1.0, "data_format": second})
        is_foreign = kind == "BatchNormInference" and first != second
        assert convolution.FOREIGN_CHANNELS.when(fused(g)) is is_foreign


@pytest.mark.parametrize(("groups", "channels"), [(1, 4), (1, 5), (2, 4), (2, 6), (3, 6)])
@pytest.mark.parametrize("form", ["NXC", "NCX"])
def test_residuals_behind_other_ops_are_slow_of_few_channels_or_groups(groups, channels, form):
    for is_late, is_coded in product((False, True), repeat=2):
        g, size = og.Graph(), 6
        shape = (1, size, size, channels) if form == "NXC" else (1, channels, size, size)
        weights = (1, 1, channels // groups, 6)
        ends = [dequantized(g, "x", "u8", shape), dequantized(g, "w", "s8", weights)]
        ends = ends if is_coded else [g.input("y", "f32", shape), g.input("v", "f32", weights)]
        y = g.op("Convolution", ends, {**IMAGE, "groups": groups, "data_format": form})
        y = g.add(g.tanh(y) if is_late else y, g.input("z", "f32", y.shape))
        is_slow = is_late and not is_coded and (groups > 1 or channels <= 4)
        assert bool(slow_images.SLOW_RESIDUAL.when(fused(g))) is is_slow


@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("behind", ["", "relu", "bias", "norm"])
def test_codes_channel_by_channel_and_what_follows_a_spread_are_slow(kind, axes, behind):
    window = {"strides": [1] * axes, "pads_begin": [0] * axes, "pads_end": [0] * axes, "dilations": [1] * axes}
    for groups, form, is_coded in product((1, 2, 4), ("NXC", "NCX"), (False, True)):
        g, sizes = og.Graph(), (3,) * axes
        shape = (1, *sizes, 4) if form == "NXC" else (1, 4, *sizes)
        weights = (*(1,) * axes, 4 // groups, 4)
        ends = [dequantized(g, "x", "u8", shape), dequantized(g, "w", "s8", weights)]
        ends = ends if is_coded else [g.input("y", "f32", shape), g.input("v", "f32", weights)]
        attrs = {"groups": groups, "data_format": form, "weights_format": "XIO" if kind == "Convolution" else "XOI"}
        y = g.op(kind, ends, {**window, **attrs})
        if behind == "relu":
            y = g.relu(y)
        elif behind == "bias":
            y = g.bias_add(y, g.input("b", "f32", (4,)), data_format=form)
        elif behind == "norm":
            vectors = [g.input(f"v{place}", "f32", (4,)) for place in range(4)]
            y = g.batch_norm_inference(y, *vectors, epsilon=1.0, data_format=form)
        g.relu(g.input("z", "f32", (3,)))  # an op of its own
        part, is_spread = fused(g), kind == "ConvTranspose"
        assert slow_images.SLOW_DEPTHWISE.when(part) is (is_coded and groups == 4 and (axes == 3 or is_spread))
        assert slow_images.SLOW_CONV_TRANSPOSE.when(part) is (is_spread and not is_coded and behind != "")


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_columns_of_products_are_turned_slowly(order):
    for source in ("product", "relu", "input"):
        g = og.Graph()
        y = g.matmul(g.input("x", "f32", (2, 4, 5)), g.input("w", "f32", (5, 6)))
        y = g.relu(y) if source == "relu" else g.input("z", "f32", (2, 4, 6)) if source == "input" else y
        g.static_transpose(y, order=[*order])
        assert slow_fusions.SLOW_TRANSPOSE.when(fused(g)) is (source == "product" and order[-1] != 2)


@pytest.mark.parametrize("kind", ["product", "sum"])
def test_late_sums_behind_products_are_slow_without_avx512(kind):
    for is_late, avx512, is_sum in product((False, True), repeat=3):
        g = og.Graph()
        ends = g.input("x", "f32", (4, 6)), g.input("w", "f32", (6, 6) if kind == "product" else (4, 6))
        y = g.matmul(*ends) if kind == "product" else g.subtract(*ends)
        y = g.tanh(y) if is_late else y
        y = (g.add if is_sum else g.maximum)(y, g.input("z", "f32", (4, 6)))
        is_slow = kind == "product" and is_late and is_sum and not avx512
        assert slow_fusions.SLOW_LATE_SUM.when(fused(g, avx512=avx512)) is is_slow


def test_operands_of_batches_are_one_number_for_each_or_matrices_of_all():
    slow = {(0, 0), (1, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 1)}
    for rank in (2, 3, 4):
        for varies in product((False, True), repeat=rank):
            assert slow_operands._takes_turns(varies) is (varies in slow)


def test_an_unknown_order_of_axes_may_move_the_last_one():
    g = og.Graph()
    q, k = (g.input(name, "f32", (2, 4, 5, 8)) for name in "qk")
    mixed = g.matmul(g.softmax(g.matmul(q, k, transpose_b=True), axis=-1), g.input("v", "f32", (2, 4, 5, 8)))
    g.static_transpose(mixed, order=[])
    *uses, last = fused(g).uses
    call = last.call
    unknown = Call(call.schema, call.given, [TensorType(og.f32, None)], call.n_outputs, call.output_types)
    assert attention.transposed_at_last([*uses, replace(last, call=unknown)])


# Convolutions of signed codes -----------------------------------------------------------------------------------------

# What differs from the first one, whose rows of one signed channel are padded to a side, and whether they still are.
PADDED = {
    "the first": ({}, True),
    "padded before alone": ({"pads_end": [0, 0]}, True),
    "padded behind alone": ({"pads_begin": [0, 0]}, True),
    "without padding": ({"pads_begin": [0, 0], "pads_end": [0, 0]}, False),
    "padded rows before": ({"pads_begin": [1, 1]}, False),
    "padded rows behind": ({"pads_end": [2, 2]}, False),
    "behind, where no window reaches": ({"pads_begin": [0, 0], "strides": [2, 2], "pads_end": [0, 1]}, False),
    "a kernel of one row": ({"kernel": (1, 4)}, False),
    "a kernel of one column": ({"kernel": (2, 1)}, True),
    "gaps between rows": ({"dilations": [2, 1]}, False),
    "gaps between columns": ({"dilations": [1, 2]}, False),
    "five columns": ({"size": (32, 5), "pads_begin": [0, 1], "pads_end": [0, 2]}, True),
    "four columns": ({"size": (32, 4), "pads_begin": [0, 1], "pads_end": [0, 2]}, False),
    "unsigned codes": ({"source": "u8"}, False),
    "a channel in each group": ({"channels": 4, "groups": 4}, True),
    "two channels in each group": ({"channels": 4, "groups": 2}, False),
    "two channels": ({"channels": 2}, False),
    "a row": ({"size": (64,), "kernel": (4,), **ROW, "pads_begin": [1], "pads_end": [2]}, False),
    "a volume": (
        {"size": (8, 8, 64), "kernel": (2, 2, 4), "strides": [1, 1, 1], "dilations": [1, 1, 1], "pads_begin": [0, 0, 1]}
        | {"pads_end": [0, 0, 2]},
        False,
    ),
}


@pytest.mark.parametrize("name", PADDED)
def test_rows_of_single_signed_codes_are_padded_to_a_side(name):
    more, is_padded = PADDED[name]
    given = {"size": (32, 64), "kernel": (2, 4), "source": "s8", "channels": 1, "groups": 1, **IMAGE, "strides": [2, 1]}
    given |= {"pads_begin": [0, 1], "pads_end": [0, 2], **more}
    size, kernel, source, channels = (given.pop(one) for one in ("size", "kernel", "source", "channels"))
    g = og.Graph()
    x = dequantized(g, "x", source, (1, *size, channels))
    w = dequantized(g, "w", "s8", (*kernel, channels // given["groups"], channels))
    y = g.op("Convolution", [x, w], {**given, "data_format": "NXC", "weights_format": "XIO"})
    g.output("y", y)
    part = fused(g)
    (use,) = (one for one in part.uses if one.kind == "Convolution")
    assert int8_convolutions._is_padded_to_a_side(part, use) is is_padded
    for cpu in ({"vnni": False}, {"avx512": False}, {"amx": True}):
        assert not int8_convolutions.PADDED_SIGNED_CODES.when(replace(part, **cpu))
    assert int8_convolutions.PADDED_SIGNED_CODES.when(part) is is_padded


@pytest.mark.parametrize("of_codes", ["x", "w", "xw", ""])
def test_convolutions_of_codes_read_a_source_that_is_dequantized(of_codes):
    g = og.Graph()
    shapes = {"x": (1, 32, 64, 1), "w": (2, 4, 1, 1)}
    ends = [
        dequantized(g, name, "s8", shape) if name in of_codes else g.input(name, "f32", shape)
        for name, shape in shapes.items()
    ]
    g.output("y", g.op("Convolution", ends, {**IMAGE, "data_format": "NXC", "weights_format": "XIO"}))
    assert [use.kind for use in int8_convolutions._quantized(fused(g))] == ["Convolution"] * ("x" in of_codes)
