"""Summarises a conformance run: verdicts, a table, and the code that reproduces a probe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._util.worker_process import Outcome
from ...ir.op import Array
from .probes import inputs_of, type_name

# From the best to the worst. Library and specification agree only in the first.
VERDICTS = {
    "agrees": "the library does what the specification says",
    "lax": "it takes what the specification does not allow",
    "refuses": "it refuses what the specification allows",
    "unsupported": "it takes the op, but has no kernel for it here",
    "wrong": "it gives other numbers than the formula",
    "crashes": "it ends the process, or never ends",
}


@dataclass(frozen=True)
class Result:
    """One probe and its outcome."""

    probe: Mapping[str, Any]
    outcome: Outcome

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`."""
        outcome, allowed = self.outcome.outcome, self.probe["allowed"]
        if outcome in ("crash", "hang"):
            return "crashes"
        if not allowed:
            return "agrees" if outcome in ("refused", "unsupported") else "lax"
        return {"right": "agrees", "ran": "agrees", "wrong": "wrong", "unsupported": "unsupported"}.get(
            outcome, "refuses"
        )

    @property
    def expected(self) -> str:
        """The behaviour that the specification requires, as text."""
        if not self.probe["allowed"]:
            return "refused"
        return "accepted, with the result of the formula"

    @property
    def happened(self) -> str:
        """The behaviour of the library, as text."""
        words = {
            "right": "accepted, right",
            "ran": "accepted",
            "wrong": "accepted, wrong",
            "unsupported": "not supported",
            "refused": "refused",
            "crash": "crashed",
            "hang": "hung",
        }
        detail = f": {self.outcome.detail}" if self.outcome.detail else ""
        return f"{words[self.outcome.outcome]} at {self.outcome.stage}{detail}"

    def code(self) -> str:
        """Python code that runs the probe again."""
        tensors = [_tensor(array) for array in inputs_of(self.probe)]
        attrs = {name: tuple(pair) for name, pair in self.probe["call"].items()}
        given = _packed([f"{name!r}: {pair!r}" for name, pair in attrs.items()])
        lines = [
            "from onegraph.tools.conformance import probe",
            "",
            f"print(probe({self.probe['name']!r}, {{",
            *given,
            "    },",
        ]
        lines += [f"    inputs={tensors!r},", f"    outputs={self.probe['outputs']!r}))"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain dictionaries, lists, strings and numbers."""
        keys = ("op", "group", "subject", "value", "allowed", "case")
        return {
            **{key: self.probe[key] for key in keys},
            "verdict": self.verdict,
            "expected": self.expected,
            "happened": self.happened,
            "code": self.code(),
        }


def _packed(items: Sequence[str], width: int = 96) -> list[str]:
    """Lines of items separated by commas, each with as many items as fit."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < width:
            lines[-1] += f" {item},"
        else:
            lines.append(f"    {item},")
    return lines


def _tensor(array: Array) -> tuple[Any, ...]:
    dtype = type_name(array)
    shape = list(array.shape)
    return (dtype, shape, array.tolist()) if dtype in ("s32", "s64") and array.size < 20 else (dtype, shape)


def summary(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """The number of probes by op and verdict."""
    found: dict[str, Counter[str]] = {}
    for result in results:
        found.setdefault(result.probe["op"], Counter())[result.verdict] += 1
    return found


def table(results: Sequence[Result]) -> str:
    """The summary for a terminal: the ops with disagreements, and the totals."""
    rows = summary(results)
    total = Counter(result.verdict for result in results)
    width = max(map(len, [*rows, "op"]), default=2)
    head = f"{'op':{width}}  " + "  ".join(f"{verdict:>11}" for verdict in VERDICTS)
    lines = [head]
    for op, counts in rows.items():
        if counts.keys() - {"agrees"}:
            lines.append(f"{op:{width}}  " + "  ".join(f"{counts[verdict] or '.':>11}" for verdict in VERDICTS))
    whole = f"all {len(rows)} ops" if len(rows) > 1 else "all"
    lines.append(f"{whole:{width}}  " + "  ".join(f"{total[v]:>11}" for v in VERDICTS))
    quiet = [op for op, counts in rows.items() if not counts.keys() - {"agrees"}]
    if quiet:
        lines.append(f"\nagree throughout: {', '.join(quiet)}")
    return "\n".join(lines)
