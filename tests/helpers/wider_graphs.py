"""Graphs that lie further beside a graph than those of near_graphs: an op in between, an input in place of a result,
a result twice, a constant of another shape, another data type, open dims, an absent input, any other kind of op.

A pattern looks at many things around an op; each change takes one of them away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.inference.infer import infer_op
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import edition

from .neighbours import attributes_beside

ONE = ("ReLU", "Sigmoid", "Tanh", "Exp", "Abs", "GELU", "Square", "Sqrt", "HardSwish", "Log", "Round", "Clamp")
TWO = ("Add", "Multiply", "Subtract", "Maximum", "Divide", "Minimum", "SquaredDifference", "MatMul")
MANY = ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceL1", "ReduceMin", "ReduceProd")
SOFT = ("SoftMax", "LogSoftmax")
ALIKE = (ONE, TWO, MANY, SOFT, ("MaxPool", "AvgPool"), ("StaticReshape", "StaticTranspose"), ("Quantize", "Dequantize"))
MOST = 1 << 20  # elements of a constant
FLOATS = (DataType.f32, DataType.bf16, DataType.f16)


@dataclass
class End:
    """A tensor of a form: its name, its type, and its contents if it is a constant."""

    name: str
    dtype: DataType
    shape: tuple[int | None, ...] | None
    value: np.ndarray[Any, Any] | None
    is_input: bool


@dataclass
class Use:
    """An op of a form, with the numbers of its tensors."""

    kind: str
    words: str
    name: str
    attrs: dict[str, Any]
    inputs: list[int | None]
    outputs: list[int]


@dataclass
class Form:
    """A graph that can be changed: tensors by number, ops in order, and its outputs."""

    ends: dict[int, End]
    ops: list[Use]
    outputs: dict[str, int]

    def new(self, like: End, **other: Any) -> int:
        """The number of a new tensor."""
        number = max(self.ends) + 1
        self.ends[number] = replace(like, **{"name": f"new_{number}", "value": None, "is_input": False, **other})
        return number


def form_of(graph: og.Graph) -> Form:
    ends = {
        one.id: End(one.name, one.dtype, one.shape, one.value, graph.inputs.get(one.name) is one)
        for one in graph._tensors
    }
    ops = [
        Use(
            op.kind,
            op.edition,
            op.name,
            dict(op.attrs),
            [None if end is None else end.id for end in op.inputs],
            [end.id for end in op.outputs],
        )
        for op in graph.ops
    ]
    return Form(ends, ops, {name: one.id for name, one in graph.outputs.items()})


def built(form: Form) -> og.Graph:
    """The graph of a form; an error of the package if there is none."""
    graph, made = og.Graph(), {}
    for number, end in form.ends.items():
        if end.is_input:
            made[number] = graph.input(end.name.replace(".", "_"), end.dtype, end.shape)
        elif end.value is not None:
            made[number] = graph.constant(end.value, dtype=end.dtype, name=end.name)
    for op in form.ops:
        inputs = [None if number is None else made[number] for number in op.inputs]
        types = tuple(form.ends[number].dtype for number in op.outputs)
        names = [form.ends[number].name for number in op.outputs]
        if infer_op(op.kind, op.attrs, [*inputs], [(one, None) for one in types], edition=edition(op.words)).errors:
            raise ValueError(op.kind)
        found = graph._add_op(edition(op.words), op.kind, op.attrs, inputs, types, name=op.name, names=names)
        made.update(zip(op.outputs, found, strict=False))
    for name, number in form.outputs.items():
        if number in made:
            graph.output(name, made[number])
    return graph


CHANGES: list[Callable[[Form, Use, Random], None]] = []


def change(function: Callable[[Form, Use, Random], None]) -> Callable[[Form, Use, Random], None]:
    """Enter a change of a form around an op."""
    CHANGES.append(function)
    return function


def operand(form: Form, op: Use, drawn: Random) -> tuple[int, End]:
    """The place of an input of an op, and the tensor there."""
    place = drawn.choice([place for place, number in enumerate(op.inputs) if number is not None])
    return place, form.ends[op.inputs[place]]  # type: ignore[index]


@change
def another_kind(form: Form, op: Use, drawn: Random) -> None:
    kinds = next((kinds for kinds in ALIKE if op.kind in kinds), (op.kind,))
    op.kind = drawn.choice(kinds)
    op.attrs = {"min": -1.0, "max": 1.0} if op.kind == "Clamp" else op.attrs if kinds not in (ONE, TWO) else {}


@change
def another_attribute(form: Form, op: Use, drawn: Random) -> None:
    schema = edition(op.words).schema(op.kind)
    op.attrs = drawn.choice([*attributes_beside(schema, op.attrs, (0, 1, 2, 3, -1)), op.attrs])


@change
def an_input_instead(form: Form, op: Use, drawn: Random) -> None:
    place, end = operand(form, op, drawn)
    op.inputs[place] = form.new(end, is_input=True)


@change
def an_op_between(form: Form, op: Use, drawn: Random) -> None:
    place, end = operand(form, op, drawn)
    number = op.inputs[place]
    result = form.new(end, name=f"between_{len(form.ends)}")
    rank = len(end.shape or ())
    kind, attrs = drawn.choice(
        [
            ("ReLU", {}),
            ("Abs", {}),
            ("StaticTranspose", {"order": [*range(rank)]}),
            ("StaticTranspose", {"order": [*range(rank - 2), *range(rank - 1, max(rank - 3, -1), -1)]}),
            ("StaticReshape", {"shape": [-1, *[dim or 1 for dim in (end.shape or ())[1:]]], "special_zero": False}),
            ("Multiply", {}),
        ]
    )
    ends = [number]
    if kind == "Multiply":
        ends.append(form.new(end, shape=(), value=np.array(1, end.dtype.numpy)))
    form.ops.insert(form.ops.index(op), Use(kind, "onednn-3.13", f"between_{result}", attrs, ends, [result]))
    op.inputs[place] = result


@change
def a_cast_between(form: Form, op: Use, drawn: Random) -> None:
    place, end = operand(form, op, drawn)
    narrow = form.new(end, dtype=drawn.choice([one for one in FLOATS if one is not end.dtype]))
    result = form.new(end)
    at = form.ops.index(op)
    casts = [Use("TypeCast", "onednn-3.13", f"cast_{narrow}", {}, [op.inputs[place]], [narrow])]
    casts.append(Use("TypeCast", "onednn-3.13", f"cast_{result}", {}, [narrow], [result]))
    form.ops[at:at] = casts
    op.inputs[place] = result


@change
def another_result(form: Form, op: Use, drawn: Random) -> None:
    place, end = operand(form, op, drawn)
    before = {number for one in form.ops[: form.ops.index(op)] for number in one.outputs}
    before |= {number for number, one in form.ends.items() if one.is_input or one.value is not None}
    alike = [number for number in before if form.ends[number].dtype is end.dtype]
    fitting = [number for number in alike if form.ends[number].shape == end.shape]
    op.inputs[place] = drawn.choice(fitting if fitting and drawn.random() < 0.8 else alike)


@change
def an_absent_input(form: Form, op: Use, drawn: Random) -> None:
    if drawn.random() < 0.5:
        op.inputs.pop()
    else:
        op.inputs[drawn.randrange(len(op.inputs))] = None


@change
def inputs_exchanged(form: Form, op: Use, drawn: Random) -> None:
    drawn.shuffle(op.inputs)


@change
def returned_too(form: Form, op: Use, drawn: Random) -> None:
    form.outputs["inside"] = drawn.choice(op.outputs)


@change
def read_twice(form: Form, op: Use, drawn: Random) -> None:
    end = form.ends[op.outputs[0]]
    result = form.new(end)
    form.ops.append(Use("Abs", "onednn-3.13", f"second_{result}", {}, [op.outputs[0]], [result]))
    form.outputs["second"] = result


@change
def other_contents(form: Form, op: Use, drawn: Random) -> None:
    fixed = [end for end in form.ends.values() if end.value is not None and end.value.dtype.kind != "b"]
    if fixed:
        end = drawn.choice(fixed)
        value = np.array(end.value)
        one = value.dtype.type(1)
        makers = [
            lambda: value * 0,
            lambda: value * 0 + one,
            lambda: value.reshape(-1)[:1],
            lambda: value.reshape(-1)[:1].reshape(()),
            lambda: value[None],
            lambda: value[..., None],
            lambda: np.swapaxes(value, 0, -1),
            lambda: value[::-1],
            lambda: value + one,
            lambda: -value,
            lambda: value[:-1],
            lambda: np.concatenate([value, value]),
            lambda: value[0],
        ]
        try:
            end.value = np.ascontiguousarray(drawn.choice(makers)())
        except (IndexError, ValueError, TypeError, np.exceptions.AxisError):
            return
        end.shape = end.value.shape


@change
def a_constant_given(form: Form, op: Use, drawn: Random) -> None:
    fixed = [end for end in form.ends.values() if end.value is not None]
    if fixed:
        end = drawn.choice(fixed)
        end.value, end.is_input = None, True


@change
def a_constant_of_an_input(form: Form, op: Use, drawn: Random) -> None:
    given = [end for end in form.ends.values() if end.is_input and None not in (end.shape or (None,))]
    if given := [end for end in given if prod(end.shape) < MOST]:
        end = drawn.choice(given)
        numbers = np.random.default_rng(drawn.randrange(99)).integers(-2, 4, end.shape)
        end.value, end.is_input = numbers.astype(end.dtype.numpy), False


@change
def another_size(form: Form, op: Use, drawn: Random) -> None:
    given = [end for end in form.ends.values() if end.is_input and end.shape]
    if given:
        end = drawn.choice(given)
        axis = drawn.randrange(len(end.shape))  # type: ignore[arg-type]
        size = drawn.choice([1, 0, 2, 3, None, (end.shape[axis] or 1) + 1, 2 * (end.shape[axis] or 1)])  # type: ignore[index]
        end.shape = (*end.shape[:axis], size, *end.shape[axis + 1 :])  # type: ignore[index]


@change
def another_rank(form: Form, op: Use, drawn: Random) -> None:
    given = [end for end in form.ends.values() if end.is_input and end.shape is not None]
    if given:
        end = drawn.choice(given)
        shape: Any = end.shape
        end.shape = drawn.choice(
            [None, (None,) * len(shape), (1, *shape), shape[1:], shape[:-1], (*shape, 1), (2, *shape)]
        )


@change
def another_data_type(form: Form, op: Use, drawn: Random) -> None:
    """All tensors of a data type have another one, or one input alone."""
    old = drawn.choice([*dict.fromkeys(end.dtype for end in form.ends.values())])
    new = drawn.choice([*FLOATS, DataType.s8, DataType.u8, DataType.s32, DataType.s64])
    ends = [end for end in form.ends.values() if end.dtype is old]
    if drawn.random() < 0.3:
        ends = [drawn.choice(ends)]
    for end in ends:
        end.dtype = new
        if end.value is not None:
            with np.errstate(all="ignore"):
                end.value = np.array(end.value).astype(new.numpy)


def wider(graph: og.Graph, drawn: Random, most: int = 3) -> og.Graph:
    """A graph with one or more changes, as far as it stays a valid one; each change names its op."""
    for _ in range(drawn.choice((1, 1, 1, *range(1, most + 1)))):
        form = form_of(graph)
        if not form.ops:
            return graph
        op = drawn.choice(form.ops)
        try:
            drawn.choice(CHANGES)(form, op, drawn)
            graph = built(form)
        except (OneGraphError, ValueError, IndexError, KeyError):  # there is no such graph
            continue
    return graph
