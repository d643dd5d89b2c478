"""The readers of graph files, and the checker, on any bytes: the target of coverage-guided runs."""

import json

import onegraph as og


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
