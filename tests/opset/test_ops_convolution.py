"""The convolution family in every edition that has it, against the definition."""

import numpy as np
import pytest
from conftest import draws
from helpers import convolution_cases as cases
from helpers import specification
from helpers.executables import in_a_process

import onegraph as og
from onegraph import reference

FOUNDING = [
    ("ConvTransposeBackpropFilters", cases.LEGACY),
    ("ConvTransposeBackwardWeights", cases.ONEAPI),
    ("ConvTranspose", cases.CURRENT),
    ("ConvolutionBackpropFilters", cases.LEGACY),
    ("ConvolutionBackpropData", cases.LEGACY),
]
BY_NAME = {(words.kind, words.edition): words for words in cases.WORDS}


def run(case, shape_as="input", data="input"):
    """The results of a case compiled and by the reference, and the report."""
    graph = og.Graph(edition=case.words.edition)
    feed = {f"in{index}": array for index, array in enumerate(case.inputs)}
    inputs = [
        graph.input(name, array.dtype, array.shape) if data == "input" else graph.constant(array)
        for name, array in feed.items()
    ]
    if data != "input":
        feed = {}
    if case.shape_value is not None:
        shape = np.array(case.shape_value, np.int32)
        if shape_as == "input":
            inputs.append(graph.input("shape", og.s32, shape.shape))
            feed["shape"] = shape
        else:
            inputs.append(graph.constant(shape))
    graph.output("y", graph.op(case.words.kind, inputs, case.attrs))
    model = graph.compile()
    return model(**feed), reference.run(graph, feed)["y"], model.report()


def assert_right(case, *results):
    scale = max(1.0, np.abs(case.expected).max())
    for result in results:
        assert result.shape == case.expected.shape, str(case)
        assert result.dtype == cases.DTYPES[case.dtype], str(case)
        error = np.abs(result.astype(np.float64) - case.expected).max()
        assert error <= cases.TOLERANCES[case.dtype] * scale, f"{case}: off by {error}"


@pytest.mark.library
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("words", cases.WORDS, ids=lambda words: f"{words.kind}-{words.edition}")
def test_random_uses_in_every_edition(words, dtype):
    rng = np.random.default_rng([cases.WORDS.index(words), list(cases.DTYPES).index(dtype)])
    for _ in range(draws(4, 8)):
        case = cases.make(rng, words, dtype)
        assert_right(case, *run(case)[:2])


