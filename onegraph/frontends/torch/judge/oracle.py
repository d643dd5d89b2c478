"""What eager PyTorch gives: in float64, in the data types of the module, and with disturbed inputs and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ....judging.comparison import ROUNDINGS, Answer, compare
from ....judging.judgement import Finding
from .calls import Call, Subject, call, mapped, tensors_of

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
DISTURBED = 2  # runs
RANDOM = 50.0  # factor on the allowed error where a module draws random numbers, so that float64 draws others


class Oracle:
    """Eager PyTorch for one state of a module.

    Args:
        eager: the module, whose parameters are read when the oracle is made.
        random: whether it draws random numbers.
    """

    def __init__(self, eager: Subject, *, random: bool, seed: int) -> None:
        self.eager, self.random, self.seed = eager, random, seed
        self.wide = None if random else eager.wide()
        self.others = [self._disturbed(place) for place in range(DISTURBED)] if self.wide else []

    def _disturbed(self, place: int) -> Subject:
        found = self.eager.wide()
        assert found is not None
        generator = torch.Generator().manual_seed(self.seed + place)
        narrow = self.eager.state()
        with torch.no_grad():
            for name, tensor in found.state().items():
                if tensor.is_floating_point():
                    tensor.copy_(_moved(tensor, narrow[name].dtype, generator))
        return found

    def judge(self, given: Call, arguments: Arguments, peer: Call, *, gradients: bool, run: str, contents: str) -> list[Finding]:  # fmt: skip
        """The results and gradients of a call that differ from those of eager PyTorch.

        Args:
            given: the call of the compiled module.
            arguments: its arguments.
            peer: the same call of the eager module.
            gradients: whether gradients were computed.
            run, contents: of the findings.
        """
        found = []
        exact, noise = self._calls(arguments, gradients)
        for name, want in [*peer.results.items(), *peer.gradients.items()]:
            label = f"gradient of {name}" if name in peer.gradients else name
            got = given.gradients.get(name) if name in peer.gradients else given.results.get(name)
            if (got is None) != (want is None):
                words = ["none" if one is None else "a tensor" for one in (got, want)]
                found.append(Finding(label, run, contents, "missing", *words))
            elif got is not None and want is not None:
                if got.dtype is not want.dtype:
                    found.append(Finding(label, run, contents, "data type", str(got.dtype), str(want.dtype)))
                    continue
                wide = _value(exact, name)
                answer = Answer(
                    _array(want if wide is None else wide), _array(want), [_array(one) for one in map(lambda c: _value(c, name), noise) if one is not None]  # fmt: skip
                )
                loose = 1.0 if wide is not None else RANDOM
                kind = str(want.dtype).removeprefix("torch.")
                one = compare(_array(got), answer, kind, name=label, run=run, contents=contents, loose=loose)
                found += [] if one is None else [one]
        return found

    def _calls(self, arguments: Arguments, gradients: bool) -> tuple[Call | None, list[Call]]:
        """The calls in float64: exact, and disturbed; none if the module cannot compute in float64."""
        if self.wide is None:
            return None, []
        doubled = mapped(arguments, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
        exact = call(self.wide, doubled, gradients=gradients, seed=self.seed)
        if exact.error is not None:
            return None, []
        kinds = [tensor.dtype for tensor in tensors_of(arguments, "").values()]
        noise = []
        for place, other in enumerate(self.others):
            generator = torch.Generator().manual_seed(self.seed + place)
            turn = iter(kinds)
            moved = mapped(doubled, lambda tensor: _moved(tensor, next(turn), generator))  # noqa: B023
            noise.append(call(other, moved, gradients=gradients, seed=self.seed))
        return exact, [one for one in noise if one.error is None]


def _moved(tensor: torch.Tensor, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """A tensor with errors of one rounding to a data type."""
    rounding = ROUNDINGS.get(str(dtype).removeprefix("torch."))
    if rounding is None or not tensor.is_floating_point():
        return tensor
    return tensor * (1 + rounding.unit * (2 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) - 1))


def _value(of: Call | None, name: str) -> torch.Tensor | None:
    return None if of is None else of.gradients.get(name, of.results.get(name))


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return (tensor.double() if tensor.is_floating_point() else tensor).resolve_conj().resolve_neg().numpy()


__all__ = ["Arguments", "Oracle"]
