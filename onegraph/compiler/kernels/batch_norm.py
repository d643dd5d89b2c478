"""A normalization by given statistics in one pass over memory, and a ReLU behind it.

The library has a reference kernel for parts of rows. In f16 and bf16 it has one for channels that fill no vector, which
takes 5 to 40 times as long. In f32 it is slower for such channels, too, and for channels that come first. It folds a
normalization into the product before it, which is no step of its own then.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ..ir.step import Step
from ..ir.value import Value
from ..notes import Note
from .adding import Adding
from .elementwise import is_whole
from .kernel import FLOATS, NOT_EMPTY, REGULAR, Kernel, refusal

KIND = "BatchNormInference"
VECTOR = 16  # dense rows of a multiple of so many channels are fast in the library, which writes past the caches
REASON = "in one pass by onegraph: the library's kernel is slower, or there is none"


def _is_of_floats(values: Sequence[Value]) -> bool:
    return FLOATS.issuperset([value.dtype for value in values])


def _has_rows(values: Sequence[Value]) -> bool:
    """Whether the axis that comes last in the memory of the result has no gaps, and does so in that of the source."""
    source, result = values[0], values[-1]
    strides = [ends for dim, *ends in zip(source.shape, source.strides, result.strides, strict=True) if dim > 1]
    return not strides or min(strides, key=lambda ends: ends[1]) == [1, 1]


ROWS = "the elements of rows do not lie side by side"
TAKES = (
    NOT_EMPTY,
    REGULAR,
    (_is_of_floats, "a tensor is neither f32, f16 nor bf16"),
    (_has_rows, ROWS),
)
BATCH_NORM = Kernel("batch_norm", REASON, takes=TAKES, is_dense=False, overwrites=True, fails=OutOfMemoryError)
KERNELS = (BATCH_NORM,)


def _is_fast(step: Step, source: Value) -> bool:
    """Whether the library has a fast kernel for a normalization."""
    is_last = step.attrs.get("data_format", "NXC") == "NXC"
    return is_last and source.dense and source.shape[-1] % VECTOR == 0


def add_norm(adding: Adding, steps: Sequence[Step]) -> bool:
    """Add a normalization, and a ReLU behind it; returns False for other steps, and adds nothing."""
    first, *epilogue = steps
    if first.kind != KIND or first.executor != "library" or [step.kind for step in epilogue] not in ([], ["ReLU"]):
        return False
    schedule, inner = adding.schedule, first.outputs[0]
    if epilogue and (epilogue[0].inputs != (inner,) or inner in schedule.returned or inner in schedule.viewed):
        return False
    source, *vectors = adding.at([schedule.forwards(number) for number in first.inputs])
    target = adding.values[steps[-1].outputs[0]]
    if _is_fast(first, source):
        return False
    if adding.edges.is_free(target) and is_whole(source):
        target = target._replace(strides=source.strides)
    if is_whole(target) and refusal(TAKES, (source, *vectors, target)) == ROWS:
        source = adding.values[schedule.copy(source, target.strides, "the result lies in memory in another order")]
    if refusal(TAKES, (source, *vectors, target)):
        return False
    adding.values[target.id] = target
    is_alike = (source.strides, source.offset) == (target.strides, 0)
    numbers = {
        "channels": len(source.shape) - 1 if first.attrs.get("data_format", "NXC") == "NXC" else 1,
        "relu": bool(epilogue),
        "epsilon": first.attrs["epsilon"],
    }
    schedule.notes.append(Note("kernel", steps, (first.note, REASON), [source, *vectors], [target]))
    in_place = [(target.storage, source.storage)] if is_alike else []
    schedule.add_kernel(BATCH_NORM.name, [source, *vectors], [target], len(schedule.notes) - 1, numbers, in_place)
    return True
