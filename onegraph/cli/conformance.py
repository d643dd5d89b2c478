"""Implements ``onegraph conformance``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from .._util.atomic_write import write_atomically
from .._util.counted import counted
from ..opset.editions.registry import edition
from .baselines import read_baseline
from .once import OnceCommand
from .options import json_option
from .terminal import emit, progress
from .value_types import EditionName, FilePath, FolderPath, Integer, OpName, OutputPath

KNOWN = "known"  # the baseline that the package has
LISTED = 12  # number of findings that the terminal shows
# What --fail-on may name: the verdicts of findings; what they mean is in onegraph.tools.conformance.VERDICTS, but for
# records that claim too much, and for chains of a documented pattern that are not fused.
FAILURES = ("crashes", "wrong", "stricter", "version", "claims", "laxer", "text", "sibling", "machine", "unfused")


class _Failures(click.ParamType):  # type: ignore[type-arg]  # older versions of click have no argument
    """Verdicts, separated by commas."""

    name = "verdicts"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        """The verdicts; fails if there is no such verdict."""
        names = frozenset(value.split(",")) if isinstance(value, str) else value
        for name in sorted(names.difference(FAILURES)):
            self.fail(f"{name!r} is no verdict; expected some of {', '.join(FAILURES)}", param, ctx)
        return names


@click.command(cls=OnceCommand)
@click.argument("ops", nargs=-1, type=OpName())
@click.option(
    "--edition",
    "name",
    type=EditionName(),
    metavar="NAME",
    help="Edition; by default that of the loaded library's version, and with --cases every one that is not newer.",
)
@click.option("--workers", type=Integer(min=1), metavar="N", help="Processes; one for each CPU by default.")
@click.option(
    "--cases", type=Integer(min=1, max=10_000_000), metavar="N", help="Draw N random valid uses instead of probing."
)
@click.option("--patterns", is_flag=True, help="Try chains of ops of the documented fusion patterns instead.")
@click.option("--seed", type=Integer(), default=0, metavar="S", help="Seed of the random uses.")
@click.option(
    "--folder",
    type=FolderPath(),
    metavar="DIR",
    help="Write a folder for each finding that a call shows: graph, benchdnn line, C program, and what reproduces it.",
)
@click.option(
    "--also",
    "others",
    type=FilePath(exists=True, dir_okay=False),
    multiple=True,
    metavar="PATH",
    help="With --folder, another libdnnl.so.3 to run each finding on. May be given several times.",
)
@click.option(
    "--fail-on",
    type=_Failures(),
    default=frozenset(FAILURES),
    metavar="crashes,wrong,...",
    help="Verdicts that count for the exit status; all by default.",
)
@click.option(
    "--baseline",
    type=FilePath(),
    metavar="FILE|known",
    help="Findings in FILE do not count; known stands for those of the probes on the library's version, or on the "
    "newest one that is not newer.",
)
@click.option("--write-baseline", type=OutputPath(".json"), metavar="FILE", help="Accept all findings: write FILE.")
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
    ops: tuple[str, ...],
    name: str | None,
    workers: int | None,
    cases: int | None,
    patterns: bool,
    seed: int,
    folder: str | None,
    others: tuple[str, ...],
    fail_on: frozenset[str],
    baseline: str | None,
    write_baseline: str | None,
    as_json: bool,
    html: str | None,
    issues: str | None,
) -> int:
    """Test the loaded library against an edition: every attribute value, type row and port count of OPS, or of all ops.

    With --cases, draw random valid uses instead, run each in the bare library, and measure what the records of known
    faults claim: precision is the share of the uses claimed that really go wrong, recall the share of the wrong uses
    that are claimed. Findings are then wrong uses that no record claims, joined by cause, and records below 99 %
    precision.

    With --patterns, try chains of the documented fusion patterns, of which OPS are the first ops. Findings are chains
    that are documented and not fused, and chains that are fused and wrong. What is fused beyond the text is listed.

    The library is the installed one, or the file that ONEGRAPH_LIBRARY names. One that is newer than every edition is
    tested against the newest.

    Exit status: 0 if there is no finding, but for accepted ones and those that --fail-on leaves out; 1 if there are
    findings; 2 for wrong arguments, a library that cannot be loaded, or one without a CPU engine.
    """
    if as_json and issues == "-":
        raise click.UsageError("--json or --markdown, not both")
    if cases is not None and (html or issues):
        raise click.UsageError("--html and --markdown are of the probes; with --cases, use --json or --folder")
    if patterns and (cases is not None or html or issues or name or folder):
        raise click.UsageError("--patterns has no --cases, --html, --markdown, --edition and --folder")
    if folder is None and others:
        raise click.UsageError("--also needs --folder")
    if baseline == KNOWN and (patterns or cases is not None):
        raise click.UsageError("--baseline known is of the probes, without --cases and --patterns")
    accepted = {} if baseline is None else _accepted(baseline)
    if others:
        from ..tools.conformance.drawn.libraries import library_at

        for path in others:  # before the findings that it is to run
            library_at(path)
    if patterns:
        ids = _try_patterns(ops, workers or os.cpu_count() or 1, as_json)
    elif cases is None:
        ids = _probe(ops, name, workers, as_json, html, issues, folder, others)
    else:
        ids = _draw(ops, name, workers or os.cpu_count() or 1, cases, seed, folder, others, as_json)
    if write_baseline is not None:
        text = json.dumps(ids, indent=1).encode()
        write_atomically(Path(write_baseline), lambda stream: stream.write(text))
        click.echo(f"{write_baseline}: {counted(len(ids), 'finding')} accepted", err=True)
        return 0
    # The table of known findings is of a CPU with every instruction.
    counting = {*fail_on} - ({"machine"} if baseline == KNOWN else set[str]())
    new = [one for one, verdict in ids.items() if one not in accepted and verdict in counting]
    if baseline is not None:
        click.echo(f"{counted(len(new), 'new finding')}" + "".join(f"\n{one}" for one in new[:LISTED]), err=True)
    return int(bool(new))


def _accepted(path: str) -> Mapping[str, str]:
    """The ids of a baseline."""
    if path == KNOWN:
        from ..native.library import VERSION
        from ..tools.conformance.known import known_findings

        findings_known, version = known_findings(VERSION)
        if version != VERSION:
            click.echo(f"findings of {'.'.join(map(str, version))} are accepted", err=True)
        return findings_known
    ids: Mapping[str, str] = read_baseline(path, "conformance", dict, "ids of findings")
    return ids


def _try_patterns(ops: tuple[str, ...], workers: int, as_json: bool) -> dict[str, str]:
    """Try the documented fusion patterns, and print what came of them; returns the verdicts of findings by id."""
    from ..capi import default_engine, version_info
    from ..native.library import VERSION
    from ..tools.conformance import fused

    facts = version_info()
    default_engine()
    with progress("chains") as tell:
        report = fused.run(VERSION[:2], ops, workers, tell)
    if as_json:
        emit({**facts, **report.to_dict()})
    else:
        click.echo(f"oneDNN {facts['version']} on {facts['cpu_isa']}: {report.text()}")
    return report.ids()


def _draw(
    ops: tuple[str, ...],
    name: str | None,
    workers: int,
    cases: int,
    seed: int,
    folder: str | None,
    libraries: tuple[str, ...],
    as_json: bool,
) -> dict[str, str]:
    """Run random uses, and print what came of them; returns the verdict of each finding by its id."""
    from ..capi import version_info
    from ..tools.conformance import drawn
    from ..tools.conformance.drawn.filing import cases_of_report, file_findings

    facts = version_info()
    with progress("uses") as tell:
        report = drawn.run(cases, seed, edition=name, kinds=ops, workers=workers, progress=tell)
    if folder is not None:
        file_findings(cases_of_report(report), Path(folder), libraries)
    if as_json:
        emit({**facts, "seed": seed, "edition": name or "every one", **report.to_dict()})
    else:
        click.echo(f"oneDNN {facts['version']} on {facts['cpu_isa']}: {len(report.tried)} random uses, seed {seed}\n")
        click.echo(report.text())
    return report.ids()


def _probe(
    ops: tuple[str, ...],
    name: str | None,
    workers: int | None,
    as_json: bool,
    html: str | None,
    issues: str | None,
    folder: str | None,
    libraries: tuple[str, ...],
) -> dict[str, str]:
    """Run the probes, and print what came of them; returns the verdict of each finding by its id."""
    from ..capi import default_engine, version_info
    from ..native.library import VERSION
    from ..tools import conformance as tool
    from ..tools.conformance.drawn.filing import cases_of_run, file_findings
    from ..tools.conformance.markdown import markdown
    from ..tools.conformance.page import page

    facts = version_info()
    default_engine()
    if name is None:
        name, note = tool.own_edition(VERSION)
        if note:
            click.echo(note, err=True)
    with progress("probes") as tell:
        run = tool.run(edition(name), list(ops), workers, tell)
    facts = {"edition": name, **facts}
    ids = {finding.id: finding.verdict for finding in run.findings}
    for target, write in ((html, page), (issues, markdown)):
        if target and target != "-":
            text = write(run, facts).encode()
            write_atomically(Path(target), lambda stream, text=text: stream.write(text))  # type: ignore[misc]
    if folder is not None:
        file_findings(cases_of_run(run), Path(folder), libraries)
    if issues == "-":
        click.echo(markdown(run, facts))
        return ids
    if as_json:
        results, findings = [result.to_dict() for result in run], [finding.to_dict() for finding in run.findings]
        emit({**facts, "findings": findings, "coverage": run.coverage.to_dict(), "results": results})
        return ids
    click.echo(f"oneDNN {facts['version']} on {facts['cpu_isa']} against {name}: {counted(len(run), 'probe')}\n")
    click.echo(tool.table(run.results))
    if run.findings:
        click.echo(f"\n{counted(len(run.findings), 'finding')}")
    for finding in run.findings[:LISTED]:
        click.echo(f"{finding.id}: {', '.join(finding.ops)}: {finding.correction}")
    if len(run.findings) > LISTED:
        click.echo(f"and {len(run.findings) - LISTED} more, which --json, --html and --markdown have")
    click.echo("\n" + "\n".join(run.coverage.lines(names=False)))
    click.echo("\n" + "\n".join(f"{verdict:8}  {meaning}" for verdict, meaning in tool.VERDICTS.items()))
    return ids
