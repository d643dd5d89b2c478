"""Programs of a few lines on graphs, by name: what they make or say is recorded, beside bounds of the builder."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np

import onegraph as og
from onegraph.builder.chosen_outputs import returning
from onegraph.builder.operators import OPS, op_of
from onegraph.builder.stubs import stub
from onegraph.faults import slow_strides, strided_ops
from onegraph.faults.api import API
from onegraph.faults.catalogue import EVERY_FAULT
from onegraph.faults.constant_inputs import variables
from onegraph.faults.cpus import EVERY_ISA
from onegraph.faults.execution import SCRATCH_OF_THE_THREAD
from onegraph.faults.layouts import LAYOUTS, PARTITIONS, wrong_layout
from onegraph.faults.leaks import has_tiles, leaks_pairs
from onegraph.faults.operands import rows_together, steps_to_fast
from onegraph.faults.ops.convolution import ends_behind_source
from onegraph.faults.ops.convolution import misses_source as windows_miss
from onegraph.faults.ops.convolution_gradients import runs_of
from onegraph.faults.ops.pooling import in_padding_alone, leaves_elements, steps_over
from onegraph.faults.ops.spanned_source import in_no_window, spans_source
from onegraph.faults.ops.windows import differs_undilated, leaves_gaps, misses_source
from onegraph.faults.performance import SLOW_WEIGHTS, MatMulUse, reference_kernel, slow_alone
from onegraph.faults.precision import better_in_f32
from onegraph.faults.use import Laid
from onegraph.opset.convolution_geometry import convolution_geometry
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, EDITIONS, HOST
from onegraph.opset.errata.page import spans
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.window import AxisWindow
from onegraph.testing.random_graph import random_graph
from onegraph.transform.rebuild import Change, rebuild
from onegraph.transform.stages import stages
from tests.lowering.test_recorded_graphs import lines_of, outcome

from .fault_subjects import OF_SINGLE_OPS, calls, fused, wired
from .fault_subjects import graph_of as graph_of_example
from .recorded import digest

PROGRAMS: dict[str, Callable[[], object]] = {}
ROWS, ONES = np.ones((2, 3), np.float32), np.ones(3, np.float32)
NAMES = (
    "re",
    "lr",
    "so",
    "pool",
    "conv2d",
    "reduce",
    "norm",
    "batch_norm",
    "_hidden",
    "Conv",
    "backward",
    "clip",
    "sum",
)


def program(function: Callable[[], object]) -> Callable[[], object]:
    """Enter a program."""
    PROGRAMS[function.__name__.strip("_")] = function
    return function


def told(*programs: Callable[[], object]) -> str:
    """What several programs make or say, one after another."""
    found = []
    for one in programs:
        lines = outcome(lambda one=one: in_full(one()), also=(AttributeError, KeyError, TypeError))  # type: ignore[misc]
        found.append("\n".join(map(str, lines)))
    return "\n---\n".join(found)


def in_full(made: Any) -> str:
    """A graph with what it has beside its ops; anything else as a text."""
    if not isinstance(made, og.Graph):
        return str(made)
    marks = sorted(made.constant_inputs), [*made.variables], [(key, one.name) for key, one in made.assignments.items()]
    ends = [(key, one.strides) for key, one in (*made.inputs.items(), *made.outputs.items())]
    return "\n".join([*lines_of(made), f"{made.edition} {marks} {ends}"])


def small(dtype: str = "f32", shape: Any = (2, 3), *, strict: bool = True) -> tuple[og.Graph, og.LogicalTensor]:
    """A graph with one input."""
    graph = og.Graph(strict=strict)
    return graph, graph.input("x", dtype, shape)


def counted(graph: og.Graph, replaced: Any) -> str:
    """How often a graph is rewritten, and what becomes of it."""
    return "\n".join([str(graph.rewrite(replaced)), *lines_of(graph)])


def pattern(match: Callable[..., Any], made: Callable[..., Any], *ends: Any) -> og.Graph:
    """A pattern of inputs of these shapes."""
    graph = og.Graph()
    inputs = [graph.input(f"p{place}", "f32", shape) for place, shape in enumerate(ends)]
    graph.output("match", match(graph, *inputs))
    graph.output("replacement", made(graph, *inputs))
    return graph


def on(shape: Any, make: Callable[..., Any]) -> og.Graph:
    """A graph of one input, with a result."""
    graph, x = small(shape=shape)
    graph.output("y", make(graph, x))
    return graph


@program
def _patterns_of_dims() -> str:
    shapes: tuple[Any, ...] = (None, (2, 3), (None, 3), (2, None), (3, 3))
    return told(
        *(
            lambda own=own, other=other: counted(  # type: ignore[misc]
                on(other, lambda g, x: g.relu(x)), pattern(lambda g, x: g.relu(x), lambda g, x: g.abs(x), own)
            )
            for own in shapes
            for other in shapes
        )
    )


@program
def _patterns_of_constants() -> str:
    half = pattern(lambda g, x: g.multiply(x, g.constant(np.float32(0.5))), lambda g, x: g.abs(x), None)
    first = pattern(
        lambda g, x: g.op("Gather", [x, g.constant(np.zeros(1, np.int64), dtype="s64")], {"axis": 0}, edition=HOST),
        lambda g, x: g.relu(x),
        None,
    )
    return told(
        lambda: counted(on((2, 3), lambda g, x: x * g.relu(x)), half),
        lambda: counted(on((2, 3), lambda g, x: x * np.full((1, 3), 0.5, np.float32)), half),
        lambda: counted(on((2, 3), lambda g, x: g.constant(np.float32(0.5)) * x), half),
        lambda: counted(
            on((2, 3), lambda g, x: g.op("Gather", [x, np.zeros(2, np.int32)], {"axis": 0}, edition=HOST)), first
        ),
    )


@program
def _patterns_of_other_counts() -> str:
    plain = pattern(lambda g, x, w: g.relu(g.matmul(x, w)), lambda g, x, w: g.abs(g.matmul(x, w)), None, None)
    biased = pattern(
        lambda g, x, w, b: g.relu(g.matmul(x, w, b)), lambda g, x, w, b: g.abs(g.matmul(x, w)), None, None, None
    )

    def product_(*bias: Any) -> Callable[..., Any]:
        return lambda g, x: g.relu(g.matmul(x, np.ones((3, 3), np.float32), *bias))

    shares = pattern(lambda g, x: g.relu(g.softmax(x, axis=1)), lambda g, x: g.abs(x), None)
    both = pattern(lambda g, x: g.relu(g.softmax(x, axis=1, outputs=["stats"])[1]), lambda g, x: g.abs(x), None)
    return told(
        lambda: counted(on((2, 3), product_()), plain),
        lambda: counted(on((2, 3), product_(ONES)), plain),
        lambda: counted(on((2, 3), product_()), biased),
        lambda: counted(on((2, 3), product_(ONES)), biased),
        *(
            lambda one=one, place=place: counted(  # type: ignore[misc]
                on((2, 3), lambda g, x: g.relu(g.softmax(x, axis=1, outputs=["stats"])[place])), one
            )
            for one in (shares, both)
            for place in (0, 1)
        ),
        lambda: counted(on((2, 3), lambda g, x: g.relu(g.softmax(x, axis=1))), both),
    )


@program
def _what_is_no_pattern() -> str:
    graph, x = small()
    y = graph.relu(x)
    more = og.Graph()
    p = more.input("p", "f32")
    for name in ("match", "replacement", "more"):
        more.output(name, more.relu(p))
    stateful = og.Graph()
    w = stateful.variable("w", ROWS)
    stateful.output("match", stateful.relu(w))
    stateful.output("replacement", stateful.abs(w))
    graph.output("y", y)
    return told(
        lambda: counted(graph.copy(), more),
        lambda: counted(graph.copy(), stateful),
        lambda: counted(graph.copy(), lambda g, op: op.outputs),
        lambda: counted(graph.copy(), lambda g, op: [None]),
        lambda: counted(graph.copy(), lambda g, op: []),
        lambda: counted(graph.copy(), lambda g, op: op.outputs[0]),
        lambda: counted(graph.copy(), lambda g, op: g.input("new", "f32", (2, 4))),
        lambda: counted(graph.copy(), lambda g, op: g.input("new", "bf16", (2, 3))),
        lambda: counted(graph.copy(), lambda g, op: (g.abs(op.inputs[0]), g.abs(op.inputs[0]))),
        lambda: counted(graph.copy(), lambda g, op: 5),
    )


@program
def _consumers_of_a_replacement() -> str:
    def replaced(*consumers: Any) -> og.Graph:
        graph, x = small()
        y = graph.relu(x, name="one")
        graph.output("y", y)
        graph.output("two", graph.tanh(y, name="two"))
        graph.output("z", graph.exp(y, name="three"))
        graph.output("four", graph.tanh(x, name="four"))
        graph.replace(y, graph.abs(x), consumers=[*consumers])
        return graph

    names = ("y",), ("two",), ("three",), ("z",), ("y", "three"), ("one",), ("four",), ("nobody",), (5,), ()
    return told(*(lambda one=one: replaced(*one) for one in names))  # type: ignore[misc]


@program
def _removed_names() -> str:
    def removed(name: Any, *, strict: bool = True) -> og.Graph:
        graph, x = small(strict=strict)
        unread = graph.input("unread", "f32", (2, 3))
        graph.input("also", "f32", (2, 3))
        y = graph.relu(x, name="x")
        graph.output("y", y)
        graph.tanh(unread, name="unread")
        z = graph.exp(y, name="z")
        graph.output("z", z)
        both = graph.add(y, z, name="both")
        graph.output("both", both)
        graph.output("alone", graph.matmul(both, graph.constant(np.ones((3, 2), np.float32)), name="alone"))
        graph.remove(name)
        return graph

    names = "x", "unread", "also", "y", "z", "both", "alone", "nobody", 5, None, ""
    return told(*(lambda one=one: removed(one) for one in names), lambda: removed("x", strict=False))  # type: ignore[misc]


@program
def _replaced_in_a_graph_that_is_not_strict() -> og.Graph:
    graph, x = small(strict=False)
    y = graph.op("LeakyReLU", [x], {"alpha": 0.5})
    graph.output("y", graph.op("SoftMax", [y], {"axis": 1}))
    graph.replace(y, graph.tanh(graph.input("v", "f32", (2, 5))))
    return graph


@program
def _variables_and_their_next_values() -> str:
    def graph_of(dtype: str = "f32", shape: Any = (2, 3)) -> tuple[og.Graph, Any, Any]:
        graph, _ = small(dtype, shape)
        w = graph.variable("w", ROWS)
        new = graph.add(w, ROWS)
        graph.output("y", graph.relu(w))
        return graph, w, new

    def assigned(**others: Any) -> og.Graph:
        graph, w, new = graph_of()
        graph.assign(w, new)
        return graph

    def taken() -> og.Graph:
        graph, w, new = graph_of()
        graph.input("w (next)", "f32", (1,))
        graph.output("w (next)'", new)
        graph.assign(w, new)
        return graph

    def changed(dtype: str, shape: Any) -> og.Graph:
        graph = assigned()
        made = graph.input("v", dtype, shape)
        graph.replace(graph.ops[0], made)
        return graph

    def chosen() -> og.Graph:
        graph, w, new = graph_of()
        graph.constant(ROWS, name="w (next)")
        graph.relu(graph.constant(ROWS, name="w (next)'"), name="op")
        graph.assign(w, new)
        return returning(graph, ["y", "w (next)'", "y"])

    return told(
        assigned,
        taken,
        chosen,
        lambda: changed("f32", (2, 3)),
        lambda: changed("f32", None),
        lambda: changed("f32", (2, 4)),
        lambda: changed("bf16", (2, 3)),
        lambda: assigned().with_constants({"w": ROWS}),
        lambda: rebuild(assigned(), Change(outputs=["y"])),
        lambda: rebuild(assigned(), Change(ops=[1], outputs=["y"])),
        lambda: assigned().assign(5, 5),
        lambda: assigned().assign(assigned().inputs["x"], 5),
    )


@program
def _names_of_inputs_and_outputs() -> str:
    def given(*arguments: Any, **more: Any) -> og.Graph:
        graph, x = small()
        graph.output("y", graph.relu(x))
        graph.input(*arguments, **more)
        return graph

    def returned(*arguments: Any, **more: Any) -> og.Graph:
        graph, x = small()
        made = graph.relu(x, name="x")
        graph.output("y", made)
        graph.output(*(made if one is ... else one for one in arguments), **more)
        return graph

    inputs = [
        ("x", "f32"),
        ("y", "f32"),
        ("out", "f32"),
        ("", "f32"),
        (5, "f32"),
        ("z", (2, 3), "f32"),
        ("z", (2,), None),
    ]
    inputs += [("z", [2], DataType.f32), ("z", (2,), (3,)), ("z", "f33", (2,)), ("z", "f32", 5), ("z", "f32", "x")]
    inputs += [
        ("z", "f32", np.array([2, 3])),
        ("z", "f32", np.array([[2]])),
        ("z", "f32", (-1,)),
        ("z", "f32", (2**63,)),
    ]
    inputs += [("z", "f32", (1,) * 12), ("z", "f32", (1,) * 13), ("z", "f32", (2**60 - 1,)), ("z", "f32", (2**60,))]
    strides = (3, 1), (4, 1), (1, 2), (1, 1), (0, 1), (3,), 5, (2**48 - 1, 1), (2**48, 1), (True, 1), (1.5, 1), None
    outputs = [(..., "z"), ("y", ...), ("x", ...), ("z", 5), ("z", og.LogicalTensor(0, og.f32, (2, 3))), ("", ...)]
    return told(
        *(lambda one=one: given(*one) for one in inputs),  # type: ignore[misc]
        *(lambda one=one: given("z", "f32", (2, 3), strides=one) for one in strides),  # type: ignore[misc]
        *(lambda one=one: given("z", "f32", one, strides=(1,)) for one in (None, (None,), (5,))),  # type: ignore[misc]
        *(lambda one=one: returned(*one) for one in outputs),  # type: ignore[misc]
        *(lambda one=one: returned("z", ..., strides=one) for one in strides),  # type: ignore[misc]
        lambda: given("z", "f32", (2,), constant=5),
    )


@program
def _names_of_ops() -> str:
    def named(*names: Any) -> og.Graph:
        graph, x = small()
        for name in names:
            x = graph.relu(x, name=name)
        graph.output("y", x)
        return graph

    def again() -> og.Graph:
        graph = named("a", None)
        graph.remove("a")
        graph.output("z", graph.relu(graph.inputs["x"], name="a"))
        return graph

    pairs = ("a", "b"), ("a", "a"), ("relu_1", None), (None, "relu_1", None), ("",), (5,), ("relu_0", "relu_2", None)
    return told(*(lambda one=one: named(*one) for one in pairs), again)  # type: ignore[misc]


@program
def _methods_that_were_meant() -> str:
    graph, x = small()
    return told(
        *(lambda one=one: getattr(graph, one) for one in NAMES),  # type: ignore[misc]
        *(lambda one=one: getattr(x, one) for one in ("relu", "nothing", "_x", "shapes", "matmuls")),  # type: ignore[misc]
        *(
            lambda one=one: getattr(og.LogicalTensor(0, og.f32, (2,)), one)  # type: ignore[misc]
            for one in ("relu", "nothing", "_x", "__array__")
        ),
    )


@program
def _arguments_of_methods() -> str:
    def made(call: Callable[..., Any], dtype: str = "f32") -> Callable[[], og.Graph]:
        def graph_of() -> og.Graph:
            graph, x = small(dtype)
            found = call(graph, x)
            for place, one in enumerate(found if isinstance(found, tuple) else (found,)):
                graph.output(f"y{place}", one)
            return graph

        return graph_of

    calls = {
        "none": lambda g, x: g.relu(x, nothing=None),
        "number": lambda g, x: g.relu(x, axes=1),
        "axes": lambda g, x: g.reduce_sum(x, axes=1),
        "axes of a flag": lambda g, x: g.reduce_sum(x, axes=True),
        "none of an attribute": lambda g, x: g.softmax(x, axis=None),
        "two": lambda g, x: g.matmul(x, x, weights=x),
        "weights": lambda g, x: g.matmul(x, weights=np.ones((3, 2), np.float32)),
        "bias": lambda g, x: g.matmul(x, np.ones((3, 3), np.float32), bias=g.constant(ONES)),
        "a list and a bias": lambda g, x: g.matmul([[1.0, 2.0]], x, g.constant(ONES)),
        "an array and a bias": lambda g, x: g.matmul(np.ones((1, 2), np.float16), x, g.constant(ONES)),
        "a list as bias": lambda g, x: g.matmul(x, np.ones((3, 3), np.float32), [1.0, 2.0, 3.0]),
        "a name": lambda g, x: g.matmul(x, np.ones((3, 3)), g.constant(ONES), name="product"),
        "a name that is taken": lambda g, x: g.matmul(g.relu(x, name="a"), np.ones((3, 3)), g.constant(ONES), name="a"),
        "an output": lambda g, x: g.softmax(x, axis=1, outputs=["dst"]),
        "outputs": lambda g, x: g.softmax(x, axis=1, outputs={"stats"}),
        "no outputs": lambda g, x: g.softmax(x, axis=1, outputs="stats"),
        "an unknown output": lambda g, x: g.softmax(x, axis=1, outputs=["nobody"]),
        "a number of outputs": lambda g, x: g.softmax(x, axis=1, outputs=[5]),
        "a data type": lambda g, x: g.type_cast(x),
        "another data type": lambda g, x: g.type_cast(x, dtype="s8"),
        "a data type of its own": lambda g, x: g.relu(x, dtype="f32"),
        "one of nobody": lambda g, x: g.relu(x, dtype="s8"),
        "codes": lambda g, x: g.quantize(x, scales=[1.0], zps=[0]),
        "codes of a type": lambda g, x: g.quantize(x, scales=[1.0], zps=[0], dtype="u8"),
        "codes of f32": lambda g, x: g.quantize(x, scales=[1.0], zps=[0], dtype="f32"),
        "skipped": lambda g, x: g.layer_norm(x, keep_stats=True, outputs=["variance"]),
        "both": lambda g, x: g.layer_norm(x, keep_stats=True, outputs=["mean", "variance"]),
        "one": lambda g, x: g.layer_norm(x, keep_stats=True, outputs=["mean"]),
    }
    half = {
        key: calls[key]
        for key in ("bias", "a list and a bias", "an array and a bias", "a name", "a name that is taken")
    }
    return told(*map(made, calls.values()), *(made(call, "bf16") for call in half.values()))


@program
def _operators_of_data_types() -> str:
    return told(*(lambda sign=sign, dtype=dtype: op_of(sign, dtype) for sign, dtype in product(OPS, DataType)))  # type: ignore[misc]


@program
def _numbers_beside_tensors() -> str:
    numbers = (
        2,
        2.5,
        True,
        300,
        np.float64(0.1),
        np.int64(3),
        np.float16(2),
        np.array(2),
        np.array([1.5]),
        np.ones((1, 3)),
    )
    return told(
        *(
            lambda dtype=dtype, one=one: on_of(dtype, lambda g, x: x + one)  # type: ignore[misc]
            for dtype in ("f32", "bf16", "s8", "s32", "s64", "boolean")
            for one in (*numbers, [1, 2, 3], "x", None)
        )
    )


def on_of(dtype: str, make: Callable[..., Any]) -> og.Graph:
    """A graph of one input of a data type, with a result."""
    graph, x = small(dtype)
    graph.output("y", make(graph, x))
    return graph


@program
def _indices() -> str:
    def taken(place: Any, shape: Any = (2, 3)) -> Callable[[], og.Graph]:
        return lambda: on(shape, lambda g, x: x[place(g) if callable(place) else place])

    places: list[Any] = [0, -2, 1, 2, -3, slice(None), slice(None, None, 1), slice(1, None), slice(None, None, -1)]
    places += [slice(None, None, 0), slice(0, 1, 2), slice(1.5), None, ..., (..., 0), (0, ...), (..., ...), (0, 0, 0)]
    places += [[0, 1], [1.5], [True, False], (0, [0]), ([0], [1]), (slice(1), [0, 1]), np.array([[0, 1]]), np.array(0)]
    places += [
        lambda g: g.input("i", "s32", (2,)),
        lambda g: g.input("i", "s64", None),
        lambda g: g.input("i", "f32", (2,)),
    ]
    places += [lambda g: g.input("i", "boolean", (2,)), lambda g: g.input("i", "s32", ()), (None, 0, None), True]
    more = [taken(place, (None, 3)) for place in (0, -1, 5, slice(1), [0])]
    return told(*map(taken, places), *more, taken(0, None), taken(..., None))


@program
def _constants_without_a_copy() -> str:
    def kept(array: Any) -> Callable[[], og.Graph]:
        def graph_of() -> og.Graph:
            graph = og.Graph()
            graph.output("y", graph.relu(graph.constant(array, copy=False)))
            return graph

        return graph_of

    fixed = np.arange(6, dtype=np.float32).reshape(2, 3)
    fixed.flags.writeable = False
    unaligned = np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32)
    return told(kept(fixed), kept(fixed.T), kept(unaligned), kept(ROWS.copy()), kept(5), kept(np.zeros(2, np.int64)))


@program
def _records_of_users() -> str:
    graph, x = small()
    other, _ = small()
    graph.output("y", graph.relu(x))
    ends = [
        og.LogicalTensor(0, og.f32, (2, 3)),
        og.LogicalTensor(True, og.f32, (2, 3)),
        dataclasses.replace(x),
        copy.copy(x),
    ]
    ends += [og.LogicalTensor("0", og.f32, (2, 3)), other.inputs["x"], graph.outputs["y"], 5, None]
    return told(*(lambda one=one: graph.copy().relu(one) for one in ends))  # type: ignore[misc]


@program
def _stub_of_methods() -> str:
    return stub()


@program
def _ends_that_are_not_dense() -> str:
    """What is said of ops whose inputs or results are not dense, as of the examples of faults."""
    found = []
    for fault in (*LAYOUTS, *PARTITIONS, *slow_strides.FAULTS):
        for example in fault.examples:
            graph = graph_of_example(example.build)
            ends = {one.id: one for one in (*graph.inputs.values(), *graph.outputs.values())}
            for op in graph.ops:
                sides = [[ends.get(one.id, one) for one in side] for side in (op.inputs, op.outputs)]
                for inputs, outputs in ((sides[0], op.outputs), (op.inputs, sides[1])):
                    told_of = og.check_op(op.kind, op.attrs, [*inputs], [*outputs], edition=op.edition, library="3.2")
                    found += [f"{one.rule} {one.where} {one.message}" for one in told_of]
    return "\n".join(found)


@program
def _operands_that_are_spread() -> str:
    dims = (1, 2, 3, 63, 64, 65, 511, 512, 513, 4096, 20000)
    pairs = [((wide, narrow), (narrow,)) for wide in dims for narrow in dims]
    results: list[Any] = [(2, 3, 4, 5, 6, 7), (2, 1, 4, 5, 1, 7), (1, 3, 1, 5, 6, 1), (2, 3, 4, 5), (4, 4, 4, 1)]
    for result in results:
        for flags in product((False, True), repeat=len(result)):
            pairs.append((result, tuple(dim if flag else 1 for dim, flag in zip(result, flags, strict=True))))
            pairs.append((result, pairs[-1][1][1:]))
    return "\n".join(f"{rows_together(*pair)} {steps_to_fast(*pair)}" for pair in pairs)


@program
def _runs_of_strided_pixels() -> str:
    sizes = (1, 2, 3, 4, 5, 6, 7, 11, 16, 17, 31, 64, 256, 257, 289, 331)
    return f"{[runs_of(rows, columns) for rows in sizes[:11] for columns in sizes]}"


@program
def _faults_of_norms() -> str:
    """What is wrong with norms of any rank, along axes of one element and of several."""
    from tests.faults.test_fault_conditions import verdict

    shapes: list[Any] = [dims for rank in range(4) for dims in product((1, 2), repeat=rank)]
    shapes += [None, *((2,) * rank for rank in range(4, 8)), *((1,) * rank for rank in (4, 5, 6)), (1, None), (None,)]
    kinds, axes = ("LayerNorm", "LayerNormBackward", "RMSNorm", "SoftMax", "LogSoftmax"), (-3, -2, -1, 0, 1, 2)
    parts = [(kind, shape, axis) for kind in kinds for shape in shapes for axis in axes]
    parts += [(kind, shape, 0) for kind in sorted(BASE) if "Norm" in kind for shape in shapes]
    made = []
    for kind, shape, axis in parts:
        name = "axis" if kind.endswith(("SoftMax", "Softmax")) else "begin_norm_axis"
        attrs: dict[str, Any] = {name: axis} if BASE[kind].has_attribute(name) else {}
        modes = ({"mode": "inf_as_zero"}, {}) if BASE[kind].has_attribute("mode") else ({},)
        contents = [None]
        if modes[1:] and shape and None not in shape:
            nothing = np.full(shape, -np.inf, np.float32)
            contents += [nothing, np.where(np.arange(nothing.size) % 2, nothing.ravel(), 1).reshape(shape)]
        for mode, value in product(modes, contents):
            source = TensorType(DataType.f32, shape) if value is None else TensorType(DataType.f32, shape, value)
            call = Call(BASE[kind], {**attrs, **mode}, [source] * len(BASE[kind].inputs), 1, [DataType.f32])
            faults = [one for one in OF_SINGLE_OPS if kind in one.ops]
            made += [verdict(one.when, call) + verdict(one.is_certain, call) for one in faults]
    return "".join(made)


@program
def _instruction_sets() -> str:
    types = [None, *DataType]
    made = [f"{has_tiles(dtype, isa)}" for dtype in types for isa in EVERY_ISA]
    for dtypes, shapes in product(
        (("bf16", "bf16"), ("f32", "f32"), ("bf16", None)), (((4, 3), (3, 5)), ((4, 4), (4, 8)))
    ):
        for turned, tiles in product((False, True), (False, True)):
            ends = [
                None if one is None else TensorType(DataType[one], dims)
                for one, dims in zip(dtypes, shapes, strict=True)
            ]
            call = Call(BASE["MatMul"], {"transpose_a": turned}, ends)
            made.append(f"{leaks_pairs(call, tiles)}")
            for source in ((1, 5, 5, 3), (1, 5, 5, 4), (None, 5, 5, 3), (1, 5, 5, None)):
                kernel = TensorType(DataType.bf16, (3, 3, 3, 8))
                attrs = {key: [1, 1] for key in ("strides", "dilations", "pads_begin", "pads_end")}
                first = None if dtypes[1] is None else TensorType(DataType[dtypes[0]], source)
                made.append(f"{leaks_pairs(Call(BASE['Convolution'], attrs, [first, kernel]), tiles)}")
    return "\n".join(made)


@program
def _faults_by_version() -> str:
    versions = [(3, minor, patch) for minor in range(16) for patch in (0, 1)]
    faults = (*EVERY_FAULT, *API)
    return "\n".join(f"{one.name} {[each for each in versions if one.affects(each)]}" for one in faults)


@program
def _editions_of_mistakes() -> str:
    names = [*EDITIONS]
    parts = [names[first:last] for first in range(len(names)) for last in range(first + 1, len(names) + 1)]
    parts += [
        names[::2],
        names[::3],
        names[1::2],
        names[:2] + names[3:],
        names[:1] + names[2:],
        names[:-2] + names[-1:],
    ]
    return "\n".join(map(spans, parts))


@program
def _views_that_shuffle() -> str:
    (fault,) = [one for one in EVERY_FAULT if one.name == "views_that_shuffle_nothing"]
    wholes: list[tuple[int, ...]] = [(6,), (6, 2), (2, 6), (2, 6, 5)]
    found = []
    for whole in wholes:
        for axis, first in product(range(len(whole)), (1, 2, 3)):
            split = (*whole[:axis], first, whole[axis] // first, *whole[axis + 1 :])
            for order in permutations(range(len(split))) if whole[axis] == 6 else ():
                for last in (whole, whole[::-1]) if len(split) < 4 else (whole,):
                    found.append(told(lambda: asked_of_views(fault, whole, split, order, last)))  # noqa: B023
    return "\n".join(found)


def asked_of_views(fault: Any, whole: Any, split: Any, order: Any, last: Any) -> str:
    """Whether a fault holds for two reshapes around a transpose."""
    graph = og.Graph()
    x = graph.static_reshape(graph.input("x", "f32", whole), shape=split, special_zero=False)
    graph.output("y", graph.static_reshape(graph.static_transpose(x, order=order), shape=last, special_zero=False))
    return str(fault.when(fused(graph)))


@program
def _stages_of_sizes_that_are_no_constants() -> str:
    """The shape of a gradient is that of the source, but its kernel reads the sizes when it is made."""
    graph = og.Graph()
    ends = [graph.input(name, "f32", (1, size, size, 3)) for name, size in (("x", 2), ("d", 4))]
    attrs = {"mode": "nearest", "data_format": "NXC"}
    made = graph.relu(graph.op("InterpolateBackward", [*ends, graph.input("sizes", "s32", (2,))], attrs))
    graph.output("y", made)
    parts = stages(graph)
    return f"{[op.kind for op in parts.heads]} {parts.first} {[*parts.needed]}" if parts else "one"


def laid_in(order: Any, shape: Any, gap: int) -> tuple[int, ...]:
    """Strides of a tensor whose axes are in this order in memory, with a gap behind the innermost or none."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis], step = step, (step * max(shape[axis], 1) + gap)
        gap = 0
    return tuple(strides)


