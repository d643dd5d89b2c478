"""Has the meanings of old op sets as data: what changed, and how a node is written in the terms of a newer op set."""

from .changes import CHANGES, MODERN, MeaningChange
from .draft import Facts
from .modern import is_modern, modern

__all__ = ["CHANGES", "MODERN", "Facts", "MeaningChange", "is_modern", "modern"]
