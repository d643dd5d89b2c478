"""Judges the outcome of a probe, and writes the code that repeats it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._util.records import record
from ..._util.worker_process import Outcome
from ...ir.op import Array
from .probes import Probe
from .uses import type_name

# From the best to the worst. Library and specification agree only in the first.
VERDICTS = {
    "agrees": "the library does what the page says",
    "sibling": "pages of related ops print different things",
    "laxer": "the library runs what the edition does not allow",
    "version": "this version of the library has no kernel for it",
    "machine": "this machine lacks the instructions that the library needs for it",
    "text": "the text is wrong: the library does what is meant",
    "stricter": "the library refuses what the edition allows",
    "wrong": "the library gives other numbers than the formula",
    "crashes": "the library ends the process, or never ends",
}
FEW = 12  # elements of a tensor that is written out in code
WORDS = {
    "right": "accepted, right",
    "ran": "accepted",
    "wrong": "accepted, wrong",
    "unsupported": "not supported",
    "refused": "refused",
    "crash": "crashed",
    "hang": "hung",
}


@record(frozen=True)
class ProbeResult:
    """One probe, its outcome, what that means, and the causes if library and page disagree."""

    asked: Probe
    outcome: Outcome
    verdict: str
    causes: tuple[str, ...] = ()

    @property
    def probe(self) -> dict[str, Any]:
        """The probe in words."""
        asked = self.asked
        return {
            "op": asked.page.schema.kind,
            "group": asked.group,
            "subject": asked.subject,
            "value": asked.value,
            "says": asked.says,
            "allowed": asked.allowed,
            "case": asked.use.label,
        }

    @property
    def expected(self) -> str:
        """What the page says, in words."""
        words = {
            "taken": "accepted, with the result of the formula",
            "refused": "refused",
            "printed": "accepted, as the page prints it",
            "not printed": "refused, as the page leaves it out",
        }
        return words[self.asked.says]

    @property
    def happened(self) -> str:
        """What the library did, in words."""
        detail = f": {self.outcome.detail}" if self.outcome.detail else ""
        return f"{WORDS[self.outcome.outcome]} at {self.outcome.stage}{detail}"

    def code(self) -> str:
        """Python code that runs the probe again."""
        use = self.asked.use
        arrays = zip(use.dtypes, use.arrays, strict=True)
        is_compared = self.outcome.outcome in ("right", "wrong")
        tensors = ", ".join(_tensor(dtype, array, is_compared) for dtype, array in arrays)
        attrs = [f"{name!r}: {_literal(tuple(pair))}" for name, pair in self.asked.call.items()]
        lines = _packed([f"print(probe({self.asked.page.base.name!r}, {{{attrs[0] if attrs else ''}", *attrs[1:]])
        lines[-1] = lines[-1].removesuffix(",") + "},"
        return "\n".join(
            [
                "from onegraph.tools.conformance import probe",
                "",
                *lines,
                f"    inputs=[{tensors}],",
                f"    outputs={list(use.outputs)!r}))",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as plain dictionaries, lists, strings and numbers."""
        return {
            **self.probe,
            "verdict": self.verdict,
            "causes": list(self.causes),
            "expected": self.expected,
            "happened": self.happened,
            "code": self.code(),
        }


def _packed(items: Sequence[str], width: int = 110) -> list[str]:
    """Lines of items separated by commas, each with as many items as fit; all but the first are indented."""
    lines = [f"{items[0]},"]
    for item in items[1:]:
        if len(lines[-1]) + len(item) < width:
            lines[-1] += f" {item},"
        else:
            lines.append(f"    {item},")
    return lines


def _tensor(dtype: str, array: Array, with_contents: bool) -> str:
    whole = type_name(array) in ("s32", "s64")
    contents = np.asarray(array, np.int64 if whole else np.float64)
    if (whole or with_contents) and 0 < array.size <= FEW:
        return f"({dtype!r}, {list(array.shape)}, {_literal(contents.tolist())})"
    if with_contents and array.size and (contents == contents.flat[0]).all():
        return f"({dtype!r}, {list(array.shape)}, {_literal([contents.flat[0].item()])})"  # one number for all
    return f"({dtype!r}, {list(array.shape)})"


def _literal(value: object) -> str:
    """Python code of a value."""
    return re.sub(r"\b(inf|nan)\b", r"float('\1')", repr(value))


def summary(results: Iterable[ProbeResult]) -> dict[str, Counter[str]]:
    """The number of probes by op and verdict."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        counts.setdefault(result.probe["op"], Counter())[result.verdict] += 1
    return counts


def table(results: Sequence[ProbeResult]) -> str:
    """The summary for a terminal: the ops with disagreements, and the totals."""
    rows = summary(results)
    total = Counter(result.verdict for result in results)
    shown = [verdict for verdict in VERDICTS if verdict != "sibling"]  # a finding without probes
    width = max(map(len, [*rows, "op"]), default=2)
    lines = [f"{'op':{width}}  " + "  ".join(f"{verdict:>8}" for verdict in shown)]
    for op, counts in rows.items():
        if counts.keys() - {"agrees"}:
            lines.append(f"{op:{width}}  " + "  ".join(f"{counts[verdict] or '.':>8}" for verdict in shown))
    whole = f"all {len(rows)} ops" if len(rows) > 1 else "all"
    lines.append(f"{whole:{width}}  " + "  ".join(f"{total[verdict]:>8}" for verdict in shown))
    quiet = [op for op, counts in rows.items() if not counts.keys() - {"agrees"}]
    if quiet:
        lines.append(f"\nagree throughout: {', '.join(quiet)}")
    return "\n".join(lines)
