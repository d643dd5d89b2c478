"""What an executable says of itself: the partitions, what was fused, and who runs what and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class PartitionReport:
    """One partition.

    Attributes:
        index: its place in the order of execution.
        executor: ``oneDNN``, ``reference`` for numpy, or ``view`` where only strides change.
        ops: kind and name of the ops that run together.
        reason: why numpy runs it, or what oneDNN is given in its place; empty where there is nothing to say.
        inputs, outputs: name, data type, shape, and strides where they are not dense.
        bytes: size of the inputs and outputs together.
        threads: number of threads that it runs with, 0 for as many as the caller's setting allows; None where oneDNN
            does not run it.
    """

    index: int
    executor: str
    ops: tuple[str, ...]
    reason: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bytes: int
    threads: int | None = None

    @property
    def fused(self) -> bool:
        """Whether several ops run as one kernel."""
        return self.executor == "oneDNN" and len(self.ops) > 1


@dataclass(frozen=True)
class Report:
    """The partitions of an executable, in the order of execution, and the settings that it was compiled with.

    ``copies`` counts the inputs that calls had to copy, because they were not laid out as declared.
    """

    library: str
    policy: str
    fpmath_mode: str
    partitions: tuple[PartitionReport, ...]
    note: str = ""
    copies: int = 0

    def to_dict(self) -> dict[str, object]:
        """The report as plain dictionaries, lists, strings and numbers."""
        return {
            **asdict(self),
            "partitions": [{**asdict(partition), "fused": partition.fused} for partition in self.partitions],
        }

    def __str__(self) -> str:
        lines = [f"{self.library}, policy {self.policy}, fpmath mode {self.fpmath_mode}"]
        if self.note:
            lines.append(self.note)
        if self.copies:
            lines.append(f"inputs copied because of their layout: {self.copies}")
        for partition in self.partitions:
            how = f"{partition.executor}{', fused' if partition.fused else ''}"
            size = f"{partition.bytes:,} bytes"
            if partition.threads is not None:
                size += f", {partition.threads or 'all'} thread{'s' * (partition.threads != 1)}"
            lines.append(f"{partition.index:3}  {how:16} {' + '.join(partition.ops)}  ({size})")
            if partition.reason:
                lines.append(f"     {partition.reason.splitlines()[0]}")
        return "\n".join(lines)
