"""The record of one thing that oneDNN gets wrong, and the one way to ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from .._util.records import record
from ..builder.graph import DataGraph
from ..errors import LIBRARY, UNSAFE
from ..ir.op import LogicalTensor
from ..opset import dtypes
from ..opset.signature import Version
from .measured import Score, measured
from .user_faults import USER

Release = tuple[int, int, int]
Subject = TypeVar("Subject")
# Builds the graph of an example and returns what the graph is to give out.
Build = Callable[[DataGraph], "LogicalTensor | tuple[LogicalTensor, ...]"]
Built = TypeVar("Built", bound=Build)

SLOW = "slow"  # right, but with a reference kernel
LACKS = "lacks"  # the version has no kernel; nothing is wrong
NEVER: Version = dtypes.NEVER  # in place of a version that mended a fault: none is known to have done so
# Outcomes of a version that is not concerned: its result is right, or it does not have the op, mode or fusion.
FINE = frozenset(["right", "absent"])
# What an outcome may depend on beside the version. The last that holds counts.
CPUS = ("AMX", "no AMX", "no FP16", "no AVX-512", "no VNNI", "no AVX2")


@record(frozen=True, eq=False)
class Example:
    """A graph that shows a fault.

    Attributes:
        build: makes the graph.
        seen: what each version that was tried does with the graph by itself, without onegraph.
        on: the same for a kind of CPU (``CPUS``), where the outcome is another one there.
        runs: False where the graph is too large to be run, or takes too long; only its shapes count.
        policy: the policy of partitioning under which the fault shows.
    """

    build: Build
    seen: Mapping[Version, str]
    on: Mapping[str, str]
    runs: bool
    policy: str

    @property
    def name(self) -> str:
        """The name of the function, in words."""
        return self.build.__name__.strip("_").replace("_", " ")


class Refusal(NamedTuple):
    """What onegraph raises in place of a misuse, and parts of the message; None where it raises nothing.

    ``on``: what the bare calls end in on a kind of CPU (``CPUS``), where that is something else.
    """

    error: type[Exception] | tuple[type[Exception], ...] | None
    parts: tuple[str, ...] = ()
    on: Mapping[str, str] = MappingProxyType({})


@record(frozen=True, eq=False)
class Fault(Generic[Subject]):
    """One thing that the library gets wrong.

    Attributes:
        name: unique; shown in messages and reports.
        ops: the ops it concerns; of a fusion, those of which one is part of it.
        where: the attribute or port; empty for a fusion.
        severity: ``library``: oneDNN refuses; ``unsafe``: a crash, a hang or wrong numbers; ``slow`` and ``lacks``.
        when: the condition under which the library is not given the subject. It may hold where the library is right,
            never the other way round. A text instead of True is the reason in more detail.
        seen: what each version that was tried does: a signal, ``hang``, ``throws``, ``refuses``, ``unsupported``,
            ``accepted``, ``overrun``, ``garbage``, ``wrong``, ``right``, or ``absent`` where the version has no such
            op, mode or fusion; ``|`` where the outcome depends on what lies in memory.
        reason: one sentence.
        instead: what the executor does, or what the user is told.
        since, mended: explicit bounds, where more is known than ``seen`` says: the first version that is concerned, and
            the first that is not.
        refusal: the exception of onegraph, of a misuse of the C API.
        certain: the condition under which the fault shows whatever the numbers and the memory are; ``when`` by default.
            Where ``when`` alone holds, what comes out depends on them.
        of_nan: whether, where ``when`` alone holds, the fault shows with NaN and infinities alone.
    """

    name: str
    ops: frozenset[str]
    where: str
    severity: str
    when: Callable[[Subject], bool | str]
    seen: Mapping[Version, str]
    reason: str
    instead: str
    since: Version | None = None
    mended: Version | Release | None = None
    refusal: Refusal | None = None
    examples: list[Example] = field(default_factory=list)
    certain: Callable[[Subject], bool | str] | None = None
    of_nan: bool = False

    @property
    def measured(self) -> dict[str, Score]:
        """How often the record was true of random valid uses, by version; empty if it was not measured."""
        return measured(self.name)

    def affects(self, version: Release) -> bool:
        """Whether a library of ``version`` is concerned.

        A version between two that were tried is concerned if either is; one beyond the newest as the newest. None is if
        ``ONEGRAPH_FAULTS`` switches the fault off.
        """
        if self.name in USER.off:
            return False
        since, mended = self.since, self.mended
        if (since is not None and version < since) or (mended is not None and version >= mended):
            return False
        concerned = {
            tried: not FINE.issuperset(outcome.split(" | "))
            for tried, outcome in self.seen.items()
            if (since is None or tried >= since) and (mended is None or tried < mended)
        }
        release, wrong = version[:2], [tried for tried, is_wrong in concerned.items() if is_wrong]
        if since is not None and release <= min(wrong, default=release):
            return True
        if mended is not None and release >= max(wrong, default=release):
            return True
        below, above = ([t for t in concerned if t <= release], [t for t in concerned if t >= release])
        near = {max(below, default=min(concerned)), min(above, default=max(concerned))}
        return any(concerned[tried] for tried in near)

    def example(
        self,
        seen: Mapping[Version, str] | None = None,
        *,
        on: Mapping[str, str] | None = None,
        runs: bool = True,
        policy: str = "",
    ) -> Callable[[Built], Built]:
        """Register the function that follows as an example; what was seen of it is ``seen`` of the fault by default."""

        def register(build: Built) -> Built:
            chosen = policy or ("fusion" if not self.where else "debug")
            self.examples.append(Example(build, self.seen if seen is None else seen, on or {}, runs, chosen))
            return build

        return register

    @property
    def told(self) -> str:
        """The reason, and the name of the fault, as reports say it."""
        return self._named(self.reason)

    def told_of(self, subject: Subject) -> str:
        """The reason in the detail of a subject, with the name of the fault; empty where it does not run into it."""
        said = self.reason_of(subject)
        return self._named(said) if said else ""

    def reason_of(self, subject: Subject) -> str:
        """The reason in the detail of a subject; empty where it does not run into the fault."""
        said = self.when(subject)
        return said if isinstance(said, str) else self.reason if said else ""

    def _named(self, reason: str) -> str:
        return reason if self.severity == LACKS else f"{reason} (fault {self.name})"  # what is missing is not wrong

    def is_certain(self, subject: Subject) -> bool:
        """Whether the fault shows in ``subject``, whatever the numbers and the memory are."""
        return bool((self.certain or self.when)(subject))

    def __repr__(self) -> str:
        return f"Fault({self.name!r})"


class Faults(Generic[Subject]):
    """Faults that are asked about one kind of subject, in the order in which they were added.

    Args:
        others: faults that come first.
        where, severity, instead: what most faults of the family have; ``add`` needs only what differs.
    """

    def __init__(self, *parts: Faults[Subject], where: str = "", severity: str = "", instead: str = "") -> None:
        self._where, self._severity, self._instead = where, severity, instead
        self.records: list[Fault[Subject]] = [fault for other in parts for fault in other]
        self._known: dict[tuple[frozenset[str], Release], list[Fault[Subject]]] = {}

    def add(
        self,
        name: str,
        *,
        ops: str | frozenset[str],
        when: Callable[[Subject], bool | str],
        seen: Mapping[Version, str],
        reason: str,
        where: str | None = None,
        severity: str | None = None,
        instead: str | None = None,
        since: Version | None = None,
        mended: Version | Release | None = None,
        refusal: Refusal | None = None,
        certain: Callable[[Subject], bool | str] | None = None,
        of_nan: bool = False,
    ) -> Fault[Subject]:
        """Make a record and keep it; ``ops`` may be names in one text."""
        concerned = frozenset(ops.split()) if isinstance(ops, str) else ops
        fault = Fault(
            name,
            concerned,
            self._where if where is None else where,
            severity or self._severity,
            when,
            seen,
            reason,
            self._instead if instead is None else instead,
            since,
            mended,
            refusal,
            certain=certain,
            of_nan=of_nan,
        )
        self.records.append(fault)
        return fault

    def __iter__(self) -> Iterator[Fault[Subject]]:
        return iter(self.records)

    def affecting(self, kinds: frozenset[str], version: Release) -> list[Fault[Subject]]:
        """The faults of a library of ``version`` that concern one of these ops, whatever their condition says."""
        key = kinds, version
        faults = self._known.get(key)
        if faults is None:
            faults = [fault for fault in self.records if not kinds.isdisjoint(fault.ops) and fault.affects(version)]
            self._known[key] = faults
        return faults

    def of(self, kinds: frozenset[str], subject: Subject, version: Release) -> list[Fault[Subject]]:
        """The faults of a library of ``version`` that ``subject`` runs into."""
        return [fault for fault in self.affecting(kinds, version) if fault.when(subject)]

    def reason(self, kinds: frozenset[str], subject: Subject, version: Release) -> str:
        """Why a library of ``version`` must not be given ``subject``: the first fault and its name; empty if it may."""
        return next(filter(None, (fault.told_of(subject) for fault in self.affecting(kinds, version))), "")


def always(_: object) -> bool:
    """The condition of a fault that every use of its ops runs into."""
    return True


def never(_: object) -> bool:
    """What is certain of a fault that shows with some numbers, or in some memory, alone."""
    return False


__all__ = ["LACKS", "LIBRARY", "SLOW", "UNSAFE", "Example", "Fault", "Faults", "Refusal", "Release", "always", "never"]
