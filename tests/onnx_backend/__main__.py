"""``make test-onnx``: every backend test of the package onnx, compared with the table of known failures.

``python -m tests.onnx_backend NAME`` runs the tests whose name contains NAME and shows each error.
"""

import sys
import time
import warnings
from importlib import metadata

from .cases import cases, run
from .known import KNOWN, ONNX


def main() -> int:
    """Run the tests; returns 0 if exactly the known ones fail."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    begin = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows are part of the tests
        outcomes = [run(case) for name, case in cases().items() if part in name]
    failed = {one.name: one.error for one in outcomes if one.error}
    reasons = {name: reason for reason, names in KNOWN.items() for name in names.split()}
    unexpected = sorted(failed.keys() - reasons.keys()) if not part else sorted(failed)
    for name in unexpected:
        print(f"fails: {name}: {failed[name]}")
    mended = sorted((reasons.keys() & {one.name for one in outcomes}) - failed.keys())
    for name in mended:
        print(f"passes, but the table of failures has it: {name}")
    unknown = sorted(reasons.keys() - cases().keys())
    for name in unknown:
        print(f"no test of onnx, but the table of failures has it: {name}")
    passed = [one for one in outcomes if not one.error]
    share = 100 * len(passed) / max(len(outcomes), 1)
    print(
        f"onnx {metadata.version('onnx')} (table for {ONNX}): {len(passed)} of {len(outcomes)} passed ({share:.1f} %), "
        f"{sum(one.in_onednn for one in passed)} of them ran in oneDNN; {time.monotonic() - begin:.0f} s"
    )
    return int(bool(unexpected or mended or unknown))


if __name__ == "__main__":
    sys.exit(main())
