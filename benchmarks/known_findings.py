"""Runs the probes of ``onegraph conformance`` on every library, and writes ``onegraph/tools/conformance/known.json``.

``python -m benchmarks.known_findings [VERSION...]``: 3.2.0 is the installed library, the others are those of
``newer_libraries``. Findings that show in some runs alone are kept: those of an earlier run with ``--keep``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from onegraph._util.atomic_write import write_atomically
from onegraph.tools.conformance.known import FILE, findings, text_of

from .measured_faults import INSTALLED
from .newer_libraries import LIBRARIES


def found_in(version: str, workers: int) -> set[str]:
    """The ids of the findings of one version, from a process of its own."""
    environment = {**os.environ, **({} if version == INSTALLED else LIBRARIES[version]())}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "ids.json"
        command = [sys.executable, "-m", "onegraph", "conformance", "--workers", str(workers)]
        subprocess.run(
            [*command, "--write-baseline", str(kept)], env=environment, stdout=subprocess.DEVNULL, check=True
        )
        return set(json.loads(kept.read_text()))


def main() -> None:
    """Try the versions that the command line names, and keep the findings of the others."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.known_findings")
    parser.add_argument("versions", nargs="*", default=[INSTALLED, *LIBRARIES])
    parser.add_argument("--keep", action="store_true", help="add to the findings of earlier runs of a version")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    from onegraph.capi import get_cpu_isa

    runs: dict[str, set[str]] = {}
    for name, versions in (findings() if FILE.exists() else {}).items():
        for version in versions:
            runs.setdefault(version, set()).add(name)
    for version in options.versions:
        before = runs.get(version, set()) if options.keep else set()
        runs[version] = before | found_in(version, options.workers)
        text = text_of(runs, get_cpu_isa()).encode()
        write_atomically(FILE, lambda stream, text=text: stream.write(text))  # type: ignore[misc]
        print(version, len(runs[version]))


if __name__ == "__main__":
    main()
