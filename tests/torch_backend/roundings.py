"""Modes that run eager PyTorch with the same random numbers in float64, and with other roundings.

The distance of eager mode from float64 is the rounding of one order of additions. It may be 0 by luck, as that of
``g / v - g * v / v / v`` in 16 bits. ``OtherRoundings`` draws another rounding of each inexact result, and moves what
sums read by as much as one rounding, so that several runs show how far roundings alone reach.
"""

from __future__ import annotations

import random

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map


def _run(function, args, kwargs):
    """What a function returns, and whether it took random numbers: attention does for a dropout alone."""
    may_draw = torch.Tag.nondeterministic_seeded in function.tags
    before = torch.get_rng_state() if may_draw else None
    found = function(*args, **kwargs)
    return found, may_draw and not torch.equal(before, torch.get_rng_state())


def _floats(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout is torch.strided


class Recorded(TorchDispatchMode):
    """Keeps what each op that takes random numbers returns."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found, draws = _run(func, args, kwargs or {})
        if draws:
            self.drawn.append(tree_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, found))
        return found


class Replayed(TorchDispatchMode):
    """Gives ops that take random numbers what they returned in a recorded run."""

    def __init__(self, drawn) -> None:
        super().__init__()
        self.drawn = [*drawn]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.replayed(func, args, kwargs or {})[0]

    def replayed(self, func, args, kwargs):
        """What a function returns, with the random numbers of the recorded run, and whether it took any."""
        found, draws = _run(func, args, kwargs)
        if draws and self.drawn:
            made, kept = tree_flatten(found)[0], tree_flatten(self.drawn.pop(0))[0]
            for one, other in zip(made, kept, strict=True):
                if isinstance(one, torch.Tensor) and one.shape == other.shape:
                    one.copy_(other)
        return found, draws


class OtherRoundings(Replayed):
    """Draws another rounding of each result that is inexact."""

    def __init__(self, drawn, seed) -> None:
        super().__init__(drawn)
        self.generator = torch.Generator().manual_seed(random.Random(seed).randrange(2**40))

    def moved(self, value):
        """Each element, or a neighbour of it among the numbers of the data type."""
        step = torch.randint(-1, 2, value.shape, generator=self.generator)
        up, down = torch.full_like(value, torch.inf), torch.full_like(value, -torch.inf)
        others = torch.where(step > 0, torch.nextafter(value, up), torch.nextafter(value, down))
        return torch.where((step == 0) | ~torch.isfinite(others) | (value == 0), value, others)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        is_movement = func.is_view or not any(map(_floats, tree_flatten((args, kwargs))[0]))
        if torch.Tag.nondeterministic_seeded in func.tags or is_movement:
            found, draws = self.replayed(func, args, kwargs)
            if draws or is_movement:
                return found
        wide = self._wide(func, args, kwargs)
        if torch.Tag.pointwise not in func.tags and not func._schema.is_mutable and wide is not None:
            args, kwargs = tree_map(self._nearly, (args, kwargs))
        found = func(*args, **kwargs)
        if wide is None:
            return found
        for one, right in zip(tree_flatten(found)[0], wide, strict=True):
            if _floats(one) and _floats(right) and one.shape == right.shape and one.numel():
                other = torch.where(right == right.to(one.dtype).double(), one, self.moved(one))
                one.copy_(other)
        return found

    def _nearly(self, value):
        """A source of a sum in f32, with other roundings."""
        return self.moved(value) if _floats(value) and value.dtype is torch.float32 and value.dim() else value

    @staticmethod
    def _wide(func, args, kwargs):
        """The results in float64; None for an op that only moves elements or takes no float64."""

        def widened(one):
            if isinstance(one, torch.Tensor):
                return one.double() if one.is_floating_point() else one.clone()
            return torch.float64 if one in (torch.float32, torch.bfloat16, torch.float16) else one

        try:
            return tree_flatten(func(*tree_map(widened, args), **tree_map(widened, kwargs)))[0]
        except Exception:  # not every op takes float64
            return None
