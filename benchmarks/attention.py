"""Attention in tiles against PyTorch's flash attention, and the fusions of the library while scores fit memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

import onegraph as og
from onegraph.lowering import attention as lowering
from onegraph.lowering.emitter import Emitter

from .timing import QUICK, Effort, Row, alternate, calls

HEADS = 8
MOST_SCORES = 4096  # tokens; the library keeps the scores of all heads: 512 MB in f32
FORMS = {
    "size 64": (64, 1, False),
    "size 64, causal, groups of 4": (64, 4, True),
    "size 128, causal": (128, 1, True),
}
NAMES = ("query", "key", "value")


@dataclass(frozen=True)
class Case:
    """One attention of a batch of 1; ``group`` heads of the query share a head of key and value."""

    tokens: int
    form: str
    dtype: og.DataType
    backward: bool

    def __str__(self) -> str:
        return f"{self.tokens} tokens, {self.form}, {self.dtype}, forward{' and backward' * self.backward}"

    def arrays(self) -> dict[str, np.ndarray]:
        size, group, _ = FORMS[self.form]
        rng = np.random.default_rng(0)
        heads = {"query": HEADS, "key": HEADS // group, "value": HEADS // group}
        if self.backward:
            heads["diff"] = HEADS
        shapes = {name: (1, count, self.tokens, size) for name, count in heads.items()}
        return {name: rng.standard_normal(shape).astype(self.dtype.numpy) for name, shape in shapes.items()}

    def model(self, tiled: bool) -> og.Executable:
        """The attention in tiles, or as the ops that the library fuses."""
        g = og.Graph()
        ends = {name: g.input(name, self.dtype, array.shape) for name, array in self.arrays().items()}
        masking = lowering.Masking(causal=FORMS[self.form][2])
        three = [ends[name] for name in NAMES]
        if tiled:
            dst = lowering.in_tiles(Emitter(g), *three, scale=None, masking=masking)[0]
        else:
            dst = lowering.in_fusions(Emitter(g), *three, masking=masking).output
        g.output("dst", dst)
        if self.backward:
            for name, tensor in zip(NAMES, g.gradient(dst, three, ends["diff"]), strict=True):
                g.output(f"by {name}", tensor)
        return g.compile()

    def peer(self) -> Callable[[], list[np.ndarray]]:
        """PyTorch's flash attention."""
        import torch

        _, group, causal = FORMS[self.form]
        kinds = {og.f32: torch.float32, og.bf16: torch.bfloat16}
        ends = {
            name: torch.from_numpy(array.astype(np.float32)).to(kinds[self.dtype])
            for name, array in self.arrays().items()
        }
        query, key, value = (ends[name].requires_grad_(self.backward) for name in NAMES)

        def run() -> list[np.ndarray]:
            attend = torch.nn.functional.scaled_dot_product_attention
            with torch.set_grad_enabled(self.backward):
                dst = attend(query, key, value, is_causal=causal, enable_gqa=group > 1)
            grads = torch.autograd.grad(dst, (query, key, value), ends["diff"]) if self.backward else ()
            return [one.detach() for one in (dst, *grads)]

        return run


def cases(quick: bool) -> Iterator[Case]:
    for tokens in (64,) if quick else (512, 1024, 2048, 4096, 8192, 16384):
        for form in FORMS:
            for dtype in (og.f32, og.bf16):
                yield from (Case(tokens, form, dtype, backward) for backward in (False, True))


def rows(quick: bool = False) -> Iterator[Row]:
    for case in cases(quick):
        given = case.arrays()
        names = ["in tiles", *["fusions of the library"] * (case.tokens <= MOST_SCORES)]
        models = {name: case.model(name == "in tiles") for name in names}
        contenders = {name: calls(model.bind(**given).run) for name, model in models.items()}
        results = [[*_listed(model(**given))] for model in models.values()]
        if find_spec("torch"):
            peer = case.peer()
            contenders["PyTorch flash"] = calls(peer)
            results.append([one.float().numpy() for one in peer()])
        for other in results[1:]:
            for found, wanted in zip(results[0], other, strict=True):
                limit = (2e-5 if case.dtype is og.f32 else 0.04) * float(np.abs(wanted.astype(np.float32)).max())
                assert np.abs(found.astype(np.float32) - wanted.astype(np.float32)).max() <= limit, case
        effort = QUICK if quick else Effort(3 if case.tokens > MOST_SCORES else 9)
        seconds, speed, load = alternate(contenders, effort)
        yield Row(str(case), seconds, speed, load=load)


def _listed(found: np.ndarray | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return found if isinstance(found, tuple) else (found,)
