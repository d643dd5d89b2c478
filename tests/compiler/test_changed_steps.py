"""What passes make of a few steps: the steps afterwards as text, with what their values are."""

import textwrap

import numpy as np
import pytest
from helpers.small_lowered import edit, step

import onegraph as og
from onegraph.compiler.options import Options
from onegraph.compiler.passes import (
    PASSES,
    changing_attention,
    label_gradients,
    open_steps,
    unsigned_codes,
)
from onegraph.compiler.passes.slope_gradients import slope_steps
from onegraph.ir.op import Op
from onegraph.opset.editions.registry import HOST

BF16, U8, S8 = og.bf16, og.u8, og.s8
RUN = {each.name: each.run for each in PASSES}


def text(one, change):
    """A step with the names of its values; with what a value is, if the pass has made it."""
    ends = [" ".join(named(number, change) for number in numbers) for numbers in (one.inputs, one.outputs)]
    attrs = {name: number for name, number in one.attrs.items() if number not in ((), None, False)}
    note = f" [{one.note}]" if one.note else ""
    members = f" of {' '.join(each.kind for each in one.members)}" if one.members else ""
    return f"{one.executor} {one.kind}: {ends[0]} -> {ends[1]}{f' {attrs}' if attrs else ''}{note}{members}"


def page(steps):
    """The texts of steps, in lines that are not too long."""
    named_once = [one.replace(f"[{changing_attention.FEW}]", "[few]") for one in steps]
    return "\n".join(textwrap.fill(one, 110, subsequent_indent="  ", break_long_words=False) for one in named_once)


def named(number, change):
    value = change.values[number]
    if isinstance(number, str):
        return number
    contents = "" if value.constant is None else f" = {np.unique(value.constant).tolist()}"
    return f"<{value.name}: {value.dtype} {'x'.join(map(str, value.shape))}{contents}>"


def changed(name, steps, shapes, **more):
    change = edit(steps, shapes, **more)
    RUN[name](change, Options())
    return [text(one, change) for one in change.steps()]


def late_casts():
    steps = [
        step("Convolution", "x w", "c"),
        step("TypeCast", "c", "n")._replace(note="cast"),
        step("BatchNormInference", "n a b", "y", epsilon=0.5)._replace(note="norm"),
    ]
    shapes = {**dict.fromkeys("xcny", (1, 4, 4, 2)), "w": (3, 3, 2, 2), "a": (2,), "b": (2,)}
    dtypes = {"n": BF16, "y": BF16, "a": BF16}
    return changed("late_casts", steps, shapes, dtypes=dtypes, constants={"a": [1, 2], "b": [3, 4]})


def moved_codes():
    steps = [
        step("Dequantize", "c", "x", scales=(0.5,), zps=(3,))._replace(note="decoded"),
        step("StaticTranspose", "x", "t", order=(1, 0))._replace(note="turned"),
        step("StaticReshape", "t", "r", shape=(2, 6)),
        step("MatMul", "r w", "y"),
    ]
    shapes = {"c": (3, 4), "x": (3, 4), "t": (4, 3), "r": (2, 6), "w": (6, 2), "y": (2, 2)}
    return changed("moved_codes", steps, shapes, dtypes={"c": U8})


def unsigned():
    steps = [
        step("Quantize", "x", "c", scales=(0.5,), zps=(-3,))._replace(note="coded"),
        step("Dequantize", "c", "y", scales=(0.5,))._replace(note="decoded"),
        step("Quantize", "x", "d", scales=(0.5,)),
        step("Dequantize", "d", "z", scales=(0.5,), zps=(5,)),
        step("Quantize", "x", "e", scales=(0.5,)),
    ]
    return changed(
        "unsigned_codes", steps, dict.fromkeys("xcydze", (3, 4)), dtypes=dict.fromkeys("cde", S8), returned="e"
    )


