"""A U-Net with four levels: convolutions down, transposed convolutions up, and a Concat at each level."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

SIZE = 128
WIDTH = 32
LEVELS = 4
CLASSES = 4


def parameters(width: int = WIDTH, levels: int = LEVELS, classes: int = CLASSES) -> Parameters:
    drawn = Initial()

    def block(name: str, source: int, out: int) -> None:
        for part in "ab":
            drawn.weight(f"{name}_{part}", (out, source, 3, 3), 9 * source)
            drawn.norm(f"{name}_{part}", out)
            source = out

    source = 3
    for level in range(levels + 1):
        block(f"down{level}", source, width << level)
        source = width << level
    for level in range(levels - 1, -1, -1):
        drawn.weight(f"up{level}", (source, source // 2, 2, 2), source)
        drawn.bias(f"up{level}", source // 2)
        block(f"join{level}", source, source // 2)
        source //= 2
    drawn.weight("classes", (classes, source, 1, 1), source)
    drawn.bias("classes", classes)
    return drawn.arrays


def shape(batch: int, size: int = SIZE) -> tuple[int, ...]:
    return (batch, size, size, 3)


def forward(net: Any, image: Any, levels: int = LEVELS) -> Any:
    """The scores of the classes of every pixel."""

    def block(x: Any, name: str) -> Any:
        for part in "ab":
            x = net.relu(net.conv(x, f"{name}_{part}", pad=1))
        return x

    x, kept = image, []
    for level in range(levels):
        kept.append(block(x, f"down{level}"))
        x = net.max_pool(kept[-1], kernel=2, stride=2, pad=0)
    x = block(x, f"down{levels}")
    for level in range(levels - 1, -1, -1):
        x = block(net.concat([net.conv_transpose(x, f"up{level}", stride=2, pad=0), kept.pop()]), f"join{level}")
    return net.conv(x, "classes")
