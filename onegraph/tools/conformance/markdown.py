"""Writes findings in Markdown: an issue for each finding, and what was covered."""

from __future__ import annotations

from collections.abc import Mapping

from ..._util.counted import counted
from .findings import Disagreement
from .results import VERDICTS
from .run_record import Run

MANY = 10  # rows that an issue lists


def markdown(run: Run, facts: Mapping[str, object]) -> str:
    """The findings of a run, one section for each; ``facts`` describe the edition, the library and the machine."""
    lines = [
        f"# oneDNN {facts['version']} against {facts['edition']}",
        "",
        f"{counted(len(run), 'probe')} on {facts['cpu_isa']}, {counted(len(run.findings), 'finding')}.",
        "",
    ]
    for finding in run.findings:
        lines += [issue(finding), ""]
    lines += ["## Coverage", "", *(f"- {line.strip()}" for line in run.coverage.lines()), ""]
    return "\n".join(lines)


def issue(finding: Disagreement) -> str:
    """One finding as the text of an issue."""
    lines = [f"## {finding.id}", "", f"**{finding.verdict}**: {VERDICTS[finding.verdict]}.", ""]
    lines += [f"- Pages: {', '.join(f'[{op}]({link})' for op, link in finding.links.items())}"]
    lines += [f"- Edition and section: {finding.edition}, {finding.section}"]
    lines += [f"- Printed: {finding.printed}", f"- Done: {finding.done}", f"- Came back: {finding.came_back}"]
    lines += [f"- Correction: {finding.correction}"]
    if finding.fault:
        lines += [f"- Known to onegraph as: {finding.fault}"]
    if finding.code:
        lines += ["", "```py", finding.code, "```"]
    if finding.rows:
        shown = [f"{row.probe['op']} {row.probe['subject']} {row.probe['value']}" for row in finding.rows]
        listed = "; ".join(dict.fromkeys(shown[:MANY]))
        more = f"; and {len(shown) - MANY} more" if len(shown) > MANY else ""
        lines += ["", f"Explains {counted(len(shown), 'probe')}: {listed}{more}."]
    return "\n".join(lines)
