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
    vector_products,
    window_products,
)
from onegraph.compiler.passes import (
    rows_as_images as images,
)
from onegraph.compiler.passes.slope_gradients import slope_steps
from onegraph.faults.depthwise import SLOW_ROWS
from onegraph.ir.op import LogicalTensor, Op
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
    named_once = [one.replace(changing_attention.FEW, "few") for one in steps]
    named_once = [one.replace(window_products.NOTE, "windows").replace(SLOW_ROWS.told, "rows") for one in named_once]
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
    found = [*attention([FIRST, SHARES, LAST], shapes), *attention([before, *masked, SHARES, LAST], shapes)]
    return [*found, *attention([before, *masked, SHARES, LAST], {**shapes, "mask": (2, 2, 8, 64)})]


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


ROW = {"strides": (1,), "pads_begin": (2,), "pads_end": (3,), "dilations": (1,)}


def rows_as_images():
    attrs = {**ROW, "groups": 8, "data_format": "NXC", "weights_format": "XIO"}
    steps = [
        step("Convolution", "x w b", "c", **attrs)._replace(note="conv"),
        step("Add", "c z", "a"),
        step("ReLU", "a", "y"),
    ]
    shapes = {**dict.fromkeys("xcazy", (2, 16, 8)), "w": (6, 1, 8), "b": (8,)}
    found = changed("rows_as_images", steps, shapes, constants={"w": np.ones((6, 1, 8))})
    wide = {**attrs, "dilations": (2,), "weights_format": "OIX", "data_format": "NCX"}
    steps = [step("Convolution", "x w", "c", **wide), step("Tanh", "c", "t"), step("Convolution", "x w", "d", **wide)]
    shapes = {"x": (2, 8, 16), "w": (8, 1, 6), **dict.fromkeys("ctd", (2, 8, 11))}
    found += ["", *changed("rows_as_images", steps, shapes)]
    gradient = step("ConvolutionBackwardWeights", "x c", "g", weights_shape=(6, 1, 8), **attrs)
    found += ["", *changed("rows_as_images", [gradient], {**dict.fromkeys("xc", (2, 16, 8)), "g": (6, 1, 8)})]
    steps = [step("Dequantize", "q", "x", scales=(0.5,)), step("Convolution", "x w", "c", **attrs)]
    return [
        *found,
        "",
        *changed("rows_as_images", steps, {**dict.fromkeys("qxc", (2, 16, 8)), "w": (6, 1, 8)}, dtypes={"q": U8}),
    ]


def windows_as_rows():
    window = {"pads_begin": (1, 0), "pads_end": (1, 0), "dilations": (1, 1), "data_format": "NXC"}
    shapes = {"x": (1, 9, 9, 64), "d": (1, 5, 4, 64), "g": (3, 3, 64, 64), "r": (3, 3, 64, 64)}
    found = []
    for kind, ends, formats in (
        ("ConvolutionBackwardWeights", "x d", "XIO OIX"),
        ("ConvTransposeBackwardWeights", "d x", "XOI IOX"),
    ):
        for weights_format in formats.split():
            size = (3, 3, 64, 64) if weights_format[0] == "X" else (64, 64, 3, 3)
            one = step(kind, ends, "g", strides=(2, 2), weights_format=weights_format, weights_shape=size, **window)
            found += [*changed("window_products", [one], {**shapes, "g": size, "d": (1, 4, 4, 64)}), ""]
    single = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1), "data_format": "NXC"}
    for kind in ("Convolution", "ConvolutionBackwardData"):
        for weights_format, size in (("XIO", (1, 1, 128, 256)), ("OIX", (256, 128, 1, 1))):
            wide, narrow = (2, 16, 16, 128), (2, 16, 16, 256)
            ends = (wide, narrow) if kind == "Convolution" else (narrow, wide)
            shapes = {"x": ends[0], "w": size, "y": ends[1]}
            one = step(kind, "x w", "y", weights_format=weights_format, **single)
            found += [*changed("window_products", [one], shapes), ""]
    one = step("ConvolutionBackwardWeights", "x d", "g", weights_format="XIO", weights_shape=(1, 1, 128, 256), **single)
    return [
        *found,
        *changed("window_products", [one], {"x": (1, 4, 4, 128), "d": (1, 4, 4, 256), "g": (1, 1, 128, 256)}),
    ]


