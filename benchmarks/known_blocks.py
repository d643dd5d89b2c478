"""Blocks that stay slow, with the reason."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """A form of blocks that stays slow.

    Attributes:
        pattern: matches the text of the block: its ops, with the types of their inputs.
        rival: what is faster.
        reason: why nothing is done.
    """

    pattern: str
    rival: str
    reason: str


KNOWN: tuple[Known, ...] = ()


def known(text: str, rival: str) -> str:
    """Why a block stays slower than a rival; empty if that is not known."""
    return next((one.reason for one in KNOWN if one.rival in rival and re.search(one.pattern, text)), "")
