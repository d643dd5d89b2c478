"""No call with any arguments ends in a signal or a hang; each bad call raises one exception of onegraph.errors.

Child processes run the cases: this file as a script, with the name of a batch. A child prints the name of each case
before it and the outcome after it, so a crash or a timeout names its case. The batches are those of
helpers/malformed_cases.py, and here every op with mutated attributes, every public callable with junk, and valid calls
with objects that lie about themselves.
"""

import faulthandler
import inspect
import itertools
import pathlib
import random
import signal
import sys
import unittest.mock
import warnings
from collections.abc import Mapping, Sequence
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from conftest import draws
from helpers.fork_server import run_forked, serve
from helpers.hostile_objects import Nameless, Verbose
from helpers.malformed_cases import (
    ACROSS,
    CASES,
    CONV,
    POOL,
    F,
    array,
    graph_of,
    lt,
    one,
    partition_of,
    relu,
    run_builder,
    run_capi,
    simple,
)

import onegraph as og
from onegraph import capi, reference, view
from onegraph.opset.editions.registry import BASE
from onegraph.runtime.executable import Executable
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.bench import Variant, bench
from onegraph.tools.harness import read_harness, rewrite
from onegraph.tools.python_code import load_python, save_python, to_python
from onegraph.tools.reduce import reduce
from onegraph.tools.verify import verify

# Mutations: every op with every attribute, shape and type changed to something else ----------------------------------

