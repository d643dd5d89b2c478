"""Runs probes in worker processes, so that a crash or a hang ends the worker and not the run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..._util.worker_process import Outcome, Worker

TIME_LIMIT = 20.0  # seconds for one probe; a healthy one takes milliseconds


def probing_worker() -> Worker:
    """A worker that runs probes, on one thread each."""
    return Worker(f"{__package__}.worker", {"OMP_NUM_THREADS": "1"})


def run_all(
    probes: Sequence[Mapping[str, Any]], workers: int, progress: Callable[[int], None] = lambda done: None
) -> list[Outcome]:
    """Run every probe; ``progress`` is called with the number of probes done.

    Raises:
        UnsupportedError: no worker process can be started.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(probes)):
        waiting.put(index)
    outcomes: dict[int, Outcome] = {}
    lock = threading.Lock()

    def serve() -> None:
        worker = probing_worker()
        try:
            while True:
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                outcome = worker.run(probes[index], TIME_LIMIT)
                with lock:
                    outcomes[index] = outcome
                    progress(len(outcomes))
        finally:
            worker.close()

    count = max(1, workers)
    with ThreadPoolExecutor(count) as pool:
        served = [pool.submit(serve) for _ in range(count)]
    for one in served:
        one.result()
    return [outcomes[index] for index in range(len(probes))]
