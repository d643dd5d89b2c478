"""Defines the host ops that average tensors over the processes of a group, for data-parallel training.

They come in pairs, so that other ops run while the numbers travel: AllReduceStart gives its result to the group, and
AllReduceDone waits for the group. All processes must start the same sums in the same order, whatever order the ops run
in on each of them. So each op takes the result of an earlier one as an input, whose numbers it does not read.
"""

from __future__ import annotations

from math import prod

from ..schema import Call, same_shape
from ..shapes import known, known_dims
from ..signature import Attribute, Shape, rows
from ..traits import Trait
from .types import host

F32 = rows("T", "f32")
AFTER = Attribute("after", "bool", "Whether the first source is an earlier result, which starts first.", default=False)


def total_size(call: Call) -> tuple[Shape, ...]:
    """A vector of the elements of all sources."""
    summed = call.inputs[1:] if call.flag("after") else call.inputs
    shapes = [tensor.shape for tensor in summed if tensor is not None]
    if not all(map(known, shapes)):
        return ((None,),)
    return ((sum(prod(known_dims(shape)) for shape in shapes),),)


OPS = (
    host(
        "AllReduceStart",
        "Lays the elements of all sources behind one another, and starts to add them over all processes of the group. "
        "Only AllReduceDone may read the result, which changes until the group is done.",
        "src:T*",
        "dst:T",
        F32,
        total_size,
        (AFTER,),
        traits=Trait.PER_RUN,
    ),
    host(
        "AllReduceDone",
        "Waits until the group has added a result of AllReduceStart, and divides the sum by the number of processes.",
        "src:T after:T?",
        "dst:T",
        F32,
        same_shape,
        traits=Trait.PER_RUN,
    ),
)
