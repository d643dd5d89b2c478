"""The file of results: each benchmark has a place there, and each row the version of onegraph that was measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .timing import Row

# What must be the same for all rows of a benchmark.
SAME = ("cpu", "isa", "processors", "library hash")


class Kept:
    """The rows of one benchmark in a file of results.

    Args:
        file: the file; None to write nothing.
        places: the names of all results in a file, in order.
        place: the name of these results.
        environment: where the new rows are measured.
        cases: where only some rows are measured, the names of all rows in order; the file keeps the others. None where
            the new rows replace all.

    Raises:
        SystemExit: rows that the file would keep come from another machine or another library.
    """

    def __init__(
        self,
        file: Path | None,
        places: Sequence[str],
        place: str,
        environment: Mapping[str, Any],
        cases: Sequence[str] | None = None,
    ) -> None:
        self._file, self._places, self._place, self._environment = file, places, place, environment
        self._rows: dict[str, dict[str, Any]] = {}
        if cases is None or place not in (old := self._read()):
            return
        for key in SAME:
            if str(there := old[place]["environment"].get(key)) != str(environment[key]):
                sys.exit(f"{place}: {file} has rows of {key} {there}, not {environment[key]}. Measure all rows anew.")
        version = old[place]["environment"]["onegraph"]  # of rows that do not say it
        rows = {row["case"]: row | {"version": row.get("version") or version} for row in old[place]["rows"]}
        self._rows = {case: rows.get(case, {}) for case in cases}

    def add(self, row: Row) -> None:
        """Write a row to the file, in place of an earlier one with its name."""
        self._rows[row.case] = asdict(replace(row, version=self._environment["onegraph"]))
        if self._file is None:
            return
        rows = [one for one in self._rows.values() if one]
        found = self._read() | {self._place: {"environment": self._environment, "rows": rows}}
        ordered = {place: found[place] for place in self._places if place in found}
        self._file.write_text(json.dumps(ordered, indent=2) + "\n")

    def _read(self) -> dict[str, Any]:
        if self._file is None or not self._file.exists():
            return {}
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found
