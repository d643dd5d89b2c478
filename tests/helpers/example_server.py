"""Runs examples in forked processes that find their packages imported: see ``fork_server``."""

import runpy
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from helpers.fork_server import import_package, serve

import_package()
for name in ("matplotlib.pyplot", "sklearn.datasets"):
    with suppress(ImportError):
        import_module(name)


def main():
    """Run the script that the arguments name, as Python does."""
    sys.argv.pop(0)
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


serve(main)
