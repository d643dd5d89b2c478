"""Starts the command ``onegraph``.

The module stands beside the package, because Python imports the whole package before any of its modules. An interrupt
during these imports, which take some tenths of a second, ends the command at once.
"""

import _signal as signal  # type: ignore[import-not-found]  # in C: the module signal takes 10 ms to import
import os


def _end(number: int, frame: object) -> None:
    os.write(2, b"\nonegraph: interrupted\n")
    os._exit(130)  # as a shell does; what is half imported is not to run again


def main() -> None:
    """Import the command line, and run one command."""
    before = signal.getsignal(signal.SIGINT)
    guarded = before is signal.default_int_handler  # a job in the background ignores interrupts
    if guarded:
        signal.signal(signal.SIGINT, _end)
    from onegraph.cli import main as command

    if guarded:
        signal.signal(signal.SIGINT, before)
    command()
