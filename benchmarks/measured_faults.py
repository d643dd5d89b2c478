"""Measures the records of faults on random valid uses, and writes ``onegraph/faults/measured.json``.

``python -m benchmarks.measured_faults [VERSION...]``: 3.2.0 is the installed library, the others are those of
``newer_libraries``. ``--cases`` and ``--seed`` are those of ``onegraph conformance``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from onegraph._util.atomic_write import write_atomically
from onegraph.faults.measured import FIELDS, FILE

from .newer_libraries import LIBRARIES

INSTALLED = "3.2.0"
VERSIONS = [INSTALLED, "3.6.2", "3.9.1", "3.13.2"]  # 3.9.1, because ops of 4-bit integers differ between the last two


def measure(version: str, cases: int, seed: int, workers: int) -> dict[str, Any]:
    """The figures of one version, from ``onegraph conformance`` in a process of its own."""
    environment = {**os.environ, **({} if version == INSTALLED else LIBRARIES[version]())}
    options = ["--cases", str(cases), "--seed", str(seed), "--workers", str(workers), "--json"]
    run = subprocess.run(
        [sys.executable, "-m", "onegraph", "conformance", *options],
        env=environment,
        stdout=subprocess.PIPE,
        check=False,
    )
    facts = json.loads(run.stdout)
    assert facts["version"] == version
    return {
        "cases": facts["cases"],
        "seed": seed,
        "cpu": facts["cpu_isa"],
        "outcomes": facts["outcomes"],
        "all": facts["all"],
        "findings": [finding["id"] for finding in facts["findings"]],
        "records": {name: [counts[field] for field in FIELDS] for name, counts in facts["records"].items()},
    }


def main() -> None:
    """Measure the versions that the command line names, and keep the figures of the others."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measured_faults")
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    figures: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for version in options.versions:
        figures[version] = measure(version, options.cases, options.seed, options.workers)
        lines = [f"{json.dumps(name)}: {_text(of)}" for name, of in figures.items()]
        text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
        write_atomically(FILE, lambda stream, text=text: stream.write(text))  # type: ignore[misc]
        print(version, figures[version]["all"], figures[version]["findings"])


def _text(figures: dict[str, Any]) -> str:
    """Figures as JSON, with each record in a line."""
    records = ",\n".join(f"  {json.dumps(name)}: {json.dumps(counts)}" for name, counts in figures["records"].items())
    others = {name: value for name, value in figures.items() if name != "records"}
    return json.dumps(others)[:-1] + ', "records": {\n' + records + "\n }}"


if __name__ == "__main__":
    main()
