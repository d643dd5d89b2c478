"""The record of a kernel: what it computes, when it is taken and why, how it is called, and whether it can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..._util.records import record
from ...errors import OneGraphError
from ...ir.op import schema_of
from ...opset.dtypes import DataType
from ...opset.editions.registry import base_of
from ...opset.schema import Call
from ..ir.step import Step
from ..ir.value import Value
from .native import Numbers

FLOATS = frozenset([DataType.f32, DataType.f16, DataType.bf16])
T = TypeVar("T")
# What must hold for a subject, and the sentence about a subject for which it does not hold.
Conditions = Sequence[tuple[Callable[[T], bool], str]]


def refusal(conditions: Conditions[T], subject: T) -> str:
    """The sentence of the first condition that does not hold; empty if all hold."""
    return next((sentence for holds, sentence in conditions if not holds(subject)), "")


HOST_OP = "a host op"  # why the library does not compute one
# Why kernels compute an op for which the library loses NaN or an infinity, or compute it again.
KEEPS = "by onegraph: the library's kernel loses NaN or an infinity"
AGAIN = "computed again by onegraph if an element is NaN or infinite, which the library's kernel loses"
# Why kernels compute an op that broadcasts, one of open sizes, and one by logarithms or exponentials.
SPREADS = "by onegraph: both operands are broadcast, for which the library has a reference kernel only"
COMPILED_ANEW = "by onegraph: sizes change, and the library would compile the op for each of them"
DIGITS = "by onegraph: the library's kernel has an absolute error, so that results near 0 have no right digit"


def _is_not_empty(values: Sequence[Value]) -> bool:
    return not any(0 in value.shape for value in values)


def _is_regular(values: Sequence[Value]) -> bool:
    return not any(value.irregular for value in values)


def _is_of_floats(values: Sequence[Value]) -> bool:
    return FLOATS.issuperset([values[0].dtype, values[-1].dtype])


NOT_EMPTY = _is_not_empty, "a tensor is empty"
REGULAR = _is_regular, "the elements of a tensor share memory or run backwards"
OF_FLOATS = _is_of_floats, "a tensor is neither f32, f16 nor bf16"


def of_types(*dtypes: DataType) -> tuple[Callable[[Sequence[Value]], bool], str]:
    """The condition that all tensors have these data types."""
    allowed = frozenset(dtypes)

    def holds(values: Sequence[Value]) -> bool:
        return {value.dtype for value in values} <= allowed

    return holds, f"a tensor has another data type than {', '.join(sorted(map(str, dtypes)))}"


def no_numbers(_: Step) -> Numbers:
    """The numbers of a kernel that has none."""
    return {}


@record(frozen=True)
class Kernel:
    """A kernel of the package.

    Attributes:
        name: under which a file of ``csrc/kernels/`` registers it.
        reason: why it is taken, for reports; if empty, the note of the step says so.
        executor: of the steps that it runs, which a pass makes; empty if no pass makes such steps.
        kinds: the ops, of the library or of the host, that it computes as they are: in the place of the library if the
            executor is ``exact``, and otherwise where the library does not compute them.
        when: whether it computes an op of these kinds with these attributes.
        attrs: f32 attributes of the op that are inputs of the kernel, behind those of the op.
        takes: conditions for the values, inputs first, under which the kernel computes an op.
        is_dense: whether its tensors are dense; of others, dense copies are made. Otherwise copies are made of inputs
            whose elements share memory or run backwards.
        n_read: the number of inputs of a step that it reads; others only order the steps. None for all.
        rows: the indices of inputs of which it copies rows, whatever their address.
        numbers: what the kernel is made for besides its tensors, by the names that C++ gives them.
        is_movement: whether it only moves, casts or selects elements, as ``copy`` in a report.
        overwrites: whether a result may lie in the memory of an input, as each element is written once it is read.
        changes: whether it changes some elements of its first input, so that its result may lie there.
        fails: the error that a run may raise; None if every run succeeds. The updates of variables that run over their
            old values are those of kernels that overwrite and do not fail.
        takes_back: whether its number ``takes_back`` lets it write over its first input at once, because it can write
            back what was there.
        varies: whether its time depends on contents, or it refuses some, so that memory without contents cannot measure
            it. It gets all threads if its tensors are large enough.
        follows: whether the library computes a step first, and the kernel changes the result.
        is_faster: whether it is faster than the library whatever the numbers are, so that ``finite_math`` keeps it.
        add: adds a step in another way than ``Adding.plainly``: a function of an ``Adding``, the step and reasons. It
            returns why the kernel does not take the step; empty if it was added.
    """

    name: str
    reason: str = ""
    executor: str = ""
    kinds: tuple[str, ...] = ()
    when: Callable[[Call], bool] | None = None
    attrs: tuple[str, ...] = ()
    takes: Conditions[Sequence[Value]] = ()
    is_dense: bool = True
    n_read: int | None = None
    rows: tuple[int, ...] = ()
    numbers: Callable[[Step], Numbers] = no_numbers
    is_movement: bool = False
    overwrites: bool = False
    changes: bool = False
    fails: type[OneGraphError] | None = None
    takes_back: bool = False
    varies: bool = False
    follows: bool = False
    is_faster: bool = False
    add: Callable[..., str] | None = None

    @property
    def updates(self) -> bool:
        """Whether it may compute the next value of a variable over the old one, when nothing can fail any more."""
        return self.overwrites and self.fails is None


def call_of(step: Step) -> Call:
    """The op of a step, as a call."""
    op = step.op
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    return Call(base_of(schema_of(op)), op.attrs, types, len(op.outputs))
