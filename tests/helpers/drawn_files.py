"""Files of graphs with changes, read and written again: a material of :mod:`draws`."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import onegraph as og
from onegraph.testing.random_graph import random_graph
from tests.lowering import test_recorded_graphs as recorded

from .draws import material

BOUNDS = (2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 0.0, 1.0, 2, True, False, 2**48 - 1, 2**48, -1, 3.5e38, 1e39)
WORDS = ("", "x", "out", "NXC", "nxc", "3.2.0", "3.13", "2.0.0", "f32", "any", "strided", "x" * 257, "1", "cpu")
EDIT = Callable[[Any, Random], None]


def pick(drawn: Random, form: Any) -> Any:
    return drawn.choice(form["graph"]) if form["graph"] else {"attrs": {}, "inputs": [], "outputs": []}


def tensors(form: Any) -> list[Any]:
    found = [use for op in form["graph"] for use in (*op["inputs"], *op["outputs"])]
    return found or [{}]


def note(form: Any) -> Any:
    return form.setdefault("onegraph", {"form": 1, "edition": "onednn-3.13"})


def an_attribute(form: Any, drawn: Random) -> None:
    name = drawn.choice(("partition_id", "backend", "op_depth", "matched", "unknown", "auto_broadcast", "axis", "axes"))
    kind = drawn.choice(("s64", "string", "bool", "f32", "s64[]", "f32[]"))
    value = drawn.choice((3, "fake", 1, 1.5, True, 2))
    pick(drawn, form)["attrs"][name] = {"type": kind, "value": [value] if kind.endswith("[]") else value}


def another_value(form: Any, drawn: Random) -> None:
    attrs = [*pick(drawn, form)["attrs"].values()]
    if attrs:
        attr = drawn.choice(attrs)
        value = drawn.choice((*BOUNDS, *WORDS))
        attr["value"] = [value, 1] if type(attr["value"]) is list and drawn.random() < 0.7 else value


def another_tensor(form: Any, drawn: Random) -> None:
    use = drawn.choice(tensors(form))
    key = drawn.choice(("dtype", "shape", "stride", "layout_type", "property_type", "id", "unknown"))
    lists = ([], [2], [-1], [1, 2**48], [2**48 - 1, 1], [0, 1], [1, 1, 1], [-9223372036854775808] * 2, [24, 6, 1])
    words = ("f32", "bf16", "undef", "constant", "variable", "any", "opaque")
    use[key] = drawn.choice((drawn.choice(lists), drawn.choice(words), drawn.choice(BOUNDS)))


def without_strides(form: Any, drawn: Random) -> None:
    use = drawn.choice(tensors(form))
    for key in drawn.sample(("stride", "shape", "layout_type", "property_type", "dtype"), drawn.choice((1, 2))):
        use.pop(key, None)


def ports(form: Any, drawn: Random) -> None:
    key = drawn.choice(("output_ports", "output_ports", "input_ports"))
    change = drawn.choice(("left out", "empty", "twice", "turned", "more", "fewer"))
    if change == "left out":
        form.pop(key, None)
        return
    numbers = form.get(key, [])
    more = drawn.choice([*(use.get("id", 0) for use in tensors(form)), 99])
    changes = {"empty": [], "twice": numbers * 2, "turned": numbers[::-1], "more": [*numbers, more]}
    form[key] = changes.get(change, numbers[1:])


def names(form: Any, drawn: Random) -> None:
    side = drawn.choice(("inputs", "outputs", "outputs"))
    entries = note(form).get(side, [])
    if entries and drawn.random() < 0.8:
        others = [one["name"] for key in ("inputs", "outputs") for one in note(form).get(key, [])]
        drawn.choice(entries)["name"] = drawn.choice((*others, *WORDS))
    elif drawn.random() < 0.5:
        note(form).pop(side, None)
    else:
        entries.append({"id": drawn.choice((0, 1, 2, 99)), "name": drawn.choice(WORDS)})


def noted(form: Any, drawn: Random) -> None:
    key = drawn.choice(("form", "edition", "constants", "variables", "data", "digest", "ops", "unknown", "fpmath_mode"))
    value = drawn.choice((*WORDS, *BOUNDS, [], {}, [0], {"0": "v"}, {"0": {"name": "n"}}, None))
    (note(form) if drawn.random() < 0.6 else form)[key] = value


def an_end(form: Any, drawn: Random) -> None:
    number = 1 + max([op["id"] for op in form["graph"]], default=0)
    use = dict(drawn.choice(tensors(form)))
    form["graph"].append({"id": number, "name": "end", "kind": "End", "attrs": {}, "inputs": [use], "outputs": []})


def as_of_onednn(form: Any, drawn: Random) -> None:
    form.pop("onegraph", None)
    form["version"] = drawn.choice(("3.0.0", "3.2.1", "3.9.0", "2.7.0", "3.99.0"))


EDITS: dict[str, EDIT] = {
    one.__name__: one
    for one in (
        *(an_attribute, another_value, another_tensor, without_strides, ports, names, noted, an_end, as_of_onednn),
    )
}


@material(lambda: EDITS)
def written_again(name: str, number: int) -> list[str]:
    """Files with some changes, ``name`` among them, that are read, changed as graphs and written."""
    drawn = Random(f"{name} {number}")
    graph = random_graph(drawn.randrange(2**16), drawn.choice((1, 2, 3)), dtypes=("f32", drawn.choice(("s8", "bf16"))))
    form = json.loads(graph.to_json())
    for one in (name, *drawn.choices([*EDITS], k=drawn.choice((0, 0, 1, 2)))):
        EDITS[one](form, drawn)
    return recorded.outcome(again, json.dumps(form), drawn)


def again(text: str, drawn: Random) -> str:
    read = og.Graph.from_json(text, strict=drawn.random() < 0.3)
    lines = [*recorded.lines_of(read)]
    change = drawn.choice(("", "", "an input", "an op", "an output"))
    if change == "an input":
        read.input("added", "f32", (2,))
    if change == "an op":
        read.relu(read.input("added", "f32", (2,)))
    if change == "an output" and read.ops and read.ops[0].outputs:
        read.output("added", read.ops[0].outputs[0])
    version = drawn.choice(recorded.VERSIONS) if drawn.random() < 0.6 else None
    return "\n".join([*lines, *recorded.outcome(read.to_json, for_version=version), str(read.constant_inputs)])
