"""Changes values of JSON at random."""

from __future__ import annotations

import contextlib
import json
import random

VALUES = (None, True, -1, 0, 1, 2**31, 2**63, 1e308, "", "f32", "NXC", "auto", [], [None], {}, [2, 3])


def changed_text(population: list[bytes], rng: random.Random) -> bytes | None:
    """One of some texts with one change, or with parts of another one; None where one of them is no JSON."""
    with contextlib.suppress(ValueError, RecursionError):
        value, other = json.loads(rng.choice(population)), json.loads(rng.choice(population))
        return json.dumps(changed_value(value, rng, other)).encode()
    return None


def changed_value(value: object, rng: random.Random, other: object) -> object:
    """A value of JSON with one change; parts of another one come in."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice([*value])
        if rng.random() < 0.1:
            return {key: part for key, part in value.items() if key != name}
        inner = other.get(name, other) if isinstance(other, dict) else other
        return value | {name: changed_value(value[name], rng, inner)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        inner = rng.choice(other) if isinstance(other, list) and other else other
        parts = [*value]
        parts[place : place + rng.choice((0, 1, 1, 1, 1))] = rng.choice(
            ([], [changed_value(value[place], rng, inner)], [changed_value(value[place], rng, inner)])
        )
        return parts
    if isinstance(value, int) and rng.random() < 0.3:
        return value + rng.choice((-1, 1))
    return other if rng.random() < 0.3 else rng.choice(VALUES)
