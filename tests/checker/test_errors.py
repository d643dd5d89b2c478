"""Exceptions have the documented fields and texts, and a failed call changes nothing."""

import copy
import inspect
import json
import pickle
from pkgutil import resolve_name

import numpy as np
import pytest
from conftest import library
from helpers.hostile_objects import Nameless, Unprintable, Verbose

import onegraph as og
from onegraph import errors

CONV = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def exceptions():
    return [getattr(errors, name) for name in errors.__all__]


def test_violations_become_plain_values():
    (found,) = og.check_attrs("SoftMax", {"axis": "1"})
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["rule"], told["where"], told["given"]) == ("attribute_kind", "axis", "'1'")
    assert errors.Violation(**told) == found


def build():
    graph = og.Graph()
    x = graph.input("x", "f32", (1, 8, 8, 3))
    w = graph.constant(np.ones((3, 3, 3, 4), np.float32))
    graph.output("y", graph.relu(graph.convolution(x, w, **CONV)))
    return graph, x, w


@pytest.mark.parametrize("kind", exceptions())
def test_exceptions_are_exported_and_documented(kind):
    assert issubclass(kind, og.OneGraphError)
    assert getattr(og, kind.__name__) is kind
    assert kind.__doc__
    assert kind.__name__ in errors.__doc__


def test_all_lists_every_exception():
    family = errors.OneGraphError
    found = [name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, family)]
    assert sorted(found) == sorted(errors.__all__)


def test_builtin_bases():
    assert issubclass(og.SpecError, ValueError)
    assert issubclass(og.ArgumentError, ValueError)
    assert issubclass(og.StateError, RuntimeError)
    assert issubclass(og.LibraryError, ImportError)
    assert issubclass(og.OutOfMemoryError, MemoryError)


def test_spec_error_lists_every_violation_at_once():
    graph, x, w = build()
    with pytest.raises(og.SpecError) as caught:
        graph.op("Convolution", [x, w], {"strides": [0, 0], "pads_begin": [0], "auto_pad": "x", "group": 2}, name="c1")
    found = caught.value.violations
    assert {violation.where for violation in found} >= {"strides", "auto_pad", "group", "pads_end", "dilations"}
    assert all(violation.message in str(caught.value) for violation in found)
    assert all(violation.severity == "error" and violation.page and violation.edition for violation in found)
    assert all("Convolution 'c1'" in violation.message for violation in found)
    assert "did you mean 'groups'?" in str(caught.value)


def of_scalar(kind, attrs):
    graph = og.Graph()
    graph.op(kind, [graph.input("x", "f32", ())], attrs)


def added(kind, *inputs, attrs=None):
    ends = [og.capi.LogicalTensor(number, dtype, (2, 3)) for number, dtype in enumerate(inputs)]
    og.capi.Graph().add_op(
        og.capi.Op(1, kind, inputs=ends, outputs=[og.capi.LogicalTensor(9, inputs[0], (2, 3))], attrs=attrs)
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: og.Graph().input("x", "f32", (2,), strides=[2**60]),
            f"input 'x': strides: {2**60}; expected a number of elements, 0 to 2**48 - 1",
        ),
        library(
            lambda: og.capi.LogicalTensor(0, "f32", (2,), strides=[2**62]),
            f"strides: {2**62}; expected a number of elements, 0 to 2**62 - 1",
        ),
        (
            lambda: of_scalar("SoftMax", {"axis": 0}),
            "SoftMax: axis: 0; expected a tensor with axes, not a scalar",
        ),
        (
            lambda: of_scalar("ReduceSum", {"axes": [0]}),
            "ReduceSum: axes: [0]; expected a tensor with axes, not a scalar",
        ),
        (
            lambda: og.Graph().op("ReLU", [], dtype="undef"),
            "ReLU: dtype: 'undef' is not a data type; expected one of f32",
        ),
        library(
            lambda: added("LayerNorm", "f32", attrs={"begin_norm_axis": 0, "use_affine": False, "keep_stats": False}),
            "LayerNorm: begin_norm_axis is ignored: only the last axis is normalized",
        ),
    ],
)
def test_message_text(call, text):
    with pytest.raises(og.OneGraphError) as caught:
        call()
    assert str(caught.value).startswith(text)


