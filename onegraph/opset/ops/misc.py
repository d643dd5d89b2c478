"""Defines the misc category: End, Wildcard, GenIndex and Dropout."""

from __future__ import annotations

from collections.abc import Iterable

from ..dtypes import SPECIFIED
from ..schema import Call, RuleFinding, Schema, required_outputs, same_shape
from ..shapes import axis_in_range, show
from ..signature import FLOATS, UNIT, Attribute, Shape, ports, rows
from ..traits import Trait


def single_elements(call: Call) -> Iterable[RuleFinding]:
    """seed, offset and probability have one element each."""
    for name in ("seed", "offset", "probability"):
        shape = call.shape(name)
        if shape is not None and any(dim not in (1, None) for dim in shape):
            yield RuleFinding(name, f"shape {show(shape)}", "one element")


def probability_range(call: Call) -> Iterable[RuleFinding]:
    """The probability, if known, is between 0 and 1."""
    tensor = call.input("probability")
    if tensor is not None and tensor.value is not None and tensor.value.size == 1:
        value = float(tensor.value.ravel()[0])
        if not UNIT.holds(value):
            yield RuleFinding("probability", value, UNIT.name)


def unknown_shapes(call: Call) -> tuple[Shape, ...]:
    """All output shapes are unknown."""
    return (None,) * (1 if call.n_outputs is None else call.n_outputs)


OPS = (
    # The library also takes integers; the text lists floats only.
    Schema(
        "End",
        "end",
        "misc",
        "Marks that src is used outside the graph; the op has no output.",
        ports("src:T"),
        (),
        FLOATS,
        lambda call: (),
        traits=Trait.OPAQUE,
    ),
    # No row has the type variable "any" of the inputs, so that each input may have any data type.
    Schema(
        "Wildcard",
        "wildcard",
        "misc",
        "Stands for a computation that the specification does not define; any number of inputs and outputs of any "
        "data type.",
        ports("src:any*?"),
        ports("dst:T*?"),
        rows("T", "|".join(SPECIFIED)),
        unknown_shapes,
        traits=Trait.OPAQUE,
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
        traits=Trait.SHAPE_ONLY,
    ),
    Schema(
        "Dropout",
        "dropout",
        "misc",
        "dst = mask * src / (1 - probability): mask is 0 with the given probability, else 1; it is computed with the "
        "Philox random number generator from seed and offset.",
        ports("src:T seed:s64 offset:s64 probability:f32"),
        ports("dst:T mask:u8?"),
        FLOATS,
        same_shape,
        rules=(single_elements, probability_range),
        implied_outputs=required_outputs,
        since=(3, 12),
        traits=Trait.PER_RUN,
    ),
)