@pytest.mark.library
@pytest.mark.parametrize("place", draws((0, 1), (0, 1, 2)))
@pytest.mark.parametrize("auto_pad", ["none", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("founding", FOUNDING, ids=lambda founding: founding[0])
def test_ops_of_the_first_edition(founding, n, groups, auto_pad, place):
    """Every data format with every filter format, the shape by attribute and by tensor, dilated and not.

    Each case takes one of the four pairs of formats, so that each pair meets any two values of other parameters. It
    runs in f32, and in a type of 16 bits in turns.
    """
    turn = n + 2 * groups + ["none", "same_upper", "same_lower", "valid"].index(auto_pad)
    number = place and place + draws((turn // 4 + groups) % 2, 0)
    dtype, turn = [*cases.DTYPES][number], turn + number
    rng = np.random.default_rng([n, groups, *auto_pad.encode(), *dtype.encode()])
    for pair in draws((turn % 4,), range(4)):
        number, spatial_first = pair % 2, pair < 2
        case = cases.make(
            rng,
            BY_NAME[founding],
            dtype,
            n=n,
            groups=groups,
            auto_pad=auto_pad,
            data_format=("NXC", "NCX")[number],
            spatial_first=spatial_first,
            by_tensor=number == spatial_first,
            dilations=1 + (number + spatial_first) % 2,
        )
        assert_right(case, *run(case, shape_as=("constant", "input")[spatial_first])[:2])


@pytest.mark.library
@pytest.mark.parametrize("words", [w for w in cases.WORDS if w.kind != "Convolution"], ids=lambda w: w.kind + w.edition)
def test_constant_inputs(words):
    case = cases.make(np.random.default_rng(5), words, "f32", groups=2)
    assert_right(case, run(case, shape_as="constant", data="constant")[0])


def one(kind, attrs, inputs, edition, **options):
    graph = og.Graph(edition=edition)
    tensors = [graph.input(f"in{index}", array.dtype, array.shape) for index, array in enumerate(inputs)]
    graph.output("y", graph.op(kind, tensors, attrs))
    model = graph.compile(**options)
    return model(*inputs), model.report().partitions


WINDOW = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}


@pytest.mark.library
def test_legacy_filter_axes_by_hand():
    # One element in: dst[k] = src * filter[k]. OIX of legacy-1 is (out, in, X): out 2, in 1.
    src = np.array([[[3]]], np.float32)
    weights = np.array([[[1, 2, 3]], [[10, 20, 30]]], np.float32)
    dst, _ = one("ConvTranspose", {**WINDOW, "filter_format": "OIX"}, (src, weights), "legacy-1")
    assert dst.tolist() == [[[3, 30], [6, 60], [9, 90]]]
    # The same numbers in a later edition are IOX, (in, out, X): the array is transposed.
    later, _ = one(
        "ConvTranspose", {**WINDOW, "weights_format": "IOX"}, (src, weights.transpose(1, 0, 2)), "oneapi-1.2"
    )
    assert later.tolist() == dst.tolist()


@pytest.mark.parametrize(("added", "fits"), [(0, 8), (5, 13)])
def test_rejects_padding_that_leaves_no_output(added, fits):
    g = og.Graph()
    src, weights = g.input("src", og.f32, (1, 3, 4)), g.input("weights", og.f32, (3, 2, 3))
    attrs = {"strides": [2], "dilations": [1], "output_padding": [added], "data_format": "NCX", "weights_format": "IOX"}
    # 2 * 3 + 3 elements without padding, plus output_padding
    assert g.conv_transpose(src, weights, **attrs, pads_begin=[fits - 3], pads_end=[3]).shape == (1, 2, 1)
    with pytest.raises(og.SpecError, match=rf"pads_begin: {fits - 2} \+ 3 along .*; expected less than {fits + 1} "):
        g.conv_transpose(src, weights, **attrs, pads_begin=[fits - 2], pads_end=[3])


@pytest.mark.library
def test_same_upper_pads_more_at_the_end():
    # K = 4, stride 1, size 5: three elements of padding; same_upper is (1, 2), same_lower is (2, 1).
    src = np.array([1, 10, 100, 1000, 10000], np.float32).reshape(1, 5, 1)
    weights = np.ones((4, 1, 1), np.float32)
    attrs = {"strides": [1], "pads_begin": [9], "pads_end": [9], "dilations": [1]}
    upper, _ = one("Convolution", {**attrs, "auto_pad": "same_upper"}, (src, weights), "onednn-3.13")
    lower, _ = one("Convolution", {**attrs, "auto_pad": "SAME_LOWER"}, (src, weights), "onednn-3.13")
    assert upper.ravel().tolist() == [111, 1111, 11110, 11100, 11000]
    assert lower.ravel().tolist() == [11, 111, 1111, 11110, 11100]


@pytest.mark.library
def test_gradient_beyond_the_last_window_is_zero():
    # Sizes 7 and 8 both give 3 positions of the kernel; output_shape decides between them.
    diff_dst = np.ones((1, 3, 1), np.float32)
    weights = np.array([1, 2, 4], np.float32).reshape(3, 1, 1)
    for size, expected in ((7, [1, 2, 5, 2, 5, 2, 4]), (8, [1, 2, 5, 2, 5, 2, 4, 0])):
        attrs = {**WINDOW, "output_shape": [1, size, 1]}
        result, _ = one("ConvolutionBackpropData", attrs, (diff_dst, weights), "legacy-1")
        assert result.ravel().tolist() == expected


@pytest.mark.library
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("pad", "added"), [(2, 3), (0, 5)])
def test_output_padding_larger_than_a_stride(dtype, dilation, pad, added):
    # Two positions at stride 2: the padding at the end of the gradient is not read, though a window would fit.
    reach = 2 * dilation + 1
    diff_dst = np.arange(2 + reach - 2 * pad + added).reshape(1, -1, 1).astype(cases.DTYPES[dtype])
    weights = np.array([1, 2, 4]).reshape(3, 1, 1).astype(diff_dst.dtype)
    attrs = {"strides": [2], "pads_begin": [pad], "pads_end": [pad], "dilations": [dilation], "output_padding": [added]}
    result, _ = one("ConvTransposeBackwardData", attrs, (diff_dst, weights), "onednn-3.13")
    padded = np.pad(diff_dst.ravel().astype(float), pad)
    expected = [sum(w * padded[2 * y + k * dilation] for k, w in enumerate((1, 2, 4))) for y in (0, 1)]
    assert result.ravel().tolist() == expected


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "edition", "attrs", "shapes", "note"),
    [
        (
            "ConvolutionBackwardData",
            "onednn-3.13",
            {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "groups": 2, "dst_shape": [1, 4, 2]},
            ((1, 2, 4), (3, 1, 4)),
            "ConvTranspose: groups do not compile otherwise",
        ),
        (
            "ConvTransposeBackwardData",
            "onednn-3.13",
            {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [2]},
            ((1, 7, 2), (3, 2, 2)),
            "Convolution: dilations do not compile otherwise",
        ),
    ],
)
def test_runs_the_adjoint_of_refused_ops(kind, edition, attrs, shapes, note):
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    _, partitions = one(kind, attrs, inputs, edition, fallback=False)
    assert partitions[0].executor == "oneDNN"
    assert partitions[0].reason == note
    assert partitions[0].ops[0].startswith(kind)


