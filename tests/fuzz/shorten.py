"""Shorter recipes of the same finding."""

import json
import subprocess
import sys

from .recipe import Builder


def without(steps, index):
    """The recipe without one step, whose values become inputs of the graph; None if it cannot be built."""
    builder = Builder()
    for step in steps[:index]:
        builder.add(step)
    before = set(builder.values)
    try:
        builder.add(steps[index])
    except Exception:
        return None
    made = [key for key in builder.values if key not in before]
    used = {tuple(key) for step in steps[index + 1 :] for key in step.get("in", ()) if key is not None}
    kept, moved = list(steps[:index]), {key: key for key in before}
    for key in made:
        tensor, _ = builder.values[key]
        if key in used:
            if steps[index]["op"] in ("input", "constant"):
                return None
            moved[key] = (len(kept), 0)
            kept.append(
                {"op": "input", "dtype": tensor.dtype.value, "shape": list(tensor.shape), "data": ["normal", index]}
            )
    for number, step in enumerate(steps[index + 1 :], index + 1):
        ports = {key: (len(kept), key[1]) for key in used if key[0] == number}
        if "in" in step:
            step = {**step, "in": [None if key is None else list(moved[tuple(key)]) for key in step["in"]]}
        moved.update(ports)
        kept.append(step)
    return kept


def shorten(steps, still_fails, tries=400):
    """The shortest recipe that is found by dropping steps one after another."""
    changed = True
    while changed and tries > 0:
        changed = False
        for index in reversed(range(len(steps))):
            if index >= len(steps):
                continue
            shorter = without(steps, index)
            if shorter is None or not any(step["op"] == "output" for step in shorter):
                continue
            tries -= 1
            try:
                if still_fails(shorter):
                    steps, changed = shorter, True
            except Exception:
                continue
    return steps


def fails_in_process(variant):
    """Whether a recipe still gives a finding in its variant."""
    from .differ import check

    def still_fails(steps):
        return any(True for _ in check(steps, [variant]))

    return still_fails


def fails_in_child(variant, seconds=60):
    """Whether a recipe still crashes or hangs its process."""

    def still_fails(steps):
        text = json.dumps([steps, variant])
        command = [sys.executable, "-m", "tests.fuzz.child", "one"]
        try:
            done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0

    return still_fails
