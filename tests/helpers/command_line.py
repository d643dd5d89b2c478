"""The command line in a process of its own."""

import os
import subprocess
import sys

from helpers.fork_server import run_forked


def onegraph(*arguments, **options):
    """The finished process of a command.

    It is forked from a process that has imported the package. With other options than ``input`` and ``cwd``, such as an
    environment, the command is started from its file.
    """
    words = ["-m", "onegraph", *map(str, arguments)]
    if options.keys() - {"input", "cwd"} or not hasattr(os, "fork"):
        command = [sys.executable, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    return run_forked("helpers.forked_python", words, options.get("input") or "", options.get("cwd"))
