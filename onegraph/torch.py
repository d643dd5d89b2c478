"""The backend ``onegraph`` of torch.compile, and the export of models; needs ``pip install onegraph[torch]``."""

from __future__ import annotations

from .frontends.torch.backend import onegraph as backend
from .frontends.torch.export import export as _export
from .frontends.torch.judge import verify as _verify
from .frontends.torch.registered import CustomCall, register
from .frontends.torch.statistics import Statistics, reset, statistics
from .graph import Graph
from .judging.judgement import Finding, Judgement

__all__ = [
    "CustomCall",
    "Finding",
    "Judgement",
    "Statistics",
    "backend",
    "export",
    "register",
    "reset",
    "stats",
    "verify",
]


def export(module: object, args: object = None, kwargs: object = None, *, dynamic_shapes: object = None) -> Graph:
    """Turn a module, or a program of torch.export, into a graph, whose constants are copies of its parameters.

    The inputs of the graph are the tensors in ``args`` and ``kwargs``, under the names of the module's arguments. One
    result is called ``output``, several ``output_0``, ``output_1``, ...

    Args:
        module: the module, in the mode that is wanted: usually after ``module.eval()``; or a
            ``torch.export.ExportedProgram``, or the path of one that ``torch.export.save`` has written.
        args: example inputs of a module, as a tuple; they set data types and shapes.
        kwargs: further example inputs, by name.
        dynamic_shapes: the dims that are open in the graph, as ``torch.export.export`` takes them. They are sizes of 2
            and more, unless PyTorch is told otherwise.

    Raises:
        UnsupportedError: no op of a graph computes what the module does, or none does for all sizes of an open dim; the
            message names the ops.
        FormatError: the file has no program.
        ArgumentError: an argument is of the wrong kind.
    """
    return _export(module, args, kwargs, dynamic_shapes)


def stats() -> Statistics:
    """What compiled models run here and what they leave to PyTorch, since the start or the last ``reset``."""
    return statistics()


def verify(
    module: object,
    inputs: object,
    kwargs: object = None,
    *,
    dynamic: bool = False,
    gradients: bool | None = None,
    options: object = None,
    seed: int = 0,
) -> Judgement:
    """Judge a module that this backend compiles by the same module in eager PyTorch.

    The module is called with the given inputs, and with large and tiny numbers, zeros, NaN, infinities, rows of equal
    numbers and rows near zero in their place. Results, buffers and gradients are compared with those of eager PyTorch
    in float64. Allowed are a few times the error that eager PyTorch has in the data types of the module, and that a
    disturbance of its inputs and weights by one rounding causes. NaN and infinities must be where eager PyTorch has
    them. Further, the parameters are written and replaced between calls, in each way that programs do; the results are
    written by the caller; and results must share memory and require gradients as in PyTorch.

    The module is copied, and does not change. PyTorch forgets what it compiled before, as by ``torch._dynamo.reset``.

    Args:
        module: a module, in the mode that is wanted, or a function of tensors.
        inputs: a tensor, or a tuple of arguments.
        kwargs: further arguments, by name.
        dynamic: whether to try a second batch size: in each tensor whose first axis is as long as that of the first
            tensor, rows are left out or repeated.
        gradients: whether to judge gradients, of the parameters and the floating-point inputs; by default if a
            parameter or an input requires one.
        options: the options of the backend.
        seed: seed of the random numbers.

    Returns:
        A record that is true if nothing was found. ``print`` shows each finding: the result, how the model was called,
        what is given and expected at the worst place, and the error in units of the allowed one.

    Raises:
        ArgumentError: an argument is wrong, or eager PyTorch cannot run the module with these inputs.
    """
    return _verify(module, inputs, kwargs, dynamic=dynamic, gradients=gradients, options=options, seed=seed)
