"""The readers of graph files, and the checker, on any bytes: the target of coverage-guided runs."""

import json

import onegraph as og

from .json_changes import changed_text
from .onnx_models import changed_bytes


def read(data):
    """The reader refuses with an exception of onegraph, or gives a graph that it writes and reads again."""
    try:
        graph = og.Graph.from_json(data)
    except og.OneGraphError as error:
        str(error)
        return
    text = graph.to_json()
    again = og.Graph.from_json(text)
    assert [op.kind for op in again.ops] == [op.kind for op in graph.ops]


def check(data):
    """The checker raises nothing, whatever it is given."""
    try:
        kind, attrs, inputs, *_ = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return
    for violation in og.check_op(kind, attrs, inputs):
        str(violation)


def one_input(data):
    """One input of the fuzzer; the first byte chooses."""
    if data[:1] == b"[":
        check(data)
    else:
        read(data)


def replay(data):
    """The empty text; what goes wrong is raised."""
    one_input(data)
    return ""


def changed(population, rng):
    """A file with one change, mostly of the JSON."""
    text = changed_text(population, rng) if rng.random() < 0.8 else None
    return changed_bytes(rng.choice(population), rng) if text is None else text
