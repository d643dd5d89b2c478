"""Writes a folder for each finding with all that a report to the library's maintainers needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ...._util.atomic_write import explained, write_atomically
from ...._util.counted import counted
from ...._util.records import record
from ...._util.worker_process import Outcome
from ....errors import OneGraphError
from ....graph import Graph
from ....opset.dtypes import DataType
from ....opset.editions.registry import BASE, EDITIONS, base_of, edition
from ....opset.values import BadValueError
from ..causes import GOOD
from ..page_of_op import PageOfOp
from ..run_record import Run
from ..uses import SINGLE, ProbedUse
from .c_program import FEW, MANY, PLACE, c_program, is_small, is_small_result, is_writable, repeated
from .drawing import graph_of
from .libraries import TriedLibrary, library_at
from .report import DrawnReport
from .trials import CALM, HARSH, Condition, is_bad, run_alone

DOES = {
    "refused": "refuses the op",
    "unsupported": "has no kernel for the op",
    "wrong": "computes other numbers than the formula",
    "written": "writes behind the end of a result",
    "shape": "gives a result of another shape than the page says",
    "crash": "ends the process",
    "hang": "does not return",
}
# Verdicts of probes that a call shows, and a maintainer of the library can act on.
FILED = frozenset(["crashes", "wrong", "stricter", "version", "laxer"])
NAMED = ("known fault", "valid use")  # groups of probes whose values are names
REPEATS = 4  # contents of few numbers that are tried
GRAPH, PROGRAM, README = "graph.json", "program.c", "README.md"
BENCHDNN = f"benchdnn --graph --mode=C --engine=cpu --case={GRAPH}"
COMPILE = f"cc {PROGRAM} -I$DNNLROOT/include -L$DNNLROOT/lib -ldnnl -lm"
DEPENDS = "what comes out depends on what lies in memory beside the tensors, or on the numbers, and may be right"
NO_GRAPH = "the specification forbids the use, and graph files hold valid ops"
TRIED = (
    "Each library ran the use in a process of its own: first with memory that is filled with large numbers, inputs and "
    "outputs that end at a page which nobody may touch, and two threads; where it is right there, again in zeroed "
    "memory with one thread."
)
OF_NAN = (
    "NaN and infinities: the numbers are right for inputs without them, such as those that benchdnn fills tensors with."
)
THROWN = re.compile(r"returned \w+: ")  # a status with a message stands for an exception of the library


@record(frozen=True)
class FiledFinding:
    """A finding as a folder shows it.

    Attributes:
        id: of the finding.
        kind: the op, in the base vocabulary.
        edition: name of an edition that the use is of.
        use: the smallest use that shows it.
        call: for each attribute of the use the kind of its setter and the value.
        graph: the use as a graph; None if no graph can hold it.
        outcome: what the library does with the use.
        is_allowed: whether the edition allows the use.
        notes: sentences about the finding.
        facts: everything about it, as plain values.
        problem: what is special about the use, in some words.
        near: where the program compares some elements of a result, if it cannot compare all: output and place.
    """

    id: str
    kind: str
    edition: str
    use: ProbedUse
    call: Mapping[str, Sequence[Any]]
    graph: Graph | None
    outcome: Outcome
    is_allowed: bool
    notes: Sequence[str]
    facts: Mapping[str, Any]
    problem: str = ""
    near: tuple[int, int] | None = None

    @property
    def does(self) -> str:
        """What the library does, in words."""
        if not self.is_allowed and self.outcome.outcome in GOOD:
            return "accepts and executes what the specification forbids"
        return _does(self.outcome)

    @property
    def most(self) -> int:
        """How many numbers a program writes out: fewer where the numbers do not matter."""
        return MANY if self.outcome.outcome == "wrong" else FEW

    @property
    def detail(self) -> str:
        """Where that happens, and the message of the library; empty for a use that runs."""
        return "" if self.outcome.outcome in GOOD else where(self.outcome)

    @property
    def unwritable(self) -> str:
        """Why no C program of 40 lines shows it."""
        if not is_writable(self.use):
            return "the headers of oneDNN 3.2 have no name for its data types"
        return (
            f"the inputs have more numbers than a short program holds, {MANY}, and with numbers that repeat the result "
            "is right; run the graph"
        )

    @property
    def is_writable(self) -> bool:
        """Whether a C program can show it."""
        shows = is_small(self.use) or self.outcome.outcome != "wrong" or self.near  # zeros hide wrong numbers
        return bool(shows) and is_writable(self.use) and (not self.is_allowed or self.use.reference() is not None)


def cases_of_report(report: DrawnReport) -> list[FiledFinding]:
    """The findings of random uses."""
    cases = []
    for finding in report.findings:
        drawn, notes = finding.smallest, []
        if finding.memory:
            notes.append(f"Undefined memory: {finding.memory}.")
        if finding.shared:
            uses = counted(len(finding.numbers), "random use")
            notes.append(f"{uses} with this outcome share: {', '.join(finding.shared)}.")
        cases.append(
            FiledFinding(
                finding.id,
                finding.kind,
                drawn.edition,
                drawn.use,
                drawn.use.arguments(),
                drawn.graph,
                finding.outcome,
                True,
                notes,
                finding.to_dict(),
                ", ".join(finding.shared),
            )
        )
    return cases


def cases_of_run(run: Run) -> list[FiledFinding]:
    """The findings of probes that a call shows: not those of texts, and laxer ones that execute alone.

    What a later edition allows is nothing that a library should refuse.
    """
    cases = []
    for finding in run.findings:
        row = finding.simplest
        if row is None or finding.verdict not in FILED:
            continue
        asked = row.asked
        if not asked.allowed and _is_allowed_later(asked.use, asked.call, finding.edition):
            continue
        fault, call = SINGLE.get(finding.fault), asked.use.known_call
        notes = [f"The page says: {finding.printed}.", f"Proposed: {_lowered(finding.correction)}"]
        if fault is not None and fault.reason not in finding.correction:
            notes.append(f"Cause, as far as known: {fault.reason}.")
        if fault is not None and call is not None and not fault.is_certain(call):
            notes.append(OF_NAN if fault.of_nan else f"Undefined memory or rounding: {DEPENDS}.")
        cases.append(
            FiledFinding(
                finding.id,
                asked.page.base.kind,
                finding.edition,
                asked.use,
                asked.call,
                _graph_of(asked.use) if asked.call == asked.use.arguments() else None,
                row.outcome,
                asked.allowed,
                notes,
                finding.to_dict(),
                asked.value if asked.group in NAMED else f"{asked.subject} {asked.value}",
            )
        )
    return cases


def _is_allowed_later(use: ProbedUse, call: Mapping[str, Sequence[Any]], name: str) -> bool:
    """Whether the page of an edition behind ``name`` allows a use."""
    names = [*EDITIONS]
    later = [edition(one) for one in names[names.index(name) + 1 :]]
    pages = [PageOfOp(one, schema) for one in later for schema in one.schemas.values()]
    return call == use.arguments() and any(page.base.kind == use.kind and page.allows(use) for page in pages)


def _lowered(sentence: str) -> str:
    """A sentence that goes on behind a colon; names stay as they are."""
    first = sentence.partition(" ")[0]
    return f"{sentence[0].lower()}{sentence[1:]}" if first in ("Print", "Say") else sentence


def _graph_of(use: ProbedUse) -> Graph | None:
    """The use as a graph; None if the builder refuses it, or the op has fewer results."""
    if len(use.outputs) > len(BASE[use.kind].outputs):
        return None
    try:
        call = use.call
        inputs = [tensor for tensor in call.inputs if tensor is not None]
        return graph_of(call.schema, call.given, inputs, [DataType[name] for name in use.outputs])
    except (OneGraphError, BadValueError, KeyError, IndexError):
        return None


def file_findings(cases: Sequence[FiledFinding], folder: Path, libraries_beside: Sequence[str] = ()) -> list[Path]:
    """Write a folder for each finding into ``folder``; returns their paths.

    Args:
        cases: the findings.
        folder: is made if there is none.
        libraries_beside: paths of other libraries, on which each finding is run again.

    Raises:
        FormatError: a file cannot be written.
        LibraryError: a library cannot be loaded.
    """
    libraries = [library_at(path) for path in ("", *libraries_beside)]
    made = []
    for case in map(_with_repeated_numbers, cases):
        place = folder / re.sub(r"[^\w=.-]+", "_", case.id).strip("_")[:120]
        with explained(place):
            place.mkdir(parents=True, exist_ok=True)
        outcomes = [(library, _again(case, library)) for library in libraries]
        for name, text in _files(case, libraries[0], outcomes):
            data = text.encode()
            write_atomically(place / name, lambda stream, data=data: stream.write(data))  # type: ignore[misc]
        made.append(place)
    return made


def _with_repeated_numbers(case: FiledFinding) -> FiledFinding:
    """A case whose numbers are too many for a program, with repeated ones that show it too; the case if none do."""
    if case.outcome.outcome != "wrong" or not is_writable(case.use):
        return case
    if is_small(case.use):
        near = _place(case.use, case.outcome)
        return case if near is None or is_small_result(case.use) else replace(case, near=near)
    for seed, condition in product(range(REPEATS), (HARSH, CALM)):
        use = repeated(case.use, seed)
        outcome = run_alone(use, condition, call=case.call)
        if outcome.outcome == "wrong" and (near := _place(use, outcome)) is not None:
            return replace(case, use=use, outcome=outcome, near=near)
    return case


def _place(use: ProbedUse, outcome: Outcome) -> tuple[int, int] | None:
    """The output and the place of the element that a wrong outcome names; None if it names none."""
    place, results = PLACE.match(outcome.detail), use.reference()
    if place is None or results is None:
        return None
    output, numbers = int(place[1]), [int(number) for number in place[2].split(",") if number.strip()]
    return output, int(np.ravel_multi_index(numbers, results[output].shape))


def _does(outcome: Outcome) -> str:
    """What the library does, in words."""
    if outcome.outcome != "wrong":
        return DOES[outcome.outcome]
    kinds = {"beyond its end": "written", "has shape": "shape"}
    return DOES[next((kind for words, kind in kinds.items() if words in outcome.detail), "wrong")]


def where(outcome: Outcome) -> str:
    """Where the library goes wrong, and its message; of a use that never ends, the time says nothing."""
    text = "" if outcome.outcome == "hang" else outcome.detail.partition(" Run workload with")[0]
    return f" at {outcome.stage}" + (f": {text}" if text else "")


def _again(case: FiledFinding, library: TriedLibrary) -> str:
    """What a library does with the use of a finding, in words: in filled memory, or if right there, in zeroed."""
    for tried in (HARSH, CALM):
        condition = Condition(tried.name, tried.edges, {**tried.settings, "ONEGRAPH_LIBRARY": library.path})
        outcome = run_alone(case.use, condition, call=case.call)
        if is_bad(outcome):
            return f"{_does(outcome)}{where(outcome)}"
    return "right" if case.is_allowed else "executes it"


def _files(
    case: FiledFinding, library: TriedLibrary, outcomes: Sequence[tuple[TriedLibrary, str]]
) -> Iterable[tuple[str, str]]:
    title = f"{case.kind}: oneDNN {library.version} {case.does}" + (f" ({case.problem})" if case.problem else "")
    if case.graph is not None:
        yield GRAPH, case.graph.to_json()
        yield "benchdnn.txt", f"{BENCHDNN}\n"
    if case.is_writable:
        more: Any = {"is_allowed": case.is_allowed, "most": case.most, "near": case.near}
        yield PROGRAM, c_program(case.use, title, COMPILE, case.call, **more)
    facts = dict(case.facts)
    facts["libraries"] = [{"version": one.version, "hash": one.hash, "outcome": text} for one, text in outcomes]
    yield "finding.json", json.dumps(facts, indent=1)
    yield README, "\n".join(_readme(case, title, library, outcomes)) + "\n"


def _readme(
    case: FiledFinding, title: str, library: TriedLibrary, outcomes: Sequence[tuple[TriedLibrary, str]]
) -> Iterable[str]:
    use, chosen = case.use, edition(case.edition)
    schema = next(schema for schema in chosen.schemas.values() if base_of(schema).kind == case.kind)
    inputs = ", ".join(f"{dtype} {list(array.shape)}" for dtype, array in zip(use.dtypes, use.arrays, strict=True))
    attrs = ", ".join(f"{name}={value!r}" for name, (_, value) in case.call.items()) or "no attributes"
    yield from (f"# {title}", "")
    says = "allows" if case.is_allowed else "forbids"
    yield f"The page {says} this use: [{chosen.page(schema)}]({chosen.link(schema)})."
    yield ""
    yield f"- Inputs: {inputs}; outputs: {', '.join(use.outputs)}."
    yield f"- Attributes: {attrs}."
    yield f"- The library {case.does}{case.detail}."
    if case.outcome.outcome == "refused" and THROWN.search(case.outcome.detail):
        yield "- The C function lets a C++ exception escape, which ends a program in C."
    yield from (f"- {note}" for note in case.notes)
    yield from ("", f"`{BENCHDNN}`" if case.graph is not None else f"There is no {GRAPH}: {NO_GRAPH}.")
    runs = f"`{PROGRAM}` needs the headers of oneDNN alone: `{COMPILE}`"
    yield from ("", runs if case.is_writable else f"There is no {PROGRAM}: {case.unwritable}.")
    yield from ("", TRIED, "", "| library | hash | outcome |", "| --- | --- | --- |")
    yield from (f"| oneDNN {one.version} | {one.hash[:12]} | {text} |" for one, text in outcomes)
    yield from ("", f"CPU: {library.cpu}, {library.isa}. System: {library.system}.")
