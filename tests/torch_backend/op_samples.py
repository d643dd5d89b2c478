"""PyTorch's own samples of ops as the texts of statements."""

from __future__ import annotations

import itertools
import warnings
from functools import cache

import torch

from .program_generator import Refused
from .programs import SPELLED

SAMPLES = 12  # of an op
MOST = 40  # elements of a tensor of integers that is written out
LEFT = (
    "dropout",
    "rand",
    "bernoulli",
    "multinomial",
    "normal",
    "uniform",
    "empty",
    "sparse",
    "lowrank",
    "geqrf",
    "svd",
)


@cache
def ops():
    """The ops that have samples; the import takes seconds."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if not any(word in op.name for word in LEFT)]


@cache
def samples(number, dtype):
    """Some samples of an op."""
    torch.manual_seed(number)
    op = ops()[number]
    if dtype not in op.supported_dtypes("cpu"):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES))
    except Exception:  # some need packages that are not installed
        return []


def sampled(g):
    """A call of an op with a sample of it, whose tensors of floats become inputs with other contents."""
    number = g.below(len(ops()))
    found = samples(
        number, g.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool])
    )
    if not found:
        raise Refused
    sample, name = g.choice(found), ops()[number].name
    given = [text(g, one) for one in (sample.input, *sample.args)]
    named = [f"{key}={text(g, one)}" for key, one in sample.kwargs.items()]
    spelled = "torch." + name
    place = torch
    for part in name.split("."):
        place = getattr(place, part, None)
    if place is None:
        return f"{given[0]}.{name}({', '.join([*given[1:], *named])})"
    return f"{spelled}({', '.join([*given, *named])})"


def text(g, value):
    """A value as text; tensors become inputs."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.dtype not in SPELLED or value.numel() > 2000:
            raise Refused
        kind = SPELLED[value.dtype]
        if value.is_floating_point():
            return g.input(tuple(value.shape), kind)
        if value.numel() > MOST:
            raise Refused
        return (
            f"torch.tensor({value.tolist()}, dtype={kind})"
            if value.numel()
            else f"torch.zeros({tuple(value.shape)}, dtype={kind})"
        )
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple, torch.Size):
        parts = [text(g, one) for one in value]
        return f"[{', '.join(parts)}]" if isinstance(value, list) else f"({''.join(one + ', ' for one in parts)})"
    if isinstance(value, torch.dtype):
        if value not in SPELLED:
            raise Refused
        return SPELLED[value]
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        return f"float({str(value)!r})"
    raise Refused
