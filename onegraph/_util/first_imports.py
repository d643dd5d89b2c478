"""Ends the command ``onegraph`` with one line if an interrupt comes while it imports its modules.

The package imports this module before all others. The imports take some tenths of a second, and an interrupt would
print a traceback of them, or become the ImportError of a library.
"""

import _signal as signal  # type: ignore[import-not-found]  # in C: the module signal takes 10 ms to import
import os
import sys

COMMANDS = ("onegraph", "onegraph.exe", "-m")  # ``-m`` while Python looks for the module that it is to run
_before: object = None  # the handler of interrupts before :func:`guard`
_is_over = False


def guard() -> None:
    """If this process is the command, let an interrupt end it at once with the status that shells use."""
    global _before
    name = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    handler = signal.getsignal(signal.SIGINT)
    if name not in COMMANDS or handler is not signal.default_int_handler:  # a job in the background ignores interrupts
        return
    try:
        signal.signal(signal.SIGINT, _end)
    except ValueError:  # another thread than the main one
        return
    _before = handler


def over() -> None:
    """The package is imported: from now on, interrupts of a program that is not the command are as before."""
    global _is_over
    _is_over = True


def restore() -> None:
    """Let the handler of before take interrupts again."""
    if _before is not None and signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _before)


def _end(number: int, frame: object) -> None:
    if _is_over and "onegraph.cli" not in sys.modules:  # a program of a user that has the name of the command
        restore()
        signal.default_int_handler(number, frame)
    os.write(2, b"\nonegraph: interrupted\n")
    os._exit(130)  # what is half imported is not to run again
