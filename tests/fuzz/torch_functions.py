"""Functions of PyTorch as users write them: with modules, indices, sizes, autocast, calls with other sizes, and NaN."""

from __future__ import annotations

import json
import logging
import random
import warnings
from dataclasses import asdict

from . import torch_programs
from .torch_programs import program_of


def replay(data: bytes) -> str:
    """What differs from eager mode, compiled, or exported for one of four; empty if nothing does."""
    from ..torch_backend.exported import export_difference

    text = torch_programs.replay(data)
    program = program_of(data)
    if text or program.seed % 4:
        return text
    logging.disable(logging.CRITICAL)
    try:
        return export_difference(program)
    finally:
        logging.disable(logging.NOTSET)


def changed(population: list[bytes], seed: int) -> bytes:
    """A new function. One of four may call the ops of which PyTorch has samples, whose import takes seconds."""
    from ..torch_backend.function_generator import random_function

    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (
            function := random_function(rng.randrange(10**9), rng.choice((1, 2, 4, 8)), sampled=seed % 4 == 0)
        ) is None:
            pass
    return json.dumps(asdict(function)).encode()


def shown(data: bytes) -> str:
    """The script of the shortest function that goes wrong in the same way."""
    from ..torch_backend.program_runs import shortened

    logging.disable(logging.CRITICAL)
    try:
        shorter = shortened(program_of(data))
        return f"{shorter.script()}\n{json.dumps(asdict(shorter))}"
    finally:
        logging.disable(logging.NOTSET)
