"""Graphs drawn at random that are edited, rewritten, cut, trained or run: materials of :mod:`draws`."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.ir.op import LogicalTensor, Op, schema_of
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.reference import run, run_op
from onegraph.reference.run import narrow
from onegraph.testing.calibrated_inputs import calibrated_inputs
from onegraph.testing.mutations import CLASSES, moved, mutation
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.harness import rewrite, rewrite_like_benchdnn
from onegraph.transform.batch_inputs import with_batch
from onegraph.transform.json_rewrite import JsonRewrite
from onegraph.transform.part import without_unread
from onegraph.transform.rebuild import Change, rebuild
from onegraph.transform.specialise import specialise
from onegraph.transform.stages import stages
from onegraph.transform.widen import widened
from onegraph.transform.with_values import with_values
from onegraph.view import dot
from onegraph.view.model import model
from tests.lowering import test_recorded_graphs as recorded

from .draws import WORDS, every_kind, graph_of, material, with_some
from .near_graphs import ALIKE
from .neighbours import attributes_beside
from .wider_graphs import wider

NAMES = ("x", "y0", "out", "in_0", "out_0", "t0", "t1", "w", "bias", "x0", "in_1", "add_1", "relu_0", "x.dst")
LABELS = ("x", "y0", "out_0", "add_1", "relu_0", "bn", "bn/training", "w")
FLOATS = (DataType.f32, DataType.bf16, DataType.f16)
WRONG = (None, 5, -1, 1.5, True, "", "nobody", "f32", "1x2", (1, 2), [], {}, {"x": 1}, b"x", object)
NORMS = ("BatchNormInference", "BatchNormForwardTraining", "Dropout")


def any_graph(drawn: Random) -> og.Graph:
    """A random graph: of any edition, of one op, with other names, constants, a Wildcard, or as read from a file."""
    kind = drawn.random()
    if kind < 0.35:
        words = drawn.choice([*EDITIONS, WORDS, WORDS])
        types = ("f32", "s8", drawn.choice(("f16", "bf16", "u8")))
        graph = random_graph(drawn.randrange(2**16), drawn.choice((1, 2, 4, 8)), dtypes=types, edition=words)
    elif kind < 0.5:
        kinds = (*drawn.choice(ALIKE), *drawn.choice(ALIKE), *NORMS, "TypeCast", "MatMul")
        types = ("f32", drawn.choice(("f16", "bf16")))
        graph = random_graph(drawn.randrange(2**16), drawn.choice((3, 6, 14)), dtypes=types, kinds=kinds)
    else:
        graph = graph_of(drawn.choice([*every_kind()]), drawn)
    if graph.edition == WORDS and drawn.random() < 0.4:
        graph = wider(graph, drawn)
    for change in drawn.sample((named, with_some, with_wildcard, from_file, normed), drawn.choice((0, 1, 1, 2, 3))):
        try:
            graph = change(graph, drawn)
        except OneGraphError:
            break
    return graph


def named(graph: og.Graph, drawn: Random) -> og.Graph:
    """The graph with other names, of which some are those of another kind; some inputs are constant ones or strided."""
    new, made = og.Graph(graph.edition), {}
    names, labels = drawn.sample(NAMES, len(NAMES)), drawn.sample(LABELS, len(LABELS))
    inputs = {tensor.id: name for name, tensor in graph.inputs.items()}
    for tensor in graph._tensors:
        name = drawn.choice(NAMES) if drawn.random() < 0.6 else tensor.name
        if tensor.id in inputs:
            own = names.pop() if names and drawn.random() < 0.7 else inputs[tensor.id]
            own = own if own not in new.inputs and own != "out" else f"i{tensor.id}"
            steps = strides(tensor.shape, drawn) if drawn.random() < 0.3 else tensor.strides
            is_constant = drawn.random() < 0.3
            made[tensor.id] = new.input(own, tensor.dtype, tensor.shape, strides=steps, constant=is_constant)
        elif tensor.value is not None:
            made[tensor.id] = new.constant(tensor.value, dtype=tensor.dtype, name=name)
    for op in graph.ops:
        sources = [None if tensor is None else made[tensor.id] for tensor in op.inputs]
        label = labels.pop() if labels and drawn.random() < 0.5 else op.name
        label = label if label not in {one.name for one in new.ops} else op.name
        types, words = tuple(tensor.dtype for tensor in op.outputs), edition(op.edition)
        ends = [tensor.name for tensor in op.outputs]
        results = new._add_op(words, op.kind, dict(op.attrs), sources, types, name=label, names=ends)
        made.update(zip((tensor.id for tensor in op.outputs), results, strict=True))
    for name, tensor in graph.outputs.items():
        own = names.pop() if names and drawn.random() < 0.7 else name
        own = own if own not in new.inputs and own not in new.outputs else f"o{tensor.id}"
        steps = strides(tensor.shape, drawn) if drawn.random() < 0.2 else None
        new.output(own, made[tensor.id], strides=steps)
    return new


def strides(shape: Any, drawn: Random) -> list[int] | None:
    """Strides of the axes in another order; None if dims are unknown."""
    if shape is None or None in shape:
        return None
    steps, step = [0] * len(shape), 1
    for axis in drawn.sample(range(len(shape)), len(shape)):
        steps[axis], step = step, step * max(shape[axis], 1)
    return steps


def with_wildcard(graph: og.Graph, drawn: Random) -> og.Graph:
    """The graph with a Wildcard that reads some tensors, and an op behind it."""
    graph = graph.copy()
    tensors = [tensor for tensor in graph._tensors if tensor.value is None]
    read = drawn.sample(tensors, min(drawn.choice((0, 1, 2)), len(tensors)))
    if "Wildcard" not in edition(graph.edition).schemas:
        return graph
    made = graph.op("Wildcard", read, {}, dtype=drawn.choice(("f32", "bf16", "s8")))
    behind = graph.op("ReLU", [made], {}) if drawn.random() < 0.6 else made
    if drawn.random() < 0.7:
        graph.output(f"wild_{len(graph.outputs)}", behind)
    elif drawn.random() < 0.5:
        graph.op("End", [drawn.choice((behind, *read))], {})
    return graph


def from_file(graph: og.Graph, drawn: Random) -> og.Graph:
    """The graph as read from a file in which a value or two are others, as far as it can be read."""
    form = json.loads(graph.to_json())
    for _ in range(drawn.choice((0, 1, 1, 2))):
        place = drawn.choice([*recorded.places_in(form)])
        other = drawn.choice((recorded.LEFT_OUT, *recorded.OTHERS))
        try:
            changed = recorded.with_other(form, place, other)
            og.Graph.from_json(json.dumps(changed))
        except OneGraphError:
            continue
        form = changed
    return og.Graph.from_json(json.dumps(form))


def normed(graph: og.Graph, drawn: Random) -> og.Graph:
    """The graph with a BatchNorm or two, of which some share statistics or read inputs, or with one of training."""
    graph = graph.copy()
    x = graph.input(f"image_{len(graph.inputs)}", "f32", (2, 4, 4, 3))
    ends = [graph.constant(np.full(3, number, np.float32), name=f"n.{number}") for number in (1, 0, 0, 1)]
    if drawn.random() < 0.3:
        ends[drawn.randrange(4)] = graph.input(f"n_{len(graph.inputs)}", "f32", (3,))
    if drawn.random() < 0.4:
        ends[3] = ends[0]
    attrs = {"epsilon": 0.5, "data_format": "NXC"}
    if drawn.random() < 0.4:
        count = drawn.choice((2, 3, 4, 4))
        made = graph.op("BatchNormForwardTraining", [x, *ends[2:], *ends[:2]][: 1 + count], {**attrs, "momentum": 0.5})
        y = made[0]
        if drawn.random() < 0.3:
            graph.output(f"mean_{len(graph.outputs)}", made[drawn.choice((1, 2, 3))])
    else:
        y = graph.op("BatchNormInference", [x, *ends], attrs, name=drawn.choice((None, "bn", "bn/training")))
        if drawn.random() < 0.3:
            y = graph.op("BatchNormInference", [y, *ends], attrs)
    graph.output(f"more_{len(graph.outputs)}", y)
    return graph


def told(graph: og.Graph) -> list[str]:
    """All that a graph has."""
    marks = [*graph.constant_inputs], [*graph.variables], [(k, t.name) for k, t in graph.assignments.items()]
    ends = [(name, tensor.strides) for name, tensor in (*graph.inputs.items(), *graph.outputs.items())]
    notes = graph.edition, marks, ends, sorted(graph._roundings or ()), graph._is_as_read()
    return [*recorded.lines_of(graph), str(notes)]


# Edits ----------------------------------------------------------------------------------------------------------------


def an_input(graph: og.Graph, drawn: Random) -> Any:
    keys = [*graph.inputs, *range(3), *graph.outputs, "nobody", 99]
    return drawn.choice(keys)


def shape_words(shape: Any, drawn: Random) -> Any:
    dims = [2 if dim is None else dim + (drawn.random() < 0.3) for dim in shape or ()]
    order = "".join(drawn.sample("abcdefghijkl"[: len(dims)], len(dims)))
    words = "x".join(map(str, dims)) or "-"
    steps = "x".join(map(str, strides(dims, drawn) or [])) or "1"
    same = "x".join("0" for _ in dims)
    right = words, words, f"{words}*{order}", f"*{order}", f"{words}*{steps}", f"*{steps}", "default", tuple(dims)
    wrong = f"{words}*1", f"{words}*{same}", "0x2*1x1", f"*{same}", f"{words}x1", "2x", "*", "-", drawn.choice(WRONG)
    return drawn.choice((*right, [*dims], np.array(dims), drawn.choice(wrong), drawn.choice(wrong)))


def attr_words(graph: og.Graph, drawn: Random) -> Any:
    op = drawn.choice(graph.ops)
    attrs = drawn.choice([*attributes_beside(schema_of(op), op.attrs, (2, 3)), dict(op.attrs), {"nothing": 1}])
    if drawn.random() < 0.3:
        attrs = {**attrs, drawn.choice([*attrs, "axis", 5]): drawn.choice(WRONG)}
    if drawn.random() < 0.5:
        return attrs
    texts = {
        name: "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        for name, value in attrs.items()
    }
    for name in drawn.sample([*texts], min(len(texts), drawn.choice((0, 0, 1)))):
        texts[name] = drawn.choice(("1.5x2", "1.666667x1", "true", "FALSE", "1", "2e3", "", "1e", "x", "-1", "none"))
    return "*".join(f"{name}:{value}" for name, value in texts.items())


def an_op(graph: og.Graph, drawn: Random) -> Any:
    return drawn.choice([*(op.name for op in graph.ops), *range(len(graph.ops)), "nobody", 99])


def options_of(graph: og.Graph, drawn: Random) -> dict[str, Any]:
    """Options of benchdnn that change a graph."""
    categories = {schema_of(op).category for op in graph.ops}
    kinds = [schema.kind for schema in edition(WORDS).schemas.values() if schema.category in categories]
    makers: dict[str, Callable[[], Any]] = {
        "in_shapes": lambda: (
            {name: shape_words(tensor.shape, drawn) for name, tensor in graph.inputs.items() if drawn.random() < 0.6}
            or {an_input(graph, drawn): "2x3"}
        ),
        "op_attrs": lambda: {an_op(graph, drawn): attr_words(graph, drawn)},
        "mb": lambda: drawn.choice((0, 1, 2, 3, 5, 7, 2**31 - 1, drawn.choice((-1, 2**31)))),
        "dt": lambda: drawn.choice(
            ("f32", "bf16", "f16", "f16", "bf16", "s8", {an_input(graph, drawn): "bf16"}, "0:bf16+1:f16", "0:x")
        ),
        "op_kind": lambda: {
            an_op(graph, drawn): drawn.choice(
                ("undef",) * 9 + (*kinds, *kinds, "relu", "MatMul", 5, None, np.array(["undef"]))
            )
            for _ in range(drawn.choice((1, 2)))
        },
        "tensor_property": lambda: {an_input(graph, drawn): drawn.choice(("constant", "variable", "undef", "x"))},
        "attr_fpmath": lambda: drawn.choice(("bf16", "bf16:true", "any:false", "strict", "x", "tf32:x")),
    }
    found = {name: makers[name]() for name in drawn.sample([*makers], drawn.choice((1, 1, 2)))}
    for name, value in found.items():
        if isinstance(value, dict) and drawn.random() < 0.4 and all(type(one) is str for one in value.values()):
            found[name] = "+".join(f"{key}:{one}" for key, one in value.items())
            if drawn.random() < 0.2:
                found[name] += drawn.choice(
                    ("+0:2", ":", "+", ",", "+0*ab:3", "+:2", "+1:", f"+{'0' * 19}1:2", f"+{'0' * 20}1:2")
                )
        if drawn.random() < 0.03:
            found[name] = ""
    return found


def options(graph: og.Graph, drawn: Random) -> Any:
    given = options_of(graph, drawn)
    kind = drawn.random()
    if kind < 0.5:
        return rewrite(graph, **given)
    if kind < 0.75:
        made, passed_over = rewrite_like_benchdnn(graph, **given)
        return "\n".join([*told(made), str(passed_over)])
    work = JsonRewrite(graph, lenient=True)
    if isinstance(shapes := given.get("in_shapes"), dict):
        work.set_shapes(shapes)
    if isinstance(kinds := given.get("op_kind"), dict):
        work.set_kinds(kinds)
    if isinstance(mb := given.get("mb"), int):
        work.set_batch(mb)
    if isinstance(dtype := given.get("dt"), str) and ":" not in dtype:
        work.set_dtype(dtype)
    return work.graph()


def rebuilt(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph as a search for small ones makes it."""
    places = [place for place in range(len(graph.ops)) if drawn.random() < 0.7]
    shapes = {
        tensor.id: tuple(max((dim or 2) + drawn.choice((-1, 0, 0, 1)), 1) for dim in tensor.shape)
        for tensor in graph._tensors
        if tensor.shape is not None and drawn.random() < 0.15
    }
    attrs = {
        place: drawn.choice([*attributes_beside(schema_of(op), op.attrs, (2, 3)), dict(op.attrs)])
        for place, op in enumerate(graph.ops)
        if drawn.random() < 0.1
    }
    constants = [tensor for tensor in graph._tensors if tensor.value is not None]
    change = Change(
        ops=places if drawn.random() < 0.5 else None,
        outputs=drawn.sample([*graph.outputs], len(graph.outputs) // 2) if drawn.random() < 0.3 else None,
        shapes=shapes if drawn.random() < 0.5 else {},
        attrs=attrs if drawn.random() < 0.5 else {},
        values={one.id: np.zeros_like(one.value) for one in constants if drawn.random() < 0.3},
        freed=[one.id for one in constants if drawn.random() < 0.4],
        plain=drawn.random() < 0.4,
        **({"dtype": lambda one: DataType.f32 if one in FLOATS else one} if drawn.random() < 0.3 else {}),
    )
    return rebuild(graph, change)


def trained(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph with variables of some constants, maybe with assignments, and maybe without them again."""
    with suppress(OneGraphError):
        graph = with_some(graph, drawn)
    names = drawn.choice((None, None, ["*"], [*graph.constants][:2])) if graph.constants else None
    if drawn.random() < 0.08:
        names = drawn.choice((["w"], ["n.*", "x*"], [5], ["nobody"], "w"))
    has_norm = any(op.kind == "BatchNormInference" for op in graph.ops)
    momentum = drawn.choice((0.9, 0, 1, None)) if has_norm else 0.5 if drawn.random() < 0.05 else None
    new = graph.with_variables(names, batch_norm=momentum)
    for tensor in new.variables.values():
        if drawn.random() < 0.3:
            new.assign(tensor, drawn.choice([tensor, tensor, *new.variables.values()]))
    if drawn.random() < 0.3:
        return new
    values = {name: np.zeros(tensor.shape, tensor.dtype.numpy) for name, tensor in new.variables.items()}
    wrong = drawn.choice((5, {"nobody": 1}, {name: one.ravel()[:1] for name, one in values.items()}))
    values = wrong if drawn.random() < 0.1 else drawn.choice((None, values))
    outputs = drawn.choice((None, None, [*new.outputs][:1], [*new.outputs][-1:]))
    return new.for_inference(values, outputs=outputs)


def divided(graph: og.Graph, drawn: Random) -> str:
    found = stages(graph)
    if found is None:
        return "one"
    lines = [] if found.first is None else told(found.first)
    return "\n".join([*lines, *(op.name for op in found.heads), *told(found.rest), str([*found.needed.items()])])


def fixed(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph whose inputs have contents, as a compilation makes it."""
    arrays = random_inputs(graph, seed=1)
    chosen = {name: array for name, array in arrays.items() if drawn.random() < 0.5}
    outputs = {name: tensor.id for name, tensor in graph.outputs.items() if drawn.random() < 0.8}
    inside = [tensor for op in graph.ops for tensor in op.outputs if drawn.random() < 0.2]
    return with_values(graph, chosen, outputs, {f"inside_{tensor.id}": tensor.id for tensor in inside})


def known(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph of which some shapes and contents are known."""
    arrays = random_inputs(graph, seed=1)
    shapes = {
        name: drawn.choice((tensor.shape, None, tensor.shape, (None,) * len(tensor.shape), tensor.shape[1:]))
        for name, tensor in graph.inputs.items()
        if drawn.random() < 0.5
    }
    values = {name: array for name, array in arrays.items() if drawn.random() < 0.6}
    graph = graph.copy()
    if drawn.random() < 0.4:
        graph._n_read = len(graph._ops)  # as a model that was read
    return specialise(graph, shapes, values, sparing=drawn.random() < 0.4)


def wide(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph of a model that keeps f32 between ops of 16 bits."""
    graph = graph.copy()
    graph._roundings = frozenset(op.name for op in graph.ops if op.kind == "TypeCast" and drawn.random() < 0.7)
    return widened(graph, drawn.choice(([og.f16, og.bf16], [og.bf16])))


def a_tensor(graph: og.Graph, drawn: Random) -> Any:
    """A tensor of a graph, or what stands for one."""
    tensors = [*graph._tensors]
    chosen = drawn.choice(tensors)
    return drawn.choice((chosen, chosen, chosen.name, None, 2.0, np.float32([1, 2]), 1, chosen.value))


def a_name(graph: og.Graph, drawn: Random) -> Any:
    ops = [*graph.ops]
    names = [*(op.name for op in ops), *graph.inputs, *graph.outputs, *graph.variables]
    return drawn.choice([*names, *ops, drawn.choice(graph._tensors), "nobody", None, drawn.choice(graph._tensors).name])


def behind(graph: og.Graph, drawn: Random) -> LogicalTensor:
    """A new result of a tensor of the graph."""
    tensor = drawn.choice(graph._tensors)
    kind = drawn.choice(("ReLU", "Abs", "TypeCast", "Add", "StaticTranspose", "StaticReshape"))
    if kind == "TypeCast":
        return graph.op(kind, [tensor], {}, dtype=drawn.choice(("f32", "bf16", "f16")))
    if kind == "StaticTranspose":
        return graph.op(kind, [tensor], {"order": [*range(len(tensor.shape or ()))][::-1]})
    if kind == "StaticReshape":
        return graph.op(kind, [tensor], {"shape": [-1], "special_zero": False})
    return graph.op(kind, [tensor, drawn.choice(graph._tensors)][: 1 + (kind == "Add")], {})


def some_readers(graph: og.Graph, drawn: Random) -> Any:
    names = [*(op.name for op in graph.ops), *graph.outputs, "nobody", *graph.ops]
    return drawn.choice((None, None, None, [], drawn.sample(names, min(2, len(names))), drawn.sample(names, 1), "x"))


def replace_one(graph: og.Graph, drawn: Random) -> object:
    new = drawn.choice((a_tensor, a_tensor, behind, behind))
    if drawn.random() < 0.15:
        several = [drawn.choice(graph._tensors) for _ in range(2)]
        return graph.replace(several, [new(graph, drawn) for _ in range(drawn.choice((2, 2, 1)))])
    if drawn.random() < 0.15:
        op = drawn.choice(graph.ops)
        return graph.replace(op, [new(graph, drawn) for _ in op.outputs])
    return graph.replace(a_name(graph, drawn), new(graph, drawn), consumers=some_readers(graph, drawn))


def look(graph: og.Graph, drawn: Random) -> object:
    tensor = drawn.choice(graph._tensors)
    found = graph.producer(tensor), graph.consumers(tensor), graph.tensor(a_name(graph, drawn))
    return [getattr(one, "name", None) or [op.name for op in one or ()] for one in found]


STEPS: tuple[Callable[[og.Graph, Random], object], ...] = (
    replace_one,
    replace_one,
    lambda graph, drawn: graph.remove(a_name(graph, drawn)),
    lambda graph, drawn: graph.output(drawn.choice(NAMES), drawn.choice(graph._tensors)).name,
    look,
    lambda graph, drawn: behind(graph, drawn).name,
    lambda graph, drawn: graph.rewrite(pattern(graph, drawn)),
    lambda graph, drawn: graph.rewrite(lambda g, op: a_tensor(g, drawn) if drawn.random() < 0.4 else None),
    lambda graph, drawn: assigned(graph, drawn),
)


def assigned(graph: og.Graph, drawn: Random) -> object:
    """A new variable, or the next value of one."""
    if graph.variables and drawn.random() < 0.6:
        return graph.assign(drawn.choice([*graph.variables.values()]), drawn.choice(graph._tensors)).name
    made = graph.variable(drawn.choice(("v", "w", "out_0", "x (next)")), np.zeros((2, 3), np.float32))
    return graph.output(drawn.choice(("v (next)", "y9", "w (next)")), graph.op("Square", [made], {})).name


def walked(graph: og.Graph, drawn: Random) -> str:
    """What some edits one after the other make of a graph."""
    graph, said = graph.copy(), []
    for _ in range(drawn.choice((1, 2, 3))):
        said.append(str(recorded.outcome(drawn.choice(STEPS), graph, drawn)))
    return "\n".join([*said, *told(graph)])


def pattern(graph: og.Graph, drawn: Random) -> og.Graph:
    """A pattern that matches an op of a graph and maybe those before it, or lies beside such a one."""
    made: dict[int, LogicalTensor] = {}
    new = og.Graph(graph.edition)
    producers = {tensor.id: op for op in graph.ops for tensor in op.outputs}

    def end(tensor: LogicalTensor) -> LogicalTensor:
        if tensor.id in made:
            return made[tensor.id]
        if tensor.value is not None and drawn.random() < 0.7:
            value = np.array(tensor.value)
            if drawn.random() < 0.3:
                value = drawn.choice((value + value.dtype.type(1), value.ravel(), value.ravel()[:1], value.ravel()[:0]))
            made[tensor.id] = new.constant(value, dtype=tensor.dtype)
        elif tensor.id in producers and drawn.random() < 0.6:
            add(producers[tensor.id])
        else:
            shape = tensor.shape
            if shape is not None and drawn.random() < 0.6:
                shape = drawn.choice((None, (None,) * len(shape), (*shape[:-1], None)[: len(shape)], shape, shape[1:]))
            dtype = drawn.choice(FLOATS) if tensor.dtype in FLOATS and drawn.random() < 0.15 else tensor.dtype
            is_constant = drawn.random() < 0.2
            made[tensor.id] = new.input(f"p{tensor.id}", dtype, shape, constant=is_constant)
        return made[tensor.id]

    def add(op: Any) -> None:
        attrs = dict(op.attrs)
        if drawn.random() < 0.2:
            attrs = drawn.choice([*attributes_beside(schema_of(op), attrs, (2, 3)), attrs])
        sources = [None if tensor is None else end(tensor) for tensor in op.inputs]
        if drawn.random() < 0.15:
            sources = sources[::-1]
        kind = next((drawn.choice(kinds) for kinds in ALIKE if op.kind in kinds and drawn.random() < 0.15), op.kind)
        outputs = op.outputs[: drawn.choice((1, len(op.outputs), len(op.outputs)))]
        types, ends = tuple(tensor.dtype for tensor in outputs), [tensor.name for tensor in outputs]
        results = new._add_op(edition(op.edition), kind, attrs, sources, types, name="", names=ends)
        made.update(zip((tensor.id for tensor in outputs), results, strict=True))

    ops = [op for op in graph.ops if op.outputs]
    if not ops:
        return new
    last = drawn.choice(ops)
    for _ in range(3):  # a pattern beside an op may be no valid one
        try:
            add(last)
            break
        except OneGraphError:
            new, made = og.Graph(graph.edition), {}
    else:
        add(last)
    match = made[last.outputs[0].id]
    alike = [one for one in new._tensors if (one.dtype, one.shape) == (match.dtype, match.shape)]
    result = drawn.choice(alike)
    if match.dtype in FLOATS and drawn.random() < 0.7:
        result = new.op(drawn.choice(("Maximum", "Minimum")), [drawn.choice(alike), match], {})
    if drawn.random() < 0.1:
        result = drawn.choice([behind(new, drawn), new.constant(np.zeros(2, np.float32))])
    new.output(drawn.choice(("match", "match", "match", "match", "x")), match)
    new.output("replacement", result)
    if drawn.random() < 0.05:
        new.output("third", result)
    return new


def matched(graph: og.Graph, drawn: Random) -> str:
    """How often a pattern matches, and what becomes of the graph."""
    graph = graph.copy()
    count = graph.rewrite(pattern(graph, drawn))
    return "\n".join([str(count), *told(graph)])


def exchanged(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph that returns other tensors."""
    from onegraph.builder.chosen_outputs import returning

    if drawn.random() < 0.3:
        assigned(graph := graph.copy(), drawn)
    several = [a_name(graph, drawn) for _ in range(drawn.choice((1, 2, 3)))]
    return returning(graph, drawn.choice((several, several, several, [])))


def arrays_of(graph: og.Graph, drawn: Random) -> str:
    arrays = drawn.choice((random_inputs, calibrated_inputs))(graph, drawn.randrange(3))
    return "\n".join(f"{name} {recorded.numbers_of(array)} {array.strides}" for name, array in arrays.items())


def results(graph: og.Graph, drawn: Random) -> str:
    arrays = random_inputs(graph, drawn.randrange(3))
    for name, array in arrays.items():
        if drawn.random() < 0.2 and array.size and array.dtype.kind == "f":
            arrays[name] = array = array.copy()
            array.ravel()[:3] = [drawn.choice((0, 1, -1, 3, -3, 6, 0.5)) for _ in range(min(3, array.size))]
        if drawn.random() < 0.03:
            arrays[name] = array.ravel()
    return "\n".join(f"{name} {recorded.numbers_of(array)}" for name, array in run(graph, arrays).items())


def noticed(graph: og.Graph, drawn: Random) -> str:
    """What changes of single ops a check of results tries."""
    values = {graph.inputs[name].id: array for name, array in random_inputs(graph, 1).items()}
    values |= {tensor.id: tensor.value for tensor in graph._tensors if tensor.value is not None}
    lines = []
    for op in graph.ops:
        arrays = [None if tensor is None else values[tensor.id] for tensor in op.inputs]
        made = run_op(op, arrays, rounded=False)
        values.update((tensor.id, narrow(array, tensor.dtype)) for tensor, array in zip(op.outputs, made, strict=True))
        for found in (moved(made), *(mutation(kind, op, arrays, made) for kind in CLASSES)):
            lines.append("none" if found is None else f"{found.text} {[*map(recorded.numbers_of, found.results)]}")
    return "\n".join(lines)


def checked(graph: og.Graph, drawn: Random) -> str:
    """What is said of a graph, by an edition and a library."""
    version = f"3.{drawn.choice((2, 3, 4, 5, 6, 7, 8, 10, 12, 13))}{drawn.choice(('', '@avx2', '@avx512_core'))}"
    words, library = drawn.choice((None, *EDITIONS)), drawn.choice(("none", version))
    found = og.check_graph(graph, edition=words, library=library)
    return "\n".join(f"{one.rule} {one.severity} {one.op} {one.where} {one.message}" for one in found)


def listed(graph: og.Graph, drawn: Random) -> str:
    """What is said of the ops of a graph as a list, of which some have other fields."""
    ops: list[Any] = [*graph.ops]
    for _ in range(drawn.choice((0, 1, 1, 1, 2, 3))):
        known = [op for op in ops if isinstance(op, Op)]
        if known:
            op = drawn.choice(known)
            ops[ops.index(op)] = other_record(op, known, drawn)
    if drawn.random() < 0.2:
        drawn.shuffle(ops)
    if drawn.random() < 0.2:
        ops.append(drawn.choice((*ops, *WRONG)))
    given = drawn.choice((ops, ops, ops, tuple(ops), {"ops": ops}, SimpleNamespace(ops=ops, outputs=graph.outputs)))
    words, library = drawn.choice((None, None, *EDITIONS)), drawn.choice(("none", "3.2@avx2", "3.13"))
    found = og.check_graph(given, edition=words, library=library)
    return "\n".join(f"{one.rule} {one.severity} {one.op} {one.where} {one.message}" for one in found)


def other_record(op: Op, ops: list[Op], drawn: Random) -> object:
    """An op with another field, or with another tensor."""
    sides = [side for one in ops for side in (one.inputs, one.outputs) if isinstance(side, (tuple, list))]
    tensors = [tensor for side in sides for tensor in side if isinstance(tensor, LogicalTensor)]
    name = drawn.choice(("inputs", "inputs", "inputs", "outputs", "outputs", "id", "kind", "attrs", "name", "edition"))
    if (
        name not in ("inputs", "outputs")
        or not tensors
        or not isinstance(getattr(op, name), tuple)
        or not getattr(op, name)
    ):
        return replace(op, **{name: drawn.choice((*WRONG, getattr(drawn.choice(ops), name)))})
    ends: list[Any] = [*getattr(op, name)]
    place, kind = drawn.randrange(len(ends)), drawn.random()
    if kind < 0.4 and isinstance(ends[place], LogicalTensor):
        field = drawn.choice(("id", "dtype", "shape", "strides", "value"))
        numbers = tensors[0].id, len(tensors), -1, True
        shapes = None, (2, 3), (None,), (2**40, 2**40), [2], (1.5,)
        values = {"id": numbers, "dtype": (DataType.f32, DataType.s8, "f32"), "shape": shapes, "strides": shapes}
        ends[place] = replace(ends[place], **{field: drawn.choice((*values.get(field, WRONG), *WRONG[:3]))})
    elif kind < 0.8:
        ends[place] = drawn.choice((None, *tensors, *tensors, *tensors, *WRONG))
    else:
        ends = drawn.choice((ends[:-1], [*ends, *ends], [*ends, None], ends[::-1]))
    return replace(op, **{name: drawn.choice((tuple(ends), tuple(ends), tuple(ends), tuple(ends), ends))})


def drawn_page(graph: og.Graph, drawn: Random) -> str:
    """The page of a graph with a report and times."""
    told_of = og.check_graph(graph, edition=drawn.choice([*EDITIONS]), library="3.2@avx2")
    names = [op.name for op in graph.ops]
    entries = [
        {
            "index": place,
            "executor": drawn.choice(("oneDNN", "numpy", "onegraph")),
            "reason": drawn.choice(("", "why")),
            "names": drawn.sample(names, min(len(names), drawn.choice((1, 1, 2, 3)))),
            "ops": drawn.choice((["Add"], ["Add", "ReLU"], [])),
            "inputs": drawn.choice(([], [1], [{"id": 1}], ["x"])),
            "outputs": drawn.choice(([], [1])),
        }
        for place in range(drawn.choice((0, 1, 2)))
    ]
    for one in entries:
        for key in drawn.sample([*one], drawn.choice((0, 0, 0, 0, 1))):
            if drawn.random() < 0.5:
                del one[key]
            else:
                one[key] = drawn.choice((None, 1, "x", [], [1], 2**64, 1.5, float("nan")))
    times = drawn.choice((None, [0.1, 0.2], {0: 0.0, 1: 3}, [0.0], {1: 1e-9}))
    if drawn.random() < 0.08:
        times = drawn.choice(({"0": 1}, [float("inf")], [-1.0], 5, {True: 1.0}))
    report = {"partitions": entries} if drawn.random() < 0.85 else drawn.choice((None, None, {"partitions": 5}, 5))
    if drawn.random() < 0.5:
        return dot(graph, report, told_of, times)
    return str(model(graph, report, told_of, times, title="graph", specification=drawn.random() < 0.2))


def operand(graph: og.Graph, drawn: Random) -> Any:
    """What may stand in the place of a tensor."""
    tensor = drawn.choice(graph._tensors)
    dims = [dim or 2 for dim in tensor.shape or ()]
    types = (np.float32, np.float32, np.int64, np.int32, np.float64, np.bool_, np.float16, np.uint8)
    array = np.ones(drawn.choice((dims, dims[1:], [1], [])), drawn.choice(types))
    numbers = drawn.choice((2, 1.5, True, -1, 300, 1e300, float("inf"), float("nan"), np.float32(2), np.int64(3)))
    return drawn.choice((tensor, tensor, tensor, array, array, numbers, numbers, [1, 2], None, "x", array.tolist()))


def called(graph: og.Graph, drawn: Random) -> Any:
    """An op like one of the graph, with other inputs, outputs or attributes."""
    op = drawn.choice(graph.ops)
    inputs, schema = [*op.inputs], schema_of(op)
    for place in range(len(inputs)):
        if drawn.random() < 0.3:
            tensor = inputs[place]
            dims = [dim or 2 for dim in tensor.shape or ()]
            same = np.ones(dims, tensor.dtype.numpy) if tensor.dtype.numpy is not None else None
            inputs[place] = drawn.choice((operand(graph, drawn), same, same))
    inputs = drawn.choice((inputs, inputs, inputs, inputs[:-1], [*inputs, None], [*inputs, operand(graph, drawn)]))
    attrs = drawn.choice([dict(op.attrs), dict(op.attrs), *attributes_beside(schema, op.attrs, (2, 3))])
    ports = [port.name for port in schema.outputs]
    names = drawn.choice((None, None, None, drawn.sample(ports, drawn.randrange(len(ports) + 1)), 5, ["nobody"], [5]))
    types = (None, None, None, *(tensor.dtype for tensor in op.outputs), "f32", "s8", "bf16", "x")
    name = drawn.choice((None, None, None, op.name, "new", "", 5))
    if drawn.random() < 0.4:
        attrs |= {key: value for key, value in (("dtype", drawn.choice(types)), ("outputs", names)) if value}
        return getattr(graph, schema.name.removeprefix("host_"))(*inputs, **by_port(schema, attrs, inputs, drawn))
    kind = drawn.choice((op.kind, op.kind, op.kind, op.kind.lower(), "Nothing", 5))
    return graph.op(kind, inputs, attrs, dtype=drawn.choice(types), outputs=names, name=name, edition=op.edition)


def by_port(schema: Any, attrs: dict[str, Any], inputs: list[Any], drawn: Random) -> dict[str, Any]:
    """Arguments of a method, maybe with inputs by their names, and single numbers for lists."""
    if drawn.random() < 0.4 and inputs and len(inputs) <= len(schema.inputs):
        attrs[schema.inputs[len(inputs) - 1].name] = inputs.pop()
    for name in drawn.sample([*attrs], drawn.choice((0, 0, 1)) if attrs else 0):
        value = attrs[name]
        attrs[name] = drawn.choice((None, value[0] if isinstance(value, tuple) and value else value))
    return attrs


OPERATORS: tuple[Callable[[Any, Any], Any], ...] = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.matmul, operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_, operator.xor),
)
ALONE: tuple[Callable[[Any], Any], ...] = (operator.neg, abs, operator.invert, round, len, iter)


def operated(graph: og.Graph, drawn: Random) -> Any:
    left, right = drawn.choice(graph._tensors), operand(graph, drawn)
    if drawn.random() < 0.2:
        return drawn.choice(ALONE)(left)
    sides = (left, right) if drawn.random() < 0.6 else (right, left)
    return drawn.choice(OPERATORS)(*sides)


def an_index(graph: og.Graph, drawn: Random) -> Any:
    ends = (None, None, 0, 1, -1, 2, -3, 5)
    steps = (None, None, 1, 1, 2, -1, 0, -2, 1.5)
    numbers = (
        0,
        1,
        -1,
        2,
        5,
        -4,
        None,
        ...,
        True,
        np.int64(1),
        [0, 1],
        np.array([0, -1]),
        np.array([1.5]),
        "x",
        [True],
    )
    part = slice(drawn.choice(ends), drawn.choice(ends), drawn.choice(steps))
    return drawn.choice((part, part, drawn.choice(numbers), drawn.choice(numbers), drawn.choice(graph._tensors)))


def indexed(graph: og.Graph, drawn: Random) -> Any:
    items = [an_index(graph, drawn) for _ in range(drawn.choice((1, 1, 2, 3)))]
    return drawn.choice(graph._tensors)[items[0] if len(items) == 1 else tuple(items)]


def built(graph: og.Graph, drawn: Random) -> str:
    """A graph with a further op: by its kind, by a method, by an operator or by an index."""
    graph = graph.copy()
    if drawn.random() < 0.3:
        shape = drawn.choice(((2, 3), (None, 3), None, (3,), (2,), (4,)))
        graph.input(f"i{len(graph.inputs)}", drawn.choice(("s32", "s64", "boolean", "bf16", "f32")), shape)
    made = drawn.choice((called, called, operated, indexed))(graph, drawn)
    found = made if isinstance(made, tuple) else (made,)
    return "\n".join([*(f"{getattr(one, 'name', one)}" for one in found), *told(graph)])


CHANGES: dict[str, Callable[[og.Graph, Random], object]] = {
    "options": options,
    "rebuilt": rebuilt,
    "trained": trained,
    "divided": divided,
    "fixed": fixed,
    "known": known,
    "wide": wide,
    "walked": walked,
    "matched": matched,
    "exchanged": exchanged,
    "unread": lambda graph, drawn: without_unread(graph),
    "without wildcards": lambda graph, drawn: graph.without_wildcards(),
    "words": lambda graph, drawn: og.translate_graph(graph, drawn.choice([*EDITIONS])),
    "batch": lambda graph, drawn: [tensor.name for tensor in with_batch(graph)],
    "built": built,
    "arrays": arrays_of,
    "results": results,
    "noticed": noticed,
    "checked": checked,
    "listed": listed,
    "page": drawn_page,
}


@material(lambda: CHANGES)
def altered(name: str, number: int) -> list[str]:
    """Graphs of any kind with many kinds of edits; results and pages of them."""
    drawn = Random(f"{name} {number}")
    graph = any_graph(drawn)
    if number % 2 and name in ("fixed", "divided", "unread"):
        graph = graph.copy()
        graph._n_read = len(graph._ops)  # as a model that was read
    internal = (AssertionError, AttributeError, KeyError, IndexError, TypeError, ValueError, StopIteration)
    also = {"rebuilt": internal, "fixed": internal, "divided": internal, "built": (TypeError, AttributeError)}
    return recorded.outcome(in_full, CHANGES[name], graph, drawn, also=also.get(name, ()))


def in_full(change: Callable[[og.Graph, Random], object], graph: og.Graph, drawn: Random) -> str:
    made = change(graph, drawn)
    return "\n".join(told(made)) if isinstance(made, og.Graph) else str(made)
