"""Speed up a ResNet of torchvision with one word, and print what ran where."""

import time

import torch
import torchvision

import onegraph.torch

model = torchvision.models.resnet50().eval()
image = torch.randn(1, 3, 224, 224)


def milliseconds(call):
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call(image)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


with torch.no_grad():
    faster = torch.compile(model, backend="onegraph")
    difference = (faster(image) - model(image)).abs().max()
    print(f"difference {difference:.1e}")
    print(f"PyTorch {milliseconds(model):.1f} ms, onegraph {milliseconds(faster):.1f} ms")
    print(onegraph.torch.stats())
