"""Finds corrections by edition and op."""

from __future__ import annotations

from collections import defaultdict

from . import facts, formulas, names, ports, spellings, statements, windows
from .correction import Correction

CORRECTIONS: tuple[Correction, ...] = (
    *facts.CORRECTIONS,
    *formulas.CORRECTIONS,
    *windows.CORRECTIONS,
    *names.CORRECTIONS,
    *ports.CORRECTIONS,
    *spellings.CORRECTIONS,
    *statements.CORRECTIONS,
)

_BY_PAGE: dict[tuple[str, str], list[Correction]] = defaultdict(list)
for _correction in CORRECTIONS:
    for _edition in _correction.editions:
        for _kind in _correction.ops:
            _BY_PAGE[_edition, _kind].append(_correction)


def corrections(edition: str, kind: str) -> tuple[Correction, ...]:
    """The corrections of the page of op ``kind`` in ``edition``."""
    return tuple(_BY_PAGE.get((edition, kind), ()))
