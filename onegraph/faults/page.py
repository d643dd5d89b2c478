"""The pages of the documentation about what oneDNN gets wrong, from the records."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from types import ModuleType
from typing import Any

from ..opset.signature import Version
from .api import API, GROUPS
from .catalogue import CATALOGUE, MODULES
from .fault import CPUS, LACKS, LIBRARY, SLOW, UNSAFE, Example, Fault
from .measured import Score
from .ops import windows

SEVERITIES = {
    UNSAFE: "unsafe: a crash, a hang or wrong numbers",
    LIBRARY: "library: oneDNN refuses",
    SLOW: "slow: right, with a reference kernel",
    LACKS: "lacks: oneDNN has no kernel",
}
MANY = 12  # ops; a fault that concerns more is said to concern any op
ROWS = 14  # of a table; on a narrow screen a row may take 150 pixels


def markdown_faults() -> dict[str, str]:
    """The pages of faults in Markdown, by name: one for each family of ops, and ``faults``, which links to them."""
    pages = {f"faults-{_slug(title)}": _family(title, faults) for title, faults in CATALOGUE.items()}
    families = []
    for title, faults in CATALOGUE.items():
        names = ", ".join(fault.name for fault in faults)
        families.append(f"| [{title}](ops/faults-{_slug(title)}.md) | {names} |")
    lines = [*_tables(["Family", "Faults"], families), "", "## Misuse of the C API", ""]
    lines += ["What no graph can say: calls that onegraph refuses, or makes right.", ""]
    for group, misuses in groupby(API, lambda fault: fault.name.partition(":")[0]):
        lines += [f"### {GROUPS[group]}", "", *_misuse(misuses), ""]
    return {**pages, "faults": "\n".join(lines)}


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def _family(title: str, faults: Iterable[Fault[Any]]) -> str:
    """Faults of one kind of op: reason, outcomes by version and CPU, way around and the source of examples."""
    examples = [line for fault in faults for line in (*_fault(fault), "")]
    helpers = _helpers(MODULES[title])
    if any("IMAGE" in text or "AVERAGE" in text for text in (*examples, *helpers)):
        source = inspect.getsource(windows).partition("Attrs = dict[str, object]\n")[2]
        helpers.insert(0, source.partition("\n\n\n")[0].strip())
    lines = ["---", "orphan: true", "---", f"# {title}", ""]
    lines += ["[All families](../faults.md), and what the words of the tables mean.", ""]
    if helpers:
        lines += ["What the examples have in common:", "", "```py", "\n\n".join(helpers), "```", ""]
    return "\n".join([*lines, *examples])


def _helpers(module: ModuleType) -> list[str]:
    """The sources of the functions that the examples of a module share."""
    members = vars(module).items()
    functions = [value for name, value in members if name.startswith("_") and inspect.isfunction(value)]
    return [
        inspect.getsource(function).rstrip() for function in functions if "g" in inspect.signature(function).parameters
    ]


def _fault(fault: Fault[Any]) -> Iterator[str]:
    yield f"## {fault.name}"
    yield ""
    yield _sentence(fault.reason)
    yield ""
    ops = sorted(fault.ops)
    yield f"- Ops: {', '.join(ops) if len(ops) <= MANY else 'any'}{f'; {fault.where}' if fault.where else ''}."
    yield f"- Severity: {SEVERITIES[fault.severity]}."
    yield f"- Instead: {_plain(fault.instead)}."
    if bounds := _bounds(fault):
        yield f"- Guarded against {bounds}."
    if told := "; ".join(_measured(version, score) for version, score in fault.measured.items() if _says(score)):
        yield f"- Measured on random uses: {told}."
    yield ""
    outcomes = [(example.name, example.seen, example.on) for example in fault.examples]
    if any(seen is not fault.seen for _, seen, _ in outcomes):
        outcomes.insert(0, ("in short", fault.seen, {}))
    yield from _table("Example", outcomes)
    yield ""
    yield "```py"
    yield "\n\n".join(_source(example) for example in fault.examples)
    yield "```"


def _says(score: Score) -> bool:
    return bool(score.claimed or score.cautioned)


def _measured(version: str, score: Score) -> str:
    """How often a record was true, in words."""
    parts = [f"{score.wrong} of {score.claimed} claimed uses wrong"] if score.claimed else []
    if score.cautioned:
        parts.append(f"{score.cautioned_wrong} of {score.cautioned} uses wrong where that depends on memory or numbers")
    return f"{version}: {', '.join(parts)}"


def _misuse(faults: Iterable[Fault[None]]) -> list[str]:
    rows = []
    for fault in faults:
        seen = "; ".join(f"{_dotted(version)}: {_cell(found)}" for version, found in fault.seen.items())
        name = fault.name.partition(": ")[2]
        rows.append(f"| {_cell(name)} | {seen} | {_cell(fault.reason)} | {_cell(fault.instead)} |")
    return [*_tables(["Misuse", "oneDNN", "Reason", "onegraph"], rows)]


def _tables(heads: list[str], rows: list[str]) -> Iterator[str]:
    """The lines of tables of at most ``ROWS`` rows, so that no reader has to look for the heads."""
    for first in range(0, len(rows), ROWS):
        yield from ([""] if first else [])
        yield f"| {' | '.join(heads)} |"
        yield f"|{' --- |' * len(heads)}"
        yield from rows[first : first + ROWS]


def _table(first: str, rows: list[tuple[str, Mapping[Version, str], Mapping[str, str]]]) -> Iterator[str]:
    versions = sorted({version for _, seen, _ in rows for version in seen})
    cpus = [cpu for cpu in CPUS if any(cpu in on for _, _, on in rows)]
    heads = [first, *map(_dotted, versions), *cpus]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for name, seen, on in rows:
        cells = [
            name,
            *(_cell(seen.get(version, "")) for version in versions),
            *(_cell(on.get(cpu, "")) for cpu in cpus),
        ]
        yield f"| {' | '.join(cells)} |"


def _source(example: Example) -> str:
    """The function of an example, without the decorator that registers it.

    A function that another one has made gets its name, and the values of its variables.
    """
    build = example.build
    text = textwrap.dedent(inspect.getsource(build))
    text = text[re.search(r"^def ", text, flags=re.MULTILINE).start() :].rstrip()  # type: ignore[union-attr]
    for name, value in inspect.getclosurevars(build).nonlocals.items():
        text = re.sub(rf"\b{name}\b", repr(value), text)
    return re.sub(r"^def \w+", f"def {build.__name__}", text)


def _bounds(fault: Fault[Any]) -> str:
    """The versions that are said to be concerned beyond what was seen."""
    first = f"from {_dotted(fault.since)} on" if fault.since is not None else ""
    if fault.mended is None:
        return first
    last = "in every version" if fault.mended > (9,) else f"before {_dotted(fault.mended)}"
    return f"{first}, {last}" if first else last


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _sentence(text: str) -> str:
    words = _plain(text)
    is_name = words.startswith("oneDNN") or "_" in words.partition(" ")[0]
    return f"{words}." if is_name else f"{words[:1].upper()}{words[1:]}."


def _plain(text: str) -> str:
    return re.sub(r"([*<>])", r"\\\1", text)


def _cell(text: str) -> str:
    return _plain(text).replace(" | ", " or ").replace("|", "\\|")
