"""Asks the conditions of the package while tests run: ``python -m tests.conditions``, with options for pytest.

It prints how many questions each room has and how many are answered, and writes the others to
build/conditions/missed.txt. Failures of tests that look at frames or source do not count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from ..branches import room
from .asked import BUILD, CODE, PACKAGE, ROOT
from .questions import questions

HERE = Path(__file__).parent


def main(*options: str) -> int:
    """Run the tests and print the table."""
    asked = {str(path.relative_to(PACKAGE)): questions(path.read_text())[1] for path in sorted(PACKAGE.rglob("*.py"))}
    shutil.rmtree(CODE, ignore_errors=True)
    CODE.mkdir(parents=True)
    lines, first = [], 0
    for name, texts in asked.items():
        lines.append(f"{name} {first} {len(texts)}")
        first += len(texts)
    (BUILD / "places").write_text("\n".join(lines))
    (BUILD / "met").write_bytes(bytes(first))
    path = os.pathsep.join(filter(None, [str(HERE / "inherited"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "CONDITIONS": str(BUILD / "places"), "CONDITIONS_ROOT": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment)
    met = iter((BUILD / "met").read_bytes())
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    with (BUILD / "missed.txt").open("w") as missed:
        for name, texts in asked.items():
            for text in texts:
                is_met = next(met)
                counts[room(name)][0] += is_met
                counts[room(name)][1] += 1
                if not is_met:
                    missed.write(f"{name}:{text}\n")
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    print(f"{'':32} answered      of  percent")
    for name, (answered, every) in counts.items():
        print(f"{name:32} {answered:8} {every:7} {100 * answered / max(every, 1):8.2f}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
