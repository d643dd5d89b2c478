"""Takes apart the ops in which PyTorch runs whole attention layers in inference, so that their parts run here.

``torch.nn.MultiheadAttention`` and ``torch.nn.TransformerEncoderLayer`` call them where no gradient is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import flex_attention
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten
# What a mask is of: queries and keys; the keys of each batch; the whole scores.
OF_KEYS = 1


def _seen(mask: Any, kind: int | None) -> Any:
    """Which keys a query sees, to broadcast with scores (batch, heads, queries, keys); None for all of them.

    Args:
        mask: True for what is hidden; numbers count as True unless they are 0.
        kind: what the mask is of.
    """
    if mask is None:
        return None
    hidden = mask if mask.dtype == torch.bool else mask != 0
    if kind == OF_KEYS:
        batch, keys = hidden.shape
        hidden = aten.view.default(hidden, [batch, 1, 1, keys])
    return aten.logical_not.default(hidden)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Attention with several heads over (batch, tokens, features); the result, and the weights if they are needed."""
    width = embed_dim // num_head

    def heads(source: Any, place: int) -> Any:
        weight, bias = (one.narrow(0, place * embed_dim, embed_dim) for one in (qkv_weight, qkv_bias))
        made = torch.nn.functional.linear(source, weight, bias)
        return made.reshape(*source.shape[:2], num_head, width).transpose(1, 2)

    parts = [heads(source, place) for place, source in enumerate((query, key, value))]
    seen = _seen(mask, mask_type)
    weights = None
    if not need_weights:
        attended = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen)
    else:
        scores = (parts[0] * width**-0.5) @ parts[1].transpose(-1, -2)
        if seen is not None:
            scores = torch.where(seen, scores, -float("inf"))
        weights = torch._safe_softmax(scores, -1)
        attended = weights @ parts[2]
        if average_attn_weights:
            weights = weights.sum(1) / num_head
    joined = attended.transpose(1, 2).reshape(*query.shape[:2], embed_dim)
    result = torch.nn.functional.linear(joined, proj_weight, proj_bias)
    return result, query.new_empty(0) if weights is None else weights


def _encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """A layer of an encoder: attention, two linear layers, and sums and normalizations around both."""
    functional = torch.nn.functional

    def normalized(source: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(source, [embed_dim], weight, bias, eps)

    def attended(source: Any) -> Any:
        weights = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _attention(source, source, source, embed_dim, num_heads, *weights, mask, False, True, mask_type)[0]

    def fed(source: Any) -> Any:
        inner = functional.linear(source, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    if norm_first:
        middle = src + attended(normalized(src, norm_weight_1, norm_bias_1))
        return middle + fed(normalized(middle, norm_weight_2, norm_bias_2))
    middle = normalized(src + attended(src), norm_weight_1, norm_bias_1)
    return normalized(middle + fed(middle), norm_weight_2, norm_bias_2)


def dense_attention(*args: Any, **named: Any) -> Any:
    """What ``flex_attention`` computes, in the ops that PyTorch runs without compilation."""
    with _filled_numbers():
        return flex_attention.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd](*args, **named)


class _filled_numbers(TorchFunctionMode):  # noqa: N801 - used as a function
    """Makes tensors of one number by an op, because exported programs have no place for other constants."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tensor and type(args[0]) is float:
            return torch.full((), *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


FAST_PATHS: Mapping[Any, Callable[..., Any]] = {
    aten._native_multi_head_attention.default: _attention,
    aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}

__all__ = ["FAST_PATHS", "dense_attention", "flex_attention"]