def scaled_channels():
    steps = [
        step("Dequantize", "codes", "w", scales=(0.5,), zps=(1,))._replace(note="decoded"),
        step("Convolution", "x w b", "y", data_format="NXC", weights_format="XIO")._replace(note="conv"),
        step("ReLU", "y", "z"),
        step("Quantize", "z", "q", qtype="per_channel", axis=3, scales=(0.5, 0.25), zps=(0, 0)),
    ]
    shapes = {**dict.fromkeys("xyzq", (1, 6, 6, 2)), "codes": (3, 3, 2, 2), "w": (3, 3, 2, 2), "b": (2,)}
    fixed = {"codes": np.ones((3, 3, 2, 2)), "b": [1, 4]}
    return changed("channel_scales", steps, shapes, dtypes={"codes": S8, "q": U8}, constants=fixed)


def repeated():
    steps = [
        step("Dequantize", "c", "x", scales=(0.5,)),
        step("TypeCast", "x", "n"),
        step("MatMul", "n w", "y"),
        step("Tanh", "n", "z"),
        step("Tanh", "x", "v"),
        step("Sin", "x", "u", "reference"),
        step("Dequantize", "d", "w", scales=(0.5,)),
        step("MatMul", "x w", "o"),
    ]
    change = edit(steps, dict.fromkeys("cxnwyzvudo", (3, 3)), dtypes={"c": U8, "d": U8, "n": BF16})
    RUN["repetition"](change, Options())
    again = [f"{named(new, change)} repeats {old}" for new, old in change.repeated.items()]
    return [*[text(one, change) for one in change.steps()], *again]


def slopes():
    shapes = {"x": (2, 3, 4), "s": (4,), "d": (2, 3, 4), "a": (2, 3, 4), "b": (4,)}
    change = edit([step("PReLUBackward", "x s d", "a b", data_format="NXC")], shapes, dtypes={"b": BF16})
    alone = edit([step("PReLUBackward", "x s d", "a", data_format="NXC")], shapes)
    return [text(one, each) for each in (change, alone) for one in slope_steps(each, each.graph.steps[0])]


def scaled_norm():
    shapes = {"x": (1, 2, 3, 3), "y": (1, 2, 3, 3), **dict.fromkeys("abcd", (2,))}
    fixed = {"a": [1, 1], "b": [3, 3], "c": [2, 2], "d": [3.75, 3.75]}
    found = []
    for given, data_format in ((fixed, "NCX"), (fixed, "NXC"), ({**fixed, "a": None}, "NCX")):
        one = step("BatchNormInference", "x a b c d", "y", epsilon=0.25, data_format=data_format)._replace(note="norm")
        change = edit([one], shapes, constants=given)
        found += [text(each, change) for each in open_steps.TAKEN["BatchNormInference"](change.graph.steps[0], change)]
    return found


def labels():
    rows = label_gradients.LEAST // 4 // 1024
    shapes = {**dict.fromkeys(("zeros", "d", "y", "o"), (rows, 1024)), "at": (rows, 1), "u": (rows, 1)}
    how = {"axis": 1, "reduction": "add"}
    scatter = step("Scatter", "zeros at u", "d", "reference")._replace(
        op=Op(0, "ScatterElements", (), (), how, "op", HOST)
    )
    zeros = {"zeros": np.broadcast_to(np.float32(0), (rows, 1024))}
    steps = [scatter, step("LogSoftmaxBackward", "d y", "o")]
    return [one.replace(str(rows), "rows") for one in changed("label_gradients", steps, shapes, constants=zeros)]


def codes_of_keys():
    cast = {"op_kind": "Cast", "edition": HOST}
    attention = step("attention", "q k v", "y", "attention", scale=0.5, masked=False, plain=True)
    steps = [step("Cast", "c", "f", "reference", **cast), step("Multiply", "f s", "k"), attention]
    shapes = {**dict.fromkeys("cfkqvywd", (1, 2, 3, 4)), "s": (1, 2, 1, 1), "e": (1, 0, 3, 4), "z": (1,)}
    found = changed("coded_attention", steps, shapes, dtypes={"c": U8})
    values = [step("Cast", "d", "w", "reference", **cast), step("Subtract", "w z", "e"), step("Multiply", "e s", "v")]
    found += changed(
        "coded_attention", [*steps[:2], *values, attention], {**shapes, "e": (1, 2, 3, 4)}, dtypes={"c": U8, "d": S8}
    )
    # Attention without codes, of another type or of no elements, stays as it is.
    for one, dtypes in (
        (attention, {"q": og.s32}),
        (attention, {"y": og.s32}),
        (attention._replace(inputs=("q", "k", "e")), {}),
    ):
        found += changed("coded_attention", [*steps[:2], one], shapes, dtypes={"c": U8, **dtypes})[-1:]
    return [*found, *changed("coded_attention", [attention], shapes)]


