"""Counts what the backend of torch.compile runs here, and what it leaves to PyTorch."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node as FxNode
from torch.utils.flop_counter import flop_registry

from ..._util.records import record
from ...opset.shapes import counted
from .lowering import concrete, is_call

log = logging.getLogger("onegraph.torch")


@record(frozen=True)
class Left:
    """A kind of calls that PyTorch runs.

    Attributes:
        op: the name of the op.
        reason: why it does not run here.
        count: number of such calls.
    """

    op: str
    reason: str
    count: int


@dataclass
class Region:
    """What became of one graph that PyTorch captured.

    Attributes:
        kind: ``inference``, ``forward`` or ``backward``.
        partitions: number of graphs that run here.
        taken: number of calls that run here.
        left: the calls that PyTorch runs.
        products: multiply-adds of all calls, and of those that run in oneDNN.
    """

    kind: str
    partitions: int = 0
    taken: int = 0
    left: Sequence[Left] = ()
    products: tuple[int, int] = (0, 0)


@record(frozen=True)
class Statistics:
    """What :func:`onegraph.torch.stats` returns; ``print`` shows it.

    Attributes:
        regions: the graphs that PyTorch captured, in the order in which they were compiled.
        breaks: why PyTorch ended a graph, with counts.
    """

    regions: Sequence[Region] = ()
    breaks: dict[str, int] = field(default_factory=dict)

    @property
    def graphs(self) -> int:
        """Number of graphs that PyTorch captured."""
        return len(self.regions)

    @property
    def partitions(self) -> int:
        """Number of graphs that run here."""
        return sum(one.partitions for one in self.regions)

    @property
    def taken(self) -> int:
        """Number of calls of ops that run here."""
        return sum(one.taken for one in self.regions)

    @property
    def left(self) -> tuple[Left, ...]:
        """The calls that PyTorch runs, the most frequent first."""
        counts = Counter[tuple[str, str]]()
        for region in self.regions:
            for one in region.left:
                counts[one.op, one.reason] += one.count
        return tuple(Left(*key, count) for key, count in counts.most_common())

    @property
    def share(self) -> float:
        """The share of multiply-adds that oneDNN does; 1 if there are none."""
        whole = sum(one.products[0] for one in self.regions)
        return sum(one.products[1] for one in self.regions) / whole if whole else 1.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers as a dictionary for JSON."""
        return {
            "graphs": self.graphs,
            "breaks": dict(self.breaks),
            "partitions": self.partitions,
            "taken": self.taken,
            "left": [{"op": one.op, "reason": one.reason, "count": one.count} for one in self.left],
            "share": self.share,
        }

    def __str__(self) -> str:
        count = sum(one.count for one in self.left)
        lines = [
            f"graphs captured: {self.graphs}, graph breaks: {sum(self.breaks.values())}",
            f"ops in oneDNN: {self.taken}, in {counted(self.partitions, 'partition')}; ops in PyTorch: {count}",
            f"{self.share:.1%} of multiply-adds in oneDNN",
        ]
        lines += [f"  {one.count:4} {one.op}: {one.reason}" for one in self.left]
        lines += [f"  graph break, {times} times: {reason}" for reason, times in self.breaks.items()]
        return "\n".join(lines)


_regions: list[Region] = []
_breaks_before = Counter[str]()  # PyTorch's counts at the last reset
_lock = threading.Lock()


def add(region: Region) -> None:
    """Count a region, and log what PyTorch runs of it."""
    with _lock:
        _regions.append(region)
    for one in region.left:
        log.info("%s graph: PyTorch runs %d %s: %s", region.kind, one.count, one.op, one.reason)


def statistics() -> Statistics:
    """What was counted since the start, or since the last reset."""
    with _lock:
        now = _breaks()
        return Statistics(tuple(_regions), dict(now - _breaks_before if now >= _breaks_before else now))


def reset() -> None:
    """Count from zero."""
    global _breaks_before
    with _lock:
        _regions.clear()
        _breaks_before = _breaks()


def _breaks() -> Counter[str]:
    """PyTorch's counts of graph breaks since its start, or since somebody cleared them."""
    return Counter(torch._dynamo.utils.counters["graph_break"])


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    """Floating-point operations of the scores, and of the sums of values."""
    batch, heads, tokens, size = query.shape
    return 2 * batch * heads * tokens * key.shape[2] * (size + value.shape[3])


def _attention_backward(diff: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    """Floating-point operations of the scores anew, and of the gradients of weights, value, query and key."""
    batch, heads, tokens, size = query.shape
    return 2 * batch * heads * tokens * key.shape[2] * (3 * size + 2 * value.shape[3])


def _lstm(src: Any, weights: Any, recurrence: Any, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """Floating-point operations of one direction of an LSTM: each step multiplies its input and its state."""
    steps, batch, inputs = src.shape
    return int(2 * steps * batch * recurrence.shape[0] * (inputs + recurrence.shape[1]))


# Floating-point operations of the calls that PyTorch's own table lacks.
FORMULAS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    torch.ops.aten.mkldnn_rnn_layer: _lstm,
}


def products_of(node: FxNode) -> int:
    """The multiply-adds of a call."""
    if not is_call(node):
        return 0
    packet = node.target._overloadpacket
    formula = FORMULAS.get(packet) or flop_registry.get(packet)
    if formula is None:
        return 0

    def like(value: Any) -> Any:
        if type(value) is FxNode:
            found = value.meta.get("val")
            return found if hasattr(found, "stride") else concrete(found)
        return type(value)(map(like, value)) if type(value) in (list, tuple) else value

    args = [like(one) for one in node.args]
    kwargs = {key: like(one) for key, one in node.kwargs.items()}
    return int(concrete(formula(*args, **kwargs, out_val=node.meta["val"]))) // 2
