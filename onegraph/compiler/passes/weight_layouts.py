"""Lays the weights of convolutions out as the library's kernels copy them fastest, where a cast makes them anyway.

The library copies variable weights into a blocked layout in every run: blocks of 16 to 64 channels for each place of
the window. From an array whose last axes are the window, this copy takes each element from another cache line, and up
to ten times as long as the convolution of a small batch. With the window outside and the channels inside, as hwoi of
OIX weights, the copy is 3 to 6 times as fast. A bf16 step casts its f32 weights, so the cast of the package writes this
order.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...faults.use import DEQUANTIZATIONS
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Dims, dense_of
from ..options import Options
from ..slow_layouts import WEIGHTED

CHANNELS_FIRST = frozenset(["OIX", "IOX"])
NOTE = "with the channels last, from where a convolution copies weights fastest"


def lay_out_weights(edit: Edit, _: Options) -> None:
    """Lay the window outside and the channels inside in bf16 weights that are cast for convolutions."""
    graph = edit.graph
    for step in graph.steps:
        if not _is_cast(graph, step):
            continue
        number = step.outputs[0]
        maker = graph.maker(step.inputs[0])
        is_fused = maker is not None and maker.kind in DEQUANTIZATIONS  # int8 patterns take in a cast
        if not is_fused and number not in graph.returned and _are_weights(number, graph.consumers(number)):
            edit.change(number, strides=channels_inside(edit.values[number].shape))
            edit.replace(step, step._replace(executor="copy", note=NOTE))


def channels_inside(shape: Dims) -> Dims:
    """The strides of weights (O, I, X) or (I, O, X) whose two axes of channels lie last."""
    *window, first, second = dense_of((*shape[2:], *shape[:2]))
    return first, second, *window


def _is_cast(graph: Lowered, step: Step) -> bool:
    """Whether a step casts f32 variables of several places of a window to bf16, and the library would run it."""
    if step.kind != "TypeCast" or step.executor != "library":
        return False
    source, target = graph.values[step.inputs[0]], graph.values[step.outputs[0]]
    types = source.dtype, target.dtype
    is_plain = source.constant is None and source.dense
    return types == (DataType.f32, DataType.bf16) and is_plain and prod(target.shape[2:]) > 1


def _are_weights(number: int, consumers: Iterable[Step]) -> bool:
    """Whether convolutions read a value, and all do as weights of one group with the window last."""
    return all(
        step.executor == "library"
        and step.kind in WEIGHTED
        and step.inputs.count(number) == 1
        and step.inputs[1] == number
        and step.attrs.get("groups", 1) == 1
        and step.attrs.get("weights_format", "XIO") in CHANNELS_FIRST
        for step in consumers
    )
