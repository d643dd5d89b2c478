"""An exception of a signal handler at a chosen moment."""

import sys


class Alarm(Exception):  # noqa: N818
    """What a signal handler raises."""


def interrupted(work, step, error=KeyboardInterrupt):
    """Whether ``work`` was interrupted at the given call, or return of a C function, within the package."""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if event in ("call", "c_return") and frame.f_globals["__name__"].startswith("onegraph."):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise error

    sys.setprofile(trace)
    try:
        work()
    except error:
        return True
    finally:
        sys.setprofile(None)
    return False


def moments(work):
    """The number of moments at which :func:`interrupted` can interrupt ``work``."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        count += event in ("call", "c_return") and frame.f_globals["__name__"].startswith("onegraph.")

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
