"""Describes compiled partitions as plain data, and makes them again in a later process.

The library cannot write a compiled partition. What it searches for can be kept: which ops a partition joins, and the
tensors that it is compiled for. All partitions of a program go into one small graph, whose parts are not connected. The
search finds each of them again in a fraction of the time, and all are compiled in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

from ..capi.compilation import Compilation
from ..capi.engine import default_engine
from ..capi.graph import Graph
from ..capi.logical_tensor import LogicalTensor
from ..capi.op_template import LazyOps, OpTemplate
from ..capi.partition import CompiledPartition, Partition
from ..capi.postponed import compile_postponed
from ..capi.threads import check_threads
from ..compiler.kernels.native import CompiledKernel
from ..faults.execution import unproduced_weights
from ..native.library import VERSION
from ..opset.dtypes import DataType

END_TYPES = (DataType.f32, DataType.bf16, DataType.f16)  # data types that an End op takes

Json = Any  # what the package json reads and writes
PLAIN, COPY = "", "copy"  # how constants are made; otherwise a form of weights


class NotKeptError(Exception):
    """A program cannot be kept, or what was kept does not fit this process. It is compiled from its graph then."""


class Numbering:
    """The numbers of a partition's tensors, from 0 on."""

    def __init__(self) -> None:
        self.tensors: dict[int, LogicalTensor] = {}
        self._numbers: dict[int, int] = {}

    def of(self, tensor: LogicalTensor) -> int:
        """The number of a tensor."""
        self.tensors.setdefault(tensor._id, tensor)
        return self._numbers.setdefault(tensor._id, len(self._numbers))


class Described(NamedTuple):
    """Partitions, what they are compiled to, and the objects of the steps that run them, as plain data."""

    partitions: list[Json]
    compilations: list[Json]
    compiled: list[Json]


def described(kernels: Iterable[CompiledPartition | CompiledKernel]) -> Described:
    """Compiled partitions and kernels as plain data."""
    numberings: dict[int, Numbering] = {}  # by id of the partition
    places: dict[int, int] = {}  # of partitions and compilations in the lists, by id
    partitions, compilations, compiled = list[Json](), list[Json](), list[Json]()
    for kernel in kernels:
        if isinstance(kernel, CompiledKernel):
            ins = kernel.ports[0]
            kinds = [*map(_tensor, kernel._tensors)]
            compiled.append({"kernel": kernel.name, "code": list(kernel.code), "inputs": ins, "tensors": kinds})
            continue
        partition, compilation = kernel._partition, kernel._compilation
        if id(partition) not in places:
            places[id(partition)], numberings[id(partition)] = len(partitions), Numbering()
            partitions.append(_partition(partition, numberings[id(partition)]))
        if id(compilation) not in places:
            places[id(compilation)] = len(compilations)
            number = numberings[id(partition)].of
            compilations.append(
                {
                    "partition": places[id(partition)],
                    "inputs": [(number(tensor), *_tensor(tensor)) for tensor in compilation.inputs],
                    "outputs": [(number(tensor), *_tensor(tensor)) for tensor in compilation._given],
                    "threads": compilation.threads,
                    "results": _results(compilation),
                }
            )
        compiled.append({"compilation": places[id(compilation)]})
    return Described(partitions, compilations, compiled)


def _partition(partition: Partition, numbering: Numbering) -> Json:
    ops = [
        {
            "kind": op.schema.kind,
            "attrs": dict(op._attrs),
            "inputs": [*map(numbering.of, op._inputs)],
            "outputs": [*map(numbering.of, op._outputs)],
        }
        for op in partition._ops
    ]
    tensors = numbering.tensors
    outputs = [numbering.of(tensors[number]) for number in partition.output_ids]
    return {"ops": ops, "tensors": [*map(_tensor, tensors.values())], "needed": outputs}


def _tensor(tensor: LogicalTensor) -> tuple[Json, ...]:
    return tensor._dtype.value, tensor._shape, tensor._strides, tensor._layout, tensor._property


def _results(compilation: Compilation) -> Json:
    """What a compilation decided: the outputs, and which inputs' memory they may reuse, by port."""
    ids = [tensor._id for tensor in compilation.inputs]
    outputs = [(tensor._shape, tensor._strides, compilation.in_place.get(tensor._id)) for tensor in compilation.outputs]
    return [[shape, strides, None if source is None else ids.index(source)] for shape, strides, source in outputs]


