"""Random programs with open dims, whose first and second derivatives are compared with PyTorch's."""

import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from ..helpers.gradient_programs import Program, differences, program
from .choices import Numbers
from .drawn import Drawn


def draw(rng: random.Random) -> Program:
    """A program, whose contents have a seed of their own."""
    return program(rng.randrange(10**6), Numbers(rng))


def parsed(told: dict[str, Any]) -> Program:
    """The program that JSON tells."""
    told = told | {"shapes": [tuple(shape) for shape in told["shapes"]]}
    told |= {"calls": [[tuple(shape) for shape in call] for call in told["calls"]]}
    return Program(**told | {"steps": [(name, tuple(reads)) for name, reads in told["steps"]]})


def shorter(one: Program) -> Iterator[Program]:
    """Programs without the last step, the checkpoints, or a source of a gradient."""
    if len(one.steps) > 1:
        ends = len(one.shapes) + len(one.steps) - 1
        if all(place < ends for place in one.wrt):
            kept = None if one.checkpoints is None else [place for place in one.checkpoints if place < ends] or None
            yield replace(one, steps=one.steps[:-1], checkpoints=kept)
    if one.checkpoints is not None:
        yield replace(one, checkpoints=None)
    for place in range(len(one.wrt) if len(one.wrt) > 1 else 0):
        yield replace(one, wrt=one.wrt[:place] + one.wrt[place + 1 :])


DRAWN = {
    "gradients": Drawn(draw, lambda one: "\n".join(differences(one)), told=asdict, parsed=parsed, shorter=shorter),
}
