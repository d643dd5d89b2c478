"""Programs of PyTorch, and functions as users write them, which are compiled and compared with eager mode."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from .drawn import Drawn


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and without what PyTorch logs."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def program(rng: random.Random) -> Any:
    """A program: views, writes in place and gradients."""
    from ..torch_backend.program_generator import random_program

    with quiet():
        return random_program(rng.randrange(10**6), rng.choice((2, 4, 8)), rng)


def function(rng: random.Random, sampled: bool = False) -> Any:
    """A function with modules, indices, sizes, autocast, calls with other sizes, and NaN.

    ``sampled``: whether it calls ops as the samples of PyTorch do, whose import takes seconds.
    """
    from ..torch_backend.function_generator import random_function

    with quiet():
        return random_function(rng.randrange(10**6), rng.choice((1, 2, 4, 8)), rng, sampled=sampled)


def parsed(told: dict[str, Any]) -> Any:
    """The program that JSON tells."""
    from ..torch_backend.programs import Program

    told = told | {key: tuple(map(tuple, told[key])) for key in ("inputs", "statements", "made") if key in told}
    return Program(**told | {key: tuple(told[key]) for key in ("results", "ways", "sizes") if key in told})


def problem(one: Any) -> str:
    """What differs from eager mode; empty if nothing does, or if the program is invalid."""
    import onegraph.torch  # noqa: F401 - registers the backend

    from ..torch_backend.program_runs import quick_difference

    with quiet():
        text = quick_difference(one)
    return "" if text == "invalid" else text


def problem_of_function(one: Any) -> str:
    """What differs, compiled, or exported for one of four."""
    from ..torch_backend.exported import export_difference

    text = problem(one)
    if text or one.seed % 4:
        return text
    with quiet():
        return export_difference(one)


def shorter(one: Any) -> Iterator[Any]:
    """Programs of one part less."""
    from ..torch_backend.program_runs import candidates

    yield from (other for other in candidates(one) if other.results)


DRAWN = {
    name: Drawn(draw, check, told=asdict, parsed=parsed, shorter=shorter, printed=lambda one: str(one.script()))
    for name, draw, check in (
        ("torch", program, problem),
        ("functions", function, problem_of_function),
        ("samples", partial(function, sampled=True), problem_of_function),
    )
}
