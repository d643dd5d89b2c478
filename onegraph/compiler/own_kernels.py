"""Adds steps that kernels of the package run, where the library has no kernel or a slow one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import gt, mul, sub

import numpy as np

from ..faults.vectors import SLOW_VECTORS
from ..ir.op import schema_of
from ..opset.editions.registry import HOST, base_of
from ..opset.schema import Call
from .codings import PLAIN, coding, numbers_of
from .edge_layouts import EdgeLayouts
from .growing_concats import factor_and_shift, is_scaling
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Value, dense_of
from .kernels import (
    HOST_KERNELS,
    CompiledKernel,
    compiled_log_softmax_gradient,
    compiled_packed,
    compiled_pointwise,
    compiled_rms_norm,
    compiled_vectors,
    compiled_winograd,
    has_kernel,
)
from .notes import Note
from .passes.pointwise import code_of
from .passes.window_products import Windows, windows_of
from .report import nbytes
from .rewrites.norms import rms_norm_width
from .schedule import Schedule
from .shared_constants import derived

BY_KIND = {"Select": "select", "ReplaceNaN": "replace_nan"}  # kernels that compute an op as it is
LARGE_CONCAT = 1 << 15  # bytes


class OwnKernels:
    """Adds steps to a schedule. A method for some steps only returns False for the others, and adds nothing.

    Args:
        lowered: the graph.
        schedule: its schedule.
        edges: the layouts of its values.
    """

    def __init__(self, lowered: Lowered, schedule: Schedule, edges: EdgeLayouts) -> None:
        self._lowered, self._schedule, self._values, self._edges = lowered, schedule, schedule.values, edges
        self._concats: set[int] = set()  # ids of the Concats whose result is complete
        self._pointwise: dict[object, CompiledKernel] = {}
        self._host_ops: dict[object, CompiledKernel | None] = {}

    def _has(self, kind: str, numbers: Sequence[int]) -> bool:
        return has_kernel(kind, [self._values[number] for number in numbers])

    def add_concat(self, step: Step) -> bool:
        """Add a Concat as one copy for each source, into its part of the result.

        The library's Concat copies with one thread, 3 to 10 GB/s. A small one is faster as one step.
        """
        schedule, target = self._schedule, self._values[step.outputs[0]]
        first = schedule.grown.get(step.id)
        if step.kind != "Concat" or (nbytes(target) < LARGE_CONCAT and target.dense and first is None):
            return False
        if not all(self._has("cast", (number, target.id)) for number in step.inputs):
            return False
        self._concats.add(step.id)
        known = len(first.inputs) if first is not None and first.id in self._concats else 0
        axis = int(step.attrs["axis"]) % len(target.shape)  # type: ignore[arg-type]
        note, start = schedule.note("copy", step, "into parts of the result, with all threads", step.note), 0
        for index, source in enumerate([self._values[number] for number in step.inputs]):
            offset = target.offset + start * target.strides[axis]
            start += source.shape[axis]
            if index < known:
                continue
            schedule.add_kernel("cast", (source.id, schedule.part(target, source.shape, target.strides, offset)), note)
        return True

    def add_scaling(self, steps: Sequence[Step]) -> bool:
        """Add a normalization by constants of a part of rows, and a ReLU behind it.

        The library's kernel for parts of rows is a reference kernel.
        """
        first, *rest = steps
        if not is_scaling(first, self._values) or [step.kind for step in rest] not in ([], ["ReLU"]):
            return False
        schedule, inner = self._schedule, first.outputs[0]
        source, target = self._values[first.inputs[0]], self._values[steps[-1].outputs[0]]
        if source.dense or source.dtype != target.dtype or (rest and rest[0].inputs != first.outputs):
            return False
        if rest and (inner in schedule.returned or inner in schedule.viewed):
            return False
        made_from = [self._lowered.key(self._values[number]) for number in first.inputs[1:]]
        key = derived(("scaling", first.attrs["epsilon"]), *made_from)
        rows = self._lowered.shared.once(key, partial(factor_and_shift, first, self._values))
        vectors = [schedule.new_constant(row, first.op.name) for row in rows]
        kind, numbers = "scale_relu" if rest else "scale", (source.id, *vectors, target.id)
        if not self._has(kind, numbers):
            return False
        reason = "scaled by onegraph: the library has no such kernel"
        schedule.notes.append(Note("copy", steps, (reason,), [source], [target]))
        schedule.add_kernel(kind, numbers, len(schedule.notes) - 1)
        return True

    def add_rescaling(self, step: Step) -> bool:
        """Add a Quantize or Dequantize that no fusion takes in."""
        found = coding(step) if step.kind in ("Quantize", "Dequantize") else None
        source, target = step.inputs[0], step.outputs[0]
        if found is None or not self._has("rescale", (source, target)):
            return False
        before, after = (PLAIN, found) if step.kind == "Quantize" else (found, PLAIN)
        numbers = self._schedule.new_constant(numbers_of((before,), after, self._values[target].dtype), "numbers")
        note = self._schedule.note("kernel", step, step.note)
        self._schedule.add_kernel("rescale", (source, numbers, target), note)
        return True

    def add_op(self, step: Step, reason: str) -> bool:
        """Add an op that a kernel computes as it is; ``reason`` is why the library does not."""
        numbers = (*step.inputs, *step.outputs)
        if step.kind == "RMSNorm":
            return self._add_rms_norm(step, reason)
        if step.kind not in BY_KIND or not self._has(BY_KIND[step.kind], numbers):
            return False
        self._schedule.add_kernel(BY_KIND[step.kind], numbers, self._schedule.note("copy", step, reason))
        return True

    def _add_rms_norm(self, step: Step, reason: str) -> bool:
        types = [None if tensor is None else tensor.type for tensor in step.op.inputs]
        call = Call(base_of(schema_of(step.op)), step.op.attrs, types, len(step.op.outputs))
        width = rms_norm_width(call)
        if width is None:
            return False
        self._add_dense(step, lambda ins, out: compiled_rms_norm(ins, out, width, call.f32("epsilon")), reason)
        return True

    def add_log_softmax_gradient(self, step: Step) -> None:
        """Add the gradient of a LogSoftmax without the labels, in the memory of its result."""
        ins, out = [self._values[number] for number in step.inputs], self._values[step.outputs[0]]
        note = self._schedule.note("kernel", step, step.note)
        in_place = [(out.storage, ins[0].storage)]
        self._schedule.add_own(compiled_log_softmax_gradient(ins, out), ins, [out], in_place, note)

    def add_host_op(self, step: Step) -> bool:
        """Add a host op that has a kernel, by the table ``HOST_KERNELS``."""
        op, schedule = step.op, self._schedule
        found = HOST_KERNELS.get(op.kind) if op.edition == HOST else None
        values = [self._values[number] for number in (*step.inputs, *step.outputs)]
        if found is None or values[0].dtype not in found.dtypes or any(0 in value.shape for value in values):
            return False
        if found.is_dense:
            schedule.take_back(step.outputs)
            values = [self._values[number] for number in (*step.inputs, *step.outputs)]
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        call = Call(base_of(schema_of(op)), op.attrs, types, len(op.outputs))
        given, wanted = values[: len(step.inputs)], values[len(step.inputs) :]
        ins = [
            self._values[schedule.dense_copy(one)] if one.irregular or (found.is_dense and not one.dense) else one
            for one in given
        ]
        outs = [
            schedule.new_value(one, dense_of(one.shape)) if found.is_dense and not one.dense else one for one in wanted
        ]
        key = op.kind, *op.attrs.items(), *[(one.dtype, one.shape, one.strides) for one in (*ins, *outs)]
        if found.is_checked or key not in self._host_ops:
            self._host_ops[key] = found.compiled(call, ins, outs)
        compiled = self._host_ops[key]
        if compiled is None:
            return False
        schedule.add_own(compiled, ins, outs, (), schedule.note("kernel", step, found.reason))
        for source, target in zip(outs, wanted, strict=True):
            if source is not target:
                schedule.add_copy(source, target, step, "the output has strides")
        return True

    def add_windows(self, step: Step) -> None:
        """Add a copy of the elements under each window, as rows of a matrix. The channels of the source lie last."""
        schedule, source, target = self._schedule, self._values[step.inputs[0]], self._values[step.outputs[0]]
        taken, is_first = windows_of(step), step.attrs["channels_first"]
        note = schedule.note("copy", step, "the elements under each window, side by side")
        if any(taken.pads_begin) or any(map(gt, taken.reach, source.shape[1:-1])):
            source = self._padded(source, taken, note)
        batch, *between, inner = source.strides
        inside = [*map(mul, between, taken.dilations)]
        (*_, channels), kernel = source.shape, taken.kernel
        shape = (source.shape[0], *taken.places, *((channels, *kernel) if is_first else (*kernel, channels)))
        row = (inner, *inside) if is_first else (*inside, inner)
        windows = schedule.part(source, shape, (batch, *map(mul, between, taken.strides), *row), source.offset)
        schedule.add_kernel("cast", (windows, schedule.part(target, shape, dense_of(shape), 0)), note)

    def _padded(self, source: Value, taken: Windows, note: int) -> Value:
        """A copy of what windows reach of images, with zeros around it."""
        schedule, (batch, *places, channels) = self._schedule, source.shape
        shape = (batch, *taken.reach, channels)
        target = schedule.new_value(source._replace(shape=shape, constant=None), dense_of(shape))
        zero = schedule.new_constant(np.zeros((1,) * len(shape), source.dtype.numpy), "zero")
        schedule.add_kernel("cast", (zero, target.id), note)
        room = [*map(sub, taken.reach, taken.pads_begin)]
        if min(room) > 0:
            shape = (batch, *map(min, places, room), channels)
            offset = sum(map(mul, taken.pads_begin, target.strides[1:]))
            parts = (source, source.offset), (target, offset)
            schedule.add_kernel("cast", [schedule.part(one, shape, one.strides, start) for one, start in parts], note)
        return target

    def add_on_codes(self, step: Step) -> None:
        """Add a step that a kernel for 8-bit codes runs."""
        schedule, kind = self._schedule, str(step.attrs["kernel"])
        values = [self._values[number] for number in step.inputs]
        numbers = [schedule.dense_copy(one) if one.irregular else one.id for one in values] + [*step.outputs]
        note = schedule.note("kernel", step, step.note)
        if self._has(kind, numbers):  # not for empty tensors
            schedule.add_kernel(kind, numbers, note)

    def add_transform(self, step: Step) -> None:
        """Add a transform of Winograd's convolution. An input behind its fourth one only orders the steps."""
        schedule = self._schedule
        given = [self._values[number] for number in step.inputs[:4]]
        ins = [value if value.dense else self._values[schedule.dense_copy(value)] for value in given]
        outs = [self._values[number] for number in step.outputs]
        code = step.attrs["code"]
        assert isinstance(code, tuple)
        note = schedule.note("kernel", step, step.note)
        schedule.add_own(compiled_winograd(ins, outs, [int(number) for number in code]), ins, outs, (), note)

    def add_vectors(self, step: Step) -> None:
        """Add a product of a few rows and a matrix, and the tensor that is added to it, if there is one."""
        is_turned = bool(step.attrs["transpose_b"])
        self._add_dense(step, lambda ins, out: compiled_vectors(ins, [out], is_turned), SLOW_VECTORS.reason, step.note)

    def add_packed(self, step: Step) -> None:
        """Add a product of rows and a matrix of packed weights."""
        code = step.attrs["packed"]
        assert isinstance(code, tuple)
        numbers = [int(number) for number in code]
        self._add_dense(step, lambda ins, out: compiled_packed(ins, [out], numbers), step.note)

    def _add_dense(self, step: Step, compiled: Callable[[list[Value], Value], CompiledKernel], *reasons: str) -> None:
        """Add a kernel with one result whose tensors are dense."""
        schedule = self._schedule
        schedule.take_back(step.outputs)
        given, (wanted,) = [self._values[number] for number in step.inputs], [self._values[n] for n in step.outputs]
        ins = [value if value.dense else self._values[schedule.dense_copy(value)] for value in given]
        out = wanted if wanted.dense else schedule.new_value(wanted, dense_of(wanted.shape))
        schedule.notes.append(Note("kernel", step.members or (step,), reasons, ins, [out]))
        schedule.add_own(compiled(ins, out), ins, [out], (), len(schedule.notes) - 1)
        if out is not wanted:
            schedule.add_copy(out, wanted, step, "the output has strides")

    def add_pointwise(self, step: Step) -> None:
        """Add several elementwise ops that one kernel computes together."""
        schedule = self._schedule
        schedule.take_back(step.outputs)
        # A transpose before the step is a view by now, and a graph output may have strides.
        given, wanted = ([self._values[number] for number in ends] for ends in (step.inputs, step.outputs))
        ins = [value if value.dense else self._values[schedule.dense_copy(value)] for value in given]
        outs = [value if value.dense else schedule.new_value(value, dense_of(value.shape)) for value in wanted]
        code = code_of(step)
        key = *[(value.dtype, value.shape) for value in (*ins, *outs)], *code
        if key not in self._pointwise:
            self._pointwise[key] = compiled_pointwise(ins, outs, code)
        reason = "together by onegraph: the library would read and write memory for each result"
        schedule.notes.append(Note("kernel", step.members, (reason,), ins, outs))
        in_place = [
            (target.storage, source.storage)
            for target, source in zip(outs, reversed([one for one in ins if one.shape == outs[0].shape]), strict=False)
            if target.dtype is source.dtype and not source.offset
        ]
        schedule.add_own(self._pointwise[key], ins, outs, in_place, len(schedule.notes) - 1)
        for source, target in zip(outs, wanted, strict=True):
            if source is not target:
                schedule.add_copy(source, target, step, "the output has strides")


# By the executor of a step, what adds it.
BY_EXECUTOR: Mapping[str, Callable[[OwnKernels, Step], None]] = {
    "codes": OwnKernels.add_on_codes,
    "labels": OwnKernels.add_log_softmax_gradient,
    "packed": OwnKernels.add_packed,
    "pointwise": OwnKernels.add_pointwise,
    "transform": OwnKernels.add_transform,
    "vectors": OwnKernels.add_vectors,
    "windows": OwnKernels.add_windows,
}
