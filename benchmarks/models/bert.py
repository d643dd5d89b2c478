"""BERT-base: attention with 12 heads and a feed-forward part in each layer, each with a residual and a LayerNorm."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

TOKENS = 128
HEADS = 12
WIDTH = 768
LAYERS = 12
WORDS = 30522
CLASSES = 2


def parameters(width: int = WIDTH) -> Parameters:
    """The parameters of one layer."""
    drawn = Initial()
    drawn.transformer(width)
    return drawn.arrays


def whole_parameters(
    width: int = WIDTH, layers: int = LAYERS, words: int = WORDS, tokens: int = TOKENS, classes: int = CLASSES
) -> Parameters:
    """The parameters of a classifier: embeddings, layers, the pooled first token, and the classes."""
    drawn = Initial()
    drawn.table("words", words, width)
    drawn.table("positions", tokens, width)
    drawn.layer_norm("norm", width)
    for number in range(layers):
        drawn.transformer(width, f"layer{number}_")
    for name, wide in (("pooled", width), ("classes", classes)):
        drawn.linear(name, wide, width)
    return drawn.arrays


def shape(batch: int, tokens: int = TOKENS, width: int = WIDTH) -> tuple[int, ...]:
    """The tokens of all sequences, as the rows of one matrix."""
    return (batch * tokens, width)


def forward(net: Any, x: Any, tokens: int = TOKENS, heads: int = HEADS, prefix: str = "") -> Any:
    """One layer."""

    def linear(x: Any, name: str) -> Any:
        return net.linear(x, f"{prefix}{name}")

    query, key, value = (net.split_heads(linear(x, name), tokens, heads) for name in ("query", "key", "value"))
    attended = linear(net.merge_heads(net.attention(query, key, value)), "attended")
    x = net.layer_norm(net.add(attended, x), f"{prefix}norm1")
    return net.layer_norm(net.add(linear(net.gelu(linear(x, "wide")), "narrow"), x), f"{prefix}norm2")


def classifier(net: Any, words: Any, batch: int, tokens: int = TOKENS, heads: int = HEADS, layers: int = LAYERS) -> Any:
    """The scores of the classes, from ``words`` of shape (batch * tokens,)."""
    x = net.layer_norm(net.embedded(words, "words", "positions", batch), "norm")
    for number in range(layers):
        x = forward(net, x, tokens, heads, f"layer{number}_")
    return net.linear(net.tanh(net.linear(net.first_tokens(x, batch), "pooled")), "classes")
