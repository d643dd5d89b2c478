"""What users hand to the drawings beside the graph, as plain data: violations, a report, the seconds of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from .._util.exact_types import elements, entries, has_type, listed, real, text, whole
from ..errors import ArgumentError, Violation, shown

_TEXTS = ("rule", "severity", "op", "where", "given", "expected", "message")  # of a violation


def violations_of(violations: object) -> list[Violation]:
    """The violations, whose texts are strings."""
    given: object = [] if violations is None else violations
    found = [*map(_violation, listed(given))] if has_type(given, Iterable) else [None]
    if None in found:
        raise ArgumentError(f"violations: {shown(violations)}; expected what check_graph returns")
    return [one for one in found if one is not None]


def _violation(value: object) -> Violation | None:
    """The texts of a violation; None for all else. A violation that was made by hand may hold anything."""
    if not has_type(value, Violation):
        return None
    texts = {name: word for name in _TEXTS if (word := text(getattr(value, name, None))) is not None}
    return Violation(**texts, edition="", page="") if len(texts) == len(_TEXTS) else None


def facts_of(report: object) -> dict[str, Any]:
    """The dictionary of a report, as JSON gives it back."""
    if report is None:
        return {}
    read = getattr(report, "to_dict", None)
    given = report if has_type(report, Mapping) else read() if callable(read) and not has_type(report, type) else {}
    try:
        facts: Any = _plain(given)  # a dictionary may hold anything
    except (TypeError, RecursionError):
        facts = None
    partitions = facts.get("partitions") if has_type(facts, dict) else None
    if not has_type(partitions, list) or not all(map(_is_entry, partitions)):
        raise ArgumentError(f"report: {shown(report)}; expected what Executable.report() returns, or its to_dict()")
    return {**facts}


def _plain(value: object) -> object:
    """A value as JSON gives it back; TypeError or RecursionError where it does not."""
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
    """Whether it is what a report says of a partition, where it says it."""
    kinds = {"index": int, "executor": str, "reason": str} | dict.fromkeys(("names", "ops", "inputs", "outputs"), list)
    if not has_type(entry, dict) or not all(has_type(entry.get(key, kind()), kind) for key, kind in kinds.items()):
        return False
    return all(has_type(name, str) for name in (*entry.get("names", ()), *entry.get("ops", ())))


def seconds_of(times: object) -> dict[int, float]:
    """The seconds of each partition, by its index."""
    if times is None:
        return {}
    pairs: Iterable[tuple[object, Any]] | None = None
    if has_type(times, Mapping):
        pairs = times.items()
    elif has_type(times, Sequence) and not has_type(times, (str, bytes, bytearray, memoryview)):
        pairs = enumerate(times)
    if pairs is None:
        raise ArgumentError(f"times: {shown(times)}; expected seconds of each partition, a list or by index")
    found: dict[int, float] = {}
    for index, seconds in listed(pairs):
        place, number = whole(index), real(seconds)
        if place is None or number is None or not 0 <= number < inf:
            raise ArgumentError(f"times: {shown(index)}: {shown(seconds)}; expected seconds by index of partition")
        found[place] = number
    return found
