"""Which branches of the package the tests run: ``python -m tests.branches``; ``make coverage`` does.

It runs the suite under coverage.py in two processes, with all other options for pytest. It prints the share of
branches and of lines by room of the package, and fails where a room has fallen by more than MARGIN below its share
in branches.json. ``--write`` keeps the new shares. ``--native FOLDER`` measures the C++ code, whose extension in FOLDER
was built for gcov. What child processes of the tests run of the Python code is not measured: the shares are the least.

As a plugin of pytest, this module measures its process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).with_suffix(".json")
MARGIN = 0.3  # points of a percent: threads and random orders reach some branches by chance
FOLDER = "ONEGRAPH_BRANCHES"  # where the processes of the suite leave what they measured
PYTEST = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
# A part of a room's code, and how much of it ran: branches run, branches, lines run, lines.
Counts = tuple[int, int, int, int]


def measurement(data: str | None, **options: object) -> coverage.Coverage:
    """What the suite measures, or what is read back of it."""
    return coverage.Coverage(data, branch=True, source=[str(ROOT / "onegraph")], config_file=False, **options)  # type: ignore[arg-type]


def room(name: str) -> str:
    """The room of a file: a folder of the package, or a folder of a large one."""
    parts = Path(name).relative_to(ROOT / "onegraph" if Path(name).is_absolute() else "onegraph").parts
    large = parts[0] in ("compiler", "runtime", "frontends", "tools", "native", "opset")
    return "/".join(parts[: 1 + large][: len(parts) - 1]) or "."


def of_python(folder: str) -> dict[str, Counts]:
    """Counts by room of what the processes of the suite left."""
    whole = measurement(f"{folder}/.coverage")
    whole.combine([folder])
    whole.json_report(outfile=f"{folder}/report.json")
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for name, file in json.loads(Path(folder, "report.json").read_text())["files"].items():
        numbers = file["summary"]
        ran = ("covered_branches", "num_branches", "covered_lines", "num_statements")
        for place, key in enumerate(ran):
            found[room(str(ROOT / name))][place] += numbers[key]
    return {name: tuple(counts) for name, counts in found.items()}  # type: ignore[misc]


def of_native(objects: Path) -> dict[str, Counts]:
    """Counts by file of the C++ code, from the files that the processes of the suite wrote when they ended."""
    lines: dict[tuple[str, int], int] = defaultdict(int)
    branches: dict[tuple[str, int, int], int] = defaultdict(int)
    data = sorted(map(str, objects.resolve().rglob("*.gcda")))
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *data]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for file in (file for report in printed.splitlines() for file in json.loads(report)["files"]):
        if "csrc/" not in file["file"]:
            continue
        name = file["file"].rpartition("csrc/")[2]
        for line in file["lines"]:
            lines[name, line["line_number"]] += line["count"]
            ways = [way for way in line["branches"] if not way["throw"]]
            for number, way in enumerate(ways):
                branches[name, line["line_number"], number] += way["count"]
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for place, counts in ((0, branches), (2, lines)):
        for (name, *_), count in counts.items():
            found[f"csrc/{name}"][place] += count > 0
            found[f"csrc/{name}"][place + 1] += 1
    return {name: tuple(counts) for name, counts in sorted(found.items())}  # type: ignore[misc]


def share(ran: int, all_: int) -> float:
    return round(100 * ran / all_, 2) if all_ else 100.0


def report(counts: Mapping[str, Counts], kept: dict[str, float]) -> tuple[dict[str, float], list[str]]:
    """Print a table; returns the shares of branches, and what has fallen."""
    total: Counts = tuple(map(sum, zip(*counts.values(), strict=True)))  # type: ignore[assignment]
    found, fallen = {}, []
    print(f"{'':32} branches      of  percent   kept   lines percent")
    for name, (branches, all_branches, lines, all_lines) in [*sorted(counts.items()), ("all", total)]:
        found[name] = share(branches, all_branches)
        before = kept.get(name)
        text = "" if before is None else f"{before:.2f}"
        counted = f"{name:32} {branches:8} {all_branches:7} {found[name]:8.2f} {text:>6}"
        print(f"{counted} {lines:7} {share(lines, all_lines):7.2f}")
        if before is not None and found[name] < before - MARGIN:
            fallen.append(f"{name}: {found[name]:.2f} % of the branches, {before:.2f} % before")
    return found, fallen


def main(arguments: list[str]) -> int:
    """Run the suite, print the table and compare it."""
    is_native, is_written = "--native" in arguments, "--write" in arguments
    built = Path(arguments[arguments.index("--native") + 1]) if is_native else ROOT
    options = [one for one in arguments if one not in ("--native", "--write", str(built))]
    with tempfile.TemporaryDirectory() as folder:
        if is_native:
            path = os.pathsep.join([str(ROOT / "tests" / "sanitized"), os.environ.get("PYTHONPATH", "")])
            environment = {**os.environ, "ONEGRAPH_EXTENSION": str(built.resolve()), "PYTHONPATH": path.rstrip(":")}
            # In one process: those of pytest-xdist end without the functions that write what gcov counted.
            done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment)
            counts = of_native(built / "objects")
        else:
            environment = {**os.environ, FOLDER: folder}
            done = subprocess.run([*PYTEST, "-p", "tests.branches", *options], cwd=ROOT, env=environment)
            counts = of_python(folder)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found, fallen = report(counts, kept.get("native" if is_native else "python", {}))
    print(*fallen, sep="\n")
    if is_written:
        KEPT.write_text(json.dumps(kept | {"native" if is_native else "python": found}, indent=1) + "\n")
    return done.returncode or bool(fallen)


# As a plugin, in each process of the suite: the package is imported after this.
if __name__ != "__main__" and FOLDER in os.environ:
    measured = measurement(f"{os.environ[FOLDER]}/.coverage.{os.getpid()}")
    measured.start()

    def pytest_unconfigure() -> None:
        """Write what was measured."""
        measured.stop()
        measured.save()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
