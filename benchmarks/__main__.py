"""``python -m benchmarks [names] [--quick] [--busy-ok] [--json FILE]``: run benchmarks, each in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from . import machine

NAMES = (
    "overhead",
    "callers",
    "build",
    "fusion",
    "attention",
    "blocks",
    "inference",
    "reproducible",
    "training",
    "onnx",
    "torch",
    "peak",
    "busy",
    "libraries",
)
# A module named as a package would hide the package from scripts in its folder.
MODULES = {"onnx": "onnx_models", "torch": "torch_compile"}
# Benchmarks whose results on machines with AMX stand beside those on other machines.
BY_MACHINE, AMX = ("peak",), " with AMX"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it works, no timings")
    parser.add_argument("--busy-ok", action="store_true", help="measure although something else runs on the machine")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results there; other benchmarks keep theirs"
    )
    given = parser.parse_args()
    names = given.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"{unknown[0]!r} is no benchmark; they are {', '.join(NAMES)}")
    if given.quick or given.busy_ok:
        machine.attempts = 1
    results: dict[str, object] = {}
    try:
        for name in names:
            results |= {kept_as(name): measured(name, given)} if len(names) == 1 else in_process(name, given)
    except subprocess.CalledProcessError as error:
        return error.returncode  # the benchmark has said why
    finally:
        if given.json and results:
            kept = json.loads(given.json.read_text()) if given.json.exists() else {}
            places = [place for name in NAMES for place in (name, f"{name}{AMX}")]
            ordered = {place: (kept | results)[place] for place in places if place in kept | results}
            given.json.write_text(json.dumps(ordered, indent=2) + "\n")
    return 0


def kept_as(name: str) -> str:
    """The name under which the results of a benchmark are kept."""
    from .results import cpu_flags

    return f"{name}{AMX}" if name in BY_MACHINE and "amx_tile" in cpu_flags() else name


def measured(name: str, given: argparse.Namespace) -> dict[str, object]:
    """Run one benchmark in this process and print each row when it is ready."""
    load = machine.load_at_rest()
    if not (machine.is_idle(load) or given.quick or given.busy_ok):
        sys.exit(
            f"{name}: the machine is not idle: something else uses {machine.described(load)}; expected less than "
            f"{machine.IDLE:g} %. End it, or measure anyway with --busy-ok."
        )
    from .results import environment, table

    noted = environment(load)
    print(name, *(f"{key} {value}" for key, value in noted.items()), sep="\n  ", end="\n\n")
    rows = []
    for row in import_module(f".{MODULES.get(name, name)}", __package__).rows(given.quick):
        rows.append(asdict(row))
        print(table(row), flush=True)
    print()
    return {"environment": noted, "rows": rows}


def in_process(name: str, given: argparse.Namespace) -> dict[str, object]:
    """Run a benchmark in its own process, so that memory, caches and thread pools start empty."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, "-m", __package__, name, "--json", str(file)]
        options = [f"--{option}" for option in ("quick", "busy-ok") if vars(given)[option.replace("-", "_")]]
        subprocess.run([*command, *options], check=True)
        found: dict[str, object] = json.loads(file.read_text())
    return found


if __name__ == "__main__":
    sys.exit(main())
