"""Calls a module, and keeps everything that a caller can see of the call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

Tensors = dict[str, torch.Tensor]


@dataclass
class ObservedCall:
    """What a caller sees of one call.

    Attributes:
        results: by name: the outputs, the buffers after the call, and the inputs that were written.
        gradients: by name of a parameter or input; None where there is none.
        memory: pairs of names whose tensors share memory; at least one of them is an output.
        requires_grad: the outputs that require a gradient.
        error: the error that the call raised instead.
    """

    results: Tensors = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    memory: frozenset[tuple[str, str]] = frozenset()
    requires_grad: frozenset[str] = frozenset()
    error: Exception | None = None


@dataclass
class Subject:
    """A module, or a function, that is called with arguments.

    Attributes:
        function: the module itself, or what ``torch.compile`` made of it.
        module: the module with the parameters and buffers; None for a function.
    """

    function: Callable[..., Any]
    module: torch.nn.Module | None

    def state(self) -> Tensors:
        """The parameters and buffers, by name; each once."""
        if self.module is None:
            return {}
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def wide(self) -> Subject | None:
        """A copy in float64; None if there is none."""
        if self.module is None:
            return self
        try:
            module = copy.deepcopy(self.module).double()
        except Exception:  # a module may hold anything
            return None
        return Subject(module, module)


def tensors_of(tree: Any, root_name: str) -> Tensors:
    """The tensors in nested lists, tuples and dictionaries, by names such as ``output[0]``."""
    pairs = pytree.tree_flatten_with_path(tree)[0]
    return {f"{root_name}{pytree.keystr(path)}": leaf for path, leaf in pairs if torch.is_tensor(leaf)}


def mapped(tree: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """A tree with other tensors."""
    return pytree.tree_map(lambda leaf: function(leaf) if torch.is_tensor(leaf) else leaf, tree)


def fresh(arguments: Any, *, gradients: bool) -> Any:
    """Copies of the arguments in their layouts; those of floating-point numbers require gradients if asked."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        made = tensor.detach().clone()
        return made.requires_grad_() if gradients and made.is_floating_point() else made

    return mapped(arguments, copied)


def call(
    subject: Subject,
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    *,
    gradients: bool,
    seed: int,
    within: AbstractContextManager[Any] | None = None,
) -> ObservedCall:
    """Call, with gradients of all parameters and inputs if asked, on copies of the arguments and of the buffers.

    Args:
        subject: what is called.
        arguments: its arguments.
        gradients: whether gradients are computed.
        seed: of the random numbers that the module draws, and of the gradients of its outputs.
        within: a context around the computation.
    """
    observed = ObservedCall()
    args, kwargs = inputs_of_call = fresh(arguments, gradients=gradients)
    before = mapped(inputs_of_call, lambda tensor: tensor.detach().clone())
    inputs = tensors_of(inputs_of_call, "input")
    with kept_buffers(subject.module), torch.set_grad_enabled(gradients):
        torch.manual_seed(seed)
        try:
            with within or nullcontext():
                outputs = tensors_of(subject.function(*args, **kwargs), "output")
                observed.results.update({name: tensor.detach().clone() for name, tensor in outputs.items()})
                observed.requires_grad = frozenset(name for name, tensor in outputs.items() if tensor.requires_grad)
                observed.memory = _shared(outputs, {**inputs, **subject.state()})
                if gradients:
                    observed.gradients = _gradients(subject, inputs, outputs, seed)
        except Exception as error:  # whatever a module raises is a result, too
            observed.error = error
            return observed
        if subject.module is not None:
            buffers = subject.module.named_buffers()
            observed.results.update({f"buffer {name}": tensor.detach().clone() for name, tensor in buffers})
    for name, old in tensors_of(before, "input").items():
        if not torch.equal(old.nan_to_num(), inputs[name].detach().nan_to_num()):
            observed.results[f"{name} after the call"] = inputs[name].detach().clone()
    return observed


def _gradients(subject: Subject, inputs: Tensors, outputs: Tensors, seed: int) -> dict[str, torch.Tensor | None]:
    """The gradients of the outputs, each times random numbers, by the parameters and inputs."""
    sources = {name: tensor for name, tensor in {**subject.state(), **inputs}.items() if tensor.requires_grad}
    ends = [tensor for tensor in outputs.values() if tensor.requires_grad and tensor.is_floating_point()]
    if not sources or not ends:
        return {}
    seeds = [_cotangent(tensor, seed + place) for place, tensor in enumerate(ends)]
    gradients = torch.autograd.grad(ends, [*sources.values()], seeds, allow_unused=True)
    return dict(zip(sources, gradients, strict=True))


def _cotangent(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """The same random numbers for every data type that the output may have."""
    numbers = np.random.default_rng(seed).standard_normal(tuple(tensor.shape)).astype(np.float16)
    return torch.from_numpy(np.asarray(numbers)).to(tensor.dtype)


def _shared(outputs: Tensors, also: Tensors) -> frozenset[tuple[str, str]]:
    """The pairs of names whose tensors share memory."""
    places = {name: _memory(tensor) for name, tensor in {**also, **outputs}.items()}
    return frozenset(
        (name, second)
        for name in outputs
        for second in places
        if name != second
        and places[name]
        and places[name] == places[second]
        and (second not in outputs or name < second)
    )


def _memory(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr() if tensor.numel() else 0
    except (RuntimeError, NotImplementedError):  # sparse tensors have no storage
        return 0


@contextmanager
def kept_buffers(module: torch.nn.Module | None) -> Iterator[None]:
    """Give the buffers of a module their contents back at the end, so that each call starts alike."""
    buffers = [] if module is None else [*module.buffers()]
    saved = [buffer.detach().clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(buffers, saved, strict=True):
                buffer.copy_(old)


__all__ = ["ObservedCall", "Subject", "call", "fresh", "kept_buffers", "mapped", "tensors_of"]
