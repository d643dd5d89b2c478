"""``python -m benchmarks.torch_compile [models]``: torch.compile with onegraph, Inductor and OpenVINO, against eager.

Prints milliseconds of a call, the smallest of several rounds in turn, and the seconds of the first call.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

BACKENDS = ("eager", "onegraph", "inductor", "freezing", "openvino")


def _imported(name: str) -> Any:
    # torchvision's compiled ops do not load beside a build of PyTorch that they do not fit; its models do.
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    return __import__(name, fromlist=["_"])


def _image(name: str, size: int = 224) -> tuple[Any, tuple[Any, ...]]:
    return _imported("torchvision.models").get_model(name, weights=None), (torch.randn(1, 3, size, size),)


def _text(name: str, config: str, tokens: int, **more: Any) -> tuple[Any, tuple[Any, ...]]:
    transformers = _imported("transformers")
    model = getattr(transformers, name)(getattr(transformers, config)(**more))
    return model, (torch.randint(3, 1000, (1, tokens)),)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "tiny": lambda: (torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(1, 16),)),
    "resnet18": lambda: _image("resnet18"),
    "resnet50": lambda: _image("resnet50"),
    "mobilenet_v3_large": lambda: _image("mobilenet_v3_large"),
    "efficientnet_b0": lambda: _image("efficientnet_b0"),
    "densenet121": lambda: _image("densenet121"),
    "vit_b_16": lambda: _image("vit_b_16"),
    "swin_t": lambda: _image("swin_t"),
    "convnext_tiny": lambda: _image("convnext_tiny"),
    "bert": lambda: _text("BertModel", "BertConfig", 128),
    "gpt2": lambda: _text("GPT2LMHeadModel", "GPT2Config", 64, n_layer=6, vocab_size=2000),
    "llama": lambda: _text(
        "LlamaForCausalLM", "LlamaConfig", 64, hidden_size=512, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, intermediate_size=1536, vocab_size=2000,
    ),
}  # fmt: skip


def compiled(module: Any, backend: str) -> Any:
    """The module, compiled by one of BACKENDS."""
    if backend == "eager":
        return module
    if backend == "onegraph":
        import onegraph.torch

        return torch.compile(module, backend=onegraph.torch.backend)
    if backend == "openvino":
        import openvino.torch  # noqa: F401

        return torch.compile(module, backend="openvino", options={"aot_autograd": True})
    return torch.compile(module, options={"freezing": backend == "freezing"})


def measured(name: str, dtype: Any, backends: list[str], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds and seconds of compilation, by backend."""
    found: dict[str, dict[str, float]] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for backend in backends:
        torch.manual_seed(0)
        torch._dynamo.reset()
        module, args = MODELS[name]()
        module = module.eval().to(dtype)
        given = tuple(one.to(dtype) if one.is_floating_point() else one for one in args)
        try:
            model = compiled(module, backend)
            start = time.perf_counter()
            model(*given)
            found[backend] = {"compile": time.perf_counter() - start}
        except Exception as error:
            print(name, backend, f"{type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        calls[backend] = lambda model=model, given=given: model(*given)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for backend, call in calls.items():
            call()
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                start = time.perf_counter()
                call()
                best[backend] = min(best[backend], time.perf_counter() - start)
    for backend, value in best.items():
        found[backend]["ms"] = 1e3 * value
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each round and backend")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    results: dict[str, Any] = {}
    with torch.no_grad():
        for name in options.models or MODELS:
            backends = options.backends.split(",")
            one = measured(name, getattr(torch, options.dtype), backends, options.rounds, options.seconds)
            results[f"{name}/{options.dtype}"] = one
            text = "  ".join(f"{key} {value['ms']:.3f} ms ({value['compile']:.1f} s)" for key, value in one.items())
            print(f"{name:20} {options.dtype}  {text}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