@pytest.mark.library
def test_message_names_the_version_that_is_needed():
    from onegraph.native.library import VERSION

    if VERSION >= (3, 8):
        pytest.skip("the library has it")
    text = "Multiply: src_1: bf16; needs oneDNN 3.8; the loaded library is 3."
    with pytest.raises(og.UnsupportedError) as caught:
        added("Multiply", "f32", "bf16")
    assert str(caught.value).startswith(text)


@pytest.mark.library
def test_spec_error_of_capi_objects():
    with pytest.raises(og.SpecError) as caught:
        og.capi.Op(1, "SoftMax", attrs={"axis": "last"})
    (violation,) = caught.value.violations
    assert (violation.where, violation.op) == ("axis", "SoftMax")
    assert "'last'" in violation.given
    assert "integer" in violation.expected


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("SoftMax", "axsi", 1),
        ("SoftMax", 3, 1),
        ("SoftMax", [], 1),
        ("Convolution", "filter_format", "XIO"),
        ("Convolution", "weights_format", "HWIO"),
        ("Convolution", "strides", 2),
        ("Convolution", "strides", np.ones((1, 2), np.int64)),
        ("Quantize", "scales", 1.0),
        ("Elu", "alpha", -1.0),
    ],
)
def test_capi_reports_the_violations_of_the_checker(kind, name, value):
    from onegraph.native.library import VERSION

    with pytest.raises(og.SpecError) as caught:
        og.capi.Op(1, kind).set_attr(name, value)
    given = {str(name) if isinstance(name, list) else name: value}
    found = og.check_attrs(kind, given, edition=f"onednn-3.{min(VERSION[1], 13)}")
    assert caught.value.violations == tuple(one for one in found if one.rule != "missing_attribute")


@pytest.mark.parametrize(
    ("dtype", "number", "mend"),
    [
        ("f32", 0.1, ": g.constant(np.float32(0.1))"),
        ("s32", 3, ": g.constant(np.int32(3))"),
        ("s32", 1.5, ""),
        ("s8", 127, ": g.constant(np.int8(127))"),
        ("s8", 128, ""),
        ("u8", -1, ""),
        ("u8", float("nan"), ""),
        ("s32", 10**400, ""),
    ],
)
def test_suggests_a_type_that_holds_the_number(dtype, number, mend):
    graph = og.Graph()
    with pytest.raises(og.ArgumentError) as caught:
        graph.matmul(graph.input("x", dtype, (2,)), number)
    assert str(caught.value).partition("a tensor of this graph, as g.input, g.constant and ops return it")[2] == mend


@pytest.mark.parametrize(
    ("array", "mend"),
    [
        (np.uint16([40_000]), "convert the array with .astype(np.int32)"),
        (np.uint32([40_000]), "convert the array with .astype(np.int32)"),
        (np.int16([-40]), "convert the array with .astype(np.int32)"),
        (np.float64([0.5]), "convert the array with .astype(np.float32)"),
    ],
)
def test_suggests_a_type_that_holds_the_array(array, mend):
    with pytest.raises(og.ArgumentError) as caught:
        og.Graph().constant(array)
    assert str(caught.value).endswith(mend)
    dtype = getattr(np, mend.rpartition(".")[2][:-1])
    np.testing.assert_array_equal(og.Graph().constant(array.astype(dtype)).value, array)


def test_suggests_no_type_for_complex_arrays():
    with pytest.raises(og.ArgumentError, match="has the data type complex64; expected one of f32, "):
        og.Graph().constant(np.complex64([1j]))


