"""``python -m benchmarks [names] [--quick] [--json FILE]``: run benchmarks, each in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

NAMES = ("overhead", "callers", "build", "fusion", "blocks", "inference", "training", "peak")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it works, no timings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    given = parser.parse_args()
    names = given.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"{unknown[0]!r} is no benchmark; they are {', '.join(NAMES)}")
    results = {name: measured(name, given.quick) for name in names} if len(names) == 1 else in_processes(names, given)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def measured(name: str, quick: bool) -> dict[str, object]:
    """Run one benchmark in this process and print each row when it is ready."""
    from .results import environment, table

    noted = environment()
    print(name, *(f"{key} {value}" for key, value in noted.items()), sep="\n  ", end="\n\n")
    rows = []
    for row in import_module(f".{name}", __package__).rows(quick):
        rows.append(asdict(row))
        print(table(row), flush=True)
    print()
    return {"environment": noted, "rows": rows}


def in_processes(names: list[str], given: argparse.Namespace) -> dict[str, object]:
    """Run each benchmark in its own process, so that memory, caches and thread pools start empty."""
    results: dict[str, object] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "results.json"
            command = [sys.executable, "-m", __package__, name, "--json", str(file)]
            subprocess.run([*command, "--quick"] if given.quick else command, check=True)
            results |= json.loads(file.read_text())
    return results


if __name__ == "__main__":
    sys.exit(main())
