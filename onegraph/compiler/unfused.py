"""Says why neighbouring partitions are not one: which documented pattern they nearly match, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..opset.fusion_patterns import matches, missing_in_guide

ONE_BY_ONE = "policy='debug' runs the ops one by one"


class _PartTensor(Protocol):
    @property
    def name(self) -> str: ...


class _Partition(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def executor(self) -> str: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def reason(self) -> str: ...
    @property
    def reasons(self) -> Sequence[str]: ...
    @property
    def sources(self) -> Sequence[_PartTensor]: ...
    @property
    def results(self) -> Sequence[_PartTensor]: ...


class Unfused(NamedTuple):
    """Two partitions, of which the second reads a result of the first, and why they are not one.

    Attributes:
        first, second: the ops of the partitions, as ``MatMul 'scores'``.
        pattern: the documented pattern that covers most of their ops; empty if none starts with the first op.
        covered: how many of the ops it covers.
        reason: what is missing.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    pattern: str
    covered: int
    reason: str

    def __str__(self) -> str:
        return f"{' + '.join(self.first)} is not fused with {' + '.join(self.second)}: {self.reason}"


def unfused(partitions: Sequence[_Partition], policy: str = "") -> list[Unfused]:
    """Each pair of partitions that a documented pattern starts with, in the order of execution."""
    readers: dict[str, list[_Partition]] = {}
    for partition in partitions:
        for tensor in partition.sources:
            readers.setdefault(tensor.name, []).append(partition)
    pairs = []
    for partition in partitions:
        for tensor in partition.results:
            consumers = readers.get(tensor.name, [])
            pairs += [each for reader in consumers for each in _pair(partition, reader, len(consumers))]
    return [one._replace(reason=ONE_BY_ONE) for one in pairs] if policy == "debug" else pairs


def _pair(first: _Partition, second: _Partition, count: int) -> list[Unfused]:
    kinds = (*first.kinds, *second.kinds)
    best = next(iter(matches(kinds)), None)
    if best is None:
        return []
    reason = _reason(first, second, count, best.missing or _undocumented(kinds))
    return [Unfused(_ops(first), _ops(second), best.pattern.name, best.length, reason)]


def _undocumented(kinds: Sequence[str]) -> str:
    """Why a pattern of the newest guide may be missing in the loaded library; empty if its own guide has it."""
    from ..native.library import VERSION

    missing = missing_in_guide(kinds, VERSION[:2])
    return f"{missing}; the library is oneDNN {'.'.join(map(str, VERSION))}" if missing else ""


def _reason(first: _Partition, second: _Partition, count: int, missing: str) -> str:
    if missing:
        return missing
    if together := kept_apart(first, second):
        return together
    if count > 1:
        return f"{count} partitions read its result, and a fused result is not kept"
    for partition in (first, second):
        if partition.executor != "oneDNN":
            why = f": {partition.reason}" if partition.reason else ""
            return f"{partition.executor} runs {' + '.join(_ops(partition))}{why}"
    return "the pattern is documented, but the library does not fuse it here; see whether the result is an output too"


def is_kept_apart(reason: str) -> bool:
    """Whether the reason of a partition is that the library has a slow or wrong kernel for it and others together."""
    return "so that the ops run one by one" in reason or "so that the ops run apart" in reason


def is_for_sizes(reason: str) -> bool:
    """Whether the reason of a partition is that the library would be asked for each size of an open dim."""
    return "for any number of rows" in reason or "sizes change, and the library" in reason


def kept_apart(first: _Partition, second: _Partition) -> str:
    """The reason why two partitions, which the library joins, are kept apart; empty if others are the cause.

    Ops that are kept apart have the reason in each of their partitions.
    """
    return next((reason for reason in first.reasons if is_kept_apart(reason) and reason in second.reasons), "")


def _ops(partition: _Partition) -> tuple[str, ...]:
    return tuple(f"{kind} {name!r}" for kind, name in zip(partition.kinds, partition.names, strict=True))