X = (2, 4, 6, 6)
VALID = {
    "Convolution": ([(F, X), (F, (3, 4, 3, 3)), (F, (3,))], 1, CONV),
    "ConvolutionBackwardData": ([(F, (2, 3, 6, 6)), (F, (3, 4, 3, 3))], 1, {**CONV, "dst_shape": [2, 4, 6, 6]}),
    "ConvolutionBackwardWeights": ([(F, X), (F, (2, 3, 6, 6))], 1, {**CONV, "weights_shape": [3, 4, 3, 3]}),
    "ConvTranspose": ([(F, X), (F, (4, 3, 3, 3))], 1, {**CONV, "weights_format": "IOX", "output_padding": [0, 0]}),
    "ConvTransposeBackwardData": ([(F, (2, 3, 6, 6)), (F, (4, 3, 3, 3))], 1, {**CONV, "weights_format": "IOX"}),
    "ConvTransposeBackwardWeights": (
        [(F, X), (F, (2, 3, 6, 6))],
        1,
        {**CONV, "weights_format": "IOX", "weights_shape": [4, 3, 3, 3]},
    ),
    "MaxPool": ([(F, X)], 1, {**POOL, "dilations": [1, 1], "rounding_type": "floor"}),
    "AvgPool": ([(F, X)], 1, {**POOL, "exclude_pad": True}),
    "MaxPoolBackward": ([(F, X), (F, (2, 4, 3, 3))], 1, {**POOL, "dilations": [1, 1]}),
    "AvgPoolBackward": ([(F, (2, 4, 3, 3))], 1, {**POOL, "exclude_pad": False, "src_shape": [2, 4, 6, 6]}),
    "BatchNormInference": ([(F, X)] + [(F, (4,))] * 4, 1, {"epsilon": 1e-3, "data_format": "NCX"}),
    "BatchNormForwardTraining": (
        [(F, X)] + [(F, (4,))] * 4,
        5,
        {"epsilon": 1e-3, "momentum": 0.5, "data_format": "NCX"},
    ),
    "BatchNormTrainingBackward": ([(F, X), (F, X)] + [(F, (4,))] * 3, 3, {"epsilon": 1e-3, "data_format": "NCX"}),
    "LayerNorm": (
        [(F, (2, 3, 4)), (F, (4,)), (F, (4,))],
        3,
        {"begin_norm_axis": -1, "keep_stats": True, "use_affine": True},
    ),
    "LayerNormBackward": (
        [(F, (2, 3, 4))] * 2 + [(F, (2, 3))] * 2 + [(F, (4,))] * 2,
        3,
        {"begin_norm_axis": -1, "use_affine": True},
    ),
    "MatMul": (
        [(F, (2, 5, 6)), (F, (2, 6, 7)), (F, (7,))],
        1,
        {"transpose_a": False, "transpose_b": False},
    ),
    "SoftMax": ([(F, (2, 3, 4))], 1, {"axis": 1}),
    "SoftMaxBackward": ([(F, (2, 3, 4))] * 2, 1, {"axis": 1}),
    "LogSoftmax": ([(F, (2, 3, 4))], 1, {"axis": -1}),
    "LogSoftmaxBackward": ([(F, (2, 3, 4))] * 2, 1, {"axis": -1}),
    "Concat": ([(F, (2, 3, 4))] * 3, 1, {"axis": 1}),
    "Interpolate": ([(F, (1, 2, 4, 4))], 1, {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}),
    "InterpolateBackward": (
        [(F, (1, 2, 4, 4)), (F, (1, 2, 8, 8))],
        1,
        {"mode": "linear", "sizes": [8, 8], "data_format": "NCX"},
    ),
    "PReLU": ([(F, X), (F, (4,))], 1, {"data_format": "NCX", "per_channel_broadcast": True}),
    "PReLUBackward": ([(F, X), (F, (1, 4, 1, 1)), (F, X)], 2, {"data_format": "NCX"}),
    "BiasAdd": ([(F, X), (F, (4,))], 1, {"data_format": "NCX"}),
    "BiasAddBackward": ([(F, X)], 1, {"data_format": "NCX"}),
    "Quantize": ([(F, (2, 3))], ["u8"], {**ACROSS, "axis": 1}),
    "Dequantize": ([("u8", (2, 3))], [F], {"scales": [0.1], "zps": [3], "qtype": "per_tensor", "axis": 1}),
    "DynamicQuantize": ([(F, (2, 3)), (F, (1,)), ("s32", (1,))], ["u8"], {"qtype": "per_tensor", "axis": 1}),
    "DynamicDequantize": ([("u8", (2, 3)), (F, (1,))], [F], {"qtype": "per_tensor", "axis": 1}),
    "TypeCast": ([(F, (2, 3))], ["bf16"], {}),
    "StaticReshape": ([(F, (2, 6))], 1, {"shape": [3, 4], "special_zero": False}),
    "StaticTranspose": ([(F, (2, 6, 3))], 1, {"order": [0, 2, 1]}),
    "Select": ([("boolean", (2, 3)), (F, (2, 3)), (F, (1, 3))], 1, {"auto_broadcast": "numpy"}),
    "Clamp": ([(F, (2, 3))], 1, {"min": -1.0, "max": 1.0}),
    "ClampBackward": ([(F, (2, 3))] * 2, 1, {"min": -1.0, "max": 1.0, "use_dst": True}),
    "Elu": ([(F, (2, 3))], 1, {"alpha": 1.0}),
    "ReduceMax": ([(F, (2, 3, 4))], 1, {"axes": [1], "keep_dims": False}),
    "Add": ([(F, (2, 3, 4)), (F, (3, 1))], 1, {"auto_broadcast": "numpy"}),
    "HardSigmoid": ([(F, (2, 3))], 1, {"alpha": 0.5, "beta": 0.5}),
    "Reorder": ([(F, (2, 6, 3))], 1, {}),
}
INTEGERS = [-(2**63), -(2**62), -100, -4, -1, 0, 1, 2, 3, 5, 12, 13, 100, 2**31, 2**40, 2**62, 2**63 - 1, 2**64]
WORDS = [
    "None",
    "none",
    "",
    "NCX",
    "NXC",
    "OIX",
    "XIO",
    "IOX",
    "XOI",
    "SAME_UPPER",
    "same_lower",
    "valid",
    "per_tensor",
]
WORDS += ["per_channel", "nearest", "bilinear", "align_corners", "ceil", "a\0b", "\ud800", 3]
SHAPES = [
    None,
    (),
    (0,),
    (1,),
    (4,),
    (64,),
    (0, 4),
    (4, 0),
    (1, 1),
    (2, 4, 0, 6),
    (0, 4, 6, 6),
    (2, 0, 6, 6),
    (1,) * 12,
]
SHAPES += [(2, 4, 1, 1), (2, 4, 6), (2, 4, 6, 6, 1), (2**31,), (2**40, 2), (None, 3), (None, 4, 6, 6), (2**62,), (-1,)]
DTYPES = ["f32", "bf16", "f16", "s8", "u8", "s32", "boolean", "s64", "f8_e4m3", "s4"]


