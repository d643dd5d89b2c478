"""GPT-2 small: 12 layers, each with causal attention and a feed-forward part behind a LayerNorm."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

TOKENS = 128
HEADS = 12
WIDTH = 768
LAYERS = 12
WORDS = 50257


def parameters(width: int = WIDTH, layers: int = LAYERS, words: int = WORDS, tokens: int = TOKENS) -> Parameters:
    """The table of words is the weight of the last layer too."""
    drawn = Initial()
    drawn.table("words", words, width)
    drawn.table("positions", tokens, width)
    for number in range(layers):
        drawn.transformer(width, f"layer{number}_")
    drawn.layer_norm("norm", width)
    return drawn.arrays


def forward(net: Any, words: Any, batch: int, tokens: int = TOKENS, heads: int = HEADS, layers: int = LAYERS) -> Any:
    """The scores of all words, from ``words`` of shape (batch * tokens,)."""
    x = net.embedded(words, "words", "positions", batch)
    for number in range(layers):
        prefix = f"layer{number}_"
        y = net.layer_norm(x, f"{prefix}norm1")
        query, key, value = (
            net.split_heads(net.linear(y, f"{prefix}{name}"), tokens, heads) for name in ("query", "key", "value")
        )
        attended = net.merge_heads(net.attention(query, key, value, causal=True))
        x = net.add(net.linear(attended, f"{prefix}attended"), x)
        y = net.gelu(net.linear(net.layer_norm(x, f"{prefix}norm2"), f"{prefix}wide"))
        x = net.add(net.linear(y, f"{prefix}narrow"), x)
    return net.linear(net.layer_norm(x, "norm"), "words")
