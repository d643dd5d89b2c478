"""Tests the loaded library against an edition of the specification, probe by probe, in separate processes.

``run`` starts from uses that the library computes right, and changes one thing at a time: every documented attribute
value, default, data type and port count, and values that are not allowed. It also runs what pages print by mistake and
the examples of known faults. A probe that crashes or hangs the library is a finding like any other. ``probe`` runs a
single probe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._util.validation import callback
from ..._util.worker_process import Outcome
from ...errors import ArgumentError
from ...inference.suggestions import unknown_op
from ...opset.editions.registry import BASE, NEWEST, Edition, base_of, edition_of_version
from ...opset.schema import Schema
from .causes import GOOD, judge
from .changes import Changes
from .page_of_op import PageOfOp
from .probes import TAKEN, TIME_LIMIT, Probe, completed, valid_uses
from .results import VERDICTS, ProbeResult, summary, table
from .run_record import Run
from .runner import Runner, probing_worker
from .uses import GIVEN, ProbedUse, uses_of_cases

__all__ = ["VERDICTS", "Outcome", "ProbeResult", "Run", "own_edition", "probe", "run", "summary", "table", "too_new"]


def run(
    edition: Edition,
    names: Sequence[str] = (),
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Test the loaded library against an edition, without ops that are newer than the library.

    Args:
        edition: the edition, from :func:`onegraph.opset.editions.registry.edition`.
        names: names of the ops to test; all by default.
        workers: number of processes; one for each CPU by default.
        progress: called with the number of probes done and the number known so far.

    Raises:
        ArgumentError: the edition has no op of a given name.
        LibraryError: there is no usable oneDNN library.
        UnsupportedError: no worker process can be started.
    """
    from ...native.library import VERSION

    for name in names:
        if name not in edition.schemas:
            hint = unknown_op(edition, name)
            raise ArgumentError(f"edition {edition.name} has no op {name!r}{'; ' if hint else ''}{hint}")
    newer = too_new(edition, VERSION)
    schemas = [schema for kind, schema in edition.schemas.items() if kind in (names or edition.schemas)]
    skipped = {schema.kind: reason for schema in schemas if (reason := _reason_to_skip(schema, newer))}
    tried = [PageOfOp(edition, schema) for schema in schemas if schema.kind not in skipped]
    with Runner(workers or os.cpu_count() or 1, callback("progress", progress)) as runner:
        uses = [probe for page in tried for probe in valid_uses(page, VERSION)]
        outcomes = runner.run([probe.request() for probe in uses])
        right, failing = _split(uses, outcomes)
        more = [
            Probe(page, "valid use", "completed", use.label, TAKEN, use, use.arguments())
            for page in tried
            for use in _completions(page, failing.get(page.base.kind, []))
        ]
        also, _ = _split(more, runner.run([probe.request() for probe in more]))
        # What a completed use adds is what its failing use lacks.
        cures = {(use.kind, use.source): use for found in also.values() for use in found}
        probes = [replace(probe, control=cures.get((probe.use.kind, probe.use.source))) for probe in uses] + more
        for page in tried:
            kind = page.base.kind
            controls = _best_first([*right.get(kind, []), *also.get(kind, [])])
            if controls or failing.get(kind):
                probes += Changes(page, controls, failing.get(kind, [])).probes()
        outcomes = runner.run([probe.request() for probe in probes])
        return Run(edition, tried, judge(probes, outcomes, runner, VERSION), skipped, VERSION)


def _reason_to_skip(schema: Schema, newer: Sequence[str]) -> str:
    """Why an op cannot be probed; empty if it can."""
    if schema.kind in newer:
        return "newer than this library"
    base = base_of(schema).kind
    if base not in BASE:
        return "not in the C API of oneDNN 3"
    if base == "Wildcard":
        return "it stands for any op, so there is nothing to compare with"
    return "" if uses_of_cases(base) else "onegraph has no use of it"


def _split(
    probes: Sequence[Probe], outcomes: Sequence[Outcome]
) -> tuple[dict[str, list[ProbedUse]], dict[str, list[ProbedUse]]]:
    """The uses that the library computes right, and the others, by op; of the package's own cases."""
    right: dict[str, list[ProbedUse]] = {}
    failing: dict[str, list[ProbedUse]] = {}
    for probe, outcome in zip(probes, outcomes, strict=True):
        if probe.group == "valid use":
            side = right if outcome.outcome in GOOD else failing
            side.setdefault(probe.page.base.kind, []).append(probe.use)
    return right, failing


def _completions(page: PageOfOp, failing: Sequence[ProbedUse]) -> list[ProbedUse]:
    completions = (more for use in failing for more in completed(page, use))
    return [use for use in completions if page.allows(use)]


def _best_first(uses: Sequence[ProbedUse]) -> list[ProbedUse]:
    """The uses in f32 first, otherwise in their order."""
    return sorted(uses, key=lambda use: not {"f32", "s32", "boolean"}.issuperset(use.dtypes[:1]))


def own_edition(version: tuple[int, int, int]) -> tuple[str, str]:
    """The edition of a library, and a note where its version is newer than every edition."""
    name, version_text = edition_of_version(version), ".".join(map(str, version))
    note = f"oneDNN {version_text} is newer than every edition; tested against the newest, {name}"
    return name, "" if version[:2] <= NEWEST else note


def too_new(edition: Edition, version: tuple[int, int, int]) -> list[str]:
    """The ops that are newer than a library of ``version``, which would crash on their kind."""
    return [kind for kind, schema in edition.schemas.items() if base_of(schema).since > version]


def probe(
    name: str,
    attrs: Mapping[str, tuple[str, Any]] | None = None,
    inputs: Sequence[Sequence[Any]] = (),
    outputs: Sequence[str] = (),
) -> Outcome:
    """Run one op in a separate process, without any check before the calls of the library.

    Args:
        name: name of the op in C, ``"conv_transpose"``.
        attrs: attribute -> (kind, value), passed unchanged to the setter of that kind.
        inputs: (dtype, shape) or (dtype, shape, values) for each input; one value stands for all, and small random
            numbers are the default.
        outputs: data types of the outputs.

    Returns:
        The outcome, compared with the reference if the specification allows the call: ``right``, ``wrong``, ``ran``
        (nothing to compare with), ``unsupported``, ``refused`` (a status), ``crash`` (a signal) or ``hang``; the last
        stage that was started; and the status, the text of the exception, the signal, or the difference.

    Raises:
        ArgumentError: there is no op of this name.
        UnsupportedError: no worker process can be started.
    """
    kind = next((schema.kind for schema in BASE.values() if schema.name == name), None)
    if kind is None:
        raise ArgumentError(f"{name!r} is not an op")
    attributes = {attribute: list(pair) for attribute, pair in (attrs or {}).items()}
    picks = tuple((index, str(tensor[0])) for index, tensor in enumerate(inputs))
    plain = {attribute: value for attribute, (_, value) in attributes.items()}
    use = ProbedUse(kind, (GIVEN,), picks, plain, tuple(outputs), [list(tensor) for tensor in inputs])
    worker = probing_worker()
    try:
        request = {"name": name, "use": use.to_dict(), "call": attributes, "allowed": True}
        return worker.run(request, TIME_LIMIT)
    finally:
        worker.close()
