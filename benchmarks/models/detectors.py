"""Two networks in PyTorch with the parts of well-known ones: a detector like YOLO, and a U-Net."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Conv(nn.Sequential):
    """Convolution, normalization, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
        )


class Bottleneck(nn.Module):
    """Two convolutions, with a way around both."""

    def __init__(self, width: int, around: bool) -> None:
        super().__init__()
        self.first, self.second, self.around = Conv(width, width, 3), Conv(width, width, 3), around

    def forward(self, x: Any) -> Any:
        return x + self.second(self.first(x)) if self.around else self.second(self.first(x))


class Stage(nn.Module):
    """A cross stage partial block: half of the channels pass the bottlenecks, and all results are joined."""

    def __init__(self, inputs: int, outputs: int, count: int, around: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.last = Conv(inputs, outputs), Conv((2 + count) * half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, around) for _ in range(count))

    def forward(self, x: Any) -> Any:
        parts = [*self.first(x).chunk(2, 1)]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Poolings of growing size, joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = Conv(width, width // 2), Conv(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Any) -> Any:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector: a backbone, a neck that goes up and down again, and three heads whose boxes are decoded."""

    def __init__(self, width: int = 32, classes: int = 80, bins: int = 16) -> None:
        super().__init__()
        w, self.classes, self.bins = width, classes, bins
        self.stem = nn.Sequential(Conv(3, w, 3, 2), Conv(w, 2 * w, 3, 2), Stage(2 * w, 2 * w, 1))
        self.to8 = nn.Sequential(Conv(2 * w, 4 * w, 3, 2), Stage(4 * w, 4 * w, 2))
        self.to16 = nn.Sequential(Conv(4 * w, 8 * w, 3, 2), Stage(8 * w, 8 * w, 2))
        self.to32 = nn.Sequential(Conv(8 * w, 16 * w, 3, 2), Stage(16 * w, 16 * w, 1), Pyramid(16 * w))
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.up16, self.up8 = Stage(24 * w, 8 * w, 1, False), Stage(12 * w, 4 * w, 1, False)
        self.down16, self.join16 = Conv(4 * w, 4 * w, 3, 2), Stage(12 * w, 8 * w, 1, False)
        self.down32, self.join32 = Conv(8 * w, 8 * w, 3, 2), Stage(24 * w, 16 * w, 1, False)
        widths = (4 * w, 8 * w, 16 * w)
        self.boxes = nn.ModuleList(self._head(one, 2 * w, 4 * bins) for one in widths)
        self.scores = nn.ModuleList(self._head(one, 4 * w, classes) for one in widths)
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32).reshape(1, bins, 1, 1))

    @staticmethod
    def _head(inputs: int, width: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(Conv(inputs, width, 3), Conv(width, width, 3), nn.Conv2d(width, outputs, 1))

    def forward(self, x: Any) -> Any:
        eight = self.to8(self.stem(x))
        sixteen = self.to16(eight)
        last = self.to32(sixteen)
        middle = self.up16(torch.cat([self.up(last), sixteen], 1))
        fine = self.up8(torch.cat([self.up(middle), eight], 1))
        middle = self.join16(torch.cat([self.down16(fine), middle], 1))
        coarse = self.join32(torch.cat([self.down32(middle), last], 1))
        return torch.cat([self._decoded(place, one) for place, one in enumerate((fine, middle, coarse))], 2)

    def _decoded(self, place: int, x: Any) -> Any:
        """Centers, sizes and scores of the boxes of one head, in pixels."""
        batch, _, height, width = x.shape
        stride = 8 * 2**place
        bins = self.boxes[place](x).reshape(batch, 4, self.bins, height * width).transpose(1, 2)
        distances = (bins.softmax(1) * self.steps).sum(1)
        rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        anchors = torch.stack([columns.reshape(-1), rows.reshape(-1)]).unsqueeze(0)
        low, high = distances.chunk(2, 1)
        begin, end = anchors - low, anchors + high
        boxes = torch.cat([(begin + end) / 2, end - begin], 1) * stride
        return torch.cat([boxes, self.scores[place](x).flatten(2).sigmoid()], 1)


class UNet(nn.Module):
    """A U-Net whose decoder goes up by transposed convolutions."""

    def __init__(self, width: int = 32, depth: int = 4, classes: int = 4) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            self._block(inputs, outputs) for inputs, outputs in zip([3, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(one, one // 2, 2, 2) for one in widths[:0:-1])
        self.join = nn.ModuleList(self._block(one, one // 2) for one in widths[:0:-1])
        self.last = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for one in (inputs, outputs):
            layers += [nn.Conv2d(one, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        kept = []
        for block in self.down[:-1]:
            kept.append(block(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.last(x).softmax(1)
