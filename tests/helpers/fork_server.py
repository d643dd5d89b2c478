"""Processes of their own that are forked from one that has imported their modules, because imports take longest."""

import atexit
import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import onegraph

TESTS = Path(__file__).parents[1]


def run_forked(module, words, given="", cwd=None, seconds=300, environment=None):
    """The finished process of a module with the arguments ``words``: it calls ``serve`` if it gets none.

    Args:
        module: the name of the module, such as ``helpers.sides``.
        given: the standard input.
        cwd: the folder of the process; by default, that of this one.
        seconds: the process is killed after this time.
        environment: variables beside those of this process.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{stream}" for stream in ("input", "output", "errors")]
        Path(paths[0]).write_text(given)
        server = started(module)
        task = [words, str(os.getcwd() if cwd is None else cwd), {**os.environ, **(environment or {})}, paths, seconds]
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())
        encoding = (environment or {}).get("PYTHONIOENCODING")
        output, errors = (Path(path).read_text(encoding, "surrogateescape" if encoding else None) for path in paths[1:])
    return subprocess.CompletedProcess(words, status, output, errors)


@cache
def started(module):
    """The process that forks, one for each module and process of the suite."""
    folders = [str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    if module in sys.modules:  # a file of tests
        folders.insert(0, str(Path(sys.modules[module].__file__).parent))
    path = os.pathsep.join(filter(None, folders))
    server = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": path},
    )

    def end():
        server.stdin.close()
        server.wait()
        server.stdout.close()

    atexit.register(end)
    return server


def serve(main):
    """Call ``main`` in a process for each line of the standard input, and print its status."""
    gc.collect()
    gc.freeze()  # the collections of the processes pass over what they share
    for line in sys.stdin:
        words, folder, environment, paths, seconds = json.loads(line)
        if not (child := os.fork()):
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            if encoding := environment.get("PYTHONIOENCODING"):  # Python reads it when it starts
                sys.stdout.reconfigure(encoding=encoding)
                sys.stderr.reconfigure(encoding=encoding, errors="backslashreplace")
            sys.argv[1:] = words
            main()
            return  # the process ends as any other does
        status = waited(child, seconds)
        print(json.dumps(status), flush=True)


def import_package():
    """Import all modules of the package but those that need PyTorch."""
    for module in pkgutil.walk_packages(onegraph.__path__, "onegraph.", onerror=lambda name: None):
        if not ({"torch", "__main__"} & {*module.name.split(".")}):
            with suppress(Exception):  # without the library, or without a package
                import_module(module.name)


def waited(child, seconds):
    """The status of a process, which is killed after a time."""
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(seconds)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    return status
