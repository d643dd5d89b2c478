"""Decompositions whose results have the data type and the order of axes that PyTorch's kernels for CPUs give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce, wraps
from typing import Any

import torch

aten = torch.ops.aten
Decomposition = Callable[..., Any]


def _of_first(*args: Any, **_: Any) -> Any:
    return args[0].dtype


def _of_second(*args: Any, **_: Any) -> Any:
    return args[1].dtype


def _promoted(*args: Any, **_: Any) -> Any:
    """The data type that holds those of three tensors, also of a tensor of one number, which the kernel expands."""
    return reduce(torch.promote_types, [one.dtype for one in args[:3]])


# The data type of the result for tensors of several data types.
DTYPE_OF: Mapping[Any, Callable[..., Any]] = {
    aten.huber_loss.default: _of_first,
    aten.soft_margin_loss.default: _of_first,
    aten.binary_cross_entropy_with_logits.default: _of_second,
    aten.addr.default: _promoted,
}
# The kernel writes rows behind each other, with the strides of a new tensor also along axes of size 1.
IN_ROWS = (aten.log_sigmoid_forward.default, aten.diag_embed.default, aten.renorm.default)


def as_kernels(table: Mapping[Any, Decomposition]) -> dict[Any, Decomposition]:
    """The decompositions, with results as those of kernels.

    PyTorch runs a call that reads a tensor without elements, as its kernel: decompositions check indices that the
    kernel does not read, and no part runs them faster.
    """
    forms = dict(table)
    for op, dtype_of in DTYPE_OF.items():
        if op in forms:
            forms[op] = _typed(forms[op], dtype_of)
    for op in IN_ROWS:
        if op in forms:
            forms[op] = _in_rows(forms[op])
    return {op: _of_elements(function) for op, function in forms.items()}


def _of_elements(decomposition: Decomposition) -> Decomposition:
    @wraps(decomposition)
    def of_elements(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if any(map(_is_empty, args)) else decomposition(*args, **kwargs)

    return of_elements


def _is_empty(value: Any) -> bool:
    """Whether a value is a tensor with a known axis of size 0."""
    return isinstance(value, torch.Tensor) and any(type(dim) is int and not dim for dim in value.shape)


def _typed(decomposition: Decomposition, dtype_of: Callable[..., Any]) -> Decomposition:
    @wraps(decomposition)
    def typed(*args: Any, **kwargs: Any) -> Any:
        return decomposition(*args, **kwargs).to(dtype_of(*args, **kwargs))

    return typed


def _in_rows(decomposition: Decomposition) -> Decomposition:
    @wraps(decomposition)
    def in_rows(*args: Any, **kwargs: Any) -> Any:
        rows_result = decomposition(*args, **kwargs)
        first, *rest = rows_result if isinstance(rows_result, tuple) else (rows_result,)
        rows = first.clone(memory_format=torch.contiguous_format)
        return (rows, *rest) if rest else rows

    return in_rows


__all__ = ["as_kernels"]
