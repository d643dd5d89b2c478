"""Each system call of saving, loading, compiling and keeping fails, ends the process, or waits while files change.

A child process behind ``failing_calls.c`` does each work in forks of itself, in each of which one call meets its fate.
What a fork returns is right or a described error, and what it leaves is the old model or the new one.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG, SANITIZED

import onegraph as og
from onegraph._util import drafts

X = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
END, STOP = -1, -2
ERRORS = [errno.ENOSPC, errno.EACCES, errno.EINTR, errno.ENOMEM, errno.EIO, errno.EMFILE]
FATES = [*ERRORS, END, STOP]
N_FATES = len(FATES) if LONG else 1  # of each call
SOME = 9  # calls of a work
PATIENCE = 0.5  # seconds that a writer waits for one that is stopped
DESCRIBED = (og.OneGraphError, MemoryError)


def graph(version):
    """A graph whose attribute and constants have the same number, so that a mixture of two has no whole number."""
    g = og.Graph()
    x = g.input("x", og.f32, (4, 64))
    for name in ("w", "v"):
        x = g.leaky_relu(g.matmul(x, g.constant(np.eye(64, dtype=np.float32) * version, name=name)), alpha=version / 8)
    g.output("y", x)
    return g


def version_of(y):
    """The version of a model that gave this result."""
    (version,) = [each for each in (1, 2) if np.allclose(y, np.where(X < 0, X * each**4 / 64, X * each**2))]
    return version


def save(version):
    return lambda folder: graph(version).save(folder / "m.json")


def save_executable(version):
    return lambda folder: graph(version).compile().save(folder / "model")


def load(folder):
    return version_of(og.Graph.load(folder / "m.json").compile()(X))


def load_executable(folder):
    return version_of(og.load(folder / "model")(X))


# What is done, how another version is saved, and how the version is found out, of a folder that has version 1.
WORKS = {
    "save": (save(2), save, load),
    "save executable": (save_executable(2), save_executable, load_executable),
    "load": (load, save, load),
    "load executable": (load_executable, save_executable, load_executable),
}


def in_fork(work, shim=None, number=-1, fate=0, meanwhile=None):
    """What a work returns in a fork, where one call has a fate; ``meanwhile`` is called where the fork stops."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            if shim is not None:
                shim.choose_call(number, fate)
            result = {"version": work()}
        except DESCRIBED as error:
            result = {"error": repr(error)}
        except BaseException:
            result = {"fault": traceback.format_exc()}
        if shim is not None:
            result["calls"] = shim.calls_seen()
            shim.choose_call(-1, 0)
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        if meanwhile is not None:
            in_fork(meanwhile)
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
    with open(read, "rb") as pipe:
        said = pipe.read()
    return json.loads(said) if said else {"killed": True}


class State:
    """A folder with version 1, and with or without its kept program; it can be made anew."""

    def __init__(self, folder, name, is_kept):
        self.folder, self.copy = folder, folder.with_name("copy")
        shutil.rmtree(self.copy, ignore_errors=True)
        _, saved, version_found = WORKS[name]
        self.remove()
        in_fork(lambda: saved(1)(folder))
        if is_kept:
            in_fork(lambda: version_found(folder))
        shutil.copytree(folder, self.copy)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def renew(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.copy, self.folder)


def suffer(name, folder):
    """Do a work once for each of its calls, or for some, and tell what was wrong."""
    shim = ctypes.CDLL(None)
    work, saved, version_found = WORKS[name]
    wrong, counts = [], dict.fromkeys(("tried", "errors", "killed"), 0)
    for is_kept in (False, True) if work is version_found else (False,):
        state = State(folder, name, is_kept)
        calls = in_fork(lambda: work(folder), shim)["calls"]
        for number in range(0, calls, 1 if LONG else max(1, calls // SOME)):
            for turn in range(N_FATES):
                state.renew()
                fate = FATES[(counts["tried"] + turn) % len(FATES)]
                found = in_fork(lambda: work(folder), shim, number, fate, lambda: saved(2)(folder))
                after = in_fork(lambda: version_found(folder))
                counts["tried"] += 1
                counts["errors"] += "error" in found
                counts["killed"] += "killed" in found
                if "fault" in found or found.get("version") not in (1, 2, None) or after.get("version") not in (1, 2):
                    wrong.append((is_kept, number, fate, found, after))
    return {"wrong": wrong, **counts}


@pytest.mark.library
@pytest.mark.skipif(SANITIZED, reason="these functions are the sanitizer's")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("name", WORKS)
def test_each_system_call_may_fail_or_wait(name, tmp_path):
    built = tmp_path / "failing_calls.so"
    source = Path(__file__).parents[1] / "failing_calls.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(built), str(source), "-ldl"], check=True, timeout=120)
    preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(built)]))
    settings = {"LD_PRELOAD": preloaded, "ONEGRAPH_CACHE": str(tmp_path / "files" / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, name, str(tmp_path / "files")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **settings})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert not found["wrong"], "\n".join(map(str, found["wrong"]))
    assert found["tried"] >= SOME
    assert found["errors"] > 0
    assert found["killed"] > 0


if __name__ == "__main__":
    title, root = sys.argv[1], Path(sys.argv[2])
    root.mkdir()
    drafts.lock.__kwdefaults__["wait"] = PATIENCE
    for each in WORKS.values():  # so that no fork imports a module
        each[1](1)(root), each[2](root), each[0](root)
    print(json.dumps(suffer(title, root)))
