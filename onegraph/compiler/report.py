"""Describes an executable: its partitions, the fused ops, the executor of each partition and the reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from .._util.counted import alike, counted, first_of
from .._util.html_table import RED, Cell, html_table
from .._util.records import record
from ..opset.dtypes import DataType
from .unfused import Unfused, unfused

# For which sizes the library has compiled a partition, for reports.
SIZES = FOR_ALL, FOR_THESE, FOR_EARLIER = (
    "compiled once for all sizes",
    "compiled for these sizes",
    "compiled for earlier sizes",
)


class NamedTensor(Protocol):
    """An input or output of a partition."""

    @property
    def name(self) -> str:
        """Name."""

    @property
    def dtype(self) -> DataType:
        """Data type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dims."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""

    @property
    def dense(self) -> bool:
        """Whether the tensor is row-major without gaps."""


@dataclass(slots=True)
class PartitionReport:
    """One partition of an executable. Its texts are made when they are read.

    Attributes:
        index: position in the order of execution.
        executor: ``oneDNN``; ``host`` for a host op that numpy runs; ``reference`` for another op that numpy runs;
            ``view`` if only strides change; ``copy`` if elements are only cast, selected or moved, by onegraph's own
            kernels or numpy; ``kernel`` if one of them computes on 8-bit codes, or several ops;
            ``constant`` if the compilation computed it, which is listed after all others.
        kinds, names: of the ops that run together, one for each op or part of an op. A part of an op has a kind such as
            ``LayerNorm: StaticReshape``.
        reasons: why numpy runs the partition, or which ops oneDNN gets instead; empty if oneDNN gets the ops unchanged.
        sources, results: the inputs and outputs.
        threads: number of threads; 0 for the limit of the calling thread; None if numpy runs the partition.
        arithmetic: the data types that are multiplied, such as ``bf16`` or ``u8 x s8``; for ops without products the
            widest type that they read; empty if nothing is computed.
        refused: kernels of the package that were considered for the ops, each with the reason why it was not taken.
        implementation: oneDNN's names of the primitives and kernels, such as ``convolution jit:avx512_core``; empty
            unless requested.
    """

    index: int
    executor: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    sources: tuple[NamedTensor, ...] = ()
    results: tuple[NamedTensor, ...] = ()
    threads: int | None = None
    arithmetic: str = ""
    refused: tuple[str, ...] = ()
    implementation: str = ""

    @property
    def fused(self) -> bool:
        """Whether several ops run as one kernel."""
        return self.executor == "oneDNN" and len(self.names) > 1

    @property
    def reference_kernel(self) -> bool:
        """Whether ``implementation`` names one of the slow reference kernels of oneDNN, such as ``ref:any``."""
        return names_reference_kernel(self.implementation)

    @property
    def ops(self) -> tuple[str, ...]:
        """Kind and name of the ops that run together."""
        return tuple(f"{kind} {name!r}" for kind, name in zip(self.kinds, self.names, strict=True))

    @property
    def reason(self) -> str:
        """The reasons as one text."""
        return "; ".join(dict.fromkeys(text for text in self.reasons if text))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Name, data type and shape of each input, with the strides of inputs that are not dense."""
        return tuple(map(_describe, self.sources))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name, data type and shape of each output, with the strides of outputs that are not dense."""
        return tuple(map(_describe, self.results))

    @property
    def layouts(self) -> dict[str, tuple[int, ...]]:
        """Strides in elements of every input and output, by name."""
        return {tensor.name: tensor.strides for tensor in (*self.sources, *self.results)}

    @property
    def bytes(self) -> int:
        """Total size of the inputs and outputs in bytes."""
        return sum(map(nbytes, (*self.sources, *self.results)))

    def to_dict(self) -> dict[str, object]:
        """The partition as plain dictionaries, tuples, strings and numbers."""
        return {
            "index": self.index,
            "executor": self.executor,
            "ops": self.ops,
            "reason": self.reason,
            "refused": self.refused,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "arithmetic": self.arithmetic or None,
            "bytes": self.bytes,
            "threads": self.threads,
            "implementation": self.implementation or None,
            "fused": self.fused,
            "reference_kernel": self.reference_kernel,
            "kinds": self.kinds,
            "names": self.names,
            "layouts": self.layouts,
        }


