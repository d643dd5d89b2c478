"""A small executable, and code run in several threads or in another process."""

import os
import subprocess
import sys
import threading

import numpy as np

import onegraph as og
from helpers.fork_server import run_forked

F32 = np.float32


def rows_summed(rows=None, **options):
    g = og.Graph()
    x = g.input("x", og.f32, (rows, 4))
    g.output("y", g.reduce_sum(g.relu(x), axes=[1]))
    return g.compile(**options)


def filled(rows, value=1.0):
    return np.full((rows, 4), value, F32)


def at_once(count, work):
    """Run ``work(index)`` in ``count`` threads that begin together; returns the results or raises the first error."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(index):
        barrier.wait(60)
        try:
            results[index] = work(index)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def forked_python(code, *arguments, **environment):
    """The finished process of ``code``, with arguments, and variables that are read after Python has started."""
    if hasattr(os, "fork"):
        return run_forked("helpers.forked_python", ["-c", code, *map(str, arguments)], environment=environment)
    command, environment = [sys.executable, "-c", code, *map(str, arguments)], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def in_a_process(code, *arguments, **environment):
    """What ``code`` prints in a process of its own that has imported the package: see ``forked_python``."""
    done = forked_python(code, *arguments, **environment)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