QUERIES = {
    "q": (1, 4, 8, 16),
    "k": (1, 4, 64, 16),
    "v": (1, 4, 64, 16),
    "s": (1, 4, 8, 64),
    "p": (1, 4, 8, 64),
    "y": (1, 4, 8, 16),
}
SHARES, LAST = step("SoftMax", "s", "p", axis=-1), step("MatMul", "p v", "y")
FIRST = step("MatMul", "q k", "s", transpose_b=True)


def attention(steps, shapes=None, **more):
    return changed("changing_attention", steps, {**QUERIES, **(shapes or {})}, returned=steps[-1].outputs, **more)


def plain_attention():
    return attention([FIRST, SHARES, LAST])


def turned_keys():
    turned = {"t": (1, 64, 4, 16), "k": (1, 4, 16, 64)}
    first = step("MatMul", "q k", "s")
    found = attention([step("StaticTranspose", "t", "k", order=(0, 2, 3, 1)), first, SHARES, LAST], turned)
    turned["t"] = (1, 4, 64, 16)
    found += attention([step("StaticTranspose", "t", "k", order=(0, 1, 3, 2)), first, SHARES, LAST], turned)
    halved = [step("Multiply", "u half", "t"), step("StaticTranspose", "t", "k", order=(0, 1, -1, -2))]
    found += attention(
        [*halved, first, SHARES, LAST], {**turned, "u": (1, 4, 64, 16), "half": ()}, constants={"half": 0.5}
    )
    return found


def factors_of_a_run():
    scaled = [step("MatMul", "q k", "m", transpose_b=True), step("Multiply", "m f", "s")]
    return attention([*scaled, SHARES, LAST], {"m": (1, 4, 8, 64), "f": ()})


def shared_heads():
    apart = {
        "a": (1, 2, 64, 16),
        "b": (1, 2, 1, 64, 16),
        "c": (1, 2, 2, 64, 16),
        "d": (1, 2, 64, 16),
        "e": (1, 2, 1, 64, 16),
    }
    keys = [step("Unsqueeze", "a", "b"), step("Expand", "b", "c"), step("StaticReshape", "c", "k")]
    values = [step("Unsqueeze", "d", "e"), step("Expand", "e", "g"), step("StaticReshape", "g", "v")]
    shapes = {**apart, "g": (1, 2, 2, 64, 16)}
    found = attention([*keys, *values, FIRST, SHARES, LAST], shapes)
    return [*found, *attention([*keys, FIRST, SHARES, LAST], shapes)]


def heads_of_groups():
    shapes = {
        "q": (1, 2, 2, 8, 16),
        "k": (1, 2, 1, 64, 16),
        "v": (1, 2, 1, 64, 16),
        "s": (1, 2, 2, 8, 64),
        "p": (1, 2, 2, 8, 64),
    }
    shapes |= {"y": (1, 2, 2, 8, 16), "o": (1, 4, 8, 16), "mask": (8, 64), "m": (1, 2, 2, 8, 64)}
    before = step("StaticReshape", "o", "q")
    masked = [FIRST._replace(outputs=("m",)), step("Add", "m mask", "s")]
    return [*attention([FIRST, SHARES, LAST], shapes), *attention([before, *masked, SHARES, LAST], shapes)]


