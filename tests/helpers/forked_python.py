"""Runs what a command line of Python says, ``-m onegraph ...`` or ``-c CODE ...``, in forked processes.

They find the modules imported that commands and compilations import when they need them: see ``fork_server``. At its
end, a process calls what should run then, and leaves its modules as they are: both imports and their end take longer
than a command. What reads the environment when Python or a library starts, and what asks for the end of an interpreter
or for its first imports, needs a new process.
"""

import atexit
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from helpers.fork_server import import_package, serve
from onegraph.cli import main as command

import_package()
for name in ("console", "markup", "progress", "table", "traceback"):
    with suppress(ImportError):
        import_module(f"rich.{name}")


def script(code, *arguments):
    """Run ``code`` as the main module."""
    sys.argv[:] = ["-c", *arguments]
    sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


def main():
    """Do what the arguments say."""
    try:
        if sys.argv[1] == "-c":
            script(*sys.argv[2:])
        else:
            del sys.argv[1:3]
            command()
        status = 0
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        status = ended.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


serve(main)
