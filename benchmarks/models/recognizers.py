"""A network that reads lines of text, as those of scanners and meters do. Its weights are random."""

from __future__ import annotations

import torch
from torch import nn


class Crnn(nn.Module):
    """Convolutions over a line of text, and two layers of an LSTM in both directions over its columns."""

    def __init__(self, letters: int = 97, units: int = 256) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for channels, pool in ((64, (2, 2)), (128, (2, 2)), (256, (2, 1)), (512, (2, 1)), (512, (2, 1))):
            layers += [
                nn.Conv2d(before, channels, 3, padding=1, bias=False),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.MaxPool2d(pool),
            ]
            before = channels
        self.columns = nn.Sequential(*layers)
        self.steps = nn.LSTM(before, units, 2, bidirectional=True)
        self.letters = nn.Linear(2 * units, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.columns(x).squeeze(2).permute(2, 0, 1)  # (steps, batch, channels)
        found: torch.Tensor = self.letters(self.steps(columns)[0])
        return found