@pytest.mark.library
def test_suggests_as_many_values_as_spatial_axes():
    op = og.capi.Op(1, "Convolution", inputs=[og.capi.LogicalTensor(0, "f32", (1, 2, 3, 4, 5))])
    with pytest.raises(og.SpecError, match=r"write \[2, 2, 2\], one for each spatial axis$"):
        op.set_attr("strides", 2)


@pytest.mark.library
def test_page_title_suggests_the_op():
    text = "oneapi-1.2, onednn-3.0 to onednn-3.1 have it; did you mean 'SoftMax'?"
    assert og.check_attrs("Softmax")[0].message.endswith(text)
    with pytest.raises(og.ArgumentError) as caught:
        og.capi.Op(1, "Softmax")
    assert str(caught.value).endswith(text)


@pytest.mark.library
def test_status_error_names_function_and_status():
    from onegraph.native import library

    with pytest.raises(og.InvalidArgumentsError) as caught:
        library.call(library.lib.dnnl_graph_set_compiled_partition_cache_capacity, -1)
    assert caught.value.function == "dnnl_graph_set_compiled_partition_cache_capacity"
    assert caught.value.status == "invalid_arguments"
    assert caught.value.what == ""
    assert str(caught.value) == "dnnl_graph_set_compiled_partition_cache_capacity returned invalid_arguments"


@pytest.mark.parametrize("kind", errors.STATUS_ERRORS.values())
def test_status_errors_keep_their_fields_through_pickle(kind):
    error = pickle.loads(pickle.dumps(kind("dnnl_f", "status", "why")))
    assert (type(error), error.function, error.status, error.what) == (kind, "dnnl_f", "status", "why")
    assert str(error) == "dnnl_f returned status: why"


def test_spec_error_keeps_its_violations_through_pickle():
    with pytest.raises(og.SpecError) as caught:
        og.Graph().op("Relu", [])
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.violations == caught.value.violations
    assert str(again) == str(caught.value)
    assert "did you mean 'ReLU'?" in str(again)


FAILING = {
    "attribute": lambda g, x, w: g.convolution(x, w, **{**CONV, "strides": [0, 0]}),
    "shape": lambda g, x, w: g.matmul(x, w),
    "unknown op": lambda g, x, w: g.op("Conv", [x, w]),
    "input count": lambda g, x, w: g.op("Add", [x]),
    "name": lambda g, x, w: g.relu(x, name=""),
    "dtype": lambda g, x, w: g.relu(x, dtype="s8"),
    "unknown dtype": lambda g, x, w: g.relu(x, dtype="float"),
    "outputs": lambda g, x, w: g.relu(x, outputs=["statistics"]),
    "edition": lambda g, x, w: g.op("ReLU", [x], edition="legacy-2"),
    "foreign tensor": lambda g, x, w: g.relu(og.Graph().input("x", "f32", (2,))),
    "list": lambda g, x, w: g.relu([1.0]),
    "taken input": lambda g, x, w: g.input("x", "f32", (2,)),
    "taken output": lambda g, x, w: g.output("y", x),
    "input that is an output": lambda g, x, w: g.input("y", "f32", (2,)),
    "strides": lambda g, x, w: g.input("z", "f32", (2, 3), strides=[1]),
    "rank": lambda g, x, w: g.input("z", "f32", (1,) * 13),
    "size": lambda g, x, w: g.input("z", "f32", (2**40, 2**40)),
    "constant of float64": lambda g, x, w: g.constant(np.ones(3)),
    "constant of a list": lambda g, x, w: g.constant([1.0]),
    "constant of rank 13": lambda g, x, w: g.constant(np.ones((1,) * 13, np.float32)),
    "output that is no tensor": lambda g, x, w: g.output("z", "y"),
    "policy": lambda g, x, w: g.compile(policy="fast"),
    "shapes": lambda g, x, w: g.specialise({"x": (1, 2, 2, 3)}),
}


