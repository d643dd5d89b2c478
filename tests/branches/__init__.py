"""Which branches of the package the tests run: a table by room, compared with the shares in tests/branches.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "branches.json"
# Threads and random orders reach some branches by chance: the percent of a room, and the branches of a small one, by
# which a share may fall.
MARGIN, FEW = 0.5, 3
# How much of a room's code ran: branches run, branches, functions run, functions. For C++, lines instead of functions.
Counts = tuple[int, int, int, int]


def room(name: str) -> str:
    """The room of a file of the package: a folder, or a folder of a large one."""
    parts = Path(name).parts
    large = parts[0] in ("compiler", "runtime", "frontends", "tools", "native", "opset")
    return "/".join(parts[: 1 + large][: len(parts) - 1]) or "."


def share(ran: int, all_: int) -> float:
    return round(100 * ran / all_, 2) if all_ else 100.0


def kept(record: str) -> dict[str, float]:
    """The shares of an earlier run, by room."""
    shares: dict[str, float] = json.loads(KEPT.read_text()).get(record, {}) if KEPT.exists() else {}
    return shares


def keep(record: str, shares: Mapping[str, float]) -> None:
    """Write the shares of this run for later ones to compare with."""
    others = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps(others | {record: shares}, indent=1) + "\n")


def report(
    counts: Mapping[str, Counts], before: Mapping[str, float], rest: str
) -> tuple[list[str], dict[str, float], list[str]]:
    """The lines of a table whose last columns count the ``rest``, the shares of branches, and what has fallen."""
    total = tuple(map(sum, zip(*counts.values(), strict=True)))
    lines, shares, fallen = [f"{'':32} branches      of  percent   kept {rest:>9} percent"], {}, []
    for name, (branches, all_branches, others, all_others) in [*sorted(counts.items()), ("all", total)]:
        shares[name] = share(branches, all_branches)
        text = f"{before[name]:.2f}" if name in before else ""
        counted = f"{name:32} {branches:8} {all_branches:7} {shares[name]:8.2f} {text:>6}"
        lines.append(f"{counted} {others:9} {share(others, all_others):7.2f}")
        if name in before and shares[name] < before[name] - max(MARGIN, 100 * FEW / max(all_branches, 1)):
            fallen.append(f"{name}: {shares[name]:.2f} % of the branches, {before[name]:.2f} % before")
    return lines, shares, fallen
