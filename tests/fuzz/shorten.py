"""Shorter inputs of the same finding."""

import re
import time

SECONDS = 20  # that an input is shortened


def shorten(data, smaller, still_fails, seconds=SECONDS):
    """An input with as few parts as possible for which a finding is the same.

    Args:
        data: the input.
        smaller: gives inputs that are a part shorter.
        still_fails: whether an input has the finding.
        seconds: after which the shortest input so far is enough.
    """
    end, again = time.monotonic() + seconds, True
    while again:
        again = False
        for other in smaller(data):
            if time.monotonic() > end:
                break
            if still_fails(other):
                data, again = other, True
                break
    return data


def sort_of(text):
    """The sort of a finding: its first line, or the last one of an exception, without numbers and statements."""
    line = text.strip().splitlines()[-1 if text.startswith("Traceback") else 0] if text.strip() else ""
    return re.sub(r"\bv\d+ = .*?: ", "", re.sub(r"-?\d[\d.e+-]*", "0", line))[:60]