@pytest.mark.library
@pytest.mark.parametrize("name", FAILING)
def test_failed_call_keeps_the_graph(name):
    graph, x, w = build()
    before = repr(graph), len(graph.ops), tuple(graph.inputs), tuple(graph.outputs)
    with pytest.raises(og.OneGraphError) as caught:
        FAILING[name](graph, x, w)
    assert str(caught.value)
    assert len(str(caught.value)) < 2000
    assert (repr(graph), len(graph.ops), tuple(graph.inputs), tuple(graph.outputs)) == before
    assert graph.compile()(np.ones((1, 8, 8, 3), np.float32)).shape == (1, 6, 6, 4)


@pytest.mark.library
def test_refused_op_keeps_the_c_graph():
    graph = og.capi.Graph()
    tensors = [og.capi.LogicalTensor(number, "f32", (4,)) for number in range(3)]
    graph.add_op(og.capi.Op(1, "ReLU", inputs=tensors[:1], outputs=tensors[1:2]))
    for bad in (
        og.capi.Op(1, "Exp", inputs=tensors[1:2], outputs=tensors[2:]),
        og.capi.Op(2, "Exp", inputs=tensors[:1], outputs=tensors[1:2]),
        og.capi.Op(3, "Exp", inputs=[og.capi.LogicalTensor(1, "f32", (5,))], outputs=tensors[2:]),
        og.capi.Op(4, "Exp", inputs=tensors[1:2]),
    ):
        with pytest.raises(og.OneGraphError):
            graph.add_op(bad)
        assert [op.id for op in graph.ops] == [1]
    graph.add_op(og.capi.Op(2, "Exp", inputs=tensors[1:2], outputs=tensors[2:]))
    graph.finalize()
    assert sorted(number for partition in graph.partitions() for number in partition.ops) == [1, 2]


class list_(list):  # noqa: N801  # reprlib goes by the name of a class
    """A list that raises whatever is asked."""

    def __len__(self):
        raise RuntimeError("a length")


list_.__name__ = "list"


@pytest.mark.parametrize("value", [5, 1.5, True, "text"])
def test_what_a_signal_handler_raises_is_passed_on(value, monkeypatch):
    assert errors.shown(list_([1])) == "<list>"

    def interrupted(_):
        raise RuntimeError("a handler")

    monkeypatch.setattr(errors._repr, "repr", interrupted)
    with pytest.raises(RuntimeError, match="a handler"):
        errors.shown(value)
    assert errors.shown([1]) == "<list>"


def test_shown_is_short_and_never_raises():
    for value in (Verbose(), [Verbose()], type("C" * 10**6, (Unprintable,), {})(), [["x" * 90] * 14] * 14):
        assert len(errors.shown(value)) <= 1000
    assert errors.shown(Nameless("Named", (Unprintable,), {})()) == "<Named>"
    for value in [Unprintable(), [Unprintable()], 10**5000, -(10**5000), "x" * 10**6, [1] * 10**6, {1: Unprintable()}]:
        assert len(errors.shown(value)) < 500


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "an array of float32 [2, 3]"),
        (np.zeros(99, np.int8), "an array of int8 [99]"),
        (np.array([2, 0]), "array([2, 0])"),
        ([np.zeros((8, 8))], "[an array of float64 [8, 8]]"),
        (type("Table", (), {"__repr__": lambda self: "Table(2 rows)\n1 2\n3 4"})(), "Table(2 rows) ..."),
    ],
)
def test_messages_show_long_values_in_one_line(value, text):
    assert errors.shown(value) == text


def test_running_out_of_memory():
    big = og.Graph()
    x = big.input("x", "f32", (1, 1))
    zeros = big.input("z", "f32", (2**29, 2**29))
    big.output("y", big.add(x, zeros))
    with pytest.raises(og.OneGraphError):
        big.compile()(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32))
    with pytest.raises(og.OutOfMemoryError, match="bytes for shape"):
        og.arrays.ndarrays.aligned_empty((2**29, 2**29), np.dtype(np.float32))