def other(value, rng):
    """Another value for an attribute."""
    if isinstance(value, bool):
        return rng.choice([not value, 2, None, "x"])
    if isinstance(value, int):
        return rng.choice([*INTEGERS, 1.5, "x", [1]])
    if isinstance(value, float):
        return rng.choice([-1.0, 0.0, 1e30, 1e39, float("inf"), float("nan"), 10**400, "x", [1.0]])
    if isinstance(value, str):
        return rng.choice(WORDS)
    number = rng.choice(INTEGERS if isinstance(value[0], int) else [0.0, -1.0, float("nan"), float("inf"), 1e39])
    longer = [value + value[:1], [number] * len(value), [number, *value[1:]], [*value[:-1], number]]
    return rng.choice([[], value[:-1], [value[0]] * 12, [value[0]] * 13, None, "x", [[1]], *longer, *longer])


def mutation(kind, rng):
    inputs, outputs, attrs = VALID[kind]
    inputs, attrs = list(inputs), dict(attrs)
    for _ in range(rng.choice([1, 1, 1, 2])):
        what = rng.choice(["attr"] * 6 + ["drop", "shape", "shape", "shapes", "dtype", "count", "outputs"])
        place = rng.randrange(len(inputs)) if inputs else 0
        if what == "attr" and attrs:
            key = rng.choice(sorted(attrs))
            attrs[key] = other(VALID[kind][2][key], rng)
        elif what == "drop" and attrs:
            del attrs[rng.choice(sorted(attrs))]
        elif what == "shape" and inputs:
            inputs[place] = (inputs[place][0], rng.choice(SHAPES))
        elif what == "shapes":
            shape = rng.choice(SHAPES)
            inputs = [(dtype, shape) for dtype, _ in inputs]
        elif what == "dtype" and inputs:
            inputs[place] = (rng.choice(DTYPES), inputs[place][1])
        elif what == "count":
            inputs = rng.choice([inputs[:-1], [*inputs, (F, (4,))], [*inputs, ("s32", (4,))], []])
        elif what == "outputs" and isinstance(outputs, int):
            outputs = rng.randrange(5)
    return inputs, outputs, attrs


def mutations(count):
    rng = random.Random(3)
    for kind in VALID:
        for _ in range(count):
            inputs, outputs, attrs = mutation(kind, rng)
            print(ascii(f"@{kind} {inputs} {outputs} {attrs}"), flush=True)
            for run in (run_capi, run_builder):
                try:
                    run(kind, inputs, outputs, attrs)
                except og.OneGraphError as error:
                    assert str(error)  # noqa: PT017
                except Exception as error:
                    print(f"FAIL {run.__name__}: {type(error).__name__}: {error}", flush=True)


# Junk: every public callable with any arguments ----------------------------------------------------------------------


class RudeError(Exception):
    """The exception of the rude objects, which calls may pass on."""


class Rude:
    def _refuse(self, *_, **__):
        raise RudeError

    __repr__ = __str__ = __len__ = __iter__ = __index__ = __int__ = __float__ = __array__ = _refuse
    __bool__ = __getitem__ = __hash__ = __eq__ = __dlpack__ = __contains__ = _refuse


