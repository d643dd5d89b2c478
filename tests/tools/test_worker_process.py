"""Tasks in a process of their own, whatever becomes of it."""

import errno
import io
import json
import os
import sys

import pytest

import onegraph as og
from onegraph._util import worker_process
from onegraph._util.worker_process import Worker


class Process:
    """In place of a process: it has answered already, and then ends, or says no more."""

    def __init__(self, lines, status):
        reading, writing = os.pipe()
        self.stdin, self.status, self.ended = io.BytesIO(), status, []
        self.stdout = os.fdopen(reading, "rb", buffering=0)
        os.write(writing, "".join(lines).encode())
        self._open = None if status is not None else writing
        if status is not None:
            os.close(writing)

    def kill(self):
        self.ended.append("killed")

    def wait(self):
        return self.status

    def communicate(self):
        self.ended.append("closed")
        self.stdout.close()
        if self._open is not None:
            os.close(self._open)


def line_of(done="", stage=None, detail="d"):
    facts = {} if stage is None else {"stage": stage}
    return json.dumps({**facts, **({"done": True, "outcome": done, "detail": detail} if done else {})}) + "\n"


ANSWER = [line_of(stage="one"), line_of("right", "two")]
# The answers and the exit statuses of the processes that are started, and the outcomes of the tasks.
WORKERS = [
    ([([*ANSWER, line_of("wrong", "one")], None)], ["right two d", "wrong one d"]),
    ([([line_of(stage="one"), line_of("right")], None)], ["right one d"]),
    ([([line_of(stage="one")], -11)], ["crash one SIGSEGV"]),
    ([([], 0)], ["crash start exit status 0"]),
    ([(["{"], 3)], ["crash start exit status 3"]),
    ([([], None)], ["hang start no answer within 0.02 s"]),
    ([([line_of(stage="one")], None)], ["hang one no answer within 0.01 s"]),
    ([(ANSWER, -6), (ANSWER, -6), ([], -7)], ["right two d", "right two d", "crash start SIGBUS"]),
    ([(ANSWER, None), (ANSWER, None)], ["right two d", "right two d"]),
    ([([], -6), (ANSWER, None)], ["crash start SIGABRT", "right two d"]),
]


@pytest.mark.parametrize(("answers", "outcomes"), WORKERS)
def test_tasks_of_a_worker_end_as_its_process_does(answers, outcomes, monkeypatch):
    """A task that ends badly in a process that ran another one before is tried in a new process."""
    started, remaining = [], [*answers]

    def start(command, *, env, **_):
        assert (command[0], env["A"], env["PATH"]) == (sys.executable, "b", os.environ["PATH"])
        assert command[2].endswith("from some.module import main; main()")
        started.append(Process(*remaining.pop(0)))
        return started[-1]

    monkeypatch.setattr(worker_process.subprocess, "Popen", start)
    monkeypatch.setattr(worker_process, "START_LIMIT", 0.02)
    worker = Worker("some.module", {"A": "b"})
    for number, wanted in enumerate(outcomes):
        found = worker.run({"number": number}, 0.01)
        assert f"{found.outcome} {found.stage} {found.detail}" == wanted
    assert not remaining
    assert b"".join(process.stdin.getvalue() for process in started[:1]).startswith(b'{"number": 0}\n')
    worker.close()
    assert all(process.ended[-1] == "closed" for process in started)
    assert worker._process is None


def test_stopped_workers_repeat_no_task(monkeypatch):
    made = [Process(ANSWER, -9), Process(ANSWER, None)]
    monkeypatch.setattr(worker_process.subprocess, "Popen", lambda *_, **__: made.pop(0))
    first = made[0]
    worker = Worker("some.module")
    assert worker.run({}, 1).outcome == "right"
    worker.stop()
    assert first.ended == ["killed"]
    assert worker.run({}, 1).detail == "SIGKILL"
    assert len(made) == 1
    assert worker.run({}, 1).outcome == "right"
    assert worker._process.ended == ["killed"]
    worker.close()
    worker = Worker("some.module")
    worker.stop()
    made[:] = [Process([*ANSWER], -9), Process([], 1)]
    assert worker.run({}, 1).outcome == "right"
    worker._is_stopped = False
    assert worker.run({}, 1, repeat=False).outcome == "crash"
    assert len(made) == 1
    made[0].communicate()


def test_a_worker_that_cannot_start_is_refused(monkeypatch):
    def start(*_, **__):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(worker_process.subprocess, "Popen", start)
    with pytest.raises(og.UnsupportedError, match=r"no worker process can be started: .*no memory"):
        Worker("some.module").run({}, 1)