@record(frozen=True)
class VariableReport:
    """One variable of an executable.

    Attributes:
        name, dtype, shape: of the variable.
        assigned: whether a call changes it.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    assigned: bool

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes."""
        return _nbytes(self.dtype, self.shape)

    def to_dict(self) -> dict[str, object]:
        """The variable as a plain dictionary."""
        return {"name": self.name, "dtype": str(self.dtype), "shape": self.shape, "assigned": self.assigned}


@record(frozen=True)
class Report:
    """The partitions of an executable in the order of execution, and the settings of its compilation.

    ``print`` shows it as text, notebooks as a table. ``copies`` counts the inputs that calls had to copy because their
    layout differed from the declared one. ``cache`` has the counters of ``Executable.cache_info``. ``variables`` are
    the tensors that the executable keeps between calls. ``times`` has the seconds of the last profile, by index of the
    partition. ``threads`` has the largest number of threads, and what limits it to less than all processors. ``memory``
    has the bytes of constants: ``mapped`` from the file of a saved model, which all processes share; ``own`` arrays of
    this process; and, from oneDNN 3.3 on, the copies that the library has ``prepared`` for all models of this process.
    """

    library: str
    policy: str
    fpmath_mode: str
    partitions: tuple[PartitionReport, ...]
    note: str = ""
    copies: int = 0
    cache: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[VariableReport, ...] = ()
    times: Mapping[int, float] = field(default_factory=dict, compare=False)
    threads: tuple[int, str] = (0, "")
    memory: Mapping[str, int] = field(default_factory=dict, compare=False)

    def unfused(self) -> list[Unfused]:
        """Why neighbouring partitions are not one: the documented pattern they nearly match, and what is missing.

        Returns:
            an entry for each pair of partitions of which the second reads a result of the first, if a documented
            fusion pattern starts with the first op; ``print`` shows it as a sentence.
            Source: oneDNN developer guide 3.13, fusion patterns.
        """
        return unfused(self.partitions, self.policy)

    def to_dict(self) -> dict[str, object]:
        """The report as plain dictionaries, lists, strings and numbers."""
        return {
            "library": self.library,
            "policy": self.policy,
            "fpmath_mode": self.fpmath_mode,
            "partitions": [partition.to_dict() for partition in self.partitions],
            "note": self.note,
            "copies": self.copies,
            "cache": dict(self.cache),
            "variables": [variable.to_dict() for variable in self.variables],
            "threads": {"limit": self.threads[0], "reason": self.threads[1]},
            "memory": dict(self.memory),
        }

    def __str__(self) -> str:
        return "\n".join([*self._heading(), *partition_lines(self.partitions)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report as HTML for a notebook: a table of partitions, with the times of the last profile."""
        return partition_table("\n".join(self._heading()), self.partitions, self.times)

    def _heading(self) -> list[str]:
        lines = [f"{self.library}, policy {self.policy}, fpmath mode {self.fpmath_mode}"]
        if self.threads[1]:
            lines.append(f"at most {counted(self.threads[0], 'thread')}: {self.threads[1]}")
        if self.note:
            lines.append(self.note)
        if self.variables:
            size = sum(variable.bytes for variable in self.variables)
            assigned = sum(variable.assigned for variable in self.variables)
            lines.append(f"{counted(len(self.variables), 'variable')}, {size:,} bytes; a call assigns {assigned}")
        if self.copies:
            lines.append(f"inputs copied because of their layout: {self.copies}")
        if self.cache.get("hits") or self.cache.get("misses", 0) > 1:
            nouns = {"hits": "hit", "misses": "miss", "evictions": "eviction"}
            counts = ", ".join(counted(self.cache[name], noun) for name, noun in nouns.items())
            lines.append(f"{self.cache['size']} of {counted(self.cache['capacity'], 'program')} kept: {counts}")
        if self.cache.get("reused"):
            compiled = counted(self.cache.get("partitions", 0), "partition")
            lines.append(
                f"{self.cache['reused']} of them with the steps for another size; {compiled} compiled for that"
            )
        elif self.cache.get("reason"):
            lines.append(f"each size is compiled as a whole: {self.cache['reason']}")
        if self.cache.get("grown"):
            grown, moved = (counted(self.cache.get(name, 0), "time") for name in ("grown", "moved"))
            lines.append(f"caches grew {grown} where they lie, and were moved {moved} to memory with more room")
        return lines


def partition_lines(partitions: Iterable[PartitionReport]) -> Iterator[str]:
    """Partitions as lines of text; those that compute the same parts of the same ops are told once."""
    for partition, *more in alike(partitions, _told):
        how = f"{partition.executor}{', fused' if partition.fused else ''}"
        size = f"{partition.arithmetic}, " if partition.arithmetic else ""
        size += f"{partition.bytes:,} bytes"
        if partition.threads is not None:
            size += f", {counted(partition.threads or 'all', 'thread')}"
        others = f"; likewise {first_of(other.index for other in more)}" if more else ""
        yield f"{partition.index:3}  {how:16} {' + '.join(partition.ops)}  ({size}){others}"
        yield f"     {', '.join(partition.inputs)} -> {', '.join(partition.outputs)}"
        if partition.reason:
            yield f"     {partition.reason.splitlines()[0]}"
        yield from [f"     not by {text}" for text in partition.refused]
        if partition.implementation:
            yield f"     {partition.implementation}"


def _told(partition: PartitionReport) -> tuple[object, ...]:
    """What is told of a partition, but for its tensors and their size."""
    told = partition.executor, partition.ops, partition.arithmetic, partition.threads, partition.reason
    return *told, *partition.refused, partition.implementation


def partition_table(caption: str, partitions: Iterable[PartitionReport], times: Mapping[int, float]) -> str:
    """Partitions as an HTML table for a notebook. What numpy or a reference kernel runs is red."""
    longest = max(times.values(), default=0.0) or 1.0
    heads = ["", "us", "executor", "ops", "inputs", "outputs", "type", "bytes", "threads", "reason", "implementation"]
    rows: list[list[str | Cell]] = []
    for partition in partitions:
        seconds = times.get(partition.index)
        part = None if seconds is None else seconds / longest
        rows.append(
            [
                str(partition.index),
                Cell("" if seconds is None else f"{seconds * 1e6:,.1f}", part=part),
                Cell(
                    f"{partition.executor}{', fused' if partition.fused else ''}",
                    RED if partition.executor == "reference" else "",
                ),
                "\n".join(partition.ops),
                "\n".join(partition.inputs),
                "\n".join(partition.outputs),
                partition.arithmetic,
                f"{partition.bytes:,}",
                "" if partition.threads is None else str(partition.threads or "all"),
                "\n".join(dict.fromkeys(filter(None, partition.reasons))),
                Cell(partition.implementation, RED if partition.reference_kernel else ""),
            ]
        )
    return html_table(caption, heads, rows, numbers=(0, 1, 7, 8))


def names_reference_kernel(implementation: str) -> bool:
    """Whether the names of implementations include one of oneDNN's reference kernels."""
    return any(name.startswith("ref") for name in implementation.split())


def nbytes(tensor: NamedTensor) -> int:
    """Size of the elements of a tensor in bytes."""
    return _nbytes(tensor.dtype, tensor.shape)


@lru_cache(maxsize=4096)
def _nbytes(dtype: DataType, shape: tuple[int, ...]) -> int:
    return dtype.numpy.itemsize * math.prod(shape)


def _describe(tensor: NamedTensor) -> str:
    text = f"{tensor.name}: {tensor.dtype} {list(tensor.shape)}"
    return text if tensor.dense else f"{text} strides {list(tensor.strides)}"