@pytest.mark.parametrize("value", ["same_upper", "SAME_UPPER"])
def test_both_spellings_of_auto_pad(value):
    graph = og.Graph()
    src = graph.input("src", og.f32, (1, 5, 1))
    weights = graph.constant(np.ones((2, 1, 1), np.float32))
    attrs = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1], "auto_pad": value}
    assert graph.op("Convolution", [src, weights], attrs).shape == (1, 3, 1)
    assert graph.ops[0].attrs["auto_pad"] == "same_upper"


VIOLATIONS = [
    ("channels_match", "weights", {}, ((1, 8, 8, 4), (3, 3, 5, 6))),
    ("channels_match", "groups", {"groups": 3}, ((1, 8, 8, 4), (3, 3, 1, 6))),
    ("channels_match", "bias", {}, ((1, 8, 8, 4), (3, 3, 4, 6), (5,))),
    ("spatial_rank", "src", {}, ((8, 4), (3, 3, 4, 6))),
    ("spatial_rank", "weights", {}, ((1, 8, 8, 4), (3, 4, 6))),
    ("spatial_list_length", "strides", {"strides": [1]}, ((1, 8, 8, 4), (3, 3, 4, 6))),
    ("spatial_list_length", "pads_end", {"pads_end": [0, 0, 0]}, ((1, 8, 8, 4), (3, 3, 4, 6))),
    ("spatial_fits", "src", {"dilations": [4, 1]}, ((1, 8, 8, 4), (3, 3, 4, 6))),
]


@pytest.mark.parametrize(("rule", "where", "attrs", "shapes"), VIOLATIONS)
def test_violations(rule, where, attrs, shapes):
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], **attrs}
    found = og.check_op("Convolution", window, [("f32", shape) for shape in shapes])
    assert (rule, where) in {(violation.rule, violation.where) for violation in found}


@pytest.mark.parametrize("size", [0, None])
@pytest.mark.parametrize("kind", ["ConvTransposeBackwardWeights", "ConvolutionBackwardWeights"])
def test_weights_gradient_without_windows_is_valid(kind, size):
    attrs = {"strides": [1], "pads_begin": [1], "pads_end": [1], "dilations": [1], "weights_shape": [3, 4, 4]}
    sizes = (size, 0) if kind.startswith("ConvT") else (0, size)
    assert specification.check_op(kind, attrs, [("f32", (2, one, 4)) for one in sizes]) == []


@pytest.mark.parametrize(
    ("rule", "where", "attrs", "inputs"),
    [
        ("shape_source", "filter_shape", {}, ((1, 3, 1), (1, 7, 1))),
        ("shape_length", "filter_shape", {"filter_shape": [3, 1]}, ((1, 3, 1), (1, 7, 1))),
        ("attribute_range", "filter_shape", {"filter_shape": [0, 1, 1]}, ((1, 3, 1), (1, 7, 1))),
        ("channels_match", "filter_shape", {"filter_shape": [3, 2, 1]}, ((1, 3, 1), (1, 7, 1))),
        ("spatial_fits", "output_delta", {"filter_shape": [3, 1, 1]}, ((1, 3, 1), (1, 9, 1))),
        ("spatial_fits", "output_delta", {"filter_shape": [3, 1, 1], "output_padding": [1]}, ((1, 3, 1), (1, 7, 1))),
        ("batch_match", "output_delta", {"filter_shape": [3, 1, 1]}, ((2, 3, 1), (1, 7, 1))),
    ],
)
def test_violations_in_the_words_of_the_edition(rule, where, attrs, inputs):
    types = [("f32", shape) for shape in inputs]
    found = og.check_op("ConvTransposeBackpropFilters", {**WINDOW, **attrs}, types, edition="legacy-1")
    assert [(violation.rule, violation.where) for violation in found] == [(rule, where)]
    assert "weights" not in found[0].message


