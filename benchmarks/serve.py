"""The side of a child process: runs its model when the parent asks for it.

A first result counts the imports of the process, so this module imports neither onegraph nor what a peer does without.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from typing import Any


def serve(prepare: Callable[[], tuple[Callable[[], Any], dict[str, Any]]]) -> None:
    """Obey the parent. ``prepare`` returns what to run, and what to tell about it."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no reply
    run, about = prepare()
    print(json.dumps(about), file=replies)
    with open(0, "rb", buffering=0) as commands:
        while commands.readline():
            run()
            print("0", file=replies)
            ends = [time.monotonic()]  # the same clock in all processes
            while len(ends) < 2 or not select.select([commands], [], [], 0)[0]:
                run()
                ends.append(time.monotonic())
            commands.readline()
            print(json.dumps(ends), file=replies)
