"""Implements ``onegraph conformance``."""

from __future__ import annotations

from pathlib import Path

import click

from .._util.atomic_write import write_atomically
from ..opset.editions.registry import edition
from .options import json_option
from .terminal import emit, progress
from .value_types import Integer, OutputPath

LISTED = 12  # number of findings that the terminal shows


@click.command()
@click.argument("ops", nargs=-1)
@click.option("--edition", "name", metavar="NAME", help="Edition; by default that of the loaded library's version.")
@click.option("--workers", type=Integer(min=1), metavar="N", help="Processes; one for each CPU by default.")
@json_option
@click.option(
    "--html", type=OutputPath(".html", ".htm"), metavar="PAGE.html", help="Also write an HTML page with filters."
)
@click.option(
    "--markdown",
    "issues",
    type=OutputPath(".md", allow_dash=True),
    is_flag=False,
    flag_value="-",
    metavar="[PAGE.md]",
    help="Print only an issue for each finding, or write them to a file.",
)
def command(
    ops: tuple[str, ...], name: str | None, workers: int | None, as_json: bool, html: str | None, issues: str | None
) -> int:
    """Test the loaded library against an edition: every attribute value, type row and port count of OPS, or of all ops.

    Exit status 1 if library and edition disagree in anything.
    """
    if as_json and issues == "-":
        raise click.UsageError("--json or --markdown, not both")
    from ..capi import version_info
    from ..tools import conformance as tool
    from ..tools.conformance.markdown import markdown
    from ..tools.conformance.page import page

    facts = version_info()
    name = name or f"onednn-{'.'.join(str(facts['version']).split('.')[:2])}"
    with progress("probes") as tell:
        run = tool.run(edition(name), list(ops), workers, tell)
    facts = {"edition": name, **facts}
    status = int(bool(run.findings))
    for target, write in ((html, page), (issues, markdown)):
        if target and target != "-":
            text = write(run, facts).encode()
            write_atomically(Path(target), lambda stream, text=text: stream.write(text))  # type: ignore[misc]
    if issues == "-":
        click.echo(markdown(run, facts))
        return status
    if as_json:
        results, findings = [result.to_dict() for result in run], [finding.to_dict() for finding in run.findings]
        emit({**facts, "findings": findings, "coverage": run.coverage.to_dict(), "results": results})
        return status
    click.echo(f"oneDNN {facts['version']} on {facts['cpu_isa']} against {name}: {len(run)} probes\n")
    click.echo(tool.table(run.results))
    if run.findings:
        click.echo(f"\n{len(run.findings)} findings")
    for finding in run.findings[:LISTED]:
        click.echo(f"{finding.id}: {', '.join(finding.ops)}: {finding.correction}")
    if len(run.findings) > LISTED:
        click.echo(f"and {len(run.findings) - LISTED} more, which --json, --html and --markdown have")
    click.echo("\n" + "\n".join(run.coverage.lines(names=False)))
    click.echo("\n" + "\n".join(f"{verdict:8}  {meaning}" for verdict, meaning in tool.VERDICTS.items()))
    return status
