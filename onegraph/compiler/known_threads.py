"""Keeps the measured numbers of threads on disk, so that a later process with the same graph need not measure.

A number of threads changes the time of a step alone. A file with other numbers than this process would measure can
therefore do no harm, and only numbers in the right range are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._util.folder_index import RecordLog
from .._util.interpreter_tricks import blake2b
from ..capi.machine import machine
from ..capi.threads import MAX_THREADS
from .ir.value import Value
from .notes import Note

Counts = list[int | None]
# How numbers of threads are written: "0" stands for None.
_TEXTS = [str(number) for number in range(MAX_THREADS + 1)]
LOG = RecordLog("threads")


def key_of(notes: Sequence[Note], limit: int) -> str:
    """The key of the numbers of threads of steps, by their notes, on this machine.

    Args:
        notes: those of the steps that would be measured.
        limit: the most threads.
    """
    steps = [
        (
            note.executor,
            [(step.kind, sorted(step.attrs.items())) for step in note.steps],
            [*map(_described, note.inputs)],
            [*map(_described, note.outputs)],
        )
        for note in notes
    ]
    return blake2b(repr((machine(), limit, steps)).encode(), digest_size=16).hexdigest()


def find_counts(key: str, count: int, limit: int) -> Counts | None:
    """The numbers of threads that were kept under a key; None if there are none.

    Args:
        key: the key.
        count: how many steps there are.
        limit: the most threads.
    """
    entry = LOG.find(key)
    texts = [] if entry is None else entry.split(",")
    if len(texts) != count or not all(text in _TEXTS[: limit + 1] for text in texts):
        return None
    return [_TEXTS.index(text) or None for text in texts]


def keep_counts(key: str, counts: Counts) -> None:
    """Keep numbers of threads for later processes."""
    LOG.keep(key, ",".join(_TEXTS[count or 0] for count in counts))


def _described(value: Value) -> tuple[object, ...]:
    return value.dtype.value, value.shape, value.strides, value.constant is not None
