"""Collects the steps of a graph in the order of execution, and assigns memory to its values.

A value has memory of its own, is a view of another value, or is a copy in another layout. If a graph output is a view,
its source is written directly into the memory of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from ..capi import CompiledPartition
from ..capi.settings import is_native
from ..capi.threads import ThreadCount
from ..errors import OneGraphError, UnsupportedError
from ..faults.layouts import is_scattered
from ..faults.use import VIEWS, Use
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, HOST
from ..opset.ops.movement import transposition
from ..opset.schema import Call, TensorType
from ..opset.shapes import settled_strides
from .codes import PLAIN, coding, numbers_of
from .growing_concats import factor_and_shift, growing, is_scaling
from .host_views import Place, is_host_view, is_irregular, place_of, reshaped
from .kernels import CompiledKernel, CompiledPointwise, has_kernel
from .lower import Dims, Lowered, Step, Value, dense_of
from .pointwise import code_of
from .report import nbytes
from .shared_constants import derived
from .steps import CompiledStep, Note, NumpyStep, compile_reorder, needs_dense, numpy_step, shifts_of, store
from .thread_tuning import SMALL_BYTES

OWN_KERNELS = {"Select": "select", "ReplaceNaN": "replace_nan"}  # kernels of the package, by kind of the op
LARGE_CONCAT = 1 << 15  # bytes


class Schedule:
    """The steps so far, the notes about them, and the values that they read and write.

    Args:
        lowered: the graph.

    Attributes:
        sizes: size in bytes of each value whose layout the library chose.
        threads: number of threads that the next partition is compiled for.
        returned: ids of the values that are outputs of the graph.
        viewed: ids of the values that share memory with another value.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.values: dict[int, Value] = dict(lowered.values)
        self.steps: list[CompiledStep | NumpyStep] = []
        self.notes: list[Note] = []
        self.sizes: dict[int, int] = {}
        self.threads = ThreadCount()
        self.returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._placed: dict[int, Value] = {}  # values placed in the memory of an output, as before
        self._place_in_outputs(lowered)
        self.viewed = {
            n for value in self.values.values() if value.storage != value.id for n in (value.id, value.storage)
        }
        self._grown = self._place_in_concats(lowered)
        self.viewed.update(one.outputs[0] for one in self._grown.values())
        self._concats: set[int] = set()  # ids of the Concats whose result is complete
        self._repeated = {**lowered.repeated, **{number: number for number in lowered.repeated.values()}}
        self.viewed.update(self._repeated)
        self._first: dict[int, int] = {}  # of equal results, the one that a step computes outside of a fusion
        self._copies: dict[tuple[int, Dims], int] = {}
        self._lowered = lowered
        self._kernels: dict[object, CompiledKernel] = {}

    def use(self, step: Step) -> Use:
        """A step as the record that the rules about the library take."""
        types = [TensorType(self.values[number].dtype, self.values[number].shape) for number in step.inputs]
        call = Call(BASE[step.kind], step.attrs, types, len(step.outputs))
        return Use(call, step.inputs, step.outputs, self.values[step.outputs[0]].dtype)

    def _place_in_outputs(self, lowered: Lowered) -> None:
        """Place the source of a graph output that is a view in the memory of the output, if the library writes it."""
        steps = [step for step in lowered.steps if step.executor == "library"]
        views = [step for step in steps if step.kind in VIEWS and step.outputs[0] in self.returned]
        producers = {n: step for step in steps for n in step.outputs} if views else {}
        for step in views:
            source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
            producer = producers.get(source.id)
            if producer is None or producer.kind in VIEWS or source.id in self.returned or 0 in source.shape:
                continue
            if source.storage != source.id or target.storage != target.id or not target.dense:
                continue
            strides = source.strides
            if step.kind == "StaticTranspose":
                order = transposition(self.use(step).call)
                assert order is not None
                strides = tuple([target.strides[order.index(axis)] for axis in range(len(order))])
            placed = source.placed(target.id, strides)
            if placed.dense or not needs_dense(placed, [producer]):
                self._placed[source.id] = source
                self.values[source.id] = placed

    def _place_in_concats(self, lowered: Lowered) -> dict[int, Step]:
        """Place results of Concats in those of later ones; returns the earlier one by id of the later one."""
        fixed = self.returned | self.viewed | {*lowered.repeated, *lowered.repeated.values()}
        found = growing(lowered, self.values, fixed)
        for step in reversed(lowered.steps):
            if step.id in found:
                whole, number = self.values[step.outputs[0]], found[step.id].outputs[0]
                self.values[number] = self.values[number].placed(whole.storage, whole.strides, whole.offset)
        return found

    def take_back(self, numbers: Sequence[int]) -> bool:
        """Undo the placement of values in the memory of an output; returns whether any of them was placed."""
        found = [number for number in numbers if number in self._placed]
        self.viewed -= {n for number in found for n in (number, self.values[number].storage)}
        self.values.update((number, self._placed.pop(number)) for number in found)
        return bool(found)

    # Views and copies ------------------------------------------------------------------------------------------------

    def add_view(self, step: Step) -> bool:
        """Add an op that takes part of a tensor, or renames axes, as a view; returns False if it is none."""
        is_host = step.executor == "reference" and is_host_view(step.op)
        if not is_host and (step.executor != "library" or step.kind not in VIEWS):
            return False
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        if source.storage == target.id:
            self.note("view", step, "no copy: written into the memory of the output", step.note)
            return True
        is_returned = target.id in self.returned
        if target.id in self.viewed or 0 in target.shape or not (target.dense or is_returned):
            return False
        place = self._place(step, source, target)
        if place is None and is_returned and target.dense:
            dense = source._replace(id=len(self.values)).placed(target.id, dense_of(source.shape))
            self.values[dense.id] = dense
            self.add_copy(source, dense, step, "the source of a reshape must be dense")
            return True
        if place is None:
            source = self.values[self.dense_copy(source)]
            place = self._place(step, source, target)
            assert place is not None
        strides = settled_strides(target.shape, place.strides)
        view = target.placed(source.storage, strides, source.offset + place.offset)
        if source.constant is not None and not is_host:
            view = view._replace(constant=self._constant_view(step, source.constant, target))
        if is_returned:
            view = view._replace(id=len(self.values), name=f"{target.name} (view)")
            self.values[view.id] = view
            self.add_copy(view, target, step, "the result is stored as an array of its own")
        else:
            self.values[target.id] = view
            what = "part of" if is_host else "other strides on"
            self.note("view", step, f"no copy: {what} the same memory", step.note)
        return True

    def _place(self, step: Step, source: Value, target: Value) -> Place | None:
        """The place of the result of a view in the memory of its source; None if a reshape needs a dense source."""
        if step.executor == "reference":
            return place_of(step.op, source, target)
        if step.kind == "StaticReshape":
            return reshaped(source, target.shape)
        # The library takes tensors that differ in the strides of axes of size 1 alone for each other.
        return Place(tuple([source.strides[axis] for axis in self._order(step)]), 0)

    def _order(self, step: Step) -> Dims:
        order = transposition(self.use(step).call)
        assert order is not None
        return order

    def _constant_view(self, step: Step, constant: Array, target: Value) -> Array:
        """The contents of a view of a constant."""
        if step.kind == "StaticReshape":
            return constant.reshape(target.shape)
        return constant.transpose(self._order(step))

    def add_concat(self, step: Step) -> bool:
        """Add a Concat as one copy for each source, into its part of the result; returns False for other steps.

        The library's Concat copies with one thread, 3 to 10 GB/s. A small one is faster as one step.
        """
        target = self.values[step.outputs[0]]
        sources = [self.values[number] for number in step.inputs]
        if step.kind != "Concat" or (nbytes(target) < LARGE_CONCAT and target.dense and step.id not in self._grown):
            return False
        if not all(has_kernel("cast", [source, target]) for source in sources):
            return False
        self._concats.add(step.id)
        first = self._grown.get(step.id)
        known = len(first.inputs) if first is not None and first.id in self._concats else 0
        axis = int(step.attrs["axis"]) % len(target.shape)  # type: ignore[arg-type]
        note, start = self.note("copy", step, "into parts of the result, with all threads", step.note), 0
        for index, source in enumerate(sources):
            offset = target.offset + start * target.strides[axis]
            start += source.shape[axis]
            if index < known:
                continue
            part = target._replace(id=len(self.values), shape=source.shape, name=f"{target.name} (part)")
            self.values[part.id] = part.placed(target.storage, target.strides, offset)
            self.add_kernel("cast", (source.id, part.id), note)
        return True

    def add_scaling(self, steps: Sequence[Step]) -> bool:
        """Add a normalization by constants of a part of rows, and a ReLU behind it; returns False for other steps.

        The library's kernel for parts of rows is a reference kernel.
        """
        first, *rest = steps
        if not is_scaling(first, self.values) or [step.kind for step in rest] not in ([], ["ReLU"]):
            return False
        source, target = self.values[first.inputs[0]], self.values[steps[-1].outputs[0]]
        if source.dense or source.dtype != target.dtype or (rest and rest[0].inputs != first.outputs):
            return False
        if rest and (first.outputs[0] in self.returned or first.outputs[0] in self.viewed):
            return False
        vectors = []
        key = derived(
            ("scaling", first.attrs["epsilon"]), *[self._lowered.key(self.values[n]) for n in first.inputs[1:]]
        )
        for row in self._lowered.shared.once(key, partial(factor_and_shift, first, self.values)):
            value = Value(len(self.values), DataType.f32, row.shape, (1,), len(self.values), first.op.name, row)
            self.values[value.id] = value
            vectors.append(value.id)
        kind, numbers = "scale_relu" if rest else "scale", (source.id, *vectors, target.id)
        if not has_kernel(kind, [self.values[number] for number in numbers]):
            return False
        self.notes.append(
            Note("copy", steps, ("scaled by onegraph: the library has no such kernel",), [source], [target])
        )
        return self.add_kernel(kind, numbers, len(self.notes) - 1)

    def add_repeated(self, step: Step) -> bool:
        """Let a step that repeats an earlier one take its result; returns False for other steps."""
        number = step.outputs[0]
        origin = self._repeated.get(number)
        if origin is None or number in self.returned or number in self._placed:
            return False
        first = self._first.setdefault(origin, number)
        if first != number:
            known = self.values[first]
            self.values[number] = self.values[number].placed(known.storage, known.strides, known.offset)
        return first != number

    def dense_copy(self, value: Value) -> int:
        """The id of a dense copy of a value, made once."""
        return self.copy(value, dense_of(value.shape), "the reader is slow with these strides, or does not honour them")

    def copy(self, value: Value, strides: Dims, reason: str) -> int:
        """The id of a copy of a value in another layout, made once."""
        key = value.id, strides
        if key not in self._copies:
            copied = self.new_value(value, strides)
            self._copies[key] = copied.id
            if copied.constant is None:
                self.add_copy(value, copied, None, reason)
        return self._copies[key]

    def tiled(self, number: int, count: int) -> int:
        """The id of a vector that lies ``count`` times in memory, made once."""
        value = self.values[number]
        key = number, (count,)
        if key not in self._copies:
            shape = (count, prod(value.shape))
            constant = None if value.constant is None else np.tile(value.constant.reshape(-1), (count, 1))
            copied = Value(
                len(self.values), value.dtype, shape, dense_of(shape), len(self.values), value.name, constant
            )
            self._copies[key], self.values[copied.id] = copied.id, copied
            if constant is None:
                note = Note("copy", (), (f"{count} times side by side",), (value,), (copied,))
                self.steps.append(NumpyStep(store, (number,), (copied.id,), len(self.notes)))
                self.notes.append(note)
        return self._copies[key]

    def new_value(self, value: Value, strides: Dims) -> Value:
        """A new value with the type of another one, in memory of its own; a constant with dense strides only."""
        number, is_dense = len(self.values), strides == dense_of(value.shape)
        constant = value.constant
        if constant is not None and not constant.flags.c_contiguous:
            key = derived("dense", self._lowered.key(value))
            constant = self._lowered.shared.once(key, partial(np.ascontiguousarray, constant))
        self.values[number] = value._replace(
            id=number,
            name=f"{value.name} ({'dense' if is_dense else 'channels last'})",
            constant=constant,
        ).placed(number, strides)
        return self.values[number]

    def add_copy(self, source: Value, target: Value, step: Step | None, reason: str) -> None:
        """Add a copy between layouts: the library's Reorder if it supports the data type, otherwise another one."""
        note = Note("oneDNN", () if step is None else (step,), (reason,), (source,), (target,))
        index = len(self.notes)
        try:
            if is_irregular(source.shape, source.strides):
                raise UnsupportedError("the library copies no tensor whose elements share memory or run backwards")
            if source.dtype.is_host:
                raise UnsupportedError(f"the library has no {source.dtype}")
            if not is_native(source.dtype):
                raise UnsupportedError(f"the library copies {source.dtype} element by element")
            if is_scattered(target.shape, target.strides):
                raise UnsupportedError("oneDNN leaves the result unwritten")
            self.threads.use(None)
            compiled = compile_reorder(source, target)
        except OneGraphError:
            self.notes.append(note._replace(executor="copy"))
            self._add_cast((source.id,), (target.id,), index)
            return
        self.notes.append(note)
        self.add_compiled(compiled, (source.id, target.id), index)

    def add_cast(self, step: Step, reason: str) -> None:
        """Add a TypeCast, hundreds of times as fast as the library's for data types that the CPU lacks."""
        reason = reason or "by onegraph: the library's kernel for data types that the CPU has not is slower"
        self._add_cast(step.inputs, step.outputs, self.note("copy", step, step.note, reason))

    def _add_cast(self, inputs: tuple[int, ...], outputs: tuple[int, ...], note: int) -> None:
        """Add a step that casts a value, or copies it to another layout."""
        if not self.add_kernel("cast", (*inputs, *outputs), note):
            self.steps.append(NumpyStep(store, inputs, outputs, note))

    # Notes and steps -------------------------------------------------------------------------------------------------

    def note(self, executor: str, step: Step, *reasons: str) -> int:
        """Note the executor of a step and the reasons; returns the index of the note."""
        inputs = [self.values[number] for number in dict.fromkeys(step.inputs)]
        outputs = [self.values[number] for number in step.outputs]
        self.notes.append(Note(executor, (step,), reasons, inputs, outputs))
        return len(self.notes) - 1

    def add_numpy(self, step: Step, reason: str) -> None:
        """Add an op that numpy or a kernel of the package runs; an empty ``reason`` stands for the note of the step."""
        kind, ends = OWN_KERNELS.get(step.kind, ""), (*step.inputs, *step.outputs)
        if kind and has_kernel(kind, [self.values[number] for number in ends]):
            self.add_kernel(kind, ends, self.note("copy", step, reason or step.note))
            return
        executor = "host" if step.op.edition == HOST else "reference"
        self.steps.append(numpy_step(step, self.values, self.note(executor, step, reason or step.note)))

    def add_on_codes(self, step: Step) -> None:
        """Add a step that a kernel for 8-bit codes runs."""
        values = [self.values[number] for number in step.inputs]
        ends = [self.dense_copy(one) if is_irregular(one.shape, one.strides) else one.id for one in values]
        self.add_kernel(str(step.attrs["kernel"]), (*ends, *step.outputs), self.note("kernel", step, step.note))

    def add_rescaling(self, step: Step) -> bool:
        """Add a Quantize or Dequantize that no fusion takes in as a kernel of the package; returns False for others."""
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        found = coding(step) if step.kind in ("Quantize", "Dequantize") else None
        if found is None or not has_kernel("rescale", [source, target]):
            return False
        ends = (PLAIN, found) if step.kind == "Quantize" else (found, PLAIN)
        numbers = numbers_of(ends[:1], ends[1], target.dtype)
        known = Value(
            len(self.values), DataType.f32, numbers.shape, dense_of(numbers.shape), len(self.values), "numbers", numbers
        )
        self.values[known.id] = known
        note = self.note("kernel", step, step.note)
        return self.add_kernel("rescale", (source.id, known.id, target.id), note)

    def add_kernel(self, kind: str, numbers: Sequence[int], note: int) -> bool:
        """Add a kernel of the package with the values ``numbers`` at its ports; returns False if there is none."""
        values = [self.values[number] for number in numbers]
        if not has_kernel(kind, values):
            return False
        key = kind, *[(value.dtype, value.shape, value.strides) for value in values]
        if key not in self._kernels:
            self._kernels[key] = CompiledKernel(kind, values)
        compiled, size = self._kernels[key], sum(map(nbytes, values))
        pieces, is_small = [value.storage for value in values], size <= SMALL_BYTES
        last, shifts = len(values) - 1, shifts_of(values)
        self.steps.append(CompiledStep(compiled, compiled, pieces, last, (), note, size, is_small, is_small, shifts))
        return True

    def add_pointwise(self, step: Step) -> None:
        """Add several elementwise ops that the kernel of the package computes together."""
        self.take_back(step.outputs)
        # A transpose before the step is a view by now, and a graph output may have strides.
        given, wanted = ([self.values[number] for number in ends] for ends in (step.inputs, step.outputs))
        ins = [value if value.dense else self.values[self.dense_copy(value)] for value in given]
        outs = [value if value.dense else self.new_value(value, dense_of(value.shape)) for value in wanted]
        code = code_of(step)
        key = "pointwise", *[(value.dtype, value.shape) for value in (*ins, *outs)], *code
        if key not in self._kernels:
            self._kernels[key] = CompiledPointwise(ins, outs, code)
        compiled, values = self._kernels[key], [*ins, *outs]
        reason = "together by onegraph: the library would read and write memory for each result"
        note, size = len(self.notes), sum(map(nbytes, values))
        self.notes.append(Note("kernel", step.members, (reason,), ins, outs))
        in_place = [
            (target.storage, source.storage)
            for target, source in zip(outs, reversed([one for one in ins if one.shape == outs[0].shape]), strict=False)
            if target.dtype is source.dtype and not source.offset
        ]
        pieces, is_small = [value.storage for value in values], size <= SMALL_BYTES
        self.steps.append(
            CompiledStep(
                compiled, compiled, pieces, len(ins), in_place, note, size, is_small, is_small, shifts_of(values)
            )
        )
        for source, target in zip(outs, wanted, strict=True):
            if source is not target:
                self.add_copy(source, target, step, "the output has strides")

    def add_compiled(self, compiled: CompiledPartition, numbers: Sequence[int], note: int) -> None:
        """Add a compiled partition with the values ``numbers`` at its ports, inputs first."""
        values = [self.values[number] for number in numbers]
        ends = [*compiled.inputs, *compiled.outputs]
        at = {tensor.id: value for tensor, value in zip(ends, values, strict=True)}
        in_place = [
            (at[target].storage, at[source].storage)
            for source, target in compiled.inplace_pairs
            if not at[source].offset
        ]
        count, size, pieces = len(compiled.inputs), sum(map(nbytes, values)), [value.storage for value in at.values()]
        shifts = shifts_of([*at.values()])
        self.steps.append(CompiledStep(compiled, compiled, pieces, count, in_place, note, size, shifts=shifts))
