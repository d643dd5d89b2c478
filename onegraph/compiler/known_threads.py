"""Keeps the measured numbers of threads on disk, so that a later process with the same graph need not measure.

A number of threads changes the time of a step alone. A file with other numbers than this process would measure can
therefore do no harm, and only numbers in the right range are used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from .._util import disk_cache
from .._util.interpreter_tricks import blake2b
from .._version import __version__
from ..capi.settings import get_cpu_isa
from ..capi.threads import MAX_THREADS
from ..native.library import HASH, VERSION
from .lowered import Value
from .steps import Note

Counts = list[int | None]
# How numbers of threads are written: b"0" stands for None.
_TEXTS = [str(number).encode() for number in range(MAX_THREADS + 1)]
_cpu: list[str] = []


def key_of(notes: Sequence[Note], limit: int) -> str:
    """The key of the numbers of threads of steps, by their notes, on this machine.

    Args:
        notes: those of the steps that would be measured.
        limit: the most threads.
    """
    machine = __version__, VERSION, HASH, get_cpu_isa(), _cpu_model(), limit, sorted(os.sched_getaffinity(0))
    steps = [
        (
            note.executor,
            [(step.kind, sorted(step.attrs.items())) for step in note.steps],
            [*map(_described, note.inputs)],
            [*map(_described, note.outputs)],
        )
        for note in notes
    ]
    return blake2b(repr((machine, steps)).encode(), digest_size=16).hexdigest()


def find_counts(key: str, count: int, limit: int) -> Counts | None:
    """The numbers of threads that were kept under a key; None if there are none.

    Args:
        key: the key.
        count: how many steps there are.
        limit: the most threads.
    """
    kept = disk_cache.find(key)
    texts = [] if kept is None else kept.split()
    if len(texts) != count or not all(text in _TEXTS[: limit + 1] for text in texts):
        return None
    return [_TEXTS.index(text) or None for text in texts]


def keep_counts(key: str, counts: Counts) -> None:
    """Keep numbers of threads for later processes."""
    disk_cache.keep(key, b" ".join(_TEXTS[count or 0] for count in counts))


def _described(value: Value) -> tuple[object, ...]:
    return value.dtype.value, value.shape, value.strides, value.constant is not None


def _cpu_model() -> str:
    """The name of the first processor, as Linux gives it; empty if it gives none."""
    if not _cpu:
        text = b""
        with suppress(OSError), open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(2048)  # of machines with many processors, the whole file takes long
        names = [line for line in text.decode(errors="replace").splitlines() if line.startswith("model name")]
        _cpu.append(names[0].partition(":")[2].strip() if names else "")
    return _cpu[0]
