"""Modules that are imported when they are first needed, while another thread forks."""

import subprocess
import sys

import pytest

# A thread imports the compiler, slowly. The main thread forks in the midst, and the child compiles.
SCRIPT = """
import importlib.abc, importlib.machinery, os, sys, threading, time
import numpy as np
import onegraph as og

SLOW, started = "onegraph.compiler.lower", threading.Event()

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == SLOW:
            started.set()
            time.sleep(0.5)

sys.meta_path.insert(0, Finder())

def compiled():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    return g.compile()

assert SLOW not in sys.modules
thread = threading.Thread(target=compiled)
thread.start()
assert started.wait(60)
child = os.fork()
if not child:
    found = compiled()(np.float32([[-1, 0, 1], [2, -3, 4]]))
    os._exit(0 if found.tolist() == [[0, 0, 1], [2, 0, 4]] else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.library
def test_a_child_compiles_that_was_forked_during_the_import_of_the_compiler():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
