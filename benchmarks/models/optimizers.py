"""The optimizers of the training steps, with the numbers that they have in every contender."""

from __future__ import annotations

from typing import NamedTuple


class Optimizer(NamedTuple):
    """An optimizer and its numbers.

    Attributes:
        kind: ``SGD``, ``Adam`` or ``AdamW``, as PyTorch calls them.
        rate: the learning rate.
        momentum: of SGD.
        betas, epsilon: of Adam and AdamW.
        decay: the weight decay of AdamW.
    """

    kind: str
    rate: float
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.01
