"""Ops in rare forms as lines of text, which are written as nodes of ONNX.

A line has the kind of an op, with the edition before it if that is another one, its inputs as in :mod:`onnx_forms`, an
arrow with the data type of its results if no input decides it, and its attributes::

    host.PackedMatMul f32[2,16] =u8[3,8] f32[3,1] | coding='u4' group=16
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import onegraph as og
from onegraph.opset.editions.registry import DEFAULT, HOST

from .host_cases import body
from .onnx_forms import VALUE, array_of, parted

FORMS = Path(__file__).parents[1] / "recorded" / "saved_forms.txt"
GOING = np.array(True)


def _state(g: og.Graph) -> Any:
    return g.multiply(g.input("s0", "f32", (3,)), g.input("c0", "f32", ()))


def _square(g: og.Graph) -> Any:
    return g.square(g.input("x0", "f32", (None,)))


BODIES = {
    "states": lambda g: {"going": g.constant(GOING), "t0": _state(g)},
    "results": lambda g: {"going": g.constant(GOING), "t0": _state(g), "y0": g.relu(g.inputs["s0"])},
    "slices": lambda g: {"going": g.constant(GOING), "y0": _square(g)},
    "ending": lambda g: {"going": g.constant(~GOING), "y0": _square(g)},
    "counting": lambda g: {
        "going": g.constant(GOING),
        "y0": g.op("Add", [g.input("x0", "s64", (None,)), g.input("i", "s64", ())], edition=HOST),
    },
    "computed": lambda g: {"going": g.op("IsNaN", [g.input("c0", "f32", ())], edition=HOST), "y0": _square(g)},
}


def lines() -> Iterator[tuple[str, str]]:
    """The kind and the text of each line."""
    for line in FORMS.read_text().splitlines():
        yield line.split()[0].rpartition(".")[2], line


def graph_of(line: str) -> og.Graph:
    """The graph of a line."""
    head, _, attrs = line.partition(" | ")
    head, _, types = head.partition(" -> ")
    kind, *tokens = head.split()
    graph, ends = og.Graph(strict=False), []
    for place, token in enumerate(tokens):
        _, dtype, dims, _ = VALUE.fullmatch(token).groups() if token != "-" else ("",) * 4
        if token == "-":
            ends.append(None)
        elif token.startswith("="):
            ends.append(graph.constant(array_of(token), dtype=dtype))
        else:
            shape = None if dims == "*" else [None if one == "?" else int(one) for one in dims.split(",") if one]
            ends.append(graph.input(f"x{place}", dtype, shape))
    given = {name: literal_eval(value) for name, value in map(parted, attrs.split())}
    if kind == "host.Loop":
        given["body"] = body(BODIES[given["body"]])
    options = {"dtype": types} if types else {}
    words, _, kind = kind.rpartition(".")
    made = graph.op(kind, ends, given, edition=words or DEFAULT, **options)
    for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"y{place}", one)
    return graph
