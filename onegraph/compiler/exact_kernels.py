"""Adds the steps that keep NaN and infinities: kernels in the place of the library's, and those behind its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..opset.ops.binary import slope_target
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .edge_layouts import EdgeLayouts
from .ir.step import Step
from .ir.value import Value, dense_of
from .kernels import compiled_guard, compiled_max_pool, compiled_norm_relu
from .passes.slope_gradients import SRC
from .passes.special_values import GUARD, KEPT, NORM_GUARD, NORMALIZED, PATCHED, guard_code, pool_code
from .rewrites.own import Own, own_kernel
from .schedule import Schedule
from .slow_layouts import channels_last


class ExactKernels:
    """Adds steps to a schedule.

    Args:
        schedule: the schedule.
        edges: the layouts of its values.
    """

    def __init__(self, schedule: Schedule, edges: EdgeLayouts) -> None:
        self._schedule, self._values, self._edges = schedule, schedule.values, edges

    def add_exact(self, step: Step) -> None:
        """Add an elementwise op for which the library loses NaN or an infinity."""
        schedule = self._schedule
        assert step.part is not None
        call = step.part.call
        wanted, named = self._values[step.outputs[0]], step.attrs.get("own")
        found = Own(str(named)) if named else own_kernel(call)
        assert found is not None
        numbers = [*step.inputs]
        if found.kernel in ("prelu", SRC):
            numbers[1] = self._slopes(call, self._values[numbers[1]], wanted)
        inputs = [self._values[schedule.forwards(number)] for number in numbers]
        if self._edges.is_free(wanted):
            like = next((one for one in inputs if one.shape == wanted.shape and _is_whole(one)), wanted)
            wanted = self._values[wanted.id] = wanted._replace(strides=like.strides)
        attrs = [schedule.new_number(call.f32(name), len(wanted.shape)) for name in found.attrs]
        ends = [*inputs, *[self._values[number] for number in attrs], wanted]
        in_place = [
            (wanted.storage, one.storage)
            for one in inputs
            if (one.dtype, one.shape, one.strides, one.offset) == (wanted.dtype, wanted.shape, wanted.strides, 0)
        ]
        schedule.add_kernel(found.kernel, [one.id for one in ends], schedule.note("kernel", step, KEPT), in_place)

    def _slopes(self, call: Call, slope: Value, wanted: Value) -> int:
        """The slopes of a PReLU in a shape that is broadcast to that of src."""
        shape = known_dims(slope_target(call, slope.shape, wanted.shape))
        dense = slope if slope.dense else self._values[self._schedule.dense_copy(slope)]
        if dense.constant is not None:
            return self._schedule.new_constant(dense.constant.reshape(shape), dense.name)
        return self._schedule.part(dense, shape, dense_of(shape), dense.offset)

    def add_max_pool(self, step: Step) -> None:
        """Add a MaxPool, whose result lies as its source does if it may."""
        schedule = self._schedule
        assert step.part is not None
        code, wanted = pool_code(step.part.call), self._values[step.outputs[0]]
        source = self._values[schedule.forwards(step.inputs[0])]
        last = channels_last(source.shape) if code[0] == 1 else dense_of(source.shape)
        if source.strides[code[0]] != 1 and source.strides[-1] != 1:
            source = self._values[schedule.copy(source, last, "the kernel reads rows or channels side by side")]
        if self._edges.is_free(wanted):
            is_last = source.strides[code[0]] == 1 and code[0] == 1
            strides = channels_last(wanted.shape) if is_last else dense_of(wanted.shape)
            wanted = self._values[wanted.id] = wanted._replace(strides=strides)
        compiled = compiled_max_pool(source, wanted, code)
        schedule.add_own(compiled, [source], [wanted], (), schedule.note("kernel", step, KEPT))

    def add_guard(self, step: Step) -> None:
        """Add what computes an op again that the library has computed, if an element is NaN or infinite."""
        schedule = self._schedule
        assert step.part is not None
        note = len(schedule.notes) - 1
        schedule.notes[note] = schedule.notes[note]._replace(reasons=(*schedule.notes[note].reasons, GUARD))
        ins, outs = (
            [self._values[schedule.forwards(number)] for number in step.inputs],
            [self._values[number] for number in step.outputs],
        )
        if step.kind in PATCHED:
            source, result = ins[PATCHED[step.kind]], outs[0]
            schedule.add_kernel("keep_nan", (source.id, result.id, result.id), note)
            return
        if step.kind == "SoftMax":
            outs = outs[:2]
        elif len(ins) > 1 and step.kind != "MaxPoolBackward":
            ins = ins[:1]
        ins = ins[:2]
        compiled = compiled_guard(ins, outs, guard_code(step.part.call))
        schedule.add_own(compiled, ins, outs, (), note)

    def add_norm_guards(self, steps: Sequence[Step]) -> None:
        """Add what computes channels again behind a normalization in training that the library fused with a ReLU."""
        schedule, makers = self._schedule, {number: step for step in steps for number in step.outputs}
        for relu in steps:
            norm = makers.get(relu.inputs[0]) if NORMALIZED in relu.attrs else None
            if norm is None or norm.part is None:
                continue
            call, note = norm.part.call, len(schedule.notes) - 1
            schedule.notes[note] = schedule.notes[note]._replace(reasons=(*schedule.notes[note].reasons, NORM_GUARD))
            numbers = [norm.inputs[0], *norm.outputs[3:5], *norm.inputs[3:]]
            ins, out = [self._values[schedule.forwards(number)] for number in numbers], self._values[relu.outputs[0]]
            schedule.add_own(compiled_norm_relu(call, ins, out), ins, [out], (), note)


def _is_whole(value: Value) -> bool:
    """Whether the elements of a value lie side by side, in whatever order."""
    last = sum(stride * (dim - 1) for dim, stride in zip(value.shape, value.strides, strict=True))
    return not value.irregular and last + 1 == prod(value.shape)
