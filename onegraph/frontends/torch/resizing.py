"""Keeps each resizing of an image one op: PyTorch takes it apart before it asks a backend for decompositions.

The ops ``onegraph::upsample_...`` have the arguments of ``aten::upsample_...``, and their gradients state their shapes
for symbolic sizes too. ``whole_ops`` puts them in the place of ``torch.nn.functional.interpolate`` in one thread, while
a graph is captured; PyTorch's own tables stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.overrides import TorchFunctionMode

from .fast_paths import dense_attention, flex_attention
from .tables.resizing import RESIZING

aten = torch.ops.aten
_library = torch.library.Library("onegraph", "FRAGMENT")
# The name of the op without the number of axes, by the mode, and whether it widens the filter where an axis shrinks.
MODES = {
    ("nearest", False): "upsample_nearest",
    ("nearest-exact", False): "_upsample_nearest_exact",
    ("linear", False): "upsample_linear",
    ("bilinear", False): "upsample_bilinear",
    ("trilinear", False): "upsample_trilinear",
    ("bicubic", False): "upsample_bicubic",
    ("bilinear", True): "_upsample_bilinear2d_aa",
    ("bicubic", True): "_upsample_bicubic2d_aa",
}
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def _resized_like(self: Any, output_size: Any, *_: Any) -> Any:
    return self.new_empty((*self.shape[:2], *output_size)).contiguous(memory_format=suggest_memory_format(self))


def _gradient_like(grad_output: Any, _: Any, input_size: Any, *__: Any) -> Any:
    return grad_output.new_empty(tuple(input_size)).contiguous(memory_format=suggest_memory_format(grad_output))


def _saved(ctx: Any, inputs: Any, output: Any) -> None:
    source, output_size, *rest = inputs
    ctx.sizes = [*output_size], [*source.shape], rest


def _differentiated(name: str, count: int) -> Callable[..., Any]:
    def backward(ctx: Any, gradient: Any) -> Any:
        output_size, input_size, rest = ctx.sizes
        op = getattr(torch.ops.onegraph, f"{name}_backward").default
        return op(gradient, output_size, input_size, *rest), *[None] * count

    return backward


def _define() -> None:
    for name in RESIZING:
        forward, backward = (getattr(aten, one).default for one in (name, f"{name}_backward"))
        for op, like in ((forward, _resized_like), (backward, _gradient_like)):
            text = str(op._schema).removeprefix("aten::")
            _library.define(text)
            own = text.split("(")[0]
            _library.impl(own, op, "CPU")
            _library.impl(own, like, "Meta")
        count = len(forward._schema.arguments) - 1
        torch.library.register_autograd(
            f"onegraph::{name}", _differentiated(name, count), setup_context=_saved, lib=_library
        )


_define()


class whole_ops(TorchFunctionMode):  # noqa: N801 - used as a function
    """Captures the resizing of images as one op each, and attention with modified scores as its parts, in this thread.

    ``divides``: whether attention is divided; PyTorch's export keeps it whole, and its decompositions divide it.
    """

    def __init__(self, divides: bool = True) -> None:
        super().__init__()
        self.divides = divides

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.nn.functional.interpolate:
            resized = _resized(*args, **(kwargs or {}))
            if resized is not None:
                return resized
        if func is flex_attention and self.divides and not torch.compiler.is_dynamo_compiling():
            return dense_attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _resized(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """What ``torch.nn.functional.interpolate`` returns; None for other forms, of which some are errors."""
    count = input.dim() - 2
    name = MODES.get((mode, antialias), "")
    name = name if name.endswith("_aa") else f"{name}{count}d"
    has_sizes = (size is None) is not (scale_factor is None)
    if name not in RESIZING or RESIZING[name][1] != count or not has_sizes or not _is_plain(input):
        return None
    if align_corners is not None and "nearest" in name:
        return None
    stated = scale_factor if size is None else size
    stated_list = [*stated] if isinstance(stated, (list, tuple)) else [stated] * count  # torch.Size is a tuple
    if len(stated_list) != count or (size is not None and recompute_scale_factor):
        return None
    dims = input.shape[2:]
    factors: list[Any] = [None] * count
    if size is not None:
        sizes = stated_list
    elif recompute_scale_factor:
        sizes = [torch.sym_int(math.floor(dim * factor)) for dim, factor in zip(dims, stated_list, strict=True)]
    else:
        sizes, factors = (
            upsample_compute_output_size(input.shape, None, stated_list),
            [float(one) for one in stated_list],
        )
    corners = () if "nearest" in name else (bool(align_corners),)
    return getattr(torch.ops.onegraph, name).default(input, sizes, *corners, *factors)


def _is_plain(source: Any) -> bool:
    """Whether a tensor is a strided one of floats on the CPU, with elements."""
    if source.device.type != "cpu" or source.layout is not torch.strided or source.is_quantized:
        return False
    return source.dtype in FLOATS and all(type(dim) is not int or dim for dim in source.shape)


__all__ = ["whole_ops"]
