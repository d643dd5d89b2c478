"""Registers the backend with torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.backends import registry

NAME = "onegraph"


class Backends(dict[str, Any]):
    """PyTorch's table of backends, into which several threads may enter this backend at once.

    PyTorch looks for a name, loads the entry point, and enters what it loaded. An entry that exists by then is an
    error. If several threads compile for the first time at once, each of them loads the entry point, and enters the
    same function.
    """

    def __contains__(self, name: object) -> bool:
        return name != NAME and super().__contains__(name)


def register(backend: Callable[..., Any]) -> None:
    """Enter the backend into PyTorch's table."""
    if not isinstance(registry._COMPILER_FNS, Backends):
        registry._COMPILER_FNS = Backends(registry._COMPILER_FNS)
    registry.register_backend(compiler_fn=backend, name=NAME)


__all__ = ["register"]
