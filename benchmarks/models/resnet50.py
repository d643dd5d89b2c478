"""ResNet-50 v1.5: the stride of a stage is in its first 3x3 convolution."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

SIZE = 224
BLOCKS = (3, 4, 6, 3)
WIDTH = 64


def parameters(blocks: tuple[int, ...] = BLOCKS, width: int = WIDTH, classes: int = 1000) -> Parameters:
    drawn = Initial()

    def convolution(name: str, out: int, source: int, kernel: int, scale: float = 1.0) -> None:
        drawn.weight(name, (out, source, kernel, kernel), source * kernel * kernel)
        drawn.norm(name, out, scale)

    convolution("stem", width, 3, 7)
    source = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            name = f"stage{stage}_{block}"
            if block == 0:
                convolution(f"{name}_shortcut", 4 * inner, source, 1)
            convolution(f"{name}_a", inner, source, 1)
            convolution(f"{name}_b", inner, inner, 3)
            convolution(f"{name}_c", 4 * inner, inner, 1, 0.3)  # small, so that the sums of blocks do not grow
            source = 4 * inner
    drawn.weight("classes", (classes, source), source)
    drawn.bias("classes", classes)
    return drawn.arrays


def shape(batch: int, size: int = SIZE) -> tuple[int, ...]:
    return (batch, size, size, 3)


def forward(net: Any, image: Any, blocks: tuple[int, ...] = BLOCKS) -> Any:
    x = net.max_pool(net.relu(net.conv(image, "stem", stride=2, pad=3)), kernel=3, stride=2, pad=1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            name = f"stage{stage}_{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.relu(net.conv(x, f"{name}_a"))
            y = net.relu(net.conv(y, f"{name}_b", stride=stride, pad=1))
            shortcut = net.conv(x, f"{name}_shortcut", stride=stride) if block == 0 else x
            x = net.relu(net.add(net.conv(y, f"{name}_c"), shortcut))
    return net.linear(net.mean(x), "classes")
