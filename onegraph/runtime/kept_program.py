"""Makes a program in a later process of what ``program_writer`` has written of it.

The process neither reads and lowers the graph nor searches and measures. It only lets the library compile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.mapped_file import MappedFile
from .._util.processor_share import Share
from .._util.validation import integer
from ..builder.graph import DataGraph
from ..capi.thread_affinity import calling_thread
from ..capi.threads import MAX_THREADS
from ..compiler.ir.step import Step
from ..compiler.ir.value import Value
from ..compiler.memory_planner import aligned
from ..compiler.steps import CompiledStep, Ending, NumpyStep
from ..compiler.transformed_weights import weights_in
from ..errors import OneGraphError
from ..ir.op import Array, LogicalTensor, Op, make_tensor
from ..native.library import DTYPE_NAMES, ffi
from ..opset.dtypes import DataType
from .compile_options import CompileOptions
from .kept_partitions import COPY, PLAIN, Json, NotKeptError, restored
from .placement import Placement, copy_of, span
from .plan import PlanSource
from .program import Program

if TYPE_CHECKING:
    from ..compiler.report import PartitionReport


class KeptProgram(Program):
    """A program that an earlier process has compiled.

    Args:
        data: what ``written`` returned.
        files: the mapped files, in the same order.
        options: the options of the compilation.
        read: reads the graph.

    Raises:
        NotKeptError: it does not fit this process.
    """

    def __init__(
        self, data: memoryview, files: Sequence[MappedFile], options: CompileOptions, read: Callable[[], DataGraph]
    ) -> None:
        self._read = read
        try:
            self._restore(data, files, options)
        except (OneGraphError, LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise NotKeptError(str(error)) from error

    def _restore(self, data: memoryview, files: Sequence[MappedFile], options: CompileOptions) -> None:
        own, text, self._described = _sections(data)
        contents = json.loads(text)
        super().__init__(_interface(contents), Share(*contents["share"]))
        self.placement = _placement(self.graph, contents, [*files, own])
        compiled = restored(contents, options.fpmath_mode, options.policy, self.share.threads)
        self.step_notes, self.in_c, self.ending = contents["step_notes"], contents["in_c"], Ending(0, frozenset())
        self.parts = [*map(_kept_part, contents["parts"])]
        steps = [
            CompiledStep(compiled[number], compiled[number], pieces, n_inputs, (), note, 0, shifts=shifts)
            for number, pieces, n_inputs, shifts, note in contents["steps"]
        ]
        owners = {owner for step in steps if (owner := step.compiled.owner_thread) is not None}
        self.owner_thread = calling_thread() if owners else None
        placed = self.placement
        places, pages = placed.places(), placed.file_pages()
        limit, *threads = [
            integer("threads", count, 0, MAX_THREADS) for count in (contents["limit"], *contents["threads"])
        ]
        self.source = PlanSource(steps, places, placed.n_slots, limit, pages, bound=contents["bound"])
        self.source.threads = threads
        _refuse_outside(self.source, placed)

    def whole_graph(self) -> DataGraph:
        """The graph of the model, which is read now."""
        from ..transform.specialise import specialise

        return specialise(self._read()._as_step(), {})

    def _reports(self) -> tuple[PartitionReport, ...]:
        return tuple(_kept_report(index, entry) for index, entry in enumerate(json.loads(self._described)))


def without_proof(data: memoryview) -> tuple[memoryview, Json]:
    """A program, and the proof of what it was computed from.

    Raises:
        NotKeptError: there is no proof.
    """
    end = max(len(data) - 8 - int.from_bytes(data[-8:], "little"), 0)
    try:
        return data[:end], json.loads(bytes(data[end:-8]))
    except ValueError:
        raise NotKeptError("no proof") from None


def _sections(data: memoryview) -> tuple[Array, bytes, bytes]:
    """The constants, which stay in the file, and the program and the reports as JSON."""
    sizes = [int.from_bytes(data[at : at + 8], "little") for at in (0, 8, 16)]
    begin = aligned(24)
    if begin + sum(sizes) != len(data):
        raise NotKeptError("another size")
    middle = begin + sizes[0]
    own = np.frombuffer(data[begin:middle], np.uint8)
    return own, bytes(data[middle : middle + sizes[1]]), bytes(data[middle + sizes[1] :])


def _interface(contents: Json) -> DataGraph:
    """A graph without ops, with the inputs and outputs of the program."""
    graph = DataGraph()
    for side, named in (("inputs", graph._inputs), ("outputs", graph._outputs)):
        for name, number, dtype, shape, strides in contents[side]:
            tensor = make_tensor(number, DataType(dtype), tuple(shape), _dims(strides), name, None, (), None)
            named[name] = graph._by_id.setdefault(number, tensor)
    return graph


def _dims(contents: Json) -> tuple[int, ...] | None:
    return None if contents is None else tuple(contents)


def _placement(graph: DataGraph, contents: Json, memory: Sequence[MappedFile | Array]) -> Placement:
    values = {
        number: Value(number, DataType(dtype), tuple(shape), tuple(strides), storage, name, None, offset)
        for number, dtype, shape, strides, storage, name, offset in contents["values"]
    }
    constants = {number: _array(memory, place, dtype_name) for number, dtype_name, place in contents["constants"]}
    external = tuple(contents["external"])
    return Placement(
        graph,
        values,
        tuple([(name, number) for name, number in contents["direct"]]),
        tuple([(name, number) for name, number in contents["copied"]]),
        external,
        constants,
        {number: slot for slot, number in enumerate((*external, *constants), 1)},
        dict(contents["offsets"]),
        contents["arena_size"],
        dict(contents["residents"]),
        dict(contents["in_place"]),
    )


def _array(memory: Sequence[MappedFile | Array], place: Json, dtype_name: str) -> Array:
    """A constant, made of a part of a file or of the bytes, which numpy refuses if it does not lie inside."""
    index, offset, dtype, shape, strides = place
    mapped: Any = memory[index]
    array: Array = np.ndarray(tuple(shape), DataType(dtype).numpy, mapped, offset, tuple(strides))
    array.flags.writeable = False
    if dtype_name == PLAIN:
        return array
    return copy_of(array) if dtype_name == COPY else weights_in(dtype_name, array)


def _kept_part(contents: Json) -> range | NumpyStep:
    if isinstance(contents, list):
        return range(*contents)
    from ..compiler.numpy_steps import numpy_step, store  # imports the reference of every op

    if "kind" not in contents:
        return NumpyStep(store, tuple(contents["inputs"]), tuple(contents["outputs"]), contents["note"])
    ins, outs = ([_kept_tensor(*entry) for entry in contents[side]] for side in ("inputs", "outputs"))
    attrs = {name: tuple(value) if isinstance(value, list) else value for name, value in contents["attrs"].items()}
    op = Op(0, contents["kind"], tuple(ins), tuple(outs), attrs, contents["name"], contents["edition"])
    inputs, outputs = contents["step"]
    return numpy_step(Step(0, "reference", op.kind, tuple(inputs), tuple(outputs), op), {}, contents["note"])


def _kept_tensor(number: int, dtype: str, shape: Json, name: str, contents: Json) -> LogicalTensor:
    kind = DataType(dtype)
    value = None if contents is None else np.array(contents, kind.numpy)
    return make_tensor(number, kind, tuple(shape), None, name, value, (), None)


def _kept_report(index: int, contents: Json) -> PartitionReport:
    from ..compiler.report import PartitionReport

    executor, kinds, names, reasons, sources, results, threads, arithmetic, refused = contents
    named = index, executor, tuple(kinds), tuple(names), tuple(reasons)
    return PartitionReport(*named, _kept_ends(sources), _kept_ends(results), threads, arithmetic, tuple(refused))


def _kept_ends(contents: Json) -> tuple[Value, ...]:
    return tuple(
        [Value(0, DataType(dtype), tuple(shape), tuple(strides), 0, name) for name, dtype, shape, strides in contents]
    )


def _refuse_outside(source: PlanSource, placed: Placement) -> None:
    """Refuse a program in which a step would leave the memory of a slot."""
    sizes = [placed.arena_size, *[span(placed.values[number]) for number in placed.external]]
    sizes += [_reach(constant) for constant in placed.constants.values()]
    place = 0
    for step in source.steps:
        for index in range(step.n_inputs + step.n_outputs):
            tensor, at = step.tensors[index], source.offsets[place]
            dims = ffi.unpack(tensor.dims, tensor.ndims)
            steps = ffi.unpack(tensor.layout.strides, tensor.ndims)
            reach = 0 if 0 in dims else 1 + sum((dim - 1) * step for dim, step in zip(dims, steps, strict=True))
            end = at + reach * DTYPE_NAMES[tensor.data_type].numpy.itemsize
            if end > sizes[source.slots[place]] or min((at, *dims, *steps)) < 0:
                raise NotKeptError("a step would leave its memory")
            place += 1


def _reach(array: Array) -> int:
    """Bytes from the first element of an array to the end of the last one."""
    steps = [(dim - 1) * step for dim, step in zip(array.shape, array.strides, strict=True)]
    return sum(steps) + array.itemsize if array.size else 0
