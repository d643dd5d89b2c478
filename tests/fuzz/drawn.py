"""Kinds of inputs that are drawn: an input is the bytes of the choices of a generator, or a program as JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .choices import Choices, changed_choices

FRESH = 2000  # bytes behind a changed input, for what it did not choose


class Drawn(NamedTuple):
    """The functions of a kind whose generator takes a ``random.Random``.

    Attributes:
        draw: a program, from random choices; None if they give none.
        problem: what goes wrong with a program; empty if nothing does.
        told: a program as JSON, from which ``parsed`` makes it; None if it has no such form.
        shorter: programs of one part less.
        printed: a program as a person reads it.
    """

    draw: Callable[[random.Random], Any]
    problem: Callable[[Any], str]
    told: Callable[[Any], Any] | None = None
    parsed: Callable[[Any], Any] = lambda told: told
    shorter: Callable[[Any], Iterable[Any]] = lambda program: ()
    printed: Callable[[Any], str] = repr

    def program(self, data: bytes) -> Any:
        """The program of an input."""
        found = None if self.told is None else _read(data)
        return self.draw(Choices(data)) if found is None else self.parsed(found)

    def replay(self, data: bytes) -> str:
        """What goes wrong with an input; empty if nothing does."""
        program = self.program(data)
        return "" if program is None else self.problem(program)

    def changed(self, population: list[bytes], rng: random.Random) -> bytes:
        """An input whose choices are those of others in part; one of five is new."""
        chosen = [data for data in population if _read(data) is None]
        is_new = not chosen or rng.random() < 0.2
        return rng.randbytes(FRESH) if is_new else changed_choices(chosen, rng, FRESH)

    def kept(self, data: bytes) -> bytes:
        """The bytes of an input that make its program."""
        if self.told is not None and _read(data) is not None:
            return data
        choices = Choices(data)
        self.draw(choices)
        return data[: choices.used]

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Inputs that are a part shorter: of the program, or of the bytes."""
        if self.told is not None:
            for program in self.shorter(self.program(data)):
                yield json.dumps(self.told(program)).encode()
            return
        size = len(data) // 2
        while size:
            yield from (data[:start] + data[start + size :] for start in range(0, len(data), size))
            size //= 2

    def shown(self, data: bytes) -> str:
        """The program of an input, as a person reads it."""
        return self.printed(self.program(data))


def _read(data: bytes) -> Any:
    """What JSON tells; None if the bytes are choices."""
    if data[:1] not in (b"[", b"{"):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
