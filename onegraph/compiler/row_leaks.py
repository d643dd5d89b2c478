"""Adds the steps that compute a product again where its kernel would let NaN and infinities into other elements.

The library's kernel runs first. If an element that it multiplies by zeros is NaN or infinite, the same ops run again,
one by one, and write their results over those of the kernel: convolutions by their definition, other ops in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import UnsupportedError
from ..faults.leaks import SOURCES
from ..faults.ops import faults_of
from ..native.library import VERSION
from ..opset.convolution_geometry import SIDES
from ..opset.dtypes import DataType
from ..opset.kinds import PLACING
from ..opset.schema import TensorType
from ..opset.shapes import known_dims
from .ir.part import Part
from .ir.step import Step
from .ir.value import Value, dense_of
from .kernels import exact_convolution
from .kernels.kernel import FLOATS
from .kernels.registry import EXACT
from .kernels.when_special import BEGIN, END, UNBOUNDED
from .passes.row_leaks import LEAKS, SPREADS, convolution_of, has_joined_groups
from .passes.special_values import BOUNDED
from .schedule import Schedule
from .steps import CompiledStep, NumpyStep
from .witnesses import TRANSPARENT, witnesses

AGAIN = "computed again in f32 if an element of the source is NaN or infinite, which reaches other rows in oneDNN"
BOUNDS = "computed again if an element of an input is NaN, infinite or larger than a million, as the library loses NaN"
ORDERS = PLACING - {"Concat"}  # ops whose result has the elements of the source


class RowLeaks:
    """Adds steps to a schedule.

    Args:
        schedule: the schedule of a graph.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._values = schedule, schedule.values
        self._flag: int | None = None

    def refusal(self, steps: Sequence[Step]) -> str:
        """Why some steps must not be one partition; empty if they may."""
        is_marked = any(LEAKS in step.attrs or BOUNDED in step.attrs for step in steps)
        return self._refusal(steps) if is_marked else ""

    def _refusal(self, steps: Sequence[Step]) -> str:
        ends = {number for step in steps for number in (*step.inputs, *step.outputs)}
        if any(self._values[number].dtype not in FLOATS for number in ends) or self._sources(steps) is None:
            return "NaN would reach other rows inside of the partition, so that the ops run one by one"
        wide = [_in_f32(step) for step in steps if step.kind not in ("TypeCast", *SIDES)]
        fault_ = next((fault for part in wide for fault in faults_of(part.call, VERSION)), None)
        return "" if fault_ is None else f"NaN would reach other rows, and in f32 {fault_.told}"

    def refuse(self, step: Step) -> None:
        """Raise UnsupportedError if a step must not be a partition."""
        if reason := self.refusal((step,)):
            raise UnsupportedError(reason)

    def add(self, steps: Sequence[Step], results: Sequence[int], first: int, add_step: Callable[[Step], None]) -> None:
        """Add what computes steps again that the library has computed, if one of them lets NaN into other elements.

        Args:
            steps: the steps of a partition.
            results: the values that others read.
            first: the number of notes before the partition was added.
            add_step: adds one step to the schedule.
        """
        is_bounded = any(BOUNDED in step.attrs for step in steps)
        leaks = is_bounded or any(LEAKS in step.attrs for step in steps)
        if len(steps) == 1 and SPREADS in steps[0].attrs and steps[0].kind == "MatMul":
            steps = (self._seen_as_weights(steps[0]),)
            results = steps[0].outputs
        if not leaks and (not _spreading(steps) or self._refusal(steps)):
            return
        schedule, sources = self._schedule, self._sources(steps)
        assert sources is not None
        note = next(index for index in range(first, len(schedule.notes)) if schedule.notes[index].steps)
        if is_bounded:
            sources = [*sources, self._unbounded(note)]
        begin, count = len(schedule.steps), len(schedule.notes)
        self._add_mark(steps, results, sources, note)
        self._add_again(steps, results, add_step)
        del schedule.notes[count:]
        added = schedule.steps[begin + 1 :]
        schedule.add_kernel(END.name, (), (), note)
        if any(isinstance(step, NumpyStep) for step in added):  # a run cannot pass over these
            if not leaks:
                del schedule.steps[begin:]
                return
            schedule.steps[begin] = schedule.steps[-1]
        if leaks:
            reason = BOUNDS if is_bounded else AGAIN
            schedule.notes[note] = schedule.notes[note]._replace(reasons=(*schedule.notes[note].reasons, reason))
        schedule.steps[begin + 1 : begin + 1 + len(added)] = [
            step._replace(note=note, is_quick=True) if isinstance(step, CompiledStep) else step._replace(note=note)
            for step in added
        ]

    def _seen_as_weights(self, step: Step) -> Step:
        """The convolution that a product of matrices stands for, with the matrix as its result."""
        again = convolution_of(step)
        assert again.part is not None
        shape = known_dims(again.part.outputs[0].shape)
        matrix = self._values[step.outputs[0]]
        number = self._values.part(matrix, "weights", shape, dense_of(shape), matrix.offset)
        return again._replace(outputs=(number,), attrs={**again.attrs, SPREADS: True})

    def _add_mark(self, steps: Sequence[Step], results: Sequence[int], sources: Sequence[int], note: int) -> None:
        """Add the condition: what the sources have, and what weights and gradients have, as the results show it."""
        schedule, values = self._schedule, self._values
        produced = {number for step in steps for number in step.outputs}
        hidden = [number for step in _spreading(steps) for number in _multiplied(step) if number not in produced]
        shown = self._witnesses(steps, results)
        ends = [[schedule.forwards(number) for number in dict.fromkeys(numbers)] for numbers in (hidden, sources)]
        inputs = [*shown, *[values[number] for numbers in ends for number in numbers]]
        numbers = {"shown": len(shown), "hidden": len(ends[0])}
        schedule.add_kernel(BEGIN.name, inputs, (), note, numbers)

    def _unbounded(self, note: int) -> int:
        """The value that is NaN if an element of an input of the graph is NaN, infinite or large; computed once."""
        if self._flag is None:
            self._flag = self._values.new(DataType.f32, (1,), "unbounded")
            float_inputs = [self._values[tensor.id] for tensor in self._schedule.inputs if tensor.dtype in FLOATS]
            self._schedule.add_kernel(UNBOUNDED.name, float_inputs, [self._values[self._flag]], note)
        return self._flag

    def _witnesses(self, steps: Sequence[Step], results: Sequence[int]) -> Sequence[Value]:
        """The parts of a result that show what a convolution was given; empty if ops behind it may hide that."""
        spreading = _spreading(steps)
        if len(spreading) != 1 or any(step.kind not in (*TRANSPARENT, *SIDES) for step in steps):
            return ()
        if has_joined_groups(spreading[0]):  # the source, which shows at its own pixels alone
            return ()
        shape = self._values[spreading[0].outputs[0]].shape
        ends = [self._values[number] for number in results if self._values[number].shape == shape]
        return witnesses(spreading[0], ends[0]) if ends and not ends[0].irregular else ()

    def _add_again(self, steps: Sequence[Step], results: Sequence[int], add_step: Callable[[Step], None]) -> None:
        """Add the steps in f32, without constants: the library must keep nothing of steps that may never run."""
        at, is_direct = dict[int, int](), self._is_direct(steps, results)
        for step in steps:
            if step.kind == "TypeCast":
                at[step.outputs[0]] = self._wide(steps[0], step.inputs[0], at, add_step)
                continue
            outputs = (results[0],) if is_direct else tuple([self._in_f32(number) for number in step.outputs])
            if step.kind in SIDES:
                origin = convolution_of(step)
                inputs = tuple([at.get(number, number) for number in origin.inputs])
                again = origin._replace(executor=exact_convolution.AGAIN)
            else:
                inputs = tuple([self._wide(steps[0], number, at, add_step) for number in step.inputs])
                part = _in_f32(step)
                executor = EXACT if BOUNDED in step.attrs else step.executor
                again = step._replace(executor=executor, attrs=part.attrs, part=part)
            add_step(again._replace(inputs=inputs, outputs=outputs, whole=False))
            at.update(zip(step.outputs, outputs, strict=True))
        for number in results:
            if at[number] != number:
                add_step(_cast(steps[-1], at[number], number))

    def _is_direct(self, steps: Sequence[Step], results: Sequence[int]) -> bool:
        """Whether kernels of the package write the result as it lies in memory, the later ones over the earlier."""
        are_kernels = steps[0].kind in SIDES and all(BOUNDED in step.attrs for step in steps[1:])
        value = self._values[results[0]]
        is_taken = len(steps) == 1 or value.dtype is DataType.f32
        return are_kernels and len(results) == 1 and is_taken and not value.irregular

    def _wide(self, step: Step, number: int, at: dict[int, int], add_step: Callable[[Step], None]) -> int:
        """The value for the numbers of another one in f32, cast once."""
        if number not in at:
            at[number] = self._in_f32(number)
            add_step(_cast(step, number, at[number]))
        return at[number]

    def _in_f32(self, number: int) -> int:
        """A new value for the numbers of another one in f32."""
        value = self._values[number]
        return self._values.new(DataType.f32, value.shape, f"{value.name} (f32)")

    def _sources(self, steps: Sequence[Step]) -> list[int] | None:
        """The values that the leaking products of a partition read, in another order maybe; None if it makes one."""
        makers = {number: step for step in steps for number in step.outputs}
        numbers = []
        for step in steps:
            for port in SOURCES[step.kind] if LEAKS in step.attrs else ():
                number = step.inputs[port]
                while number in makers and makers[number].kind in ORDERS:
                    number = makers[number].inputs[0]
                if number in makers:
                    return None
                numbers.append(number)
        return numbers


def _spreading(steps: Sequence[Step]) -> list[Step]:
    """The convolutions whose kernels multiply inputs by zeros."""
    return [step for step in steps if SPREADS in step.attrs and step.kind in SIDES]


def _multiplied(step: Step) -> tuple[int, ...]:
    """The inputs of a convolution that kernels multiply by zeros.

    They are its weights, both inputs of a gradient by weights, and the source where groups were joined.
    """
    if has_joined_groups(step):
        return step.inputs[:1]
    return step.inputs[:2] if SIDES[step.kind][2] is None else step.inputs[1:2]


def _in_f32(step: Step) -> Part:
    """The op of a step with f32 in the place of the other types."""
    assert step.part is not None
    types, outputs = (
        tuple([TensorType(DataType.f32, end.shape) for end in ends]) for ends in (step.part.types, step.part.outputs)
    )
    return Part(step.part.kind, step.part.attrs, step.part.inputs, types, outputs)


def _cast(step: Step, source: int, target: int) -> Step:
    """A cast for the op of a step."""
    return step.instead("copy", (source,), (target,), kind="TypeCast")
