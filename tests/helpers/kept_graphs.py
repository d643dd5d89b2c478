"""Graphs that reached conditions of the compiler which no other graph of a record reaches, as lines of JSON.

They come from tests that compile them, and from one change of these. A line has the test, the options of the
compilation, the tensors by number, and the ops. Contents of a constant repeat the numbers that are listed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import onegraph as og
from onegraph.opset.editions.registry import edition

KEPT = Path(__file__).parents[1] / "recorded" / "programs.jsonl"


def kept_graphs():
    """Each with the file of its test, and its options."""
    for line in KEPT.read_text().splitlines():
        form = json.loads(line)
        yield form["test"].split()[0], build(form), form["options"]


def build(form):
    """The graph of a line."""
    graph, made = og.Graph(), {}
    for number, (dtype, shape, *numbers) in form["tensors"].items():
        if numbers:
            contents = np.resize(np.array(numbers, np.float64), shape).astype(og.DataType(dtype).numpy)
            made[number] = graph.constant(contents, dtype=dtype, name=f"v{number}")
        else:
            made[number] = graph.input(f"v{number}", dtype, shape)
    for place, (kind, words, attrs, inputs, results) in enumerate(form["ops"]):
        ends = [None if number is None else made[str(number)] for number in inputs]
        types, names = tuple(map(og.DataType, results.values())), [f"v{number}" for number in results]
        outputs = graph._add_op(edition(words), kind, attrs, ends, types, name=f"op{place}", names=names)
        made.update(zip(results, outputs, strict=True))
    for number in form["outputs"]:
        graph.output(f"y{number}", made[str(number)])
    return graph
