"""Programs that make texts: how values stand in messages, what errors say, which names were meant."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import numpy as np

import onegraph as og
from onegraph import errors
from onegraph.testing.mutations import _values

from .small_programs import program


class Told:
    """An object with a given repr."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def __repr__(self) -> str:
        if self.text is None:
            raise ValueError
        return str(self.text)


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


@program
def _shown_values() -> str:
    lengths = (12, 13, 14, 15, 16, 58, 59, 60, 61, 97, 98, 99, 100, 101, 102, 103)
    values: list[Any] = [nested(depth) for depth in (2, 3, 4, 5, 6)]
    for length in lengths:
        values += ["x" * length, Told("y" * length), Told("a\n" + "y" * length), b"z" * length, [*range(length)]]
        values += [tuple(range(length)), dict.fromkeys(range(length)), {*range(length)}, deque(range(length))]
        values += [10**length, -(10**length), np.zeros(length, np.int8), np.zeros((1, length)), "x" * length + "\n"]
    values += [1 << bits for bits in (198, 199, 200, 201)] + [-(1 << bits) for bits in (199, 200)]
    values += [Told(None), Told(""), Told("a \nb"), Told("\n"), [Told(None)], {"x": Told("a\nb")}, None, 1.5, True]
    values += [["x" * 98] * 9 + ["x" * size] for size in (77, 78, 79)]
    values += [["x" * 200] * 14, ["y" * 90] * 14, dict.fromkeys(range(14), "x" * 90), np.zeros(())]
    return "\n".join(map(errors.shown, values))


@program
def _texts_of_errors() -> str:
    graph = og.Graph()
    (found,) = og.check_attrs("SoftMax", {"axis": "1"})
    made: list[Any] = [errors.SpecError([found]), errors.SpecError([found, found], "a hint"), errors.SpecError([])]
    made += [made[0].with_hint(hint) for hint in ("", "then this")]
    made += [errors.StatusError("f", "s", *texts) for texts in ((), ("why",), ("", "then"), ("why", "then"))]
    made += [errors.FormatError("graph[0]", given, "a number") for given in (1, "x")]
    try:
        graph.relu(5)  # type: ignore[arg-type]
    except og.OneGraphError as error:
        made.append(error)
    lines = []
    for error in made:
        again = copy.copy(error)
        lines += [f"{type(again).__name__} {again}", errors.without_hint(error), str(vars(again).keys())]
    return "\n".join(
        [*lines, str(found), str(found.to_dict()), errors.class_of(type("N" * 101, (), {})()), errors.class_of(5)]
    )


@program
def _meant_names() -> str:
    names = "relu convolution add _x onn grap graph Grap check che chec set_ set num num_ exec Execut error trans xyzzy"
    lines = [og._meant(name) for name in ("torch", "gguf")]  # perhaps another test has imported these modules
    for name in [*names.split(), "f33", "bf61", "Datatype"]:
        try:
            lines.append(type(getattr(og, name)).__name__)
        except AttributeError as error:
            lines.append(str(error))
    return "\n".join([*lines, str([name for name in dir(og) if not name.startswith("__")])])


@program
def _changed_attributes() -> str:
    window = {"strides": [1, 2], "pads_begin": [0, 1], "pads_end": [2, 3], "dilations": [1, 1]}
    graph = og.Graph()
    x, w = graph.input("x", "f32", (1, 8, 8, 3)), graph.input("w", "f32", (3, 3, 3, 4))
    graph.convolution(x, w, **window)
    graph.max_pool(x, kernel=[2, 3], **{**window, "dilations": [1, 2]})
    graph.static_transpose(x, order=[0, 2, 3, 1])
    graph.softmax(x, axis=-1)
    graph.clamp(x, min=-0.5, max=6.0)
    graph.reduce_sum(x, axes=[1])
    graph.quantize(x, scales=[0.5], zps=[3], qtype="per_tensor", dtype="u8")
    lines = []
    for op in graph.ops:
        for name, value in op.attrs.items():
            lines.append(f"{op.kind} {name} {[*_values(op, name, value)]}")
    ops = graph.ops
    for op, value in ((ops[0], ()), (ops[0], (1,)), (ops[0], (1, 2)), (ops[0], (1, 2, 3, 4)), (ops[0], (1.0, 2.0))):
        lines.append(f"{value} {[*_values(op, 'pads_begin', value)]} {[*_values(op, 'strides', value)]}")
    for value in (0, 1, 2, 3, -1, 5):
        lines.append(f"{value} {[*_values(ops[3], 'axis', value)]}")
    return "\n".join(lines)
