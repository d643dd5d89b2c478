"""States the strides of results where PyTorch's kernels for CPUs choose others than PyTorch states.

The strides of axes of one element move nothing, but a convolution or a pool behind them reads from them whether its
source is channels last. PyTorch states them, and the order of axes of some ops, by rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch.fx import Node as FxNode
from torch.utils._python_dispatch import _disable_current_modes

from .lowering import is_call

aten = torch.ops.aten
FORMATS = torch.contiguous_format, torch.channels_last
LARGEST = 2**26  # bytes of a tensor that is indexed to see the strides of the result
# Tagged as ops on elements, with an order of their own.
OWN_ORDER = (
    *(aten.clone.default, aten._to_copy.default, aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    *(aten.nan_to_num.default, aten.hardtanh.default),
)
# Their results have the strides of the first input, unless a memory format is given.
LIKE_SOURCES = frozenset(
    getattr(aten, f"{name}_like").default for name in ("full", "zeros", "ones", "empty", "rand", "randn")
)
VIEWS = aten.view.default, aten._unsafe_view.default
BARE_NUMBERS = (aten.pow.Tensor_Scalar, aten.pow.Scalar, aten.lerp.Scalar)  # others make a tensor of the number
# Ops on elements whose results are laid out by PyTorch's kernels alone, by the number of tensors.
ON_ELEMENTS: Mapping[int, Callable[..., Any]] = {1: torch.neg, 2: torch.add, 3: torch.addcmul}


def with_kernel_strides(node: FxNode) -> bool:
    """State the strides that PyTorch's kernel gives the result of a call; whether it had others before."""
    like = node.meta.get("val")
    if not is_call(node) or not hasattr(like, "stride") or not _is_known(like):
        return False
    true = _true_strides(node, like)
    if true is None or true == like.stride():
        return False
    node.meta["val"] = like.new_empty_strided(like.shape, true)
    return True


def _true_strides(node: FxNode, like: Any) -> tuple[int, ...] | None:
    """The strides; None where PyTorch states them."""
    target: Any = node.target
    if target is aten.convolution.default:
        return _of_sequences(node, like) if like.dim() == 3 else None
    sources = [one.meta.get("val") for one in node.all_input_nodes]
    if not all(hasattr(source, "stride") and _is_known(source) for source in sources) or all(map(_is_plain, sources)):
        return None
    if target in VIEWS:
        return _of_view(node, sources[0], like.shape)
    if target in LIKE_SOURCES and node.kwargs.get("memory_format") is None:
        return _of_copy(sources[0])
    if target in (aten.index.Tensor, aten._unsafe_index.Tensor):
        return _of_index(node)
    if target is aten.roll.default:
        return _of_roll(sources[0], *node.args[1:])
    if torch.Tag.pointwise in target.tags and target not in OWN_ORDER and not target._schema.is_mutable:
        return _of_elements(node, like)
    return None


def _of_copy(source: Any) -> tuple[int, ...] | None:
    """The strides of a new tensor that lies as another one, of which PyTorch states others for axes of one element."""
    if source.numel() * source.element_size() > LARGEST:
        return None
    with _disable_current_modes():
        return tuple(torch.empty_like(torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)).stride())


def _of_view(node: FxNode, source: Any, shape: Any) -> tuple[int, ...] | None:
    """The strides of a view, of which PyTorch states others for axes of one element.

    A call that takes a view where the kernel before laid out its result otherwise becomes one that copies.
    """
    is_large = source.numel() * source.element_size() > LARGEST
    with torch.no_grad(), _disable_current_modes():
        stand = _stand(source) if is_large else torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
        try:
            strides = tuple(stand.view(shape).stride())
        except RuntimeError:
            node.target = aten.reshape.default
            return make_contiguous_strides_for(shape)  # type: ignore[no-any-return]
    return None if is_large else strides


def _of_sequences(node: FxNode, like: Any) -> tuple[int, ...]:
    """The strides of a convolution of sequences, whose kernel takes them for images, and copies the source to rows."""
    source, weights = (argument.meta["val"] for argument in node.args[:2])
    formats = {suggest_memory_format(one.unsqueeze(2)) for one in (source.contiguous(), weights)}
    order = torch.channels_last if torch.channels_last in formats else torch.contiguous_format
    with _disable_current_modes():
        made = torch.empty(like.unsqueeze(2).shape, device="meta", memory_format=order)
        return tuple(made.squeeze(2).stride())


def _of_elements(node: FxNode, like: Any) -> tuple[int, ...] | None:
    """The strides of an op on elements: PyTorch orders the axes of all such ops in one way."""
    examples = [
        argument.meta["val"] for argument in (*node.args, *node.kwargs.values()) if isinstance(argument, FxNode)
    ]
    target: Any = node.target
    kinds = [str(argument.type) for argument in target._schema.arguments]
    numbers = sum(
        kind == "Tensor" and type(argument) in (int, float, bool)
        for kind, argument in zip(kinds, node.args, strict=False)
    ) + ("Scalar" in target._overloadname and target not in BARE_NUMBERS)
    examples += [torch.empty((), device="meta")] * numbers  # a number in the place of a tensor is one of the tensors
    if len(examples) not in ON_ELEMENTS:
        return None
    stands = [_stand(one) for one in examples]
    with _disable_current_modes():
        made = ON_ELEMENTS[len(examples)](*stands)
        if made.shape != like.shape:
            return None
        if all(one.shape == like.shape for one in examples):  # the quick way of kernels, which meta tensors do not take
            for order in FORMATS[: 2 if like.dim() == 4 else 1]:
                if all(one.is_contiguous(memory_format=order) for one in examples):
                    return tuple(torch.empty(like.shape, device="meta", memory_format=order).stride())
    return tuple(made.stride())


def _of_roll(source: Any, *ends: Any) -> tuple[int, ...] | None:
    """The strides of elements that were moved along axes, which PyTorch states as dense ones."""
    if source.numel() * source.element_size() > LARGEST:
        return None
    with _disable_current_modes():
        like = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
        return tuple(torch.roll(like, *ends).stride())


def _of_index(node: FxNode) -> tuple[int, ...] | None:
    """The strides of an indexed tensor: those of such a call with zeros as places."""
    source, places = (
        node.args[0].meta["val"],
        [argument if argument is None else argument.meta["val"] for argument in node.args[1]],
    )
    if any(place is not None and place.dtype == torch.bool for place in places) or 0 in source.shape:
        return None
    if source.numel() * source.element_size() > LARGEST:
        return None
    target: Any = node.target
    with torch.no_grad(), _disable_current_modes():
        stand = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
        zeros = [None if place is None else _zeros(place) for place in places]
        return tuple(target(stand, zeros).stride())


def _stand(like: Any) -> Any:
    """A tensor without memory, of the same form."""
    with _disable_current_modes():
        return torch.empty_strided(like.shape, like.stride(), device="meta")


def _zeros(like: Any) -> Any:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).zero_()


def _is_known(like: Any) -> bool:
    return like.layout is torch.strided and all(type(one) is int for one in (*like.shape, *like.stride()))


def _is_plain(like: Any) -> bool:
    """Whether rows lie behind each other, and axes of one element have the strides that say so."""
    return bool(like.stride() == make_contiguous_strides_for(like.shape))


__all__ = ["with_kernel_strides"]