class RudeMap(dict):
    items = keys = __iter__ = __repr__ = __len__ = Rude._refuse


class RudeList(list):
    __iter__ = __repr__ = __len__ = Rude._refuse


class Endless:
    def __repr__(self):
        return repr(self)


def junk():
    nested = []
    for _ in range(5000):
        nested = [nested]
    loop = []
    loop.append(loop)
    numbers = [0, 1, -1, 2, 2**31, 2**63, 2**64, -(2**63), 10**5000, 1.5, float("nan"), float("inf"), 1j]
    words = [
        "",
        "x",
        "f32",
        "ReLU",
        "relu",
        "cpu",
        "gpu",
        "fusion",
        "a\0b",
        "\ud800",
        "x" * 10000,
        "legacy-1",
        "strided",
    ]
    lists_ = [[], (), {}, set(), [1], (2, 3), [None], [-1], [2**70], ["a"], [[1]], nested, loop, (1,) * 13, [1.5]]
    dicts = [range(10**12), {"alpha": 1}, {1: 2}, {"axis": nested}, {"x": np.ones(3)}]
    odd = [np.float32(1), np.int64(3), np.bool_(True), np.array(3), np.ones(3), array((2, 3)), np.ones((2, 3), ">f4")]
    odd += [array((0, 3)), array((1,) * 12), array((1,) * 13), np.ones(3, object), np.array(["a"]), np.array([b"a"])]
    odd += [np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]"), np.zeros(3, np.complex64), array((4, 6))[::2, ::-1]]
    odd += [np.ones(3, ml_dtypes.bfloat16), np.ma.ones((2, 3)), np.float32, np.dtype("f4"), np.dtype([("a", "f4")])]
    things = [None, True, False, b"", b"ab\0", bytearray(4), memoryview(bytes(8)), Rude(), Rude, RudeMap(a=1)]
    things += [RudeList([1]), Endless(), object(), int, type, len, lambda *_: 1, (i for i in range(3)), Ellipsis]
    things += [NotImplemented, og.f32, og.bf16, og.s64, og.DataType, og.Graph, og.errors, sys]
    return [*numbers, *words, *lists_, *dicts, *odd, *things]


def objects():
    graph = og.Graph()
    x = graph.input("x", F, (2, 3))
    y = graph.relu(x)
    graph.output("y", y)
    model, op, a, b = graph.compile(), relu(shape=(2, 3)), lt(0, (2, 3)), lt(1, (2, 3))
    partition = partition_of(op)
    found = [graph, x, y, model, graph.ops[0], model.report(), model.bind(x=array((2, 3))), a, b, op, relu(2, 1, 2)]
    found += [capi.Graph(), graph_of(relu()), partition, partition.compile(), capi.Stream(), capi.Engine()]
    found += [capi.Allocator()]
    return [*found, capi.Tensor(a, array((2, 3))), capi.Tensor(b, array((2, 3)))]


RECORDS = {og.DataType, og.Op, og.LogicalTensor, og.Violation}  # enumerations and plain records


def public(found):
    """Name and callable of every public callable except exceptions and records."""
    for module in (og, capi):
        for name in module.__all__:
            value = getattr(module, name)
            exception = isinstance(value, type) and (issubclass(value, BaseException) or value in RECORDS)
            if callable(value) and not exception and name != "set_verbose":  # these print
                yield name, value
    yield "reference.run", reference.run
    for thing in found:
        for name in dir(type(thing)):
            if not name.startswith("_") or name in ("__call__", "__eq__", "__repr__"):
                try:
                    value = getattr(thing, name)
                except og.UnsupportedError:  # a property that needs a newer library
                    continue
                if callable(value):
                    yield f"{type(thing).__name__}.{name}", value