NAMES = ("ConvTransposeBackpropFilters", "ConvTransposeBackwardWeights", "ConvTransposeBackwardData")


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    ("attrs", "size", "noted"),
    [({}, 8, True), ({}, 7, False), ({}, None, False), ({"output_padding": [1]}, 8, False)],
)
def test_output_padding_left_out_is_noted(kind, attrs, size, noted):
    is_legacy = kind == NAMES[0]
    shape = {"filter_shape" if is_legacy else "weights_shape": [3, 1, 1]} if kind != NAMES[2] else {}
    shapes = ((1, size, 1), (3, 1, 1)) if kind == NAMES[2] else ((1, 3, 1), (1, size, 1))
    given = {**WINDOW, "strides": [2], **shape, **attrs}
    edition = "legacy-1" if is_legacy else "onednn-3.2"
    found = specification.check_op(kind, given, [("f32", shape) for shape in shapes], edition=edition)
    expected = [("note", "padding_left_out", "output_padding")] if noted else []
    assert [(one.severity, one.rule, one.where) for one in found] == expected
    if noted:
        assert "expected 1 along spatial axis 0" in found[0].message


AT_THE_END_OF_MEMORY = """
import ctypes, mmap, sys
import numpy as np
import onegraph as og

kind, size, channels, stride = sys.argv[1], *map(int, sys.argv[2:])
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
g = og.Graph()
shape = (4, channels, size)
source, result = g.input("source", "bf16", shape), g.input("result", "bf16", (4, 16, 1))
attrs = {"strides": [stride], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
tensors, letters = [source, result], "OIX"
if kind == "ConvTransposeBackwardWeights":
    tensors, letters = [result, source], "IOX"
g.output("y", g.op(kind, tensors, attrs | {"weights_shape": [16, channels, 1], "weights_format": letters}))
count = 4 * channels * size
src = np.frombuffer(memory, np.uint16, count, page - 2 * count).view(og.bf16.numpy).reshape(shape)
src[...] = 1
assert (g.compile()(source=src, result=np.ones((4, 16, 1), og.bf16.numpy)).astype(float) == 4).all()
"""


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "size", "channels", "stride"),
    [
        ("ConvolutionBackwardWeights", 1, 1, 2),
        ("ConvolutionBackwardWeights", 2, 1, 5),
        ("ConvTransposeBackwardWeights", 1, 1, 2),
        ("ConvTransposeBackwardWeights", 3, 3, 9),
    ],
)
def test_gradient_reads_no_memory_behind_its_source(kind, size, channels, stride):
    in_a_process(AT_THE_END_OF_MEMORY, kind, size, channels, stride)


@pytest.mark.library
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
@pytest.mark.parametrize(("dtype", "large"), [("bf16", 16.0), ("f16", 64.0)])
def test_bias_is_added_before_the_sum_is_rounded(dtype, large, kind, policy):
    """large * large + 1 - large * large = 1, but large * large + 1 has too many bits for bf16 and f16."""
    g = og.Graph()
    src, weights, bias = g.input("x", dtype, (1, 2, 3, 3)), g.input("w", dtype, (2, 2, 1, 1)), g.input("b", dtype, (2,))
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "data_format": "NCX"}
    g.output("y", g.op(kind, [src, weights, bias], {**attrs, "weights_format": "IOX" if "T" in kind else "OIX"}))
    number = og.DataType(dtype).numpy
    values = np.ones((1, 2, 3, 3), number)
    values[:, 0] = large
    kernel = np.array([[large, 1], [large, 1]] if kind == "Convolution" else [[large, large], [1, 1]], number)
    found = g.compile(policy=policy)(values, kernel.reshape(2, 2, 1, 1), np.full(2, -large * large, number))
    assert (np.asarray(found, np.float64) == 1).all()


WINDOWED = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
# Shapes of source and weights, the formats, and the window of a note; None for no note.
LAYOUTS = {
    "weights of PyTorch read as XIO": ((1, 224, 224, 3), (64, 3, 3, 3), {}, "a window of [64, 3]"),
    "the same for NCX": ((1, 3, 224, 224), (64, 3, 3, 3), {"data_format": "NCX"}, "a window of [64, 3]"),
    "weights of TensorFlow read as OIX": ((1, 9, 9, 16), (3, 3, 16, 16), {"weights_format": "OIX"}, None),
    "declared as OIX": ((1, 224, 224, 3), (64, 3, 3, 3), {"weights_format": "OIX"}, None),
    "a square window": ((1, 9, 9, 3), (3, 3, 3, 3), {}, None),
    "a row": ((1, 9, 9, 3), (1, 7, 3, 3), {}, None),
    "another number of channels": ((1, 9, 9, 4), (64, 3, 4, 8), {}, None),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_note_where_the_other_weights_layout_is_likelier(name):
    src, weights, formats, given = LAYOUTS[name]
    found = og.check_op("Convolution", {**WINDOWED, **formats}, [("f32", src), ("f32", weights)])
    notes = [one for one in found if one.rule == "likely_layout"]
    assert [one.given for one in notes] == ([] if given is None else [given])
    assert all(one.severity == "note" and "[3, 3]" in one.expected for one in notes)