def test_suggests_the_other_data_format():
    attrs = {name: [1, 1] for name in ("strides", "dilations")} | {name: [0, 0] for name in ("pads_begin", "pads_end")}
    weights = ("f32", (3, 3, 3, 4))
    for shape, given, end in (
        ((2, 3, 8, 8), {}, "as src has; with data_format='NCX' they agree"),
        ((2, 8, 8, 3), {"data_format": "NCX"}, "as src has; with data_format='NXC' they agree"),
        ((2, 5, 8, 8), {}, "as src has"),
        ((2, None, 8, 8), {}, "as src has"),
    ):
        (found,) = og.check_op("Convolution", {**attrs, **given}, [("f32", shape), weights])
        said = "Convolution: weights: shape [3, 3, 3, 4] read as XIO has 3 input channels"
        assert found.message == f"{said}; expected 8, {end}"


@pytest.mark.parametrize(
    ("src", "attrs", "end"),
    [
        ((2, 8, 8, 4), {}, "; with weights_format='OIX' they agree"),
        ((2, 4, 8, 8), {}, "; with data_format='NCX' and weights_format='OIX' they agree"),
        ((2, 8, 8, 5), {}, ""),
    ],
)
def test_suggests_the_other_weights_format(src, attrs, end):
    attrs |= {name: [1, 1] for name in ("strides", "dilations")} | {name: [0, 0] for name in ("pads_begin", "pads_end")}
    (found, *_) = og.check_op("Convolution", attrs, [("f32", src), ("f32", (16, 4, 3, 3))])
    said = f"shape [16, 4, 3, 3] read as XIO has 3 input channels; expected {src[3]}, as src has{end}"
    assert found.message == f"Convolution: weights: {said}"


def test_message_shows_the_shape_of_constant_weights():
    window = {name: [1, 1] for name in ("strides", "dilations")} | {name: [0, 0] for name in ("pads_begin", "pads_end")}
    g = og.Graph()
    x, y = g.input("x", og.f32, (2, 8, 8, 5)), g.input("y", og.f32, (2, 6, 6, 4))
    said = "shape [3, 3, 3, 4] read as XIO has 3 input channels; expected 5, as src has"
    with pytest.raises(og.SpecError) as caught:
        g.convolution(x, g.constant(np.zeros((3, 3, 3, 4), np.float32)), **window)
    assert str(caught.value) == f"Convolution: weights: {said}"
    for shape in ({"weights_shape": [3, 3, 3, 4]}, {"weights_shape": g.constant(np.array([3, 3, 3, 4], np.int32))}):
        with pytest.raises(og.SpecError) as caught:
            g.convolution_backward_weights(x, y, **window, **shape)
        assert str(caught.value) == f"ConvolutionBackwardWeights: weights_shape: {said}"


@pytest.mark.parametrize("filter_format", ["XIO", "OIX"])
def test_legacy_message_shows_the_filter_as_given(filter_format):
    attrs = {name: [1, 1] for name in ("strides", "dilations")} | {name: [0, 0] for name in ("pads_begin", "pads_end")}
    shape = (3, 3, 5, 7) if filter_format == "XIO" else (7, 5, 3, 3)  # in and out: 5 and 7
    inputs = [("f32", (1, 8, 8, 4)), ("f32", shape)]
    attrs["filter_format"] = filter_format
    (found,) = og.check_op("ConvTranspose", attrs, inputs, edition="legacy-1")
    said = f"shape {[*shape]} read as {filter_format} has 5 input channels; expected 4, as input has"
    assert found.message == f"ConvTranspose: filter: {said}"


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("Convolution", "padding", "pads_begin"),
        ("SoftMax", "dim", "axis"),
        ("ReduceSum", "dim", "axes"),
        ("StaticTranspose", "perm", "order"),
        ("LeakyReLU", "negative_slope", "alpha"),
    ],
)
def test_suggests_the_attribute_of_another_framework(kind, name, meant):
    messages = [found.message for found in og.check_attrs(kind, {name: 1})]
    assert any(message.endswith(f"did you mean {meant!r}?") for message in messages)