def arguments(function, pick, rng):
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if rng.random() < 0.4 or not parameters:
        return [pick() for _ in range(rng.randrange(5))], {}
    wanted = [p for p in parameters if p.default is p.empty or rng.random() < 0.5]
    return (
        [pick() for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
        {p.name: pick() for p in wanted if p.kind == p.KEYWORD_ONLY},
    )


def junk_calls(count):
    rng, pile = random.Random(7), junk()
    warnings.simplefilter("ignore")
    for number in range(count):
        if number % 500 == 0:
            found = objects()
            callables = list(public(found))
        name, function = rng.choice(callables)
        choices = [pile, pile, pile, found]
        given, named = arguments(function, lambda choices=choices: rng.choice(rng.choice(choices)), rng)
        print(f"@{number} {name}", flush=True)
        try:
            function(*given, **named)
        except (og.OneGraphError, RudeError) as error:
            str(error)
        except TypeError as error:
            if "object has no" in str(error):
                print(f"FAIL TypeError from inside: {error}", flush=True)
        except BaseException as error:
            print(f"FAIL {type(error).__name__}: {str(error)[:200]!a}", flush=True)


# Lies: one part of the arguments of a valid call replaced by an object that lies --------------------------------------


class Liar:
    """Claims to be of another class, as mocks and proxies do."""

    def __init__(self, kind):
        self.kind = kind

    __class__ = property(lambda self: self.kind)


class Unhashable(str):
    def __eq__(self, other):
        return np.ones(3)

    __hash__ = None


class NoEnd(list):
    def __iter__(self):
        return itertools.count()


class Long(tuple):
    def __len__(self):
        return 2**62


class Lying(np.ndarray):
    shape = ndim = dtype = size = property(lambda self: "x")

    def __iter__(self):
        return itertools.count()


class EndlessMap(Mapping):
    def __len__(self):
        return 1

    def __iter__(self):
        return map("k{}".format, itertools.count())

    def __getitem__(self, key):
        return 1


MANY = {f"k{n}": n for n in range(10**5)}


def liars():
    """Names of liars, and functions that make them, because some take long."""
    kinds = [str, int, float, bool, bytes, list, tuple, dict, np.ndarray, np.dtype, np.float32, np.int64, Mapping]
    kinds += [og.LogicalTensor, og.Op, og.Graph, og.DataType, pathlib.Path, Sequence]
    kinds += [capi.LogicalTensor, capi.Op, capi.Tensor, capi.Engine, capi.Stream, capi.Partition]
    yield from ((f"Liar({kind.__name__})", partial(Liar, kind)) for kind in kinds)
    yield from ((f"Mock({kind.__name__})", partial(unittest.mock.Mock, spec=kind)) for kind in kinds[::4])
    others = [
        unittest.mock.MagicMock,
        lambda: np.timedelta64(5),
        lambda: np.datetime64("NaT"),
        lambda: Unhashable("x"),
        lambda: Unhashable("f32"),
        Verbose,
        lambda: [Verbose()],
        lambda: Nameless("N", (Rude,), {})(),
        lambda: type("C" * 10**6, (), {})(),
        lambda: NoEnd([1]),
        lambda: Long([2]),
        lambda: np.array([2, 3]).view(Lying),
        EndlessMap,
        lambda: range(10**18),
        lambda: memoryview(np.array(1.0)),
        lambda: "x" * 10**7,
        lambda: og.Op(0, 1, (None,), (None,), {}, 2, "x"),
        lambda: np.zeros(2, object),
        lambda: np.zeros(2, "S1"),
        lambda: np.float16("inf"),
        lambda: np.matrix([[1, 2]]),
        MANY.copy,
    ]
    yield from ((f"others[{number}]", make) for number, make in enumerate(others))


def valid_calls():
    """Functions with valid arguments."""
    graph = simple()
    report, x = {"partitions": [{"index": 0, "names": ["relu_0"], "executor": "oneDNN"}]}, one()
    ends = (og.LogicalTensor(0, og.f32, (2,)),), (og.LogicalTensor(1, og.f32, (2,)),)

    def building(method, *args, **named):
        def call(*args, **named):
            made = og.Graph()
            tensor = made.input("x", F, (2, 3))
            before = repr(made)
            try:
                getattr(made, method)(*[tensor if arg is x else arg for arg in args], **named)
            except og.OneGraphError:
                assert repr(made) == before
                raise

        call.__qualname__ = method
        return call, args, named

    tables = {"keep_stats": True, "begin_norm_axis": -1, "use_affine": False}
    scales = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
    legacy = {**{key: CONV[key] for key in ("strides", "pads_begin", "pads_end", "dilations")}, "filter_format": "OIX"}
    yield building("input", "n", F, (2, 3), strides=(3, 1), constant=False)
    yield building("constant", x, name="c", copy=True, dtype=F)
    yield building("output", "o", x, strides=(3, 1))
    yield building("op", "LayerNorm", x, tables, name="n", outputs=["mean", "variance"], edition="onednn-3.13")
    yield building("quantize", x, **scales, dtype="s8", name="q")
    yield from [
        (og.Graph, [], {"edition": "onednn-3.2", "strict": True}),
        (og.Graph.from_json, [graph.to_json()], {"strict": False}),
        (og.Graph.load, ["absent.json"], {}),
        (graph.save, ["absent/absent.json"], {"for_version": "3.2"}),
        (graph.compile, [], {"policy": "debug", "fallback": True, "fpmath_mode": "strict", "threads": {0: 1}}),
        (graph.specialise, [{"x": (2, 3)}], {"values": {}}),
        (graph.with_constants, [{"x": x}], {}),
        (og.DataType.of, [F], {}),
        (og.check_op, ["LayerNorm", tables, [(F, (2, 3))], [(F, (2, 3))]], {"edition": "onednn-3.13"}),
        (og.check_op, ["ConvolutionBackpropInput", legacy, [x, x]], {"edition": "legacy-1"}),
        (og.check_op, ["MatMul", {"transpose_a": False}, [one((3, 2)), (F, (3, 4))]], {}),
        (og.check_attrs, ["Interpolate", {"mode": "nearest", "sizes": [4], "scales": [1.0]}], {}),
        (og.check_graph, [[og.Op(0, "ReLU", *ends, {}, "n", "onednn-3.13")]], {}),
        (og.Op, [0, "ReLU", *ends, {}, "n", "onednn-3.13"], {}),
        (og.translate, ["ReLU", {}, [(F, (2, 3))]], {"source": "onednn-3.2", "target": "legacy-1"}),
        (reference.run, [graph, {"x": x, "y": x}], {}),
        (reference.run_op, [graph.ops[0], [x, x]], {}),
        (graph.compile(threads=1), [x, x], {"out": {}}),
        (graph.compile(threads=1).bind, [], {"x": x, "y": x}),
        (Executable, [graph], {"threads": 1}),
        (og.set_num_threads, [1], {}),
        (og.capture, ["folder"], {"inputs": True, "max_bytes": 9}),
        (capi.LogicalTensor, [0, F, (2, 3)], {"strides": [3, 1], "layout": "strided", "property": "variable"}),
        (capi.Op, [1, "LayerNorm", "n"], {"inputs": [lt(0, (2,))], "outputs": [lt(1, (2,))], "attrs": tables}),
        (capi.Graph, ["cpu", "strict"], {}),
        (relu().set_attr, ["alpha", 1.0], {}),
        (partition_of(relu()).compile, [[lt(0, (8,))], [lt(1, (8,))], capi.default_engine()], {}),
        (capi.Tensor, [lt(0, (2, 3)), x, capi.default_engine()], {}),
        (view.page, [graph], {"report": report, "violations": [], "times": {0: 1.0}, "title": "t"}),
        (view.dot, [graph], {"report": report, "times": [1.0]}),
        (view.embedded, [graph], {"height": 100}),
        (verify, [graph, {"x": x, "y": x}], {"policy": "fusion", "threads": 1, "seed": 0, "progress": print}),
        (bench, [graph, {"x": x, "y": x}, [Variant(threads=1)]], {"seconds": 0, "runs": 1, "in_place": False}),
        (reduce, [graph, lambda graph: False], {"max_tests": 1, "progress": print}),
        (random_graph, [0, 1], {"dtypes": [F], "kinds": ["ReLU"], "edition": "onednn-3.2"}),
        (random_inputs, [graph, 0], {}),
        (rewrite, [graph], {"in_shapes": {"x": (4, 3)}, "op_attrs": {}, "mb": 0, "dt": {"x": F}, "op_kind": {}}),
        (read_harness, ["absent"], {}),
        (to_python, [graph, "data.npz"], {}),
        (save_python, [graph, "absent/absent.py"], {}),
        (load_python, ["absent.py"], {}),
    ]


def places(value, depth=0):
    """The places within arguments, each as a path of keys."""
    pairs = value.items() if type(value) is dict else enumerate(value) if type(value) in (list, tuple) else ()
    for key, element in pairs if depth < 4 else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(element, depth + 1))


