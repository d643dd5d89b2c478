"""The backend ``onegraph`` of torch.compile, and the export of models; needs ``pip install onegraph[torch]``."""

from __future__ import annotations

from torch._dynamo.backends import registry

from .frontends.torch.backend import onegraph as backend
from .frontends.torch.export import export as _export
from .frontends.torch.statistics import Statistics, reset, statistics
from .graph import Graph

__all__ = ["Statistics", "backend", "export", "reset", "stats"]

if "onegraph" not in registry._COMPILER_FNS:  # the entry point registers the backend when its name is first used
    registry.register_backend(compiler_fn=backend, name="onegraph")


def export(module: object, args: object, kwargs: object = None) -> Graph:
    """Turn a module into a graph, whose constants are its parameters, without a copy.

    The inputs of the graph are the tensors in ``args`` and ``kwargs``, under the names of the module's arguments. One
    result is called ``output``, several ``output_0``, ``output_1``, ...

    Args:
        module: the module, in the mode that is wanted: usually after ``module.eval()``.
        args: example inputs, as a tuple; they set data types and shapes.
        kwargs: further example inputs, by name.

    Raises:
        UnsupportedError: no op of a graph computes what the module does; the message names the ops.
        ArgumentError: an argument is of the wrong kind.
    """
    return _export(module, args, kwargs)


def stats() -> Statistics:
    """What compiled models run here and what they leave to PyTorch, since the start or the last ``reset``."""
    return statistics()
