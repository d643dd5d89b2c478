"""The network of a diffusion model: residual blocks with GroupNorm and SiLU, attention, down and up, a step in time."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.functional import interpolate, silu


class Residual(nn.Module):
    """Two convolutions behind norms; the embedded time is added between."""

    def __init__(self, narrow: int, wide: int, time: int, groups: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(groups, narrow), nn.GroupNorm(groups, wide)])
        self.first, self.second = nn.Conv2d(narrow, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.time, self.past = nn.Linear(time, wide), nn.Conv2d(narrow, wide, 1)

    def forward(self, x: Any, time: Any) -> Any:
        y = self.first(silu(self.norms[0](x))) + self.time(silu(time))[:, :, None, None]
        return self.past(x) + self.second(silu(self.norms[1](y)))


class Attention(nn.Module):
    """Attention of all pixels to one another, spelled out."""

    def __init__(self, width: int, groups: int, heads: int = 4) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(groups, width), heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        tokens = self.project(self.norm(x).flatten(2).transpose(1, 2))
        query, key, value = tokens.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        shares = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), -1)
        mixed = self.out((shares @ value).transpose(1, 2).flatten(2))
        return x + mixed.transpose(1, 2).unflatten(2, x.shape[2:])


class DiffusionUNet(nn.Module):
    """Two levels over latent images of 4 channels; the arguments are the image and the number of the step."""

    def __init__(self, width: int = 64, groups: int = 32) -> None:
        super().__init__()
        time, wide, self.width = 4 * width, 2 * width, width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.before, self.inner = Residual(width, width, time, groups), Residual(width, wide, time, groups)
        self.middle, self.outer = Residual(wide, wide, time, groups), Residual(2 * wide, wide, time, groups)
        self.after, self.norm = Residual(wide, width, time, groups), nn.GroupNorm(groups, width)
        self.seen, self.again = Attention(wide, groups), Attention(wide, groups)
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(wide, width, 3, padding=1)

    def forward(self, image: Any, step: Any) -> Any:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / half))
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1).to(image.dtype))
        fine = self.before(self.first(image), time)
        coarse = self.seen(self.inner(self.down(fine), time))
        joined = torch.cat([self.middle(coarse, time), coarse], 1)
        found = self.up(interpolate(self.again(self.outer(joined, time)), scale_factor=2.0, mode="nearest"))
        return self.last(silu(self.norm(self.after(torch.cat([found, fine], 1), time))))
