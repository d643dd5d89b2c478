"""Collects the steps of a graph in the order of execution, and assigns memory to its values.

A value has memory of its own, is a view of another value, or is a copy in another layout. If a graph output is a view,
its source is written directly into the memory of the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from .._util.open_sizes import present
from ..capi import CompiledPartition
from ..capi.settings import is_native
from ..capi.threads import ThreadCount
from ..errors import OneGraphError, UnsupportedError
from ..faults.layouts import is_scattered
from ..faults.use import Use
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, HOST
from ..opset.schema import Call, TensorType
from ..reference.host import CHANGES
from .growing_concats import growing, placed_in
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Dims, Value, Values, dense_of
from .kernels.cast import CAST, can_cast
from .kernels.kernel import FLOATS
from .kernels.native import CompiledKernel, Numbers, compiled, packed
from .kernels.strided_copy import COPY, backwards, can_copy
from .notes import Note
from .numpy_steps import numpy_step, store
from .partition_store import SharedPartitions
from .report import nbytes
from .rewrites.compositions import REPLACED_FORMS
from .shared_constants import Key, derived
from .single_ops import Reordering
from .steps import CompiledStep, NumpyStep, PartitionRecipe, shifts_of
from .thread_tuning import SMALL_BYTES
from .view_places import sources_in_outputs

if TYPE_CHECKING:
    from .partition_cache import Pattern

ROW = 64  # bytes of a row that a kernel of the package copies as fast as the library
NO_NUMBERS: Numbers = MappingProxyType({})


def use_of(step: Step, values: Mapping[int, Value]) -> Use:
    """A step on these values as the record that the rules about the library take."""
    types = [TensorType(values[number].dtype, values[number].shape) for number in step.inputs]
    call = Call(BASE[step.kind], step.attrs, types, len(step.outputs))
    return Use(call, step.inputs, step.outputs, values[step.outputs[0]].dtype)


class Schedule:
    """The steps so far, the notes about them, and the values that they read and write.

    Args:
        lowered: the graph.
        known: what earlier programs of the executable have compiled.

    Attributes:
        patterns: those of its partitions.
        sizes: size in bytes of each value whose layout the library chose.
        threads: number of threads that the next partition is compiled for.
        returned: ids of the values that are outputs of the graph.
        viewed: ids of the values that share memory with another value.
        inputs: those of the graph.
        keys: the keys of constants that the schedule has added.
        changes: whether sizes change.
        wide: by id of a value of 16-bit floats that steps read, that of its f32 form.
        grown: by id of a Concat, the earlier one whose result is the first part of its own.
    """

    def __init__(self, lowered: Lowered, known: SharedPartitions) -> None:
        self.values = Values(lowered.values)
        self.steps: list[CompiledStep | NumpyStep] = []
        self.notes: list[Note] = []
        self.sizes: dict[int, int] = {}
        self.threads = ThreadCount()
        self.returned = lowered.returned
        placed = sources_in_outputs(lowered, self.returned)
        self._placed = {number: self.values[number] for number in placed}  # as they were before
        self.values.update(placed)
        self.viewed = {
            n for value in self.values.values() if value.storage != value.id for n in (value.id, value.storage)
        }
        fixed = self.returned | self.viewed | {*lowered.repeated, *lowered.repeated.values()}
        self.grown = growing(lowered, self.values, fixed)
        self.values.update(placed_in(self.grown, lowered, self.values))
        self.viewed.update(one.outputs[0] for one in self.grown.values())
        self._repeated = {**lowered.repeated, **{number: number for number in lowered.repeated.values()}}
        self.viewed.update(self._repeated)
        self._first: dict[int, int] = {}  # of equal results, the one that a step computes outside of a fusion
        self._copies: dict[tuple[int, Dims], int] = {}
        self._numbers: dict[tuple[float, int], int] = {}
        self.wide: dict[int, int] = {}
        self._lowered = lowered
        self.inputs = [*lowered.graph.inputs.values()]
        self.keys: dict[int, Key] = {}
        self._kernels: dict[object, CompiledKernel] = {}
        self._reorders, self.changes = known.reorders, lowered.shared.partitions.rounds
        self.patterns: Sequence[Pattern] = ()

    def use(self, step: Step) -> Use:
        """A step as the record that the rules about the library take."""
        return use_of(step, self.values)

    def is_read(self, number: int) -> bool:
        """Whether a step reads a value, or the graph returns it."""
        return bool(self._lowered.consumers(number)) or number in self.returned

    def take_back(self, numbers: Sequence[int]) -> bool:
        """Undo the placement of values in the memory of an output; returns whether any of them was placed."""
        placed = [number for number in numbers if number in self._placed]
        self.viewed -= {n for number in placed for n in (number, self.values[number].storage)}
        self.values.update((number, self._placed.pop(number)) for number in placed)
        return bool(placed)

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

    def key(self, value: Value) -> Key:
        """The key of a constant."""
        return self.keys.get(value.id) or self._lowered.key(value)

    # Values and copies -----------------------------------------------------------------------------------------------

    def dense_copy(self, value: Value) -> int:
        """The id of a dense copy of a value, made once."""
        return self.copy(value, dense_of(value.shape), "the reader is slow with these strides, or does not honour them")

    def forwards(self, number: int) -> int:
        """The id of a value, or of a dense copy if its elements run backwards, which no kernel of the package takes."""
        value = self.values[number]
        if all(stride >= 0 or dim == 1 for dim, stride in zip(value.shape, value.strides, strict=True)):
            return number
        return self.dense_copy(value)

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
            copied = self.values[self.values.new(value.dtype, shape, value.name, constant)]
            self._copies[key] = copied.id
            if constant is None:
                note = Note("copy", (), (f"{count} times side by side",), (value,), (copied,))
                self.steps.append(NumpyStep(store, (number,), (copied.id,), len(self.notes)))
                self.notes.append(note)
        return self._copies[key]

    def new_constant(self, array: Array, name: str) -> int:
        """The id of a new constant."""
        return self.values.new(DataType.of(array.dtype), array.shape, name, array)

    def new_number(self, number: float, rank: int) -> int:
        """The id of a constant f32 that is broadcast to tensors of this rank, made once."""
        key = float(np.float32(number)), rank
        if key not in self._numbers:
            self._numbers[key] = self.new_constant(np.full((1,) * rank, number, np.float32), "number")
        return self._numbers[key]

    def part(self, whole: Value, shape: Dims, strides: Dims, offset: int) -> int:
        """The id of a new value that lies in the memory of another one."""
        return self.values.part(whole, "part", shape, strides, offset)

    def new_value(self, value: Value, strides: Dims) -> Value:
        """A new value with the type of another one, in memory of its own; a constant with dense strides only."""
        constant, layout = value.constant, "dense" if strides == dense_of(value.shape) else "channels last"
        if constant is not None and not constant.flags.c_contiguous:
            key = derived("dense", self._lowered.key(value))
            constant = self._lowered.shared.once(key, partial(np.ascontiguousarray, constant))
        copied = value._replace(name=f"{value.name} ({layout})", constant=constant, strides=strides, offset=0)
        number = self.values.add(copied)
        if value.constant is not None:
            self.keys[number] = self.key(value) if constant is value.constant else key
        return self.values[number]

    def add_copy(self, source: Value, target: Value, step: Step | None, reason: str) -> None:
        """Add a copy between layouts: the library's Reorder if it supports the data type, otherwise another one."""
        note = Note("oneDNN", () if step is None else (step,), (reason,), (source,), (target,))
        index = len(self.notes)
        try:
            if source.irregular:
                raise UnsupportedError("the library copies no tensor whose elements share memory or run backwards")
            if source.dtype.is_host:
                raise UnsupportedError(f"the library has no {source.dtype}")
            if not is_native(source.dtype):
                raise UnsupportedError(f"the library copies {source.dtype} element by element")
            if is_scattered(target.shape, target.strides):
                raise UnsupportedError("oneDNN leaves the result unwritten")
            if self.changes and can_cast(source, target):
                raise UnsupportedError("the library would take longer to make its copy ready")
            recipe = Reordering(source, target)
            made = recipe.compiled(present, self._reorders, self.threads)
        except OneGraphError:
            self.notes.append(note._replace(executor="copy"))
            self.cast((source.id,), (target.id,), index)
            return
        self.notes.append(note)
        self.add_compiled(made, (source.id, target.id), index, recipe)

    def add_cast(self, step: Step, reason: str) -> None:
        """Add a TypeCast, hundreds of times as fast as the library's for data types that the CPU lacks."""
        if not (reason or step.note):
            reason = "by onegraph: the library's kernel for data types that the CPU has not is slower"
        self.prepare_cast(step.inputs[0])
        self.cast(step.inputs, step.outputs, self.note("copy", step, step.note, reason))

    def prepare_cast(self, number: int) -> None:
        """Add the copy that a cast of a value reads, if its elements share memory or run backwards."""
        if (value := self.values[number]).irregular and value.dtype in FLOATS:
            self.dense_copy(value)

    def cast(self, inputs: tuple[int, ...], outputs: tuple[int, ...], note: int) -> None:
        """Add a step that casts a value, or copies it to another layout."""
        source, target = self.values[inputs[0]], self.values[outputs[0]]
        if can_copy(source, target):
            forwards, numbers = backwards(source)
            self.add_kernel(COPY.name, [forwards], [target], note, numbers)
        elif can_cast(source, target):
            self.copy_into(inputs[0], outputs[0], note)
        elif source.irregular and can_cast(dense := self.values[self.dense_copy(source)], target):
            self.copy_into(dense.id, outputs[0], note)
        else:
            self.steps.append(NumpyStep(store, inputs, outputs, note))

    # Notes and steps -------------------------------------------------------------------------------------------------

    def note(self, executor: str, step: Step, *reasons: str) -> int:
        """Note the executor of a step and the reasons; returns the index of the note."""
        inputs = [self.values[number] for number in dict.fromkeys(step.inputs)]
        outputs = [self.values[number] for number in step.outputs]
        self.notes.append(Note(executor, (step,), reasons, inputs, outputs))
        return len(self.notes) - 1

    def add_numpy(self, step: Step, reason: str) -> None:
        """Add an op that numpy runs."""
        executor = "host" if step.op.edition == HOST else "reference"
        if executor == "reference" and step.kind in REPLACED_FORMS:
            reason = f"{reason}; other ops take its place for {REPLACED_FORMS[step.kind]} alone"
        self.let_overwrite(step)
        self.steps.append(numpy_step(step, self.values, self.note(executor, step, reason)))

    def let_overwrite(self, step: Step) -> None:
        """Give the result of an op that changes some elements the memory of its source, if nobody else reads it."""
        if self._may_overwrite(step):
            source, target = (self.values[number] for number in (step.inputs[0], step.outputs[0]))
            self.values[target.id] = target.placed(source.storage, source.strides)

    def _may_overwrite(self, step: Step) -> bool:
        """Whether an op that changes some elements of a copy may change its source, which nobody else reads."""
        if step.op.edition != HOST or step.op.kind not in CHANGES:
            return False
        source, target = (self.values[number] for number in (step.inputs[0], step.outputs[0]))
        if not {source.id, target.id}.isdisjoint(self.viewed | self.returned) or source.storage != source.id:
            return False
        is_read_once = self._lowered.only_consumer(source.id) is not None
        return source.dense and is_read_once and self._lowered.maker(source.id) is not None

    def copy_into(self, source: int, target: int, note: int) -> None:
        """Add a kernel that casts a value, or copies it into another layout; ``can_cast`` holds for them."""
        self.add_kernel(CAST.name, [self.values[source]], [self.values[target]], note)

    def add_kernel(
        self,
        name: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        note: int,
        numbers: Numbers = NO_NUMBERS,
        in_place: Sequence[tuple[int, int]] = (),
        *,
        varies: bool = False,
        rows: Sequence[int] = (),
    ) -> None:
        """Add a kernel of the package.

        Args:
            name: of its record.
            inputs, outputs: the values at its ports.
            note: the index of the note about it.
            numbers: as of :class:`Kernel`.
            in_place: as in ``CompiledStep``.
            varies, rows: as of :class:`Kernel`.
        """
        values, code = [*inputs, *outputs], packed(name, numbers)
        key = name, len(inputs), code, *[(value.dtype, value.shape, value.strides) for value in values]
        if key not in self._kernels:
            self._kernels[key] = compiled(name, inputs, outputs, code)
        kernel, pieces, size = self._kernels[key], [value.storage for value in values], sum(map(nbytes, values))
        is_small, shifts = present(size) <= SMALL_BYTES, shifts_of(values)
        is_quick = is_small or varies
        self.steps.append(
            CompiledStep(
                *(kernel, kernel, pieces, len(inputs), in_place, note, size, 0, is_small, is_quick, shifts), rows=rows
            )
        )

    def add_compiled(
        self, compiled: CompiledPartition, numbers: Sequence[int], note: int, recipe: PartitionRecipe | None = None
    ) -> None:
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
        self.steps.append(
            CompiledStep(compiled, compiled, pieces, count, in_place, note, size, shifts=shifts, recipe=recipe)
        )
