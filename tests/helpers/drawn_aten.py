"""Calls of ATen ops and captured graphs beside those that are kept, without PyTorch: materials of :mod:`draws`.

The kept texts are chosen by the lines and the conditions that they reach; these draws, by the changes that they notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

from tests.helpers import aten_calls, aten_passes
from tests.helpers import torch_stand_in as own

from .draws import material


@cache
def calls() -> Mapping[str, list[Any]]:
    """The kept calls that are lowered alone, by their op."""
    found: dict[str, list[Any]] = {}
    for made in aten_calls.kept()["graphs"]:
        if "alone" in made:
            name = next(node[2] for node in made["nodes"] if node[0] == made["alone"])
            found.setdefault(name, []).append(made)
    return found


@cache
def captured() -> Mapping[str, list[Any]]:
    """The kept graphs, by the function that gets them."""
    found: dict[str, list[Any]] = {}
    for made in aten_passes.kept()["graphs"]:
        found.setdefault(made["of"], []).append(made)
    return found


@material(calls)
def lowered_calls(name: str, number: int) -> list[str]:
    """The graph of a call that lies one to three changes beside a kept one."""
    drawn = Random(f"{name} {number}")
    made = drawn.choice(calls()[name])
    for _ in range(drawn.choice((1, 1, 2))):
        made = aten_calls.beside(made, drawn)
    own.NodeList.current = None
    aten_passes.modules()
    return aten_calls.replayed(made)


@material(captured)
def changed_captures(name: str, number: int) -> list[str]:
    """What a function makes of a captured graph beside a kept one."""
    drawn = Random(f"{name} {number}")
    made = drawn.choice(captured()[name])
    for _ in range(drawn.choice((1, 1, 2))):
        made = aten_passes.beside(made, drawn)
    own.NodeList.current = None
    return aten_passes.replayed(made)


NAMES = lowered_calls.__name__, changed_captures.__name__


def kept_lines() -> list[Any]:
    """What makes the lines of each kept call and graph."""
    aten_passes.modules()
    graphs = [lambda made=made: aten_calls.replayed(made) for made in aten_calls.kept()["graphs"]]
    return [*graphs, *(lambda made=made: aten_passes.replayed(made) for made in aten_passes.kept()["graphs"])]