def replaced(value, place, other):
    key, *rest = place
    made = dict(value) if type(value) is dict else list(value)
    made[key] = replaced(made[key], rest, other) if rest else other
    return made if type(value) is dict else type(value)(made)


def lies():
    warnings.simplefilter("ignore")
    spots = [(call, place) for call in valid_calls() for place in places(call[1:]) if len(place) > 1]
    for number, ((function, args, named), place) in enumerate(spots):
        for name, make in itertools.islice(liars(), number % 16, None, 16):
            print(f"@{getattr(function, '__qualname__', function.__class__.__name__)} {place} {name}", flush=True)
            try:
                given, keywords = replaced((args, named), place, make())
                function(*given, **keywords)
            except og.OneGraphError as error:
                if len(str(error)) > 8000:
                    print(f"FAIL {len(str(error))} characters", flush=True)
            except (RudeError, ZeroDivisionError):
                pass
            except Exception as error:
                print(f"FAIL {type(error).__name__}: {str(error)[:200]!a}", flush=True)


# The child and the test ----------------------------------------------------------------------------------------------

BATCHES = {"mutations": lambda: mutations(draws(8, 40)), "junk": lambda: junk_calls(draws(2500, 12000)), "lies": lies}


def run_cases(batch):
    for name, error, parts, function in CASES[batch]:
        print(f"@{name}", flush=True)
        try:
            function()
        except Exception as raised:
            text = str(raised)
            wrong = error is None or not isinstance(raised, error) or not all(part in text for part in parts)
            outcome = f"{type(raised).__name__}: {text}" if wrong else ""
        else:
            outcome = "" if error is None else f"no {error.__name__}"
        if outcome:
            print("FAIL", ascii(outcome), flush=True)


@pytest.mark.parametrize("batch", [*CASES, *BATCHES])
def test_raises_one_clear_exception(batch, tmp_path):
    # In a directory of its own, because junk is sometimes taken for a file name.
    done = run_forked(__name__, [batch], cwd=tmp_path)
    lines = done.stdout.splitlines()
    failed = [f"{lines[k - 1]}\n  {line}" for k, line in enumerate(lines) if line.startswith("FAIL")]
    last = next((line for line in reversed(lines) if line.startswith(("@", "'@", '"@'))), "no case")
    assert done.returncode == 0, f"{done.returncode} at {last}\n{done.stderr[-3000:]}"
    assert last != "no case"
    assert not failed, "\n".join(failed)


assert set(VALID) <= set(BASE)


def run_batch():
    """Run the cases of the batch that the arguments name."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    BATCHES.get(sys.argv[1], lambda: run_cases(sys.argv[1]))()


if __name__ == "__main__":
    serve(run_batch)
