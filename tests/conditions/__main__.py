"""Asks the conditions of the package while tests run: ``python -m tests.conditions``, with options for pytest.

With ``--kept``, what was answered before stays so, and the tests that are named may answer more.
It prints how many questions each room has and how many are answered, and writes the others to
build/conditions/missed.txt. Failures of tests that look at frames or source do not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from ..branches import room
from .asked import BUILD, ROOT, missed, prepare

HERE = Path(__file__).parent


def main(*options: str) -> int:
    """Run the tests and print the table."""
    asked = prepare(keeps="--kept" in options)
    path = os.pathsep.join(filter(None, [str(HERE / "inherited"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "CONDITIONS": str(BUILD / "places"), "CONDITIONS_ROOT": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *(option for option in options if option != "--kept")]
    done = subprocess.run(command, cwd=ROOT, env=environment)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, texts in missed(asked).items():
        counts[room(name)][0] += sum(is_met for _, is_met in texts)
        counts[room(name)][1] += len(texts)
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    print(f"{'':32} answered      of  percent")
    for name, (answered, every) in counts.items():
        print(f"{name:32} {answered:8} {every:7} {100 * answered / max(every, 1):8.2f}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
