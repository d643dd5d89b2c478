"""Runs probes in worker processes, so that a crash or a hang ends the worker and not the run."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..._util.worker_process import Outcome, Worker
from .probes import TIME_LIMIT


def probing_worker() -> Worker:
    """A worker that runs probes, on one thread each."""
    return Worker(f"{__package__}.worker", {"OMP_NUM_THREADS": "1"})


class Runner:
    """Runs requests and keeps outcomes, so that equal requests run once. As a context manager, it ends its processes.

    Args:
        workers: number of processes.
        progress: called with the number of requests done and the number known.
    """

    def __init__(self, workers: int, progress: Callable[[int, int], None]) -> None:
        self._workers, self._progress = workers, progress
        self._known: dict[str, Outcome] = {}
        self._idle: list[Worker] = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._idle:
            worker.close()

    def run(self, requests: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """The outcome of each request.

        Raises:
            UnsupportedError: no worker process can be started.
        """
        keys = [json.dumps(request, sort_keys=True) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._known}
        before = len(self._known)
        total = before + len(new)
        outcomes = run_all(
            list(new.values()), self._workers, lambda done: self._progress(before + done, total), idle=self._idle
        )
        self._known.update(zip(new, outcomes, strict=True))
        return [self._known[key] for key in keys]


def run_all(
    requests: Sequence[Mapping[str, Any]],
    workers: int,
    progress: Callable[[int], None] = lambda done: None,
    make_worker: Callable[[], Worker] = probing_worker,
    idle: list[Worker] | None = None,
) -> list[Outcome]:
    """Run every request; ``progress`` is called with the number of requests done.

    An exception, such as KeyboardInterrupt, kills the workers and drops the requests that wait. The workers come from
    ``idle`` and return there, for the next call; without this list, they end.

    Raises:
        UnsupportedError: no worker process can be started.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    # Those that are known to hang come first, so that the other processes go on meanwhile.
    for index in sorted(range(len(requests)), key=lambda index: requests[index].get("limit", TIME_LIMIT)):
        waiting.put(index)
    outcomes: dict[int, Outcome] = {}
    lock, stopped = threading.Lock(), threading.Event()
    running: list[Worker] = []

    def serve() -> None:
        with lock:
            worker = idle.pop() if idle else make_worker()
        running.append(worker)
        try:
            while not stopped.is_set():
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                task = requests[index]
                outcome = worker.run(task, task.get("limit", TIME_LIMIT), repeat=task.get("repeat", True))
                with lock:
                    outcomes[index] = outcome
                    progress(len(outcomes))
        finally:
            if idle is None:
                worker.close()
            else:
                idle.append(worker)

    count = max(1, min(workers, len(requests)))
    with ThreadPoolExecutor(count) as pool:
        served = [pool.submit(serve) for _ in range(count)]
        try:
            for future in served:
                future.result()
        except BaseException:
            stopped.set()
            for worker in running:
                worker.stop()
            raise
    return [outcomes[index] for index in range(len(requests))]