def chosen_matrices():
    tensors = [
        LogicalTensor(name, dtype, shape, None, name)
        for name, dtype, shape in (("m", og.f32, (5, 8, 6)), ("at", og.s64, (2,)), ("o", og.f32, (2, 8, 6)))
    ]
    gather = step("Gather", "m at", "o", "reference")._replace(
        op=Op(0, "Gather", tuple(tensors[:2]), tuple(tensors[2:]), {"axis": 0}, "op", HOST)
    )
    steps = [gather, step("MatMul", "x o", "y", transpose_b=True)]
    shapes = {
        "m": (5, 8, 6),
        "at": (2,),
        "o": (2, 8, 6),
        "x": (2, 1, 6),
        "y": (2, 1, 8),
        "c": (2, 6, 1),
        "t": (2, 6, 8),
        "z": (2, 8, 1),
    }
    found = changed("chosen_products", steps, shapes, returned="y")
    found += changed("chosen_products", [gather, step("MatMul", "o c", "z")], shapes, returned="z")
    turned = [gather, step("StaticTranspose", "o", "t", order=(0, 2, 1)), step("MatMul", "x t", "y")]
    return [
        *found,
        *changed("chosen_products", turned, shapes, returned="y"),
        *changed("chosen_products", turned, shapes, returned="yo"),
    ]


def rows_of_a_matrix():
    steps = [
        step("MatMul", "x w", "y"),
        step("Add", "y z", "s"),
        step("MatMul", "x v", "u", transpose_b=True),
        step("Add", "u s", "t"),
    ]
    steps += [step("MatMul", "x v b", "o")._replace(note="own"), step("Add", "o z", "p")]
    shapes = {**dict.fromkeys("xyzsutop", (2, 2048)), "w": (2048, 2048), "v": (2048, 2048), "b": (2048,)}
    return changed("vector_products", steps, shapes)


