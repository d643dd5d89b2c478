"""Computes the ops of the misc category in numpy, with the counter-based random numbers of Dropout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError
from ..opset.schema import Call

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

WORD, LONG = 2**32 - 1, 2**64 - 1


def end(call: Call, src: Floats) -> tuple[()]:
    """No outputs."""
    return ()


def wildcard(call: Call, *sources: object) -> object:
    """Always raises UnsupportedError, because a Wildcard does not define a computation."""
    raise UnsupportedError("Wildcard has no meaning of its own, so it cannot be run")


def gen_index(call: Call, src: Floats) -> Integers:
    """The index of each element along axis."""
    axis = call.s64("axis") % src.ndim
    counts = np.arange(src.shape[axis], dtype=np.int64).reshape(-1, *[1] * (src.ndim - 1 - axis))
    return np.broadcast_to(counts, src.shape)


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Philox4x32 with ten rounds (Salmon et al., 2011): four random words for each counter of four words."""
    word, shift = np.uint64(WORD), np.uint64(32)
    a, b, c, d = counter
    for turn in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        keys = [np.uint64((k + turn * step) & WORD) for k, step in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
        a, b, c, d = (right >> shift) ^ b ^ keys[0], right & word, (left >> shift) ^ d ^ keys[1], left & word
    return a, b, c, d


def random_words(count: int, seed: int, offset: int) -> Words:
    """The random 32-bit words that the library uses for elements 0 to ``count`` - 1, in row-major order.

    For offset 0 the library uses its older scheme, here as of 3.13: the low word of the seed is the whole key, and the
    four elements of a block share one word.
    """
    index = np.arange(count, dtype=np.uint64)
    block = index & np.uint64(LONG - 3)
    shift, word = np.uint64(32), np.uint64(WORD)
    if offset == 0:
        low = block & word
        key = seed & WORD
        return philox((low, low + np.uint64(1), low, low + np.uint64(3)), (key, key))[2]
    first, second = (np.full(count, half, np.uint64) for half in (offset & WORD, (offset & LONG) >> 32))
    drawn = philox((first, second, block & word, block >> shift), (seed & WORD, (seed & LONG) >> 32))
    return np.choose((index & np.uint64(3)).astype(np.int64), drawn)


def dropout(call: Call, src: Floats, seed: Integers, offset: Integers, probability: Floats) -> tuple[Floats, Integers]:
    """dst, and the mask with 1 for every kept element."""
    chance = np.float32(probability.item())
    scale = np.float32(1) / (np.float32(1) - chance) if chance != 1 else np.float32(0)
    limit = float(WORD) * float(np.clip(chance, 0, 1))
    words = random_words(src.size, seed.item(), offset.item()).reshape(src.shape)
    mask = words.astype(np.float64) > limit
    return np.where(mask, src * float(scale), 0.0), mask.astype(np.int64)
