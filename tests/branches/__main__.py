"""Which branches of the C++ code the tests run: ``python -m tests.branches FOLDER``; ``make coverage-native`` does.

It runs the suite on the extension in FOLDER, which was built for gcov, with all other options for pytest. It prints the
shares by file and fails where one has fallen. ``--write`` keeps the new shares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from . import ROOT, Counts, keep, kept, report


def counts(objects: Path) -> dict[str, Counts]:
    """Counts by file of the C++ code, from the files that the processes of the suite wrote when they ended."""
    lines: dict[tuple[str, int], int] = defaultdict(int)
    branches: dict[tuple[str, int, int], int] = defaultdict(int)
    data = sorted(map(str, objects.resolve().rglob("*.gcda")))
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *data]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for file in (file for text in printed.splitlines() for file in json.loads(text)["files"]):
        if "csrc/" not in file["file"]:
            continue
        name = file["file"].rpartition("csrc/")[2]
        for line in file["lines"]:
            lines[name, line["line_number"]] += line["count"]
            ways = [way for way in line["branches"] if not way["throw"]]
            for number, way in enumerate(ways):
                branches[name, line["line_number"], number] += way["count"]
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for place, numbers in ((0, branches), (2, lines)):
        for (name, *_), count in numbers.items():
            found[f"csrc/{name}"][place] += count > 0
            found[f"csrc/{name}"][place + 1] += 1
    return {name: tuple(numbers) for name, numbers in sorted(found.items())}  # type: ignore[misc]


def main(folder: str, *options: str) -> int:
    """Run the suite, print the table and compare it."""
    path = os.pathsep.join([str(ROOT / "tests" / "sanitized"), os.environ.get("PYTHONPATH", "")])
    built = Path(folder).resolve()
    environment = {**os.environ, "ONEGRAPH_EXTENSION": str(built), "PYTHONPATH": path.rstrip(":")}
    # In one process: those of pytest-xdist end without the functions that write what gcov counted.
    command = [sys.executable, "-m", "pytest", *(option for option in options if option != "--write")]
    done = subprocess.run(command, cwd=ROOT, env=environment)
    lines, shares, fallen = report(counts(built / "objects"), kept("native"), "lines")
    print(*lines, *fallen, sep="\n")
    if "--write" in options:
        keep("native", shares)
    return done.returncode or bool(fallen)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
