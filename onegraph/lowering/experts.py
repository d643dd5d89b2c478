"""Lowers layers of experts: each token goes through a few of several networks, whose packed weights are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..opset.dtypes import DataType
from .control import branch
from .elementwise import add, binary, multiply, select
from .emitter import Array, Emitter, Value, dtype_of, numbers
from .movement import cast, part, reshape, unsqueeze
from .packed import packed_matmul
from .reduction import reduce
from .subgraph import Body


class PackedLayer(NamedTuple):
    """A product by packed weights, and what is added.

    Attributes:
        rows: the codes of each column of the result, as bytes.
        scales, zeros: (columns, groups); no zero points stand for ``zero``.
        bias: (columns), if there is one.
        coding, group, zero, in_codes: as for :func:`packed_matmul`.
    """

    rows: Array
    scales: Array
    zeros: Array | None
    bias: Array | None
    coding: str
    group: int
    zero: int
    in_codes: bool

    def every(self, start: int, step: int) -> PackedLayer:
        """The layer of some columns of the result."""
        zeros, bias = (None if each is None else each[start::step] for each in (self.zeros, self.bias))
        return self._replace(rows=self.rows[start::step], scales=self.scales[start::step], zeros=zeros, bias=bias)

    def applied(self, emit: Emitter, src: Value) -> Value:
        """The product and the sum."""
        rows, scales, zeros = (None if each is None else np.ascontiguousarray(each) for each in self[:3])
        assert rows is not None
        assert scales is not None
        form = {"coding": self.coding, "group": self.group, "zero": self.zero, "in_codes": self.in_codes}
        found = packed_matmul(emit, src, rows, scales, zeros, **form)  # type: ignore[arg-type]
        return found if self.bias is None else add(emit, found, np.ascontiguousarray(self.bias))


class Expert(NamedTuple):
    """The layers of an expert; ``activation`` takes the results of all but the last one."""

    layers: Sequence[PackedLayer]
    activation: Callable[[Emitter, Sequence[Value]], Value]

    def applied(self, emit: Emitter, src: Value) -> Value:
        """The result for tokens (tokens, size)."""
        *first, last = self.layers
        return last.applied(emit, self.activation(emit, [layer.applied(emit, src) for layer in first]))


def chosen_experts(emit: Emitter, logits: Value, count: int, weights: Value | None, norm: bool) -> tuple[Value, Value]:
    """The places of the experts with the largest logits of each token, and their shares, each (tokens, count).

    The shares are the softmax of these logits, or ``weights`` of the same experts, divided by their sum if ``norm``.
    """
    best, places = emit.ends("TopK", [logits, np.array([count])], {"axis": -1, "largest": True})
    if weights is None:
        return places, emit.op("SoftMax", [cast(emit, best, DataType.f32)], {"axis": 1})
    shares = cast(emit, emit.op("GatherElements", [weights, places], {"axis": 1}), DataType.f32)
    if norm:
        shares = binary(emit, "Divide", shares, reduce(emit, "ReduceSum", shares, [1], keep=True))
    return places, shares


def mixture(emit: Emitter, src: Value, places: Value, shares: Value, experts: Sequence[Expert]) -> Value:
    """The sum of the results of the experts of each token times their shares, (tokens, size).

    An expert that no token has chosen does not run. Another one computes all tokens.
    """
    hits = emit.op("Equal", [unsqueeze(emit, places, [2]), np.arange(len(experts))])
    zero = np.zeros((), np.float32)
    dense = reduce(emit, "ReduceSum", select(emit, hits, unsqueeze(emit, shares, [2]), zero), [1], keep=False)
    used = reduce(emit, "ReduceMax", cast(emit, hits, DataType.f32), [0, 1], keep=False)
    wide = cast(emit, src, DataType.f32)
    total = cast(emit, emit.op("Less", [wide, np.array(-np.inf, np.float32)]), DataType.f32)  # zeros: nothing is less
    for place, expert in enumerate(experts):
        ends = src, total, part(emit, dense, 1, place, place + 1)
        flag = emit.op("Greater", [reshape(emit, part(emit, used, 0, place, place + 1), numbers()), zero])

        def applied(body: Body, expert: Expert = expert, ends: Sequence[Value] = ends) -> list[Value]:
            tokens, before, share = map(body.capture, ends)
            made = cast(body.emit, expert.applied(body.emit, tokens), DataType.f32)
            # A token that has not chosen the expert gets nothing of it, even where the result is infinite.
            mine = body.emit.op("Greater", [share, zero])
            return [select(body.emit, mine, add(body.emit, before, multiply(body.emit, made, share)), before)]

        def passed(body: Body, before: Value = total) -> list[Value]:
            return [body.capture(before)]

        (total,) = branch(emit, flag, applied, passed)
    return cast(emit, total, dtype_of(src))
