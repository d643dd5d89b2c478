"""Runs commands of onegraph in forked processes: see ``fork_server``.

The processes find the modules imported that commands import when they need them. After its command, a process calls
what should run at its end, and leaves its modules as they are: both imports and their end take longer than a command.
"""

import atexit
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module

from helpers.fork_server import import_package, serve
from onegraph.cli import main

import_package()
for name in ("console", "markup", "progress", "table", "traceback"):
    with suppress(ImportError):
        import_module(f"rich.{name}")


def command():
    """Run the command that the arguments name."""
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)


serve(command)
