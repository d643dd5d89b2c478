"""Checks the options of ``Graph.compile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .._util.exact_types import entries
from .._util.validation import choice, flag, integer
from ..builder.graph import DataGraph
from ..capi.graph import POLICIES
from ..capi.settings import FPMATH_MODES
from ..capi.threads import check_threads
from ..errors import ArgumentError
from ..faults.user_faults import USER

if TYPE_CHECKING:
    from ..compiler.report import PartitionReport

Threads = int | Mapping[int, int] | None
GivenOptions = tuple[str, bool, str | None, Threads, bool, bool]  # as a caller gives them, not checked


class CompileOptions(NamedTuple):
    """The options of ``Graph.compile``."""

    policy: str
    fallback: bool
    fpmath_mode: str
    threads: Threads
    reproducible: bool = False
    finite_math: bool = False


def compile_options(
    graph: DataGraph | None,
    policy: str,
    fallback: bool,
    fpmath_mode: str | None,
    threads: Threads,
    reproducible: bool,
    finite_math: bool,
) -> CompileOptions:
    """The checked options; an fpmath_mode of None is replaced by that of the graph's file, if there is one.

    Raises:
        ArgumentError: an option is wrong.
    """
    if USER.off:
        from ..faults.catalogue import check_names

        check_names(USER.off)
    policy = choice("policy", policy, POLICIES)
    if fpmath_mode is None:
        fpmath_mode = "strict" if graph is None or graph._file is None else graph._file.fpmath_mode
    fpmath_mode = choice("fpmath_mode", fpmath_mode, FPMATH_MODES)
    return CompileOptions(
        policy,
        flag("fallback", fallback),
        fpmath_mode,
        _checked(threads),
        flag("reproducible", reproducible),
        flag("finite_math", finite_math),
    )


def _checked(threads: object) -> Threads:
    if threads is None:
        return None
    if (by_partition := entries(threads)) is not None:
        expected = "its index in report()"
        return {
            integer("threads: partition", index, 0, 2**62, expected): check_threads(count)
            for index, count in by_partition.items()
        }
    return check_threads(threads)


def refuse_unknown_partitions(threads: Mapping[int, int], partitions: Sequence[PartitionReport]) -> None:
    """Raise ArgumentError if ``threads`` has the index of a partition that does not exist."""
    unknown = [index for index in threads if index >= len(partitions)]
    if unknown:
        names = [f"{report.index}: {' + '.join(report.ops)}" for report in partitions[:20]]
        if len(partitions) > 20:
            names.append("...")
        raise ArgumentError(f"threads: no partition {unknown[0]}; the partitions are {'; '.join(names)}")
