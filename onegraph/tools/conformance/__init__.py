"""The loaded library held against an edition of the specification, probe by probe, in processes that may die of it.

``run`` tries every documented attribute value, default, type row and port count of every op, and values that are not
allowed; a probe that crashes or hangs the library is one more finding. ``probe`` asks one question.
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
    """Hold the loaded library against an edition; ops that it is too old for are left out.

    Args:
        edition: the edition, from :func:`onegraph.opset.editions.registry.edition`.
        names: picks some of its ops; all by default.
        workers: number of processes; one for each CPU by default.
        progress: told how many probes are done, and how many there are.

    Raises:
        ArgumentError: the edition has no op of such a name.
        LibraryError: there is no usable oneDNN library.
        UnsupportedError: the system starts no worker process.
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
    # The number of probes is not known before the controls are done; it is much the same.
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
    """The ops that a library of ``version`` is too old for: it would crash on their number."""
    return [kind for kind, schema in edition.schemas.items() if base_of(schema).since > version]


def probe(
    name: str,
    attrs: Mapping[str, tuple[str, Any]] | None = None,
    inputs: Sequence[Sequence[Any]] = (),
    outputs: Sequence[str] = (),
) -> Outcome:
    """Ask the library about one op, in a process of its own, without any check before it.

    Args:
        name: the op as C names it, ``"conv_transpose"``.
        attrs: attribute -> (kind, value), handed to the setter of that kind as it is.
        inputs: (dtype, shape) or (dtype, shape, values) for each input; random small numbers by default.
        outputs: data types of the outputs.

    Returns:
        What became of it, compared with the reference where the specification allows the call: ``right``, ``wrong``,
        ``ran`` (nothing to compare with), ``unsupported``, ``refused`` (a status), ``crash`` (a signal) or ``hang``;
        the last stage that was begun; and the status, the text of the exception, the signal, or the difference.

    Raises:
        ArgumentError: there is no op of that name.
        UnsupportedError: the system starts no worker process.
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
