"""Replaces ops while they are emitted: decomposed forms by the op, and ops by others that the library runs faster.

Each pattern looks at an op that was just added and at the makers of its inputs. Ops that nobody reads then are removed
at the end by ``without_unread``. Of the patterns for one kind of op, those of the first module come first.
"""

from . import (
    activations,
    attention,
    bags,
    branches,
    norms,
    padding,
    products,
    quantized,
    rotary,
    smaller,
    transposes,
    views,
)
from .table import OF_KNOWN_DIMS, REWRITES

__all__ = [
    "OF_KNOWN_DIMS",
    "REWRITES",
    "activations",
    "attention",
    "bags",
    "branches",
    "norms",
    "padding",
    "products",
    "quantized",
    "rotary",
    "smaller",
    "transposes",
    "views",
]
