"""DCGAN: ConvTransposes from 100 numbers to an image of 64x64, and Convolutions from an image to one score."""

from __future__ import annotations

from typing import Any

from .parameters import Initial, Parameters

NOISE = 100
WIDTH = 64
SIZE = 64


def parameters(width: int = WIDTH, noise: int = NOISE) -> Parameters:
    """The parameters of the generator."""
    drawn = Initial()
    source = noise
    for number, channels in enumerate((8 * width, 4 * width, 2 * width, width)):
        drawn.weight(f"up{number}", (source, channels, 4, 4), source * 16 if number == 0 else source * 4)
        drawn.norm(f"up{number}", channels)
        source = channels
    drawn.weight("image", (source, 3, 4, 4), source * 4)
    return drawn.arrays


def both_parameters(width: int = WIDTH, noise: int = NOISE) -> Parameters:
    """The parameters of the generator, and those of the discriminator, which begin with ``judge``."""
    drawn = Initial(1)
    source = 3
    for number, channels in enumerate((width, 2 * width, 4 * width, 8 * width)):
        drawn.weight(f"judge{number}", (channels, source, 4, 4), source * 16)
        if number > 0:
            drawn.norm(f"judge{number}", channels)
        source = channels
    drawn.weight("judge_score", (1, source, 4, 4), source * 16)
    return parameters(width, noise) | drawn.arrays


def shape(batch: int, noise: int = NOISE) -> tuple[int, ...]:
    return (batch, 1, 1, noise)


def forward(net: Any, x: Any) -> Any:
    """The generator."""
    x = net.relu(net.conv_transpose(x, "up0", stride=1, pad=0))
    for number in range(1, 4):
        x = net.relu(net.conv_transpose(x, f"up{number}", stride=2, pad=1))
    return net.tanh(net.conv_transpose(x, "image", stride=2, pad=1))


def judged(net: Any, image: Any) -> Any:
    """The discriminator: a score, positive for a real image."""
    x = image
    for number in range(4):
        x = net.leaky_relu(net.conv(x, f"judge{number}", stride=2, pad=1))
    return net.conv(x, "judge_score")
