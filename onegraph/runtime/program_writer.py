"""Writes a compiled program as bytes, of which ``KeptProgram`` makes the program in a later process.

The bytes have all that compiling has decided: the partitions and the tensors that they are compiled for, the place of
every value, the numbers of threads, the report. Constants that lie in mapped files stay there; others are in the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from .._util import disk_cache
from .._util.mapped_file import MappedFile
from ..arrays.mapped_files import file_of
from ..compiler.ir.value import Value
from ..compiler.memory_planner import aligned
from ..compiler.numpy_steps import CONTROL, store
from ..compiler.report import PartitionReport
from ..compiler.steps import NumpyStep
from ..compiler.transformed_weights import LAYOUTS
from ..ir.op import Array, LogicalTensor, shape_inputs_of
from ..native.library import address_of
from ..opset.dtypes import DataType
from .compiled_program import CompiledProgram
from .kept_partitions import COPY, PLAIN, Json, NotKeptError, described

SMALL_BYTES = 1 << 10  # of the contents of an input that decides a shape


class _Constants:
    """The places of arrays: in mapped files, or in bytes that are written too."""

    def __init__(self, files: Sequence[MappedFile]) -> None:
        self._files = files
        self.own: list[Array] = []
        self.size = 0

    def place(self, array: Array, dtype: DataType) -> Json:
        """Where an array lies: the index of the file, or -1 for the bytes; offset; data type; shape; strides."""
        file = file_of(array)
        if file is None:
            at, self.size = self.size, aligned(self.size + array.nbytes)
            if self.size > disk_cache.MOST_BYTES:
                raise NotKeptError("too many bytes of constants")
            array = np.ascontiguousarray(array)
            self.own.append(array)
            where = -1, at
        else:
            indexes = [index for index, kept_file in enumerate(self._files) if kept_file is file]
            if not indexes:
                raise NotKeptError("a constant lies in a file of another graph")
            where = indexes[0], address_of(array) - file.address
        return [*where, dtype.value, array.shape, array.strides]

    def contents(self) -> Iterator[memoryview | bytes]:
        """The bytes, in parts."""
        for array in self.own:
            yield array.reshape(-1).view(np.uint8).data
            yield bytes(aligned(array.nbytes) - array.nbytes)


def written(program: CompiledProgram, files: Sequence[MappedFile]) -> list[bytes | memoryview]:
    """A program as bytes, in parts: the sizes, the constants, the program, the reports.

    Args:
        program: the program.
        files: in which its constants may lie.

    Raises:
        NotKeptError: the program has variables, or something that is no plain data.
    """
    placed, graph, source = program.placement, program.graph, program.source
    if any(source.keeps) or program.ending.n_steps:
        raise NotKeptError("constants are found by a hash, or variables are updated")
    constants = _Constants(files)
    kernels = described(dict.fromkeys(source.compiled))
    numbers = {kernel: index for index, kernel in enumerate(dict.fromkeys(source.compiled))}
    used = {
        *[tensor.id for tensor in (*graph.inputs.values(), *graph.outputs.values())],
        *placed.external,
        *[number for ids in placed.residents.values() for number in ids],
    }
    contents = {
        "inputs": [*map(_end, graph.inputs.items())],
        "outputs": [*map(_end, graph.outputs.items())],
        "values": [_value(placed.values[number]) for number in sorted(used)],
        "direct": placed.direct,
        "copied": placed.copied,
        "external": placed.external,
        "constants": [[number, *_constant(program, number, constants)] for number in placed.constants],
        "offsets": [*placed.offsets.items()],
        "arena_size": placed.arena_size,
        "residents": [*placed.residents.items()],
        "in_place": [*placed.in_place.items()],
        **kernels._asdict(),
        "steps": [
            [numbers[step.compiled], step.pieces, step.n_inputs, step.shifts, step.note] for step in program.steps
        ],
        "threads": source.threads,
        "limit": source.limit,
        "bound": source.bound,
        "parts": [_part(program, part) for part in program.parts],
        "in_c": program.in_c,
        "step_notes": program.step_notes,
        "share": program.share,
    }
    reports = [_report(report) for report in program._reports()]
    try:
        sections = [json.dumps(kernel, separators=(",", ":")).encode() for kernel in (contents, reports)]
    except (TypeError, ValueError):
        raise NotKeptError("an attribute is no plain data") from None
    sizes = constants.size, *map(len, sections)
    head = b"".join([size.to_bytes(8, "little") for size in sizes])
    return [head.ljust(aligned(len(head))), *constants.contents(), *sections]


def with_proof(program: Sequence[bytes | memoryview], proof: Json) -> list[bytes | memoryview]:
    """A program with the proof of what it was computed from behind it, in parts."""
    text = json.dumps(proof).encode()
    return [*program, text, len(text).to_bytes(8, "little")]


def _end(named: tuple[str, LogicalTensor]) -> Json:
    name, tensor = named
    return [name, tensor.id, tensor.dtype.value, tensor.shape, tensor.strides]


def _value(value: Value) -> Json:
    return [value.id, value.dtype.value, value.shape, value.strides, value.storage, value.name, value.offset]


def _constant(program: CompiledProgram, number: int, constants: _Constants) -> Json:
    """How a constant is made, and the place of what it is made from.

    It is the contents of its place, or a copy of a part of a file, at an address that its readers bear, or a form of
    weights, transformed only if a file has the weights.
    """
    array, value = program.placement.constants[number], program.placement.values[number]
    weights, form = program.transformed.get(number, (None, PLAIN))
    if weights is not None and (form not in LAYOUTS or file_of(weights) is not None):
        return form, constants.place(weights, value.dtype)
    constant = value.constant
    if constant is not None and constant is not array and file_of(constant) is not None:
        return COPY, constants.place(constant, value.dtype)
    return PLAIN, constants.place(array, value.dtype)


def _part(program: CompiledProgram, part: range | NumpyStep) -> Json:
    if isinstance(part, range):
        return [part.start, part.stop]
    if part.run is store:
        return {"inputs": part.inputs, "outputs": part.outputs, "note": part.note}
    (step,) = program.notes[part.note].steps
    op = step.op
    if op.kind in CONTROL:
        raise NotKeptError("the bodies of control flow are compiled in each process")
    if not step.whole:
        raise NotKeptError("numpy runs a part of an op")
    shaping = shape_inputs_of(op)
    tensors = [_typed(input_, index in shaping) for index, input_ in enumerate(op.inputs)]
    return {
        "kind": op.kind,
        "edition": op.edition,
        "name": op.name,
        "attrs": {name: _plain_attribute(value) for name, value in op.attrs.items()},
        "inputs": tensors,
        "outputs": [_typed(output, False) for output in op.outputs],
        "step": [step.inputs, step.outputs],
        "note": part.note,
    }


def _plain_attribute(value: object) -> Json:
    if not isinstance(value, (bool, int, float, str, tuple)):
        raise NotKeptError("an attribute is no plain data")
    return value


def _typed(tensor: LogicalTensor, with_contents: bool) -> Json:
    contents = None
    if with_contents and tensor.value is not None:
        if tensor.value.nbytes > SMALL_BYTES or tensor.value.dtype.kind not in "if":
            raise NotKeptError("large contents decide a shape")
        contents = tensor.value.tolist()
    return [tensor.id, tensor.dtype.value, tensor.shape, tensor.name, contents]


def _report(report: PartitionReport) -> Json:
    sources, results = (
        [[end.name, end.dtype.value, end.shape, end.strides] for end in side]
        for side in (report.sources, report.results)
    )
    named = report.executor, report.kinds, report.names, report.reasons
    return [*named, sources, results, report.threads, report.arithmetic, report.refused]
