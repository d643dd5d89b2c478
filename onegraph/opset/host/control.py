"""Defines the ops of control flow: their bodies are graphs, which are attributes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from ..._util.counted import counted
from ..schema import Call, RuleFinding
from ..shapes import compatible, show
from ..signature import Attribute, ports, rows
from ..traits import Trait
from .foreign import MAX_OUTPUTS, VARIABLES, stated_shapes
from .types import ALL_NAMES, host

BODIES = {"If": ("then_body", "else_body"), "Loop": ("body",)}  # by kind, the attributes that are bodies
FIXED = 2  # inputs of a Loop before its values
BODY = "a graph as a word, as onegraph.serialize.words writes it"
DST = ports("dst:T0? " + " ".join(f"dst_{number}:T{number}?" for number in range(1, MAX_OUTPUTS)))
TYPES = rows(" ".join(VARIABLES), " ".join([ALL_NAMES] * MAX_OUTPUTS))
SHAPES = Attribute(
    "shapes",
    "s64[]",
    "Shapes of the outputs: for each the rank and the dims; -1 is an unknown rank or dim.",
    default=(),
)


def flags_are_single(call: Call) -> Iterable[RuleFinding]:
    """The condition and the number of iterations have one element."""
    for port in ("condition", "trips"):
        shape = call.shape(port) if port in [input_.name for input_ in call.schema.inputs] else None
        if shape is not None and None not in shape and not (compatible(shape, ()) or compatible(shape, (1,))):
            yield RuleFinding(port, f"shape {show(shape)}", "one element")


def states_keep_their_types(call: Call) -> Iterable[RuleFinding]:
    """A state of a Loop has the data type that it begins with."""
    count, states = call.s64("n_states"), call.inputs[FIXED:]
    negative = [(name, call.s64(name)) for name in ("n_states", "n_scanned") if call.s64(name) < 0]
    if negative:
        yield from (RuleFinding(name, number, "0 or more") for name, number in negative)
        return
    if count + call.s64("n_scanned") > len(states):
        yield RuleFinding(
            "values",
            counted(len(states), "input"),
            f"{counted(count, 'state')} and {call.s64('n_scanned')} scanned tensors",
        )
        return
    if call.n_outputs is not None and count > call.n_outputs:
        yield RuleFinding("dst", counted(call.n_outputs, "output"), f"one for each of the {counted(count, 'state')}")
    for index, first in enumerate(states[:count]):
        dtype = call.output_type(index)
        if first is not None and dtype is not None and dtype is not first.dtype:
            yield RuleFinding(f"dst_{index}" if index else "dst", str(dtype), f"{first.dtype}, as the state begins")


def count_shapes(call: Call) -> int:
    """The number of outputs, each of which has a shape in the attribute."""
    count, numbers = 0, iter(call.s64s("shapes"))
    for rank in numbers:
        count += 1
        deque(islice(numbers, max(rank, 0)), 0)
    return min(count, MAX_OUTPUTS)


def _axes(name: str, doc: str) -> Attribute:
    return Attribute(name, "s64[]", doc, default=())


OPS = (
    host(
        "If",
        "Runs one of two graphs: then_body if the condition holds, else else_body. The inputs c0, c1 ... of the graphs "
        "are the values, and their outputs y0, y1 ... those of the op.",
        "condition:boolean values:any*?",
        DST,
        TYPES,
        stated_shapes,
        (
            Attribute("then_body", "str", f"What runs if the condition holds: {BODY}.", required=True),
            Attribute("else_body", "str", f"What runs otherwise: {BODY}.", required=True),
            SHAPES,
        ),
        shape_rules=(flags_are_single,),
        implied_outputs=count_shapes,
        traits=Trait.OPAQUE | Trait.PER_RUN,
    ),
    host(
        "Loop",
        "Runs a graph once in each iteration, at most `trips` times and while the condition holds; with scanned "
        "tensors, once for each of their slices. The graph reads the number of the iteration as its input i, the "
        "states s0, s1 ..., the slices x0, x1 ..., and the other values c0, c1 ... Its outputs are the condition, "
        "going, the next states t0, t1 ..., and slices y0, y1 ... of results, which the op joins along an axis.",
        "trips:s64 condition:boolean values:any*?",
        DST,
        TYPES,
        stated_shapes,
        (
            Attribute("body", "str", f"What an iteration runs: {BODY}.", required=True),
            Attribute("n_states", "s64", "Number of states, the first of the values.", required=True),
            Attribute("n_scanned", "s64", "Number of scanned tensors, the values behind the states.", default=0),
            _axes("axes", "The axis of the slices of each scanned tensor; 0 by default."),
            _axes("reversed", "Of each scanned tensor, 1 if the last slice comes first."),
            _axes("result_axes", "The axis of the slices of each result that is no state; 0 by default."),
            _axes("result_reversed", "Of each such result, 1 if the slice of the first iteration is the last one."),
            SHAPES,
        ),
        shape_rules=(flags_are_single, states_keep_their_types),
        implied_outputs=count_shapes,
        traits=Trait.OPAQUE | Trait.PER_RUN,
    ),
)
