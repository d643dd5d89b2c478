"""How often each fault record was true of random valid uses: the figures of ``measured.json``, by version.

``onegraph conformance --cases`` measures them, and ``python -m benchmarks.measured_faults`` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from .._util.records import record

FILE = Path(__file__).with_name("measured.json")
PRECISE = 0.99  # the least precision of a record


@record(frozen=True)
class Score:
    """How a record did on random uses.

    Attributes:
        claimed: uses in which the record says that the fault shows.
        wrong: of these, those that went wrong.
        alone: uses that no other record claims.
        alone_wrong: of these, those that went wrong.
        missed: uses of the record's ops that went wrong, and that no record claims.
        failed: uses of the record's ops that went wrong.
        cautioned: uses of which the record says that the fault shows with some numbers, or in some memory.
        cautioned_wrong: of these, those that went wrong.
    """

    claimed: int = 0
    wrong: int = 0
    alone: int = 0
    alone_wrong: int = 0
    missed: int = 0
    failed: int = 0
    cautioned: int = 0
    cautioned_wrong: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the claimed uses that went wrong, where no other record explains that; None if none was claimed."""
        if self.alone:
            return min(self.alone_wrong / self.alone, self.wrong / self.claimed)
        return self.wrong / self.claimed if self.claimed else None

    @property
    def recall(self) -> float | None:
        """Share of the wrong uses of the record's ops that some record claims; None if none was wrong."""
        return 1 - self.missed / self.failed if self.failed else None

    @property
    def is_imprecise(self) -> bool:
        """Whether the record claims too much."""
        return self.precision is not None and self.precision < PRECISE

    def to_dict(self) -> dict[str, Any]:
        """The score as numbers, rounded to 4 decimals."""
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        rounded = {name: getattr(self, name) for name in ("precision", "recall")}
        return {**counts, **{name: None if value is None else round(value, 4) for name, value in rounded.items()}}


FIELDS = tuple(field.name for field in fields(Score))


@cache
def figures() -> Mapping[str, Any]:
    """The contents of the file: for each version the uses, the machine, and the counts of each record."""
    contents: dict[str, Any] = json.loads(FILE.read_text())
    return contents


def measured(name: str) -> dict[str, Score]:
    """The score of a record in each version in which it was measured."""
    counts = {version: of["records"].get(name) for version, of in figures().items()}
    return {version: Score(*numbers) for version, numbers in counts.items() if numbers is not None}
