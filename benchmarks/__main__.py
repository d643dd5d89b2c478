"""``python -m benchmarks``: run benchmarks, each in its own process."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from . import machine

if TYPE_CHECKING:
    from .timing import Row

NAMES = (
    "overhead",
    "callers",
    "build",
    "fusion",
    "attention",
    "blocks",
    "tokens",
    "sizes",
    "inference",
    "kinds",
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
# Benchmarks whose rows can be measured alone.
BY_ROW = ("tokens", "kinds", "training", "onnx", "torch")
# Benchmarks whose results on machines with AMX stand beside those on other machines.
BY_MACHINE, AMX = ("peak",), " with AMX"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it works, no timings")
    parser.add_argument("--busy-ok", action="store_true", help="measure although something else runs on the machine")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write each row there at once; other benchmarks keep theirs"
    )
    parser.add_argument(
        "--rows",
        metavar="PATTERN",
        help=f"of {', '.join(BY_ROW)}: only the rows with names such as '*ResNet*f32*'; the file keeps the others",
    )
    given = parser.parse_args()
    names = given.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"{unknown[0]!r} is no benchmark; they are {', '.join(NAMES)}")
    if given.rows and (whole := [name for name in names if name not in BY_ROW]):
        parser.error(f"--rows: {whole[0]!r} is measured as a whole; name some of {', '.join(BY_ROW)}")
    if given.quick or given.busy_ok:
        machine.attempts = 1
    if len(names) == 1:
        measure(names[0], given)
        return 0
    try:
        for name in names:
            measure_in_process(name, given)
    except subprocess.CalledProcessError as error:
        return error.returncode  # the benchmark has said why
    return 0


def kept_as(name: str) -> str:
    """The name under which the results of a benchmark are kept."""
    from .results import cpu_flags

    return f"{name}{AMX}" if name in BY_MACHINE and "amx_tile" in cpu_flags() else name


def measure(name: str, given: argparse.Namespace) -> None:
    """Run one benchmark in this process; print each row and write it to the file when it is ready."""
    load = machine.load_at_rest()
    if not (machine.is_idle(load) or given.quick or given.busy_ok):
        sys.exit(
            f"{name}: the machine is not idle: something else uses {machine.described(load)}; expected less than "
            f"{machine.IDLE:g} %. End it, or measure anyway with --busy-ok."
        )
    from .kept import Kept
    from .results import environment, table

    noted = environment(load)
    rows = import_module(f".{MODULES.get(name, name)}", __package__).rows
    chosen = {"chosen": partial(fnmatchcase, pat=given.rows)} if given.rows else {}
    places = [place for one in NAMES for place in (one, f"{one}{AMX}")]
    kept = Kept(given.json, places, kept_as(name), noted, all_cases(rows, given.quick) if given.rows else None)
    print(name, *(f"{key} {value}" for key, value in noted.items()), sep="\n  ", end="\n\n")
    for row in rows(given.quick, **chosen):
        kept.add(row)
        print(table(row), flush=True)
    print()


def all_cases(rows: Callable[..., Iterator[Row]], quick: bool) -> list[str]:
    """The names of all rows of a benchmark, in order."""
    found: list[str] = []

    def none_chosen(case: str) -> bool:
        found.append(case)
        return False

    for row in rows(quick, chosen=none_chosen):
        raise AssertionError(f"{row.case} was measured without being chosen")
    return found


def measure_in_process(name: str, given: argparse.Namespace) -> None:
    """Run a benchmark in its own process, so that memory, caches and thread pools start empty."""
    options = [f"--{option}" for option in ("quick", "busy-ok") if vars(given)[option.replace("-", "_")]]
    options += [
        text for option in ("json", "rows") if (value := vars(given)[option]) for text in (f"--{option}", value)
    ]
    subprocess.run([sys.executable, "-m", __package__, name, *options], check=True)


if __name__ == "__main__":
    sys.exit(main())