def rows_of_several_heads():
    shapes = {"u": (1, 4, 8, 16), "q": (1, 2, 16, 16), "k": (1, 2, 64, 16), "v": (1, 2, 64, 16), "m": (1, 2, 16, 64)}
    shapes |= {"p": (1, 4, 8, 64), "r": (1, 2, 16, 64), "o": (1, 2, 16, 16)}
    steps = [
        step("StaticReshape", "u", "q"),
        step("MatMul", "q k", "m", transpose_b=True),
        step("StaticReshape", "m", "s"),
    ]
    steps += [SHARES, step("StaticReshape", "p", "r"), step("MatMul", "r v", "o"), step("StaticReshape", "o", "y")]
    return [
        *attention(steps, shapes),
        *attention(steps[1:-1], shapes),
        *attention(steps[:-1], shapes),
        *attention(steps[1:], shapes),
    ]


def results_in_another_order():
    change = edit(
        [FIRST, SHARES, LAST, step("StaticTranspose", "y", "z", order=(0, 2, 1, 3))], {**QUERIES, "z": (1, 8, 4, 16)}
    )
    returned = edit(
        [FIRST, SHARES, LAST, step("StaticTranspose", "y", "z", order=(0, -2, 1, 3))],
        {**QUERIES, "z": (1, 8, 4, 16)},
        returned="z",
    )
    for each in (change, returned):
        changing_attention.attend(each, Options())
    return [f"{each.values['y'].strides}" for each in (change, returned)]


def options_of_attention():
    change = edit([FIRST, SHARES, LAST], QUERIES)
    changing_attention.attend(change, Options(reproducible=True))
    return [f"{change.is_changed}"]


CASES = (
    late_casts,
    moved_codes,
    unsigned,
    scaled_channels,
    repeated,
    slopes,
    scaled_norm,
    labels,
    codes_of_keys,
    plain_attention,
    turned_keys,
    factors_of_a_run,
    shared_heads,
    heads_of_groups,
    rows_of_several_heads,
    results_in_another_order,
    options_of_attention,
)

