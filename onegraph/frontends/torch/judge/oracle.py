"""What eager PyTorch gives: in float64, in the data types of the module, and with rounding errors in every op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ....judging.comparison import ROUNDINGS, Answer, compare
from ....judging.judgement import Finding
from .calls import ObservedCall, Subject, call, mapped, tensors_of

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
DISTURBED = 2  # runs
RANDOM = 50.0  # factor on the allowed error where a module draws random numbers, so that float64 draws others
# Ops with an absolute error of some millionths in the library, also for results near 0: docs/safety.md.
INEXACT = (
    *("erf", "elu_backward", "gelu_backward", "sigmoid_backward", "tanh_backward"),
    *("mish_backward", "softplus_backward"),
)
INEXACTNESS = 2.0**-19


class Disturbance(TorchDispatchMode):
    """Changes the float64 results of each op by about one rounding to another data type."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self.unit, self.generator = unit, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if all(one.alias_info is None for one in func._schema.returns):
            absolute = INEXACTNESS if func._schema.name.removeprefix("aten::") in INEXACT else 0.0
            mapped(result, lambda tensor: self.disturb(tensor, absolute))
        return result

    def disturb(self, tensor: torch.Tensor, absolute: float = 0.0) -> torch.Tensor:
        """Change a tensor in place."""
        if tensor.dtype is torch.float64 and tensor.layout is torch.strided:
            noise = 2 * torch.rand(tensor.shape, generator=self.generator, dtype=tensor.dtype) - 1
            tensor.mul_(1 + self.unit * noise).add_(absolute * noise)
        return tensor


class EagerOracle:
    """Eager PyTorch for one state of a module.

    Args:
        eager: the module, whose parameters are read when the oracle is made.
        random: whether it draws random numbers.
        seed: of the random numbers.
    """

    def __init__(self, eager: Subject, *, random: bool, seed: int) -> None:
        self.eager, self.random, self.seed = eager, random, seed
        self.wide = None if random else eager.wide()

    def judge(
        self,
        observed: ObservedCall,
        arguments: Arguments,
        peer: ObservedCall,
        *,
        gradients: bool,
        run: str,
        contents: str,
    ) -> list[Finding]:
        """The results and gradients of a call that differ from those of eager PyTorch.

        Args:
            observed: the call of the compiled module.
            arguments: its arguments.
            peer: the same call of the eager module.
            gradients: whether gradients were computed.
            run, contents: of the findings.
        """
        findings = []
        exact, noise = self._calls(arguments, gradients)
        for name, want in [*peer.results.items(), *peer.gradients.items()]:
            label = f"gradient of {name}" if name in peer.gradients else name
            got = observed.gradients.get(name) if name in peer.gradients else observed.results.get(name)
            if (got is None) != (want is None):
                words = ("a tensor", "none") if want is None else ("none", "a tensor")
                findings.append(Finding(label, run, contents, "missing", *words))
            elif got is not None and want is not None:
                if got.dtype is not want.dtype:
                    findings.append(Finding(label, run, contents, "data type", str(got.dtype), str(want.dtype)))
                    continue
                wide = _value(exact, name)
                answers = [_value(one, name) for one in noise]
                moved = [_array(one) for one in answers if one is not None]
                answer = Answer(_array(want if wide is None else wide), _array(want), moved)
                loose = 1.0 if wide is not None else RANDOM
                kind = str(want.dtype).removeprefix("torch.")
                difference = compare(_array(got), answer, kind, name=label, run=run, contents=contents, loose=loose)
                findings += [] if difference is None else [difference]
        return findings

    def _calls(self, arguments: Arguments, gradients: bool) -> tuple[ObservedCall | None, list[ObservedCall]]:
        """The calls in float64: exact, and disturbed; none if the module cannot compute in float64."""
        if self.wide is None:
            return None, []
        doubled = mapped(arguments, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
        exact = call(self.wide, doubled, gradients=gradients, seed=self.seed)
        if exact.error is not None:
            return None, []
        noise = []
        for place in range(DISTURBED):
            disturbance = Disturbance(self._unit(arguments), self.seed + place)
            moved = mapped(doubled, lambda tensor: disturbance.disturb(tensor.clone()))  # noqa: B023
            noise.append(call(self.wide, moved, gradients=gradients, seed=self.seed, within=disturbance))
        return exact, [one for one in noise if one.error is None]

    def _unit(self, arguments: Arguments) -> float:
        """The rounding error of the coarsest data type of the inputs and weights."""
        tensors = [*tensors_of(arguments, "").values(), *self.eager.state().values()]
        names = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
        units = [ROUNDINGS[name].unit for name in names if name in ROUNDINGS]
        return max(units, default=ROUNDINGS["float32"].unit)


def _value(of: ObservedCall | None, name: str) -> torch.Tensor | None:
    return None if of is None else of.gradients.get(name, of.results.get(name))


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return (tensor.double() if tensor.is_floating_point() else tensor).resolve_conj().resolve_neg().numpy()


__all__ = ["Arguments", "EagerOracle"]
