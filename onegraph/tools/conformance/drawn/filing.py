"""Writes a folder for each finding with all that a report to the library's maintainers needs."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...._util.atomic_write import write_atomically
from ...._util.records import record
from ....opset.editions.registry import base_of, edition
from ....opset.shapes import counted
from .c_program import c_program, is_writable
from .findings import Finding
from .report import Report
from .trials import HARSH, Condition, is_bad, run_alone

DOES = {
    "refused": "refuses the op",
    "unsupported": "has no kernel for the op",
    "wrong": "computes other numbers than the formula",
    "crash": "ends the process",
    "hang": "does not return",
}
GRAPH, PROGRAM, README = "graph.json", "program.c", "README.md"
BENCHDNN = f"benchdnn --graph --mode=C --engine=cpu --case={GRAPH}"
COMPILE = f"cc {PROGRAM} -I$DNNLROOT/include -L$DNNLROOT/lib -ldnnl -lm"
_FACTS = "import json; from onegraph.capi.machine import library_and_machine as f; print(json.dumps(f()))"


@record(frozen=True)
class Library:
    """A library that findings are run on: its path, version and hash; and the processor and the system."""

    path: str
    version: str
    hash: str
    cpu: str
    isa: str
    system: str


def library_at(path: str) -> Library:
    """The facts of the library at ``path``, read in a process of its own; of the loaded one if it is empty.

    Raises:
        OSError: the library cannot be loaded.
    """
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {_FACTS}"],
        env={**os.environ, **_environment(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise OSError(f"{path}: {run.stderr.strip().splitlines()[-1]}")
    facts = json.loads(run.stdout.splitlines()[-1])
    return Library(facts["path"], facts["version"], facts["hash"], facts["cpu"], facts["isa"], _system())


def _environment(path: str) -> dict[str, str]:
    return {"ONEGRAPH_LIBRARY": path} if path else {}


def _system() -> str:
    """The name of the distribution, its kernel, and the C library."""
    names = {}
    if hasattr(platform, "freedesktop_os_release"):
        try:
            names = platform.freedesktop_os_release()
        except OSError:
            names = {}
    return f"{names.get('PRETTY_NAME', platform.system())}, Linux {platform.release()}, {' '.join(platform.libc_ver())}"


def file_findings(report: Report, folder: Path, others: Sequence[str] = ()) -> list[Path]:
    """Write a folder for each finding into ``folder``; returns their paths.

    Args:
        report: the run.
        folder: is made if there is none.
        others: paths of other libraries, on which each finding is run again.

    Raises:
        OSError: a file cannot be written, or a library cannot be loaded.
    """
    libraries = [library_at(path) for path in ("", *others)]
    made = []
    for finding in report.findings:
        place = folder / re.sub(r"[^\w=.-]+", "_", finding.id).strip("_")[:120]
        place.mkdir(parents=True, exist_ok=True)
        outcomes = [(library, _again(finding, library)) for library in libraries]
        for name, text in _files(finding, libraries[0], outcomes):
            data = text.encode()
            write_atomically(place / name, lambda stream, data=data: stream.write(data))  # type: ignore[misc]
        made.append(place)
    return made


def _again(finding: Finding, library: Library) -> str:
    """What a library does with the smallest use of a finding, in words."""
    condition = Condition(HARSH.name, HARSH.edges, {**HARSH.settings, "ONEGRAPH_LIBRARY": library.path})
    outcome = run_alone(finding.smallest.use, condition)
    if not is_bad(outcome):
        return "right"
    detail = f": {outcome.detail}" if outcome.detail else ""
    return f"{DOES[outcome.outcome]} (at {outcome.stage}{detail})"


def _files(finding: Finding, library: Library, outcomes: Sequence[tuple[Library, str]]) -> Iterable[tuple[str, str]]:
    use, graph = finding.smallest.use, finding.smallest.graph
    title = f"{finding.kind}: oneDNN {library.version} {DOES[finding.outcome.outcome]}"
    yield GRAPH, graph.to_json()
    yield "benchdnn.txt", f"{BENCHDNN}\n"
    if is_writable(use):
        yield PROGRAM, c_program(use, title, COMPILE)
    facts: dict[str, Any] = finding.to_dict()
    facts["libraries"] = [{"version": one.version, "hash": one.hash, "outcome": text} for one, text in outcomes]
    yield "finding.json", json.dumps(facts, indent=1)
    yield README, "\n".join(_readme(finding, title, library, outcomes)) + "\n"


def _readme(finding: Finding, title: str, library: Library, outcomes: Sequence[tuple[Library, str]]) -> Iterable[str]:
    use, chosen = finding.smallest.use, edition(finding.smallest.edition)
    schema = next(one for one in chosen.schemas.values() if base_of(one).kind == finding.kind)
    inputs = ", ".join(f"{dtype} {tensor[1]}" for dtype, tensor in zip(use.dtypes, use.tensors, strict=True))
    detail = f" ({finding.outcome.detail})" if finding.outcome.detail else ""
    attrs = ", ".join(f"{name}={value!r}" for name, value in use.attrs.items()) or "no attributes"
    yield from (f"# {title}", "")
    yield f"The page allows this use: [{chosen.page(schema)}]({chosen.link(schema)})."
    yield ""
    yield f"- Inputs: {inputs}; outputs: {', '.join(use.outputs)}."
    yield f"- Attributes: {attrs}."
    yield f"- The library {DOES[finding.outcome.outcome]}, at {finding.outcome.stage}{detail}."
    if finding.memory:
        yield f"- Undefined memory: {finding.memory}."
    if finding.shared:
        yield f"- {counted(len(finding.numbers), 'random use')} with this outcome share: {', '.join(finding.shared)}."
    yield from ("", f"`{BENCHDNN}`", "")
    if is_writable(use):
        yield from (f"`{PROGRAM}` needs the headers of oneDNN alone: `{COMPILE}`", "")
    yield from ("| library | hash | outcome |", "| --- | --- | --- |")
    yield from (f"| oneDNN {one.version} | {one.hash[:12]} | {text} |" for one, text in outcomes)
    yield from ("", f"CPU: {library.cpu}, {library.isa}. System: {library.system}.")