# What each case becomes.
WANTED = {
    "late_casts": """\
library Convolution: x w -> c
library TypeCast: a -> <a (f32): f32 2>
library BatchNormInference: c <a (f32): f32 2> b -> <BatchNormInference (f32): f32 1x4x4x2> {'epsilon': 0.5}
  [norm]
library TypeCast: <BatchNormInference (f32): f32 1x4x4x2> -> y [cast]
""",
    "moved_codes": """\
library StaticTranspose: c -> <t (codes): u8 4x3> {'order': (1, 0)} [turned]
library StaticReshape: <t (codes): u8 4x3> -> <r (codes): u8 2x6> {'shape': (2, 6)}
library Dequantize: <r (codes): u8 2x6> -> r {'scales': (0.5,), 'zps': (3,)} [decoded]
library MatMul: r w -> y
""",
    "unsigned": """\
library Quantize: x -> c {'scales': (0.5,), 'zps': (125,)} [coded; u8 codes in the place of s8, which VNNI
  multiplies as they are]
library Dequantize: c -> y {'scales': (0.5,), 'zps': (128,)} [decoded]
library Quantize: x -> d {'scales': (0.5,), 'zps': (128,)} [u8 codes in the place of s8, which VNNI multiplies
  as they are]
library Dequantize: d -> z {'scales': (0.5,), 'zps': (133,)}
library Quantize: x -> e {'scales': (0.5,)}
""",
    "scaled_channels": """\
library Dequantize: codes -> w {'qtype': 'per_channel', 'axis': 3, 'scales': (1.0, 2.0), 'zps': (1, 1)}
  [decoded]
library Convolution: x w <b (scaled): f32 2 = [2.0, 16.0]> -> z {'data_format': 'NXC', 'weights_format':
  'XIO'} [conv]
library Quantize: z -> q {'qtype': 'per_tensor', 'scales': (1.0,), 'zps': (0,)} [the weights have the scales
  of the codes of each channel]
""",
    "repeated": """\
library Dequantize: c -> x {'scales': (0.5,)}
library Dequantize: c -> <x: f32 3x3> {'scales': (0.5,)} [Dequantize 'Dequantize' is repeated, so that each
  reader has its own]
library TypeCast: <x: f32 3x3> -> <n: bf16 3x3> [TypeCast 'TypeCast' is repeated, so that each reader has its
  own]
library Dequantize: d -> <w: f32 3x3> {'scales': (0.5,)} [Dequantize 'Dequantize' is repeated, so that each
  reader has its own]
library MatMul: <n: bf16 3x3> <w: f32 3x3> -> y
library Dequantize: c -> <x: f32 3x3> {'scales': (0.5,)} [Dequantize 'Dequantize' is repeated, so that each
  reader has its own]
library TypeCast: <x: f32 3x3> -> n
library Tanh: n -> z
library Dequantize: c -> <x: f32 3x3> {'scales': (0.5,)} [Dequantize 'Dequantize' is repeated, so that each
  reader has its own]
library Tanh: <x: f32 3x3> -> v
reference Sin: x -> u
library Dequantize: c -> <x: f32 3x3> {'scales': (0.5,)} [Dequantize 'Dequantize' is repeated, so that each
  reader has its own]
library Dequantize: d -> w {'scales': (0.5,)}
library MatMul: <x: f32 3x3> w -> o
<x: f32 3x3> repeats x
<x: f32 3x3> repeats x
<x: f32 3x3> repeats x
<n: bf16 3x3> repeats n
<w: f32 3x3> repeats w
<x: f32 3x3> repeats x
""",
    "slopes": """\
exact PReLUBackward: x s d -> a {'data_format': 'NXC', 'own': 'prelu_backward_src'}
exact PReLUBackward: x d -> <b (products): f32 2x3x4> {'data_format': 'NXC', 'own': 'prelu_backward_slope'}
library ReduceSum: <b (products): f32 2x3x4> -> <b (products): f32 1x1x4> {'axes': (0, 1), 'keep_dims': True}
library StaticReshape: <b (products): f32 1x1x4> -> <b (products): f32 4> {'shape': (4,)}
copy TypeCast: <b (products): f32 4> -> b
exact PReLUBackward: x s d -> a {'data_format': 'NXC', 'own': 'prelu_backward_src'}
""",
    "scaled_norm": """\
library Multiply: x <BatchNormInference (factor): f32 1x2x1x1 = [0.5]> -> <BatchNormInference (Multiply): f32
  1x2x3x3> [norm]
library Add: <BatchNormInference (Multiply): f32 1x2x3x3> <BatchNormInference (shift): f32 1x2x1x1 = [2.0]> ->
  y [by onegraph: sizes change, and the library would compile the op for each of them]
library Multiply: x <BatchNormInference (factor): f32 1x1x1x2 = [0.5]> -> <BatchNormInference (Multiply): f32
  1x2x3x3> [norm]
library Add: <BatchNormInference (Multiply): f32 1x2x3x3> <BatchNormInference (shift): f32 1x1x1x2 = [2.0]> ->
  y [by onegraph: sizes change, and the library would compile the op for each of them]
""",
    "labels": """\
labels LogSoftmaxBackward: y u -> <y (gradient): f32 rowsxrows> [in the memory of the log-probabilities, as
  the gradient behind it is zero except for the labels]
reference Scatter: <y (gradient): f32 rowsxrows> at u -> o [in the memory of the log-probabilities, as the
  gradient behind it is zero except for the labels]
""",
    "codes_of_keys": """\
attention of codes attention: q c v s <zero points: s32 1 = [0]> -> y {'selects': 'none', 'key_axis': 3,
  'scale': 0.5, 'plain': True} [by onegraph, which reads keys and values as codes of 8 bits]
attention of codes attention: q c d s <zero points: s32 1 = [0]> s z -> y {'selects': 'none', 'key_axis': 3,
  'value_axis': 3, 'scale': 0.5, 'plain': True} [by onegraph, which reads keys and values as codes of 8 bits]
attention attention: q k v -> y {'scale': 0.5, 'plain': True}
attention attention: q k v -> y {'scale': 0.5, 'plain': True}
attention attention: q k e -> y {'scale': 0.5, 'plain': True}
attention attention: q k v -> y {'scale': 0.5, 'plain': True}
""",
    "plain_attention": """\
attention MatMul: q k v -> y {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax MatMul
""",
    "turned_keys": """\
library StaticTranspose: t -> <k (keys): f32 1x4x64x16> {'order': (0, 2, 1, 3)}
attention MatMul: q <k (keys): f32 1x4x64x16> v -> y {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax
  MatMul
attention MatMul: q t v -> y {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax MatMul
attention MatMul: q u v -> y {'scale': 0.5, 'plain': True} [few] of MatMul SoftMax MatMul
""",
    "factors_of_a_run": """\
library Multiply: q f -> <q (query): f32 1x4x8x16>
attention MatMul: <q (query): f32 1x4x8x16> k v -> y {'scale': 1.0, 'plain': True} [few] of MatMul Multiply
  SoftMax MatMul
""",
    "shared_heads": """\
attention MatMul: q a d -> y {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax MatMul
library Unsqueeze: a -> b
library Expand: b -> c
library StaticReshape: c -> k
attention MatMul: q k v -> y {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax MatMul
""",
    "heads_of_groups": """\
library StaticReshape: q -> <q (heads): f32 1x4x8x16> {'shape': (1, 4, 8, 16)}
library StaticReshape: k -> <k (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
library StaticReshape: v -> <v (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
attention MatMul: <q (heads): f32 1x4x8x16> <k (heads): f32 1x2x64x16> <v (heads): f32 1x2x64x16> -> <y
  (heads): f32 1x4x8x16> {'scale': 1.0, 'plain': True} [few] of MatMul SoftMax MatMul
library StaticReshape: <y (heads): f32 1x4x8x16> -> y {'shape': (1, 2, 2, 8, 16)}
library StaticReshape: k -> <k (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
library StaticReshape: v -> <v (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
attention MatMul: o <k (heads): f32 1x2x64x16> <v (heads): f32 1x2x64x16> mask -> <y (heads): f32 1x4x8x16>
  {'scale': 1.0, 'masked': True, 'plain': True} [few] of MatMul Add SoftMax MatMul
library StaticReshape: <y (heads): f32 1x4x8x16> -> y {'shape': (1, 2, 2, 8, 16)}
""",
    "rows_of_several_heads": """\
attention StaticReshape: u k v -> y {'scale': 1.0, 'plain': True} [few] of MatMul StaticReshape SoftMax
  StaticReshape MatMul StaticReshape
library StaticReshape: q -> <q (query): f32 1x4x8x16> {'shape': (1, 4, 8, 16)}
attention MatMul: <q (query): f32 1x4x8x16> k v -> <o (heads): f32 1x4x8x16> {'scale': 1.0, 'plain': True}
  [few] of MatMul StaticReshape SoftMax StaticReshape MatMul
library StaticReshape: <o (heads): f32 1x4x8x16> -> o {'shape': (1, 2, 16, 16)}
attention MatMul: u k v -> <o (heads): f32 1x4x8x16> {'scale': 1.0, 'plain': True} [few] of MatMul
  StaticReshape SoftMax StaticReshape MatMul
library StaticReshape: <o (heads): f32 1x4x8x16> -> o {'shape': (1, 2, 16, 16)}
library StaticReshape: q -> <q (query): f32 1x4x8x16> {'shape': (1, 4, 8, 16)}
attention StaticReshape: <q (query): f32 1x4x8x16> k v -> y {'scale': 1.0, 'plain': True} [few] of MatMul
  StaticReshape SoftMax StaticReshape MatMul StaticReshape
""",
    "results_in_another_order": """\
(512, 16, 64, 1)
(512, 128, 16, 1)
""",
    "options_of_attention": """\
False
""",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_steps_become_these(case, monkeypatch):
    monkeypatch.setattr(unsigned_codes, "has_vnni", lambda: True)
    assert page(case()) == WANTED[case.__name__].rstrip("\n")
