"""Random choices that come from the bytes of an input first, so that a change of the bytes changes some of the choices.

A generator that takes a ``random.Random`` takes ``Choices`` too, and one that takes a generator of numpy takes
``Numbers``. Any bytes are an input: where they end, the choices are those of a seed.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

FEW = 4  # elements of an array that are choices; those of a larger one have a seed


class Choices(random.Random):
    """Random numbers from bytes: a choice takes as few bytes as it needs.

    Attributes:
        used: how many bytes have been read.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self.data, self.used = data, 0

    def _read(self, count: int) -> int | None:
        """The next bytes as a number; None if there are too few."""
        found = self.data[self.used : self.used + count]
        self.used += len(found)
        return int.from_bytes(found, "little") if len(found) == count else None

    def getrandbits(self, k: int, /) -> int:
        """A number of k bits."""
        found = self._read(-(-k // 8))
        return super().getrandbits(k) if found is None else found & ((1 << k) - 1)

    def random(self) -> float:
        """A number from 0 to 1, of two bytes: makers of statements have weights below a hundredth."""
        found = self._read(2)
        return super().random() if found is None else found / 65536

    def _randbelow(self, n: int) -> int:
        """A number below n, which ``choice``, ``randrange``, ``sample`` and ``shuffle`` ask for.

        The method of the base class draws again where a number is too large, so that one byte would be several choices.
        """
        if n <= 1:
            return 0
        found = self._read(-(-(n - 1).bit_length() // 8))
        return int(super().random() * n) if found is None else found % n


class Numbers:
    """What a generator of numpy has, from choices: numbers and arrays of few elements are choices."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices

    def __getattr__(self, name: str) -> Any:
        return getattr(np.random.default_rng(self.choices.randrange(1 << 16)), name)

    def integers(self, low: Any, high: Any = None, size: Any = None, **options: Any) -> Any:
        """Integers from low to below high."""
        shape = () if size is None else size
        if options or np.prod(shape, dtype=int) > FEW:
            return self.__getattr__("integers")(low, high, size, **options)
        low, high = (0, int(low)) if high is None else (int(low), int(high))
        found = np.array([self.choices.randrange(low, high) for _ in range(np.prod(shape, dtype=int))], np.int64)
        return int(found[0]) if size is None else found.reshape(shape)

    def random(self, size: Any = None) -> Any:
        """Numbers from 0 to 1."""
        return self.choices.random() if size is None else self.__getattr__("random")(size)

    def choice(self, a: Any, size: Any = None, p: Any = None, **options: Any) -> Any:
        """One of some things, whose chances are p."""
        if size is not None or isinstance(a, int):
            return self.__getattr__("choice")(a, size, p=p, **options)
        return self.choices.choice(a) if p is None else self.choices.choices(a, p)[0]

    def permutation(self, x: Any) -> Any:
        """A number of places, or an array, in another order."""
        if not isinstance(x, int) or x > 2 * FEW:
            return self.__getattr__("permutation")(x)
        return np.array(self.choices.sample(range(x), x), np.int64)


def changed_choices(population: list[bytes], rng: random.Random, fresh: int) -> bytes:
    """One of some inputs with a few changes, or parts of two of them; ``fresh`` random bytes follow."""
    data = bytearray(rng.choice(population))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        start = rng.randrange(len(data) + 1)
        # Choices of one thing stand together: most changes are short.
        end = min(len(data), start + rng.choice((1, 1, 1, 2, 4, 16, 64)))
        match rng.randrange(6):
            case 0:
                data[start:end] = rng.randbytes(end - start)
            case 1 if end > start:
                data[start] = (data[start] + rng.choice((-1, 1))) % 256
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = rng.randbytes(rng.choice((1, 2, 4)))
            case 4:
                data[start:start] = data[start:end]
            case _:
                other = rng.choice(population)
                place = rng.randrange(len(other) + 1)
                data[start:] = other[place:]
    return bytes(data) + rng.randbytes(fresh)
