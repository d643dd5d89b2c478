"""Tests the loaded library against an edition of the specification, probe by probe, in separate processes.

``run`` tries every documented attribute value, default, type row and port count of every op, and values that are not
allowed. A probe that crashes or hangs the library is a finding like any other. ``probe`` runs a single probe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._util.worker_process import Outcome
from ...errors import ArgumentError
from ...opset.editions.registry import BASE, Edition, base_of
from .probes import controls_of, probes_of
from .results import VERDICTS, Result, summary, table
from .runner import TIME_LIMIT, probing_worker, run_all

__all__ = ["VERDICTS", "Outcome", "Result", "probe", "run", "summary", "table", "too_new"]


def run(
    edition: Edition,
    names: Sequence[str] = (),
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """Test the loaded library against an edition, without ops that are newer than the library.

    Args:
        edition: the edition, from :func:`onegraph.opset.editions.registry.edition`.
        names: names of the ops to test; all by default.
        workers: number of processes; one for each CPU by default.
        progress: called with the number of probes done and their total.

    Raises:
        ArgumentError: the edition has no op of a given name.
        LibraryError: there is no usable oneDNN library.
        UnsupportedError: no worker process can be started.
    """
    from ...native.library import VERSION

    for name in names:
        if name not in edition.schemas:
            raise ArgumentError(f"edition {edition.name} has no op {name!r}")
    newer = too_new(edition, VERSION)
    names = [kind for kind in names or edition.schemas if kind not in newer]
    if not names:
        return []
    count = workers or os.cpu_count() or 1
    controls = list(controls_of(edition, names))
    # The number of probes is known only after the controls; it is about the same as that of the controls.
    outcomes = run_all(controls, count, lambda done: progress(done, 2 * len(controls)))
    sound = frozenset(
        (control["base"], control["case"])
        for control, outcome in zip(controls, outcomes, strict=True)
        if outcome.outcome in ("right", "ran")
    )
    probes = list(probes_of(edition, names, sound))
    total = len(controls) + len(probes)
    outcomes = run_all(probes, count, lambda done: progress(len(controls) + done, total))
    return [Result(asked, outcome) for asked, outcome in zip(probes, outcomes, strict=True)]


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
        inputs: (dtype, shape) or (dtype, shape, values) for each input; small random numbers by default.
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
    given = {attribute: list(pair) for attribute, pair in (attrs or {}).items()}
    worker = probing_worker()
    try:
        return worker.run(
            {
                "name": name,
                "base": kind,
                "allowed": True,
                "call": given,
                "attrs": {attribute: value for attribute, (_, value) in given.items()},
                "outputs": list(outputs),
                "tensors": [list(tensor) for tensor in inputs],
                "first": "",
                "count": None,
            },
            TIME_LIMIT,
        )
    finally:
        worker.close()
