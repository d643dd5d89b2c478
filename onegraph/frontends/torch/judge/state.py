"""The ways in which programs write and replace weights between calls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

TIMES = 4  # a weight is replaced, so that a new one lies where an old one lay


def _each(write: Callable[[Any, Any], object]) -> Callable[[torch.nn.Module, torch.Generator], Iterator[None]]:
    """Write every tensor of the state once."""

    def steps(module: torch.nn.Module, generator: torch.Generator) -> Iterator[None]:
        for tensor in state_of(module):
            write(tensor, _like(tensor, generator))
        yield

    return steps


def state_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters and buffers of floating-point numbers."""
    return [parameter for parameter in [*module.parameters(), *module.buffers()] if parameter.is_floating_point()]


def _like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other numbers of the same size and signs, so that variances stay positive."""
    numbers = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5
    return (tensor.detach().double() * numbers + 0.05 * numbers).to(tensor.dtype)


def _set_data(tensor: Any, value: Any) -> None:
    tensor.data = value


def _numpy(tensor: Any, value: Any) -> None:
    if tensor.dtype is torch.bfloat16:  # numpy has none
        torch.from_dlpack(tensor.detach()).copy_(value)
    else:
        tensor.detach().numpy()[...] = value.numpy()


def _in_place(tensor: Any, value: Any) -> None:
    with torch.no_grad():
        tensor.copy_(value)


def _replaced(module: torch.nn.Module, generator: torch.Generator) -> Iterator[None]:
    """New parameters, several times; the old ones are freed first, so that the new ones lie in the same place."""
    first = {name: one.detach().clone() for name, one in module.named_parameters(remove_duplicate=False)}
    for _ in range(TIMES):
        for path, owner in module.named_modules():
            for name, old in [*owner.named_parameters(recurse=False)]:
                value, needed = _like(first[f"{path}.{name}" if path else name], generator), old.requires_grad
                delattr(owner, name)
                del old
                setattr(owner, name, torch.nn.Parameter(value.clone(), requires_grad=needed))
        gc.collect()
        yield


def _loaded(module: torch.nn.Module, generator: torch.Generator) -> Iterator[None]:
    stored = {
        name: _like(tensor, generator) if torch.is_tensor(tensor) and tensor.is_floating_point() else tensor
        for name, tensor in module.state_dict().items()
    }
    module.load_state_dict(stored)
    yield


def _spoilt(module: torch.nn.Module, generator: torch.Generator) -> Iterator[None]:
    """A NaN in each parameter, as a model has that diverged."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel():
                parameter[(0,) * parameter.dim()] = float("nan")
    yield


# By the name that a finding gives: writes, and yields before each call that must see them.
WRITES: Mapping[str, Callable[[torch.nn.Module, torch.Generator], Iterator[None]]] = MappingProxyType(
    {
        "weights written in place": _each(_in_place),
        "weights written through .data": _each(lambda tensor, value: tensor.data.copy_(value)),
        "weights with other .data": _each(_set_data),
        "weights written through detach()": _each(lambda tensor, value: tensor.detach().copy_(value)),
        "weights written through numpy": _each(_numpy),
        "weights written by foreach": _each(lambda tensor, value: torch._foreach_copy_([tensor.data], [value])),
        "weights from load_state_dict": _loaded,
        "new parameters": _replaced,
        "a NaN in each parameter": _spoilt,
    }
)

__all__ = ["WRITES", "state_of"]
