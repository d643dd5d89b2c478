"""The records of a judgement: what was tried, and where a result is not what the oracle gives."""

from __future__ import annotations

from .._util.counted import counted
from .._util.records import record

SHOWN = 12  # results


@record(frozen=True)
class Finding:
    """A result that is not what the oracle gives.

    Attributes:
        name: of the result, such as ``output[0]`` or ``gradient of weight``.
        run: how the model was called, such as ``inference, batch of 2``.
        contents: the kind of numbers in the inputs.
        problem: what is wrong in one word or two: ``numbers``, ``NaN``, ``infinity``, ``shape``, ``data type``,
            ``error``, ``memory``, ``requires_grad`` or ``missing``.
        given, expected: the result and what the oracle gives, at the worst place.
        where: index of the worst element.
        units: the largest error, in units of the allowed one; infinity where no error is allowed.
        wrong: number of wrong elements.
    """

    name: str
    run: str
    contents: str
    problem: str
    given: str
    expected: str
    where: tuple[int, ...] = ()
    units: float = float("inf")
    wrong: int = 1

    def __str__(self) -> str:
        place = f" at {list(self.where)}" if self.where else ""
        error = "" if self.units == float("inf") else f"; {self.units:.3g} times the allowed error"
        several = f", {self.wrong} elements" if self.wrong > 1 else ""
        head = f"{self.name} ({self.run}, {self.contents}): {self.problem}{place}"
        return f"{head}: {self.given}; expected {self.expected}{error}{several}"


@record(frozen=True)
class Judgement:
    """What a model computes here, judged by an oracle of another hand. It is true if nothing was found.

    Attributes:
        oracle: what it was judged by.
        findings: results that differ from the oracle's by more than rounding explains.
        compared: number of results that were compared; several for each tensor.
        contents: the kinds of numbers that were tried.
        notes: what was not judged, and why.
    """

    oracle: str
    findings: tuple[Finding, ...]
    compared: int
    contents: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.judged and not self.findings

    @property
    def judged(self) -> bool:
        """Whether anything that this package computes was compared with the oracle."""
        return self.compared > 0 or bool(self.findings)

    def __str__(self) -> str:
        tried = f"{counted(self.compared, 'result')} compared with {self.oracle}"
        if not self.judged:
            head = "not judged: no result was compared with an oracle"
        elif self.findings:
            head = f"wrong: {counted(len(self.findings), 'finding')}; {tried}"
        else:
            head = f"right: {tried}"
        groups: dict[tuple[str, str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.name, finding.run, finding.problem), []).append(finding)
        lines = [head, *(_shown(group) for group in [*groups.values()][:SHOWN])]
        if len(groups) > SHOWN:
            lines.append(f"  and {len(groups) - SHOWN} more results, in .findings")
        if self.contents:
            lines.append(f"inputs: {', '.join(self.contents)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _shown(group: list[Finding]) -> str:
    """The first of several findings about one result, and the contents of the others."""
    more_contents = [one.contents for one in group[1:] if one.contents != group[0].contents]
    also = f"; also with {', '.join(dict.fromkeys(more_contents))}" if more_contents else ""
    return f"  {group[0]}{also}"
