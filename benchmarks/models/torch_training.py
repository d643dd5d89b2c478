"""The training steps in PyTorch, eager and compiled, with the fused optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from .optimizers import Optimizer
from .parameters import Parameters
from .torch_network import TorchNetwork


class TorchTraining(TorchNetwork):
    """The layers of a model that is trained in f32, or in bf16 by autocast.

    Args:
        parameters: as for :class:`TorchNetwork`.
        optimizer: one for all parameters.
        is_narrow: bf16.
        is_compiled: whether ``call`` compiles what it runs.
    """

    def __init__(self, parameters: Parameters, optimizer: Optimizer, is_narrow: bool, is_compiled: bool) -> None:
        super().__init__(parameters, lambda net, x: x)
        self._optimizer, self._is_narrow, self._is_compiled = optimizer, is_narrow, is_compiled
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._optimizers: dict[tuple[str, ...], torch.optim.Optimizer] = {}
        self.train()

    def rows(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1]) if x.ndim == 4 else x

    def cross_entropy(self, x: Any, label: Any) -> Any:
        return F.cross_entropy(x, label)

    def judgement(self, x: Any, target: int) -> Any:
        return F.binary_cross_entropy_with_logits(x.float(), torch.full_like(x, target, dtype=torch.float32))

    def detached(self, x: Any) -> Any:
        return x.detach()

    def call(self, function: Callable[..., Any], *inputs: Any, frozen: str = "") -> Any:
        run = self._compiled.get(function.__name__)
        if run is None:
            run = self._compiled[function.__name__] = torch.compile(function) if self._is_compiled else function
        fixed = [one for name, one in self.named_parameters() if frozen and name.startswith(frozen)]
        for one in fixed:
            one.requires_grad_(False)
        with torch.autocast("cpu", torch.bfloat16, enabled=self._is_narrow):
            found = run(self, *inputs)
        for one in fixed:
            one.requires_grad_(True)
        return found

    def update(self, loss: Any, *prefixes: str) -> None:
        """Follow the gradient of a loss with respect to the parameters with these prefixes, or to all."""
        if prefixes not in self._optimizers:
            chosen = [one for name, one in self.named_parameters() if not prefixes or name.startswith(prefixes)]
            self._optimizers[prefixes] = made(self._optimizer, chosen)
        loss.backward()
        self._optimizers[prefixes].step()
        self._optimizers[prefixes].zero_grad(set_to_none=True)


def made(optimizer: Optimizer, parameters: list[Any]) -> torch.optim.Optimizer:
    if optimizer.kind == "SGD":
        return torch.optim.SGD(parameters, optimizer.rate, optimizer.momentum, fused=True)
    kind = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}[optimizer.kind]
    decay = {"weight_decay": optimizer.decay} if optimizer.kind == "AdamW" else {}
    return kind(parameters, optimizer.rate, optimizer.betas, optimizer.epsilon, fused=True, **decay)


def tensors(given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as tensors; images are NCHW in the memory format channels_last."""
    found = {name: torch.from_numpy(array) for name, array in given.items()}
    return {name: one.permute(0, 3, 1, 2) if one.ndim == 4 else one for name, one in found.items()}
