"""Keeps the findings of the probes for each version that was tried: the table ``known.json``.

``python -m benchmarks.known_findings`` writes it. A nightly build is compared with the newest version that is not
newer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("known.json")
Release = tuple[int, int, int]


@cache
def findings() -> Mapping[str, tuple[str, ...]]:
    """For each finding the versions that have it."""
    table: dict[str, str] = json.loads(FILE.read_text())["findings"]
    return {name: tuple(versions.split()) for name, versions in table.items()}


def versions() -> list[Release]:
    """The versions that were tried, from the oldest on."""
    return sorted({_release(word) for words in findings().values() for word in words})


def known_findings(version: Release) -> tuple[dict[str, str], Release]:
    """The verdicts of the findings of a version by id, and the version that they are of: the newest one not newer."""
    of = max((one for one in versions() if one <= version), default=versions()[0])
    word = ".".join(map(str, of))
    return {name: name.partition(":")[0] for name, words in findings().items() if word in words}, of


def text_of(runs: Mapping[str, Iterable[str]], machine: str) -> str:
    """The text of the table.

    Args:
        runs: the ids of the findings of each version.
        machine: the instruction set of the CPU that they are of.
    """
    order = sorted(runs, key=_release)
    names = sorted({name for ids in runs.values() for name in ids})
    table = {name: " ".join(version for version in order if name in runs[version]) for name in names}
    return json.dumps({"cpu": machine, "findings": table}, indent=1) + "\n"


def _release(word: str) -> Release:
    major, minor, patch = map(int, word.split("."))
    return major, minor, patch
