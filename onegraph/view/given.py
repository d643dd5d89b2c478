"""Converts the arguments of the drawing functions to plain data: violations, a report, the seconds of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from .._util.exact_types import elements, entries, has_type, listed, real, text, whole
from ..errors import ArgumentError, Violation, shown

_TEXTS = ("rule", "severity", "op", "where", "given", "expected", "message")  # fields of Violation to keep


def violations_of(violations: object) -> list[Violation]:
    """The violations with plain strings as fields; None gives an empty list.

    Raises:
        ArgumentError: ``violations`` is not an iterable of violations.
    """
    listed_violations: object = [] if violations is None else violations
    converted = [*map(_violation, listed(listed_violations))] if has_type(listed_violations, Iterable) else [None]
    if None in converted:
        raise ArgumentError(f"violations: {shown(violations)}; expected what check_graph returns")
    return [violation for violation in converted if violation is not None]


def _violation(value: object) -> Violation | None:
    """A violation with plain strings as fields; None for any other value, or if a field is not a string."""
    if not has_type(value, Violation):
        return None
    texts = {name: word for name in _TEXTS if (word := text(getattr(value, name, None))) is not None}
    return Violation(**texts, edition="", page="") if len(texts) == len(_TEXTS) else None


def facts_of(report: object) -> dict[str, Any]:
    """The dictionary of a report, with plain JSON values; None gives an empty dictionary.

    Raises:
        ArgumentError: ``report`` is neither a report nor the dictionary of one.
    """
    if report is None:
        return {}
    read = getattr(report, "to_dict", None)
    read_report = (
        report if has_type(report, Mapping) else read() if callable(read) and not has_type(report, type) else {}
    )
    try:
        facts: Any = _plain(read_report)
    except (TypeError, RecursionError):
        facts = None
    partitions = facts.get("partitions") if has_type(facts, dict) else None
    if not has_type(partitions, list) or not all(map(_is_entry, partitions)):
        raise ArgumentError(f"report: {shown(report)}; expected what Executable.report() returns, or its to_dict()")
    return {**facts}


def _plain(value: object) -> object:
    """Convert a value to plain JSON values; TypeError or RecursionError if that is impossible."""
    if (pairs := entries(value)) is not None:
        return {_plain(key): _plain(element) for key, element in pairs.items()}
    if (several := elements(value)) is not None:
        return [_plain(element) for element in several]
    number = whole(value)
    if value is None or has_type(value, bool) or (number is not None and abs(number) < 2**64):
        return value if number is None else number
    if has_type(value, float) and isfinite(value):
        return float(value)
    if has_type(value, str):
        return text(value)
    raise TypeError


def _is_entry(entry: object) -> bool:
    """Whether ``entry`` is the dictionary of a partition; keys may be missing, but their values must have the type."""
    kinds = {"index": int, "executor": str, "reason": str} | dict.fromkeys(("names", "ops", "inputs", "outputs"), list)
    if not has_type(entry, dict) or not all(has_type(entry.get(key, kind()), kind) for key, kind in kinds.items()):
        return False
    return all(has_type(name, str) for name in (*entry.get("names", ()), *entry.get("ops", ())))


def seconds_of(times: object) -> dict[int, float]:
    """The seconds of each partition, by index; None gives an empty dictionary.

    Raises:
        ArgumentError: ``times`` is neither a list of seconds nor a mapping from index to seconds.
    """
    if times is None:
        return {}
    pairs: Iterable[tuple[object, Any]] | None = None
    if has_type(times, Mapping):
        pairs = times.items()
    elif has_type(times, Sequence) and not has_type(times, (str, bytes, bytearray, memoryview)):
        pairs = enumerate(times)
    if pairs is None:
        raise ArgumentError(f"times: {shown(times)}; expected seconds of each partition, a list or by index")
    seconds_by_place: dict[int, float] = {}
    for index, seconds in listed(pairs):
        place, number = whole(index), real(seconds)
        if place is None or number is None or not 0 <= number < inf:
            raise ArgumentError(f"times: {shown(index)}: {shown(seconds)}; expected seconds by index of partition")
        seconds_by_place[place] = number
    return seconds_by_place