def restored(
    contents: Mapping[str, Json], fpmath_mode: str, policy: str, most: int
) -> list[CompiledPartition | CompiledKernel]:
    """The compiled partitions and kernels that were described, in their order.

    Args:
        contents: the fields of :class:`Described`.
        fpmath_mode, policy: the options of the compilation.
        most: number of threads that compile.

    Raises:
        NotKeptError: the library finds other partitions, or compiles them in another way.
        OneGraphError: the library refuses something.
    """
    partitions = _partitions(contents["partitions"], fpmath_mode, policy)
    compilations = [_compilation(entry, *partitions[entry["partition"]]) for entry in contents["compilations"]]
    used: dict[int, list[CompiledPartition]] = {}
    kernels: list[CompiledPartition | CompiledKernel] = []
    for entry in contents["compiled"]:
        if "kernel" in entry:
            tensors = [_logical(number, *kind) for number, kind in enumerate(entry["tensors"])]
            kernels.append(CompiledKernel(entry["kernel"], tensors, entry["inputs"], entry["code"]))
            continue
        compiled = CompiledPartition.__new__(CompiledPartition)
        compiled._compilation = compilations[entry["compilation"]]
        compiled._partition = partitions[contents["compilations"][entry["compilation"]]["partition"]][0]
        used.setdefault(entry["compilation"], []).append(compiled)
        kernels.append(compiled)
    free = [group for group in used.values() if group[0].owner_thread is None]
    if any(compile_postponed(free, most)):
        raise NotKeptError("the library refuses a partition")
    for compiled in chain.from_iterable(group for group in used.values() if group[0].owner_thread is not None):
        compiled._make()
    for index, group in used.items():
        if _plain(_results(group[0]._compilation)) != contents["compilations"][index]["results"]:
            raise NotKeptError("the library compiles a partition in another way")
    return kernels


def _partitions(described: Sequence[Json], fpmath_mode: str, policy: str) -> list[tuple[Partition, int]]:
    """Each partition, and what to add to the numbers of its tensors for their ids."""
    kinds: dict[str, int] = {}  # of tensors, by their text
    tensors: list[LogicalTensor] = []
    places: dict[int, int] = {}  # the kind of each tensor
    starts = [0]
    for entry in described:
        for number, kind in enumerate(entry["tensors"], starts[-1]):
            if (text := repr(kind)) not in kinds:
                kinds[text] = len(tensors)
                tensors.append(_logical(len(tensors), *kind))
            places[number] = kinds[text]
        starts.append(starts[-1] + len(entry["tensors"]))
    ops, numbers = LazyOps(tensors, places), count()
    templates: dict[str, OpTemplate] = {}
    index_by_ids: dict[tuple[int, ...], int] = {}  # the index of a partition, by the ids of its ops
    marks: list[int] = []
    for index, (entry, start) in enumerate(zip(described, starts, strict=False)):
        ids: list[int] = []
        nodes: list[tuple[str, list[int], list[int]]] = []
        for op in entry["ops"]:
            text = repr((op["kind"], op["attrs"]))
            if text not in templates:
                attrs = {name: _tuples(value) for name, value in op["attrs"].items()}
                templates[text] = OpTemplate(op["kind"], attrs)
            ids.append(next(numbers))
            nodes.append((op["kind"], *([start + number for number in op[side]] for side in ("inputs", "outputs"))))
            ops.add(templates[text], ids[-1], "", *nodes[-1][1:])
        used = {number for _, *sides in nodes for side in sides for number in side}
        if not used <= {*range(start, start + len(entry["tensors"]))}:
            raise NotKeptError("an op has an unknown tensor")
        index_by_ids[tuple(ids)] = index
        read = {number for _, inputs, _ in nodes for number in inputs}
        for number in entry["needed"]:
            if start + number in read:
                kind = "End" if tensors[places[start + number]]._dtype in END_TYPES else "Wildcard"
                marks.append(next(numbers))
                ops.add(OpTemplate(kind, {}), marks[-1], "", [start + number], [])
        for number in unproduced_weights(nodes, VERSION):
            marks.append(next(numbers))
            ops.add(OpTemplate("Wildcard", {}), marks[-1], "", [], [number])
    graph = Graph(fpmath_mode=fpmath_mode)
    if graph._add_lazy_ops(ops, [*chain.from_iterable(index_by_ids), *marks]):
        raise NotKeptError("the library refuses an op")
    graph.finalize()
    partition_by_index: dict[int, Partition] = {}
    for partition in graph.partitions(policy):
        index = index_by_ids.get(tuple(sorted(partition.ops)), -1)
        if index >= 0:
            partition_by_index[index] = partition
    if len(partition_by_index) < len(described):
        raise NotKeptError("the library finds other partitions")
    return [(partition_by_index[index], start) for index, start in zip(range(len(described)), starts, strict=False)]


def _compilation(contents: Json, partition: Partition, start: int) -> Compilation:
    ins, outs = (
        [_logical(start + number, *kind) for number, *kind in contents[side]] for side in ("inputs", "outputs")
    )
    ports = [*dict.fromkeys(partition.input_ids)], [*dict.fromkeys(partition.output_ids)]
    if ports != ([tensor._id for tensor in ins], [tensor._id for tensor in outs]):
        raise NotKeptError("the library orders the ports of a partition in another way")
    partition._refuse_unsupported()
    compilation = Compilation(partition, partition._ops, ins, outs, default_engine(), keeps_constants=True)
    compilation.threads = check_threads(contents["threads"])
    return compilation


def _logical(
    number: int, dtype: str, shape: Sequence[int] | None, strides: Sequence[int] | None, layout: str, property: str
) -> LogicalTensor:
    dims, steps = (None if extent is None else tuple(extent) for extent in (shape, strides))
    return LogicalTensor._checked(number, DataType(dtype), dims, steps, layout, property)


def _tuples(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Json) -> Json:
    """What the package json reads after writing a value: lists instead of tuples."""
    return [*map(_plain, value)] if isinstance(value, (list, tuple)) else value
