"""The command line in a process of its own."""

import subprocess
import sys


def onegraph(*arguments, **options):
    command = [sys.executable, "-m", "onegraph", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
