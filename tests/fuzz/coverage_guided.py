"""atheris on the JSON reader, and on the checker with what the JSON says: ``python -m tests.fuzz.coverage_guided``.

Takes atheris's own arguments, such as ``-max_total_time=60`` and ``-seed=1``.
"""

import json
import sys

import atheris

with atheris.instrument_imports(include=["onegraph"]):
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


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