def channels_last():
    steps = [step("TypeCast", "x", "w"), step("Convolution", "s w", "y", weights_format="OIX")]
    shapes = {"x": (8, 4, 3, 3), "w": (8, 4, 3, 3), "s": (1, 4, 9, 9), "y": (1, 8, 7, 7), "q": (8, 4, 3, 3)}
    change = edit(steps, shapes, dtypes={"w": BF16, "s": BF16, "y": BF16})
    RUN["weight_layouts"](change, Options())
    found = [*[text(one, change) for one in change.steps()], f"{change.values['w'].strides}"]
    found += changed("weight_layouts", steps, shapes, dtypes={"w": BF16}, returned="w")
    coded = [step("Dequantize", "q", "x", scales=(0.5,)), *steps]
    return [*found, *changed("weight_layouts", coded, shapes, dtypes={"w": BF16, "q": S8})]


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
    rows_as_images,
    windows_as_rows,
    chosen_matrices,
    rows_of_a_matrix,
    channels_last,
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
library StaticReshape: k -> <k (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
library StaticReshape: v -> <v (heads): f32 1x2x64x16> {'shape': (1, 2, 64, 16)}
library StaticReshape: mask -> <mask (heads): f32 1x4x8x64> {'shape': (1, 4, 8, 64)}
attention MatMul: o <k (heads): f32 1x2x64x16> <v (heads): f32 1x2x64x16> <mask (heads): f32 1x4x8x64> -> <y
  (heads): f32 1x4x8x16> {'scale': 1.0, 'masked': True, 'plain': True} [few] of MatMul Add SoftMax MatMul
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
    "rows_as_images": """\
view Wildcard: x -> <x (image): f32 2x1x16x8>
library Convolution: <x (image): f32 2x1x16x8> <w (image): f32 1x6x1x8 = [1.0]> b -> <c (image): f32 2x1x16x8>
  {'strides': (1, 1), 'pads_begin': (0, 2), 'pads_end': (0, 3), 'dilations': (1, 1), 'groups': 8,
  'data_format': 'NXC', 'weights_format': 'XIO'} [conv; as an image: rows]
view Wildcard: z -> <z (image): f32 2x1x16x8>
library Add: <c (image): f32 2x1x16x8> <z (image): f32 2x1x16x8> -> <a (image): f32 2x1x16x8> [as an image:
  rows]
library ReLU: <a (image): f32 2x1x16x8> -> <y (image): f32 2x1x16x8> [as an image: rows]
view Wildcard: <y (image): f32 2x1x16x8> -> y

view Wildcard: x -> <x (image): f32 2x8x16x1>
view Wildcard: w -> <w (image): f32 8x1x6x1>
library Convolution: <x (image): f32 2x8x16x1> <w (image): f32 8x1x6x1> -> <c (image): f32 2x8x11x1>
  {'strides': (1, 1), 'pads_begin': (2, 0), 'pads_end': (3, 0), 'dilations': (2, 1), 'groups': 8,
  'data_format': 'NCX', 'weights_format': 'OIX'} [as an image: rows]
library Tanh: <c (image): f32 2x8x11x1> -> <t (image): f32 2x8x11x1> [as an image: rows]
view Wildcard: <t (image): f32 2x8x11x1> -> t
library Convolution: <x (image): f32 2x8x16x1> <w (image): f32 8x1x6x1> -> <d (image): f32 2x8x11x1>
  {'strides': (1, 1), 'pads_begin': (2, 0), 'pads_end': (3, 0), 'dilations': (2, 1), 'groups': 8,
  'data_format': 'NCX', 'weights_format': 'OIX'} [as an image: rows]
view Wildcard: <d (image): f32 2x8x11x1> -> d

view Wildcard: x -> <x (image): f32 2x16x1x8>
view Wildcard: c -> <c (image): f32 2x16x1x8>
library ConvolutionBackwardWeights: <x (image): f32 2x16x1x8> <c (image): f32 2x16x1x8> -> <g (image): f32
  6x1x1x8> {'weights_shape': (6, 1, 1, 8), 'strides': (1, 1), 'pads_begin': (2, 0), 'pads_end': (3, 0),
  'dilations': (1, 1), 'groups': 8, 'data_format': 'NXC', 'weights_format': 'XIO'} [as an image: rows]
view Wildcard: <g (image): f32 6x1x1x8> -> g

library Dequantize: q -> x {'scales': (0.5,)}
library Convolution: x w -> c {'strides': (1,), 'pads_begin': (2,), 'pads_end': (3,), 'dilations': (1,),
  'groups': 8, 'data_format': 'NXC', 'weights_format': 'XIO'}
""",
    "windows_as_rows": """\
windows ConvolutionBackwardWeights: x -> <x (windows): f32 16x576> {'places': (4, 4), 'kernel': (3, 3),
  'strides': (2, 2), 'dilations': (1, 1), 'pads_begin': (1, 0)}
library StaticReshape: d -> <d (matrix): f32 16x64> {'shape': (16, 64)} [windows]
library MatMul: <x (windows): f32 16x576> <d (matrix): f32 16x64> -> <g (matrix): f32 576x64> {'transpose_a':
  True} [windows] of ConvolutionBackwardWeights
library StaticReshape: <g (matrix): f32 576x64> -> g {'shape': (3, 3, 64, 64)} [windows]

windows ConvolutionBackwardWeights: x -> <x (windows): f32 16x576> {'places': (4, 4), 'kernel': (3, 3),
  'strides': (2, 2), 'dilations': (1, 1), 'pads_begin': (1, 0), 'channels_first': True}
library StaticReshape: d -> <d (matrix): f32 16x64> {'shape': (16, 64)} [windows]
library MatMul: <d (matrix): f32 16x64> <x (windows): f32 16x576> -> <g (matrix): f32 64x576> {'transpose_a':
  True} [windows] of ConvolutionBackwardWeights
library StaticReshape: <g (matrix): f32 64x576> -> g {'shape': (64, 64, 3, 3)} [windows]

windows ConvTransposeBackwardWeights: x -> <x (windows): f32 16x576> {'places': (4, 4), 'kernel': (3, 3),
  'strides': (2, 2), 'dilations': (1, 1), 'pads_begin': (1, 0)}
library StaticReshape: d -> <d (matrix): f32 16x64> {'shape': (16, 64)} [windows]
library MatMul: <x (windows): f32 16x576> <d (matrix): f32 16x64> -> <g (matrix): f32 576x64> {'transpose_a':
  True} [windows] of ConvTransposeBackwardWeights
library StaticReshape: <g (matrix): f32 576x64> -> g {'shape': (3, 3, 64, 64)} [windows]

windows ConvTransposeBackwardWeights: x -> <x (windows): f32 16x576> {'places': (4, 4), 'kernel': (3, 3),
  'strides': (2, 2), 'dilations': (1, 1), 'pads_begin': (1, 0), 'channels_first': True}
library StaticReshape: d -> <d (matrix): f32 16x64> {'shape': (16, 64)} [windows]
library MatMul: <d (matrix): f32 16x64> <x (windows): f32 16x576> -> <g (matrix): f32 64x576> {'transpose_a':
  True} [windows] of ConvTransposeBackwardWeights
library StaticReshape: <g (matrix): f32 64x576> -> g {'shape': (64, 64, 3, 3)} [windows]

library StaticReshape: x -> <x (matrix): f32 512x128> {'shape': (512, 128)} [windows]
library StaticReshape: w -> <w (matrix): f32 128x256> {'shape': (128, 256)} [windows]
library MatMul: <x (matrix): f32 512x128> <w (matrix): f32 128x256> -> <y (matrix): f32 512x256> [windows]
library StaticReshape: <y (matrix): f32 512x256> -> y {'shape': (2, 16, 16, 256)} [windows]

library StaticReshape: x -> <x (matrix): f32 512x128> {'shape': (512, 128)} [windows]
library StaticReshape: w -> <w (matrix): f32 256x128> {'shape': (256, 128)} [windows]
library MatMul: <x (matrix): f32 512x128> <w (matrix): f32 256x128> -> <y (matrix): f32 512x256>
  {'transpose_b': True} [windows]
library StaticReshape: <y (matrix): f32 512x256> -> y {'shape': (2, 16, 16, 256)} [windows]

library StaticReshape: x -> <x (matrix): f32 512x256> {'shape': (512, 256)} [windows]
library StaticReshape: w -> <w (matrix): f32 128x256> {'shape': (128, 256)} [windows]
library MatMul: <x (matrix): f32 512x256> <w (matrix): f32 128x256> -> <y (matrix): f32 512x128>
  {'transpose_b': True} [windows]
library StaticReshape: <y (matrix): f32 512x128> -> y {'shape': (2, 16, 16, 128)} [windows]

library StaticReshape: x -> <x (matrix): f32 512x256> {'shape': (512, 256)} [windows]
library StaticReshape: w -> <w (matrix): f32 256x128> {'shape': (256, 128)} [windows]
library MatMul: <x (matrix): f32 512x256> <w (matrix): f32 256x128> -> <y (matrix): f32 512x128> [windows]
library StaticReshape: <y (matrix): f32 512x128> -> y {'shape': (2, 16, 16, 128)} [windows]

library StaticReshape: x -> <x (matrix): f32 16x128> {'shape': (16, 128)} [windows]
library StaticReshape: d -> <d (matrix): f32 16x256> {'shape': (16, 256)} [windows]
library MatMul: <x (matrix): f32 16x128> <d (matrix): f32 16x256> -> <g (matrix): f32 128x256> {'transpose_a':
  True} [windows] of ConvolutionBackwardWeights
library StaticReshape: <g (matrix): f32 128x256> -> g {'shape': (1, 1, 128, 256)} [windows]
""",
    "chosen_matrices": """\
packed experts MatMul: x at m -> y {'coding': 'f32', 'experts': 5, 'turned': True, 'strict': True} [by
  onegraph: the rows that name a matrix are multiplied together, and no matrix is copied]
packed experts MatMul: c at m -> z {'coding': 'f32', 'experts': 5, 'turned': True, 'strict': True} [by
  onegraph: the rows that name a matrix are multiplied together, and no matrix is copied]
packed experts MatMul: x at m -> y {'coding': 'f32', 'experts': 5, 'turned': True, 'strict': True} [by
  onegraph: the rows that name a matrix are multiplied together, and no matrix is copied]
reference Gather: m at -> o
packed experts MatMul: x at m -> y {'coding': 'f32', 'experts': 5, 'turned': True, 'strict': True} [by
  onegraph: the rows that name a matrix are multiplied together, and no matrix is copied]
""",
    "rows_of_a_matrix": """\
vectors MatMul: x w z -> s of MatMul Add
vectors MatMul: x v s -> t {'transpose_b': True} of MatMul Add
vectors MatMul: x v b -> o [own]
library Add: o z -> p
""",
    "channels_last": """\
copy TypeCast: x -> w [with the channels last, from where a convolution copies weights fastest]
library Convolution: s w -> y {'weights_format': 'OIX'}
(4, 1, 96, 32)
library TypeCast: x -> w
library Convolution: s w -> y {'weights_format': 'OIX'}
library Dequantize: q -> x {'scales': (0.5,)}
library TypeCast: x -> w
library Convolution: s w -> y {'weights_format': 'OIX'}
""",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_steps_become_these(case, monkeypatch):
    monkeypatch.setattr(unsigned_codes, "has_vnni", lambda: True)
    monkeypatch.setattr(vector_products, "core_cache", lambda: 0)
    for module in (images, vector_products):
        monkeypatch.setattr(module, "VERSION", (3, 2))
    assert page(case()) == WANTED[case.__name__].rstrip("\n")
