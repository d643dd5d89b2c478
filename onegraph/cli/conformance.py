"""Implements ``onegraph conformance``."""

from __future__ import annotations

from pathlib import Path

import click

from .._util.atomic_write import write_atomically
from ..opset.editions.registry import edition
from .options import Integer, OutputPath, json_option
from .terminal import emit, progress

LISTED = 12  # number of probes that the terminal shows


@click.command()
@click.argument("ops", nargs=-1)
@click.option("--edition", "name", metavar="NAME", help="Edition; by default that of the loaded library's version.")
@click.option("--workers", type=Integer(min=1), metavar="N", help="Processes; one for each CPU by default.")
@json_option
@click.option(
    "--html", type=OutputPath(".html", ".htm"), metavar="PAGE.html", help="Also write an HTML page with filters."
)
def command(ops: tuple[str, ...], name: str | None, workers: int | None, as_json: bool, html: str | None) -> int:
    """Test the loaded library against an edition: every attribute value, type row and port count of OPS, or of all ops.

    Exit status 1 if library and edition disagree in any probe.
    """
    from ..capi import version_info
    from ..native import library
    from ..tools import conformance as tool
    from ..tools.conformance.page import page

    facts = version_info()
    name = name or f"onednn-{'.'.join(str(facts['version']).split('.')[:2])}"
    with progress("probes") as tell:
        results = tool.run(edition(name), list(ops), workers, tell)
    facts = {"edition": name, **facts}
    status = int(any(result.verdict != "agrees" for result in results))
    if html:
        text = page(results, facts)
        write_atomically(Path(html), lambda stream: stream.write(text.encode()))
    if as_json:
        emit({**facts, "results": [result.to_dict() for result in results]})
        return status
    click.echo(f"oneDNN {facts['version']} on {facts['cpu_isa']} against {name}: {len(results)} probes\n")
    click.echo(tool.table(results))
    others = [result for result in results if result.verdict != "agrees"]
    if others:
        click.echo("")
    for result in others[:LISTED]:
        probe = result.probe
        what = f"{probe['op']}, {probe['subject']} {probe['value']} ({probe['case']})"
        click.echo(f"{result.verdict}: {what}: {result.happened.splitlines()[0]}")
    if len(others) > LISTED:
        click.echo(f"and {len(others) - LISTED} more, which --json and --html have")
    click.echo("\n" + "\n".join(f"{verdict:11}  {meaning}" for verdict, meaning in tool.VERDICTS.items()))
    newer = tool.too_new(edition(name), library.VERSION)
    if newer:
        click.echo(f"\nnewer than this library, not tried: {', '.join(newer)}")
    return status
