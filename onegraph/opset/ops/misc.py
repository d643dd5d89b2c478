"""The misc category: marks in a graph, indices, and random zeros."""

from __future__ import annotations

from collections.abc import Iterable

from ..dtypes import DataType
from ..schema import FLOATS, UNIT, Attribute, Call, Finding, Schema, Shape, ports, rows, same_shape
from ..shapes import axis_in_range, show


def single_elements(call: Call) -> Iterable[Finding]:
    """The seed, the offset and the probability are one element each."""
    for name in ("seed", "offset", "probability"):
        shape = call.shape(name)
        if shape is not None and any(dim not in (1, None) for dim in shape):
            yield Finding(name, f"shape {show(shape)}", "one element")


def probability_range(call: Call) -> Iterable[Finding]:
    """The probability is between 0 and 1, where it is known."""
    tensor = call.input("probability")
    if tensor is not None and tensor.value is not None and tensor.value.size == 1:
        value = float(tensor.value.ravel()[0])
        if not UNIT.holds(value):
            yield Finding("probability", value, UNIT.name)


def unknown_shapes(call: Call) -> tuple[Shape, ...]:
    """Nothing is known of any output."""
    return (None,) * (1 if call.n_outputs is None else call.n_outputs)


OPS = (
    # The library also takes integers; the text lists floats only.
    Schema(
        "End",
        "end",
        "misc",
        "Marks a use of src outside the graph; it has no result.",
        ports("src:T"),
        (),
        FLOATS,
        lambda call: (),
    ),
    # Inputs are of the type variable "any", which no row speaks of, so that each may be of another data type.
    Schema(
        "Wildcard",
        "wildcard",
        "misc",
        "Stands for a computation that the specification does not know; any number of inputs and outputs of any type.",
        ports("src:any*?"),
        ports("dst:T*?"),
        rows("T", "|".join(DataType.__members__)),
        unknown_shapes,
    ),
    Schema(
        "GenIndex",
        "gen_index",
        "misc",
        "dst = the index of each element of src along axis",
        ports("src:T"),
        ports("dst:s32"),
        FLOATS,
        same_shape,
        (Attribute("axis", "s64", "Axis to count along, negative counted from the end.", required=True),),
        rules=(axis_in_range,),
        since=(3, 7),
    ),
    # The page prints u64 for seed and offset; the C API has no such type and the library takes s64.
    Schema(
        "Dropout",
        "dropout",
        "misc",
        "dst = mask * src / (1 - probability): mask is 0 with the given probability, else 1, after the Philox numbers "
        "of seed and offset.",
        ports("src:T seed:s64 offset:s64 probability:f32"),
        ports("dst:T mask:u8?"),
        FLOATS,
        same_shape,
        rules=(single_elements, probability_range),
        since=(3, 12),
    ),
)