@pytest.mark.parametrize(
    ("name", "meant"), [("transpose", "static_transpose"), ("reshape", "static_reshape"), ("relue", "relu")]
)
def test_suggests_a_method_with_the_same_ending(name, meant):
    with pytest.raises(AttributeError, match=f"did you mean {meant!r}[?]$"):
        getattr(og.Graph(), name)


@pytest.mark.library
@pytest.mark.parametrize("dilation", [2**48, 2**62])
@pytest.mark.parametrize(
    ("kind", "expected"), [("Convolution", 0), ("ConvTranspose", 0), ("MaxPool", -np.inf), ("AvgPool", 1)]
)
def test_windows_longer_than_memory(kind, expected, dilation):
    """The padding exceeds memory; only the windows of AvgPool contain elements of the source."""
    attrs = {**CONV, "auto_pad": "same_upper"}
    if kind.endswith("Pool"):
        far = (
            {"kernel": [2, dilation], "exclude_pad": True}
            if kind == "AvgPool"
            else {"kernel": [2, 2], "dilations": [1, dilation]}
        )
        attrs = {**{name: value for name, value in attrs.items() if name != "dilations"}, **far}
    else:
        attrs["dilations"] = [1, dilation]
    graph = og.Graph()
    inputs = [graph.input("x", "f32", (1, 4, 4, 2))]
    inputs += [] if kind.endswith("Pool") else [graph.input("w", "f32", (2, 2, 2, 2))]
    graph.output("y", graph.op(kind, inputs, attrs, name="wide"))
    arrays = {name: np.ones(tensor.shape, np.float32) for name, tensor in graph.inputs.items()}
    for results in (og.reference.run(graph, arrays)["y"], graph.compile()(**arrays)):
        np.testing.assert_array_equal(results, np.full((1, 4, 4, 2), expected))


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "attrs", "types", "outputs"),
    [
        (
            "BatchNormTrainingBackward",
            {"epsilon": 1e-5},
            [("f32", (2, 2, 2, 2**50))] * 2 + [("f32", (2**50,))] * 2,
            (),
        ),
        ("LayerNorm", {"use_affine": False}, [("bf16", (2, 2**50))], None),
    ],
)
def test_rewrite_constants_that_exceed_memory(kind, attrs, types, outputs):
    graph = og.Graph()
    inputs = [graph.input(f"x{index}", *one) for index, one in enumerate(types)]
    found = graph.op(kind, inputs, attrs, dtype="bf16" if outputs is None else None, outputs=outputs)
    graph.output("y", found if outputs is not None else found.dst)
    with pytest.raises(og.OutOfMemoryError, match=f"{kind}: a constant f32 .1125899906842624."):
        graph.compile()


@pytest.mark.library
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("Graph", lambda made: made.compile()),
        ("Graph", repr),
        ("Graph", lambda made: made.relu(None)),
        ("Graph", copy.copy),
        ("LogicalTensor", lambda made: made.shape),
        ("Op", repr),
        ("Op", pickle.dumps),
        ("runtime.executable.Executable", lambda made: made(1)),
        ("runtime.executable.Executable", lambda made: made.bind(x=1)),
        ("runtime.executable.Executable", copy.deepcopy),
        ("runtime.executable.Executable", repr),
        ("runtime.bound_run.BoundRun", lambda made: made()),
        ("runtime.bound_run.BoundRun", lambda made: made.outputs),
        ("capture", lambda made: made.__enter__()),
        ("tools.failure_probe.Prober", lambda made: made.failure(og.Graph())),
    ],
)
def test_uninitialized_objects_give_a_clear_error(name, use):
    kind = resolve_name(f"onegraph.{name}")
    made = object.__new__(kind)
    with pytest.raises(og.StateError, match=f"this {kind.__name__} was not made by its constructor, or that failed"):
        use(made)
    assert not hasattr(made, "__array_interface__")
    whole = build()[0]
    with pytest.raises(AttributeError):
        whole.no_such_thing  # noqa: B018
    with pytest.raises(AttributeError):
        whole.compile().no_such_thing  # noqa: B018
