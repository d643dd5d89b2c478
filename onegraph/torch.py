"""The backend ``onegraph`` of torch.compile, and the export of models; needs ``pip install onegraph[torch]``."""

from __future__ import annotations

from .frontends.torch.backend import onegraph as backend
from .frontends.torch.statistics import Statistics, reset, statistics

__all__ = ["Statistics", "backend", "reset", "stats"]


def stats() -> Statistics:
    """What compiled models run here and what they leave to PyTorch, since the start or the last ``reset``."""
    return statistics()


