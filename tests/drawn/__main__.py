"""``make kernels``: many drawn uses of each kernel of the package, and a table of what ran.

    python -m tests.drawn --cases 100000
    python -m tests.drawn softmax attention --cases 1000 --seed 5000 --jobs 1
    python -m tests.drawn --shard 1/4
    python -m tests.drawn softmax --only 4711

Processes run chunks of uses. A process notes each use before it runs it, so that a use which ends the process, or never
ends, is a finding too. ``--only`` runs one use again, in this process.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 2500  # uses of one process
MOST = 5  # findings of a kernel in a chunk
SLOWEST = 120  # seconds of one use
ROOT = Path(__file__).parents[2]
# The oracles compute in numpy; what waits for a processor must not spin.
SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "ONEGRAPH_CACHE": "",
    "MALLOC_PERTURB_": "165",
}


@dataclass
class Found:
    """What the uses of a kernel came to."""

    cases: int = 0
    seconds: float = 0.0
    paths: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Count the uses of another process too."""
        self.cases += other.cases
        self.seconds += other.seconds
        self.paths += other.paths
        self.findings += other.findings


def run_chunk(kernel: str, first: int, count: int, note: Path) -> None:
    """Run uses in this process, note the seed of each before, and print what they came to as JSON."""
    from .table import GENERATORS

    with note.open("r+b") as file:
        noted = mmap.mmap(file.fileno(), 8)
    generator, found, begin = GENERATORS[kernel], Found(), time.perf_counter()
    for seed in range(first, first + count):
        noted[:] = seed.to_bytes(8, "little")
        try:
            draw = generator.run(seed)
            found.cases += 1
            found.paths[draw.path if draw.runs or draw.path else "not run"] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            found.findings.append(f"{kernel} {seed}: {type(error).__name__} in {where.name}: {error}")
            if len(found.findings) == MOST:
                break
    found.seconds = time.perf_counter() - begin
    print(json.dumps([found.cases, found.seconds, found.paths, found.findings]))


def judge(kernel: str, first: int, count: int) -> Found:
    """Run a chunk in a process of its own; after a use that ends it, go on behind this use."""
    whole, end = Found(), first + count
    while first < end and len(whole.findings) < MOST:
        with tempfile.NamedTemporaryFile() as note:
            note.write(bytes(8))
            note.flush()
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.drawn", kernel, "--chunk"]
            process = subprocess.Popen(
                [*command, f"{first} {end - first} {note.name}"], cwd=ROOT, env={**os.environ, **SETTINGS},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
            printed, said = ended(process, Path(note.name))
            seed = int.from_bytes(Path(note.name).read_bytes(), "little")
        if not process.returncode:
            whole.add(Found(*json.loads(printed)[:2], Counter(json.loads(printed)[2]), json.loads(printed)[3]))
            break
        last = [line for line in said.splitlines() if line.strip()][-12:]
        text = "; ".join(last) if process.returncode > 0 else f"signal {-process.returncode}"
        whole.findings.append(f"{kernel} {seed}: the process ends: {text}")
        whole.add(Found(seed - first))
        first = seed + 1
    return whole


def ended(process: subprocess.Popen[str], note: Path) -> tuple[str, str]:
    """What a process printed, which is ended if one use takes too long."""
    last = b""
    while True:
        try:
            return process.communicate(timeout=SLOWEST)
        except subprocess.TimeoutExpired:
            now = note.read_bytes()
            if now == last:
                process.kill()
            last = now


def table(found: dict[str, Found]) -> str:
    """A line for each kernel: uses, seconds, findings, and how many uses each way of the kernel had."""
    lines = [f"{'kernel':24} {'cases':>8} {'seconds':>8} {'findings':>8}  ways"]
    for kernel, one in found.items():
        ways = ", ".join(f"{path or 'plain'} {count}" for path, count in sorted(one.paths.items()))
        lines.append(f"{kernel:24} {one.cases:8} {one.seconds:8.0f} {len(one.findings):8}  {ways}")
    return "\n".join(lines)


def main() -> int:
    """Run the command; the status is 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.drawn", description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="*", help="their names; by default all")
    parser.add_argument("--cases", type=int, default=1000, help="of each kernel")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--shard", default="1/1", help="the part to run, such as 2/8")
    parser.add_argument("--only", type=int, help="the seed of one use, which runs in this process")
    parser.add_argument("--chunk", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chunk:
        first, count, note = given.chunk.split(" ", 2)
        run_chunk(given.kernels[0], int(first), int(count), Path(note))
        return 0
    from .table import GENERATORS

    names = [*GENERATORS] if given.kernels in ([], ["all"]) else given.kernels
    if given.only is not None:
        for name in names:
            print(GENERATORS[name].run(given.only))
        return 0
    part, parts = map(int, given.shard.split("/"))
    chunks = [
        (name, first, min(CHUNK, given.cases - first)) for name in names for first in range(0, given.cases, CHUNK)
    ]
    found = {name: Found() for name in names}
    with ThreadPoolExecutor(given.jobs) as pool:
        mine = chunks[part - 1 :: parts]
        for (name, first, _), one in zip(
            mine, pool.map(lambda chunk: judge(chunk[0], given.seed + chunk[1], chunk[2]), mine), strict=True
        ):
            found[name].add(one)
            for finding in one.findings:
                print(finding, flush=True)
            if first + CHUNK >= given.cases:
                print(f"{name}: {found[name].cases} uses", flush=True)
    print(table(found))
    return 1 if any(one.findings for one in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
