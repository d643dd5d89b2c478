"""One op on each element of tensors of any data type of numpy's, with broadcasting, without numpy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...opset import kinds
from ...opset.dtypes import DataType
from ..ir.step import Step
from ..ir.value import Value
from ..notes import Note
from .adding import Adding
from .kernel import Kernel, call_of, refusal
from .native import fields_of

MOST_REPEATED = 128  # elements of an op of the base vocabulary in the body of a loop
MOST_CROSSED = 1 << 11  # of one whose operands are both broadcast
WIDE = frozenset([DataType.f32, DataType.float64])
OF_F32 = frozenset(["Sin", "Cos"])


def _words(name: str) -> tuple[str, ...]:
    return next(field.words for field in fields_of("elements") if field.name == name)


OPS = _words("op")
REPEATED = kinds.ARITHMETIC & {*OPS}  # what the body of a loop repeats


def _has_types(values: Sequence[Value]) -> bool:
    known = _words("source")
    return values[-2].dtype.value in known and values[-1].dtype.value in known


def why_not(kind: str, source: DataType, target: DataType) -> str:
    """Why numpy computes an op on floats; empty if the kernel does."""
    if source is DataType.float64 and kind in OF_F32:
        return "numpy computes all digits of float64"
    if source in WIDE and target in (DataType.uint32, DataType.uint64):
        return "numpy says which integer a number beyond the range becomes"
    return ""


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    """Add a step, whose tensors are bytes for C, because the library lacks their data types."""
    kind, values = step.op.kind if step.whole else step.kind, adding.at((*step.inputs, *step.outputs))
    if refused := refusal(ELEMENTS.takes, values):
        return refused
    *inputs, output = values
    if kind == "IsInf":
        call = call_of(step)
        if not (call.flag("detect_negative") and call.flag("detect_positive")):
            return "one sign of infinities counts"
    if refused := why_not(kind, inputs[-1].dtype, output.dtype):
        return refused
    layout = [*output.shape]
    for value in inputs:
        layout += [0] * (len(output.shape) - len(value.shape))
        layout += [0 if dim == 1 else stride for dim, stride in zip(value.shape, value.strides, strict=True)]
    types = {"source": inputs[-1].dtype.value, "target": output.dtype.value}
    truncate = kind == "Mod" and call_of(step).flag("truncate")
    numbers = {"op": kind, **types, "truncate": truncate, "rank": len(output.shape), "layout": layout}
    schedule, plain = adding.schedule, [*map(_as_bytes, values)]
    schedule.notes.append(Note("kernel", (step,), (ELEMENTS.reason,), inputs, [output]))
    schedule.add_kernel("elements", plain[:-1], plain[-1:], len(schedule.notes) - 1, numbers)
    return ""


def _as_bytes(value: Value) -> Value:
    return value._replace(dtype=DataType.u8, shape=(1,), strides=(1,), offset=value.shift)


def add_repeated(adding: Adding, step: Step) -> bool:
    """Add an op of the base vocabulary on few elements in the body of a loop, or one that repeats both operands.

    The library takes longer to begin than to compute them. It copies an operand that a broadcast repeats, if the other
    one is repeated too. Returns False for other steps.
    """
    if step.kind not in REPEATED:
        return False
    *sources, result = values = adding.at((*step.inputs, *step.outputs))
    is_crossed = all(source.shape != result.shape for source in sources)
    most = MOST_CROSSED if is_crossed else MOST_REPEATED if adding.lowered.shared.partitions.repeats else 0
    if any(value.dtype is not DataType.f32 for value in values) or prod(result.shape) > most:
        return False
    return not adding.add(ELEMENTS, step)


ELEMENTS = Kernel(
    "elements",
    "by onegraph: it takes longer to begin in numpy, or in the library for a few elements",
    kinds=OPS,
    takes=(
        (lambda values: len(values) > 1 and values[-1].dense, "the result has strides"),
        (lambda values: 0 not in values[-1].shape, "no element"),
        (_has_types, "a data type that C lacks"),
    ),
    is_dense=False,
    add=_add,
)
KERNELS = (ELEMENTS,)
