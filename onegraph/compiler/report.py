"""What an executable says of itself: the partitions, what was fused, and who runs what and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from ..opset.dtypes import DataType
from ..opset.shapes import counted


class NamedTensor(Protocol):
    """What is said of an input or output of a partition; strides in elements."""

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
        """Elements between neighbours along each axis."""

    @property
    def dense(self) -> bool:
        """Whether it is row-major without gaps."""


@dataclass(slots=True)
class PartitionReport:
    """One partition. It holds values; the texts are made when they are asked for.

    Attributes:
        index: its place in the order of execution.
        executor: ``oneDNN``; ``reference`` for numpy; ``view`` where only strides change; ``copy`` where numpy casts
            or moves elements and computes nothing.
        kinds, names: of the ops that run together, one for each op or part of an op. A part that is not all of its op
            has the kind ``LayerNorm: StaticReshape``.
        reasons: why numpy runs it, or what oneDNN is given in its place; empty where there is nothing to say.
        sources, results: the inputs and outputs.
        threads: number of threads that it runs with, 0 for as many as the caller's setting allows; None where oneDNN
            does not run it.
        implementation: oneDNN's names for what runs, where they were asked for: primitives and kernels, such as
            ``convolution jit:avx512_core``.
    """

    index: int
    executor: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    sources: tuple[NamedTensor, ...] = ()
    results: tuple[NamedTensor, ...] = ()
    threads: int | None = None
    implementation: str = ""

    @property
    def fused(self) -> bool:
        """Whether several ops run as one kernel."""
        return self.executor == "oneDNN" and len(self.names) > 1

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
        """Name, data type, shape, and strides where they are not dense, of each input."""
        return tuple(map(_describe, self.sources))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The same of each output."""
        return tuple(map(_describe, self.results))

    @property
    def layouts(self) -> dict[str, tuple[int, ...]]:
        """Strides of every input and output by its name, in elements."""
        return {tensor.name: tensor.strides for tensor in (*self.sources, *self.results)}

    @property
    def bytes(self) -> int:
        """Size of the inputs and outputs together."""
        return sum(map(nbytes, (*self.sources, *self.results)))

    def to_dict(self) -> dict[str, object]:
        """The partition as plain dictionaries, tuples, strings and numbers."""
        return {
            "index": self.index,
            "executor": self.executor,
            "ops": self.ops,
            "reason": self.reason,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "bytes": self.bytes,
            "threads": self.threads,
            "implementation": self.implementation or None,
            "fused": self.fused,
            "kinds": self.kinds,
            "names": self.names,
            "layouts": self.layouts,
        }


@dataclass(frozen=True)
class Report:
    """The partitions of an executable, in the order of execution, and the settings that it was compiled with.

    ``copies`` counts the inputs that calls had to copy, because they were not laid out as declared; ``cache`` has the
    counters of ``Executable.cache_info``.
    """

    library: str
    policy: str
    fpmath_mode: str
    partitions: tuple[PartitionReport, ...]
    note: str = ""
    copies: int = 0
    cache: Mapping[str, int] = field(default_factory=dict)

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
        }

    def __str__(self) -> str:
        lines = [f"{self.library}, policy {self.policy}, fpmath mode {self.fpmath_mode}"]
        if self.note:
            lines.append(self.note)
        if self.copies:
            lines.append(f"inputs copied because of their layout: {self.copies}")
        if self.cache.get("hits") or self.cache.get("misses", 0) > 1:
            kept = "{size} of {capacity} programs kept: {hits} hits, {misses} misses, {evictions} evictions"
            lines.append(kept.format_map(self.cache))
        for partition in self.partitions:
            how = f"{partition.executor}{', fused' if partition.fused else ''}"
            size = f"{partition.bytes:,} bytes"
            if partition.threads is not None:
                size += f", {counted(partition.threads or 'all', 'thread')}"
            lines.append(f"{partition.index:3}  {how:16} {' + '.join(partition.ops)}  ({size})")
            lines.append(f"     {', '.join(partition.inputs)} -> {', '.join(partition.outputs)}")
            if partition.reason:
                lines.append(f"     {partition.reason.splitlines()[0]}")
            if partition.implementation:
                lines.append(f"     {partition.implementation}")
        return "\n".join(lines)


def nbytes(tensor: NamedTensor) -> int:
    """Bytes of the elements of a tensor."""
    return _nbytes(tensor.dtype, tensor.shape)


@lru_cache(maxsize=4096)
def _nbytes(dtype: DataType, shape: tuple[int, ...]) -> int:
    return dtype.numpy.itemsize * math.prod(shape)


def _describe(tensor: NamedTensor) -> str:
    text = f"{tensor.name}: {tensor.dtype} {list(tensor.shape)}"
    return text if tensor.dense else f"{text} strides {list(tensor.strides)}"
