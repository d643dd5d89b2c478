"""Programs of PyTorch as inputs: the JSON of a program. A change draws a new one, since few changes leave one valid."""

from __future__ import annotations

import json
import logging
import random
import warnings
from dataclasses import asdict
from typing import Any


def program_of(data: bytes) -> Any:
    """The program that JSON tells."""
    from ..torch_backend.programs import Program

    told = json.loads(data)
    told |= {key: tuple(map(tuple, told[key])) for key in ("inputs", "statements", "made") if key in told}
    told |= {key: tuple(told[key]) for key in ("results", "ways", "sizes") if key in told}
    return Program(**told)


def replay(data: bytes) -> str:
    """What differs from eager mode; empty if nothing does, or if the program is invalid."""
    import onegraph.torch  # noqa: F401 - registers the backend

    from ..torch_backend.program_runs import quick_difference

    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = quick_difference(program_of(data))
    finally:
        logging.disable(logging.NOTSET)
    return "" if text == "invalid" else text


def changed(population: list[bytes], seed: int) -> bytes:
    """A new program."""
    from ..torch_backend.program_generator import random_program

    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (program := random_program(rng.randrange(10**9), statements=rng.choice((2, 4, 8)))) is None:
            pass
    return json.dumps(asdict(program)).encode()
