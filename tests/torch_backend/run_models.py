"""``python -m tests.torch_backend.run_models FAMILY [NAMES]``: compiled models against eager, with what ran where.

The exit status is 1 if a model fails, breaks, or is further from float64 than eager allows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import onegraph.torch

from .models import FAMILIES, Made, models

LIMIT = 3.0  # how much further from float64 than eager's a result may be


def tensors(value: Any) -> Iterator[Any]:
    """The floating-point tensors in the result of a model."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors(one)


def cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def rms(tensor: Any) -> float:
    """The root of the mean square of the elements."""
    return float(tensor.square().mean().sqrt())


def checked(make: Callable[[], Made], dtype: Any) -> dict[str, Any]:
    """How far compiled results are from those in float64, in units of how far eager's are; and what ran where.

    A distance is the root of the mean square, because the largest difference of one seed is a matter of luck.
    """
    torch.manual_seed(0)
    torch._dynamo.reset()
    onegraph.torch.reset()
    module, args, kwargs = make()
    module.eval()
    with torch.no_grad():
        for one in module.parameters():  # a result of zeros, or a branch that adds nothing, would prove nothing
            if not one.any():
                torch.nn.init.normal_(one, std=0.02)
        module = module.double()
        exact = [one.clone() for one in tensors(module(*[cast(one, torch.float64) for one in args], **kwargs))]
        module, args = module.to(dtype), tuple(cast(one, dtype) for one in args)
        try:
            eager = [one.double() for one in tensors(module(*args, **kwargs))]
        except NotImplementedError as error:
            return {"impossible": f"PyTorch: {error}"}
        compiled = torch.compile(module, backend=onegraph.torch.backend)
        start = time.perf_counter()
        results = [*tensors(compiled(*args, **kwargs))]
        seconds = time.perf_counter() - start
        again = [one.double() for one in tensors(compiled(*args, **kwargs))]
    worst = 0.0
    for one, other, right in zip(again, eager, exact, strict=True):
        scale = rms(right)
        if not scale:
            raise ValueError("a result of zeros")
        own, theirs = (rms(found - right) for found in (one, other))
        worst = max(worst, own / (theirs + 1e-7 * scale), float(not torch.isfinite(one).all()) * 1e9)
    del results
    return {"error": worst, "seconds": seconds, **onegraph.torch.stats().to_dict()}


def is_right(one: dict[str, Any]) -> bool:
    """Whether a model was compiled as one graph, with a result as exact as eager's; or PyTorch has no kernel for it."""
    return "impossible" in one or ("failed" not in one and one["error"] <= LIMIT and not one["breaks"])


def told(one: dict[str, Any]) -> str:
    """One line about a model."""
    if text := one.get("failed") or one.get("impossible"):
        return str(text)
    left = ", ".join(f"{call['count']} {call['op']} ({call['reason'][:60]})" for call in one["left"])
    breaks = f", breaks: {one['breaks']}" if one["breaks"] else ""
    numbers = f"error {one['error']:.2f}, {one['seconds']:.1f} s, {one['graphs']} graphs, {one['partitions']} parts"
    return f"{numbers}, {one['share']:.1%}{breaks}, left: {left}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch._dynamo.config.allow_rnn = True  # otherwise each LSTM ends a graph
    start = time.perf_counter()
    found: dict[str, Any] = {}
    wrong = []
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text())
    for name, make in models(options.family).items():
        key = f"{options.family}/{name}/{options.dtype}"
        if options.names and name not in options.names:
            continue
        if key in found and not options.names:
            wrong += [] if is_right(found[key]) else [name]
            continue
        if time.perf_counter() - start > options.seconds:
            print("more to do")
            break
        try:
            found[key] = checked(make, getattr(torch, options.dtype))
        except Exception as error:
            if options.names:
                traceback.print_exc()
            found[key] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(name, told(found[key]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
        wrong += [] if is_right(found[key]) else [name]
    if wrong:
        sys.exit(f"{len(wrong)} models are wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
