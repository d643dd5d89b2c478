"""The command line in a process of its own."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

HERE = Path(__file__)


def onegraph(*arguments, **options):
    """The finished process of a command.

    It is forked from a process that has imported the package, because the import takes longer than most commands. With
    other options than ``input`` and ``cwd``, such as an environment, the command is started from its file.
    """
    words = [*map(str, arguments)]
    if options.keys() - {"input", "cwd"} or not hasattr(os, "fork"):
        command = [sys.executable, "-m", "onegraph", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{stream}" for stream in ("input", "output", "errors")]
        Path(paths[0]).write_text(options.get("input") or "")
        server = started()
        server.stdin.write(json.dumps([words, str(options.get("cwd", os.getcwd())), dict(os.environ), paths]) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())
        output, errors = (Path(path).read_text() for path in paths[1:])
    return subprocess.CompletedProcess(words, status, output, errors)


@cache
def started():
    """The process that forks, one for each process of the suite."""
    server = subprocess.Popen([sys.executable, str(HERE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end():
        server.stdin.close()
        server.wait()
        server.stdout.close()

    atexit.register(end)
    return server


def serve():
    """Run a command for each line of the standard input, and print its status."""
    from importlib import import_module

    from onegraph.cli import COMMANDS, main

    for name in COMMANDS:
        with suppress(Exception):  # without the library
            import_module(f"onegraph.cli.{name}")
    for line in sys.stdin:
        words, folder, environment, paths = json.loads(line)
        if not (child := os.fork()):
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            signal.alarm(300)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv[1:] = words
            main()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(status), flush=True)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    serve()
