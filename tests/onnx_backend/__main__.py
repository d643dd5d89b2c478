"""``make test-onnx``: every backend test of the package onnx, compared with the table of known failures.

Each test runs with the dims that it states, with open ones, and without a rank, where the same tests must fail.
``python -m tests.onnx_backend NAME`` runs the tests whose name contains NAME, and shows each error.
"""

import sys
import time
import warnings
from importlib import metadata

from .cases import FORMS, KINDS, OPENED, cases, run
from .known import DRAWN, KNOWN, ONNX, ROUNDED


def reasons():
    """The reason of each known failure, by name of the test."""
    return {name: reason for reason, names in KNOWN.items() for name in names.split()}


def differences(outcomes, known):
    """What the outcomes of tests and the table of known failures say differently."""
    errors = {one.name: one.error for one in outcomes}
    found = [f"fails: {name}: {error}" for name, error in errors.items() if error and name not in (*known, *ROUNDED)]
    found += [
        f"passes, but is a known failure: {name}"
        for name, reason in known.items()
        if reason != DRAWN and not errors.get(name, "not run")  # drawn numbers may agree by chance
    ]
    return sorted(found)


def main() -> int:
    """Run the tests in every form; returns 0 if exactly the known ones fail in each."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    return max(_differs(form, part) for form in FORMS)


def _differs(form: str, part: str) -> int:
    begin = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows are part of the tests
        kinds = KINDS if form == "known" else OPENED
        outcomes = [run(case, form) for name, case in cases(kinds).items() if part in name]
    found = differences(outcomes, {} if part else reasons())
    found += [f"no test, but a known failure: {name}" for name in sorted(reasons().keys() - cases().keys())]
    print(*found, sep="\n")
    passed = [one for one in outcomes if not one.error]
    share = 100 * len(passed) / max(len(outcomes), 1)
    print(
        f"{form} dims, onnx {metadata.version('onnx')} (table for {ONNX}): "
        f"{len(passed)} of {len(outcomes)} passed ({share:.1f} %), "
        f"{sum(one.in_onednn for one in passed)} of them ran in oneDNN; {time.monotonic() - begin:.0f} s"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