@program
def _faults_of_layouts() -> str:
    """What is wrong with tensors whose axes lie in any order in memory, with gaps or none."""
    from tests.faults.test_fault_conditions import verdict

    shapes: list[Any] = [(64, 64), (1, 2048), (32, 1, 33), (1, 1, 2), (2, 32, 24, 24), (5,)]
    places = []
    for shape in shapes:
        orders = [*permutations(range(len(shape)))]
        places += [(shape, laid_in(order, shape, 0)) for order in orders[:: len(shape) // 2 or 1]]
        places += [(shape, laid_in(order, shape, 3)) for order in orders[1::5]]
    made = [verdict(one.when, place) for one in slow_strides.TENSORS for place in places]
    for fault in (*LAYOUTS, *PARTITIONS, *slow_strides.FAULTS, *strided_ops.FAULTS):
        kinds = {min(fault.ops), max(fault.ops), *(fault.ops & {"Dequantize", "MaxPool"})}
        for (shape, strides), kind in product(places, sorted(kinds)):
            for is_read, form, more in product((True, False), ("NCX", "NXC"), ("MatMul", "MaxPool", "ReLU")):
                attrs = {"data_format": form, "zps": (3 * is_read,), "axis": -1}
                laid = Laid(kind, len(shape), shape, strides, is_read, frozenset([kind, more]), attrs)
                made.append(verdict(fault.when, laid))
                if more == "ReLU" and form == "NXC":
                    made.append(verdict(lambda one: wrong_layout(one, (3, 2, 0)), laid))
    return f"{len(made)} {digest(made)}"


@program
def _first_faults_of_ops() -> str:
    """What functions say that ask several faults, of the examples of faults."""
    asked, made = (slow_alone, reference_kernel, better_in_f32), []
    for fault in OF_SINGLE_OPS:
        for example in fault.examples:
            for call in calls(graph_of_example(example.build)):
                made += [f"{one(call, (3, 2, 0))} {one(call, (3, 13, 0))}" for one in asked]
    for kinds in (("Add",), ("Add", "Add"), ("Add", "ReLU"), ("MatMul", "Add"), ("Convolution",), ("ReLU", "ReLU"), ()):
        made.append(str(SCRATCH_OF_THE_THREAD.when(kinds)))
    for rows, columns, turned, constant, wide in product(
        (0, 1, 15, 16, 17, 255, 256, 257, 512, 513), (8, 2**14, 2**14 + 1), *((False, True),) * 3
    ):
        for batch, other in (((), ()), ((2,), (2,)), ((2,), ()), ((2, 2), (2, 2))):
            ends = (*batch, rows, 64), (*other, *((columns, 64) if turned else (64, columns)))
            made.append(str(SLOW_WEIGHTS.when(MatMulUse(*ends, turned, constant, wide))))
    for number in range(40):
        nodes = [node for node in wired(random_graph(number, 6)) if node.inputs and node.outputs]
        made.append(
            f"{sorted(variables(nodes, set()))} {sorted(variables(nodes, {node.inputs[0].id for node in nodes}))}"
        )
    return digest(made)


@program
def _windows_along_an_axis() -> str:
    """Which windows miss the source, span it or leave parts of it, of all small ones."""
    from tests.faults.test_fault_conditions import verdict

    made, of_calls = [], (windows_miss, ends_behind_source, spans_source)
    parts = product((1, 2, 3), (1, 2, 3), (1, 2, 5), (0, 1, 2, 4), (0, 2), (1, 2, 3, 4, 6, 7))
    for number, (kernel, stride, dilation, begin, end, size) in enumerate(parts):
        window = AxisWindow(kernel, stride, dilation, begin, end)
        count = window.forward(size)
        made += [f"{one(window, size, count)}" for one in (misses_source, leaves_gaps, steps_over)]
        if number % 4:
            continue
        known: list[Any] = [(1, 3, size, 2), (2, kernel, 2, 2)]
        if number % 20 == 8:  # one of both, the size or the window, or neither is known
            places = (((1, 3, None, 2), known[1]), (known[0], (2, None, 2, 2)), (None, None), (None, known[1]))
            known = [*places[number % 7 % 4]]
        attrs = {"strides": (1, stride), "dilations": (1, dilation), "pads_begin": (0, begin), "pads_end": (0, end)}
        attrs |= {"data_format": "NXC"}
        ends = [TensorType(DataType.f32, dims) for dims in known]
        image = Call(BASE["Convolution"], {**attrs, "weights_format": "XIO"}, ends, 1, [DataType.f32])
        turned = Call(BASE["ConvTranspose"], {**attrs, "weights_format": "XOI"}, ends, 1, [DataType.f32])
        pool = Call(BASE["MaxPool"], {**attrs, "kernel": (2, kernel)}, ends[:1], 1, [DataType.f32])
        made += [verdict(one, call) for one in of_calls for call in (image, turned)]
        if (geometry := convolution_geometry(image)) is not None:
            made.append(f"{differs_undilated(geometry, 1)}")
        made += [verdict(in_no_window, turned), verdict(leaves_elements, pool), verdict(in_padding_alone, pool)]
    return digest(made)
