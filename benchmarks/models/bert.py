"""A layer of BERT-base: attention with 12 heads and a feed-forward part, each with a residual and a LayerNorm."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

TOKENS = 128
HEADS = 12
WIDTH = 768


def parameters(width: int = WIDTH) -> Parameters:
    drawn = Initial()
    linear = dict.fromkeys(("query", "key", "value", "attended"), (width, width))
    linear |= {"wide": (4 * width, width), "narrow": (width, 4 * width)}
    for name, shape in linear.items():
        drawn.weight(name, shape, 2 * shape[1])
        drawn.bias(name, shape[0])
    for name in ("norm1", "norm2"):
        drawn.gain(f"{name}_gamma", width)
        drawn.bias(name, width)
    return drawn.arrays


def shape(batch: int, tokens: int = TOKENS, width: int = WIDTH) -> tuple[int, ...]:
    """The tokens of all sequences, as the rows of one matrix."""
    return (batch * tokens, width)


def forward(net: Any, x: Any, tokens: int = TOKENS, heads: int = HEADS) -> Any:
    query, key, value = (net.split_heads(net.linear(x, name), tokens, heads) for name in ("query", "key", "value"))
    attended = net.linear(net.merge_heads(net.attention(query, key, value)), "attended")
    x = net.layer_norm(net.add(attended, x), "norm1")
    return net.layer_norm(net.add(net.linear(net.gelu(net.linear(x, "wide")), "narrow"), x), "norm2")
