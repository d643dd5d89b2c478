"""Which inputs of a partition must not be constant, because of what the library keeps from the first execution on.

The conditions are True where a partition has such inputs; the functions of the same name find these inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.signature import Shape
from .fault import NEVER, UNSAFE, Faults

EVERY = kinds.EVERY
ONE_TO_ONE = kinds.QUANTIZATIONS | (kinds.PLACING - {"Concat"}) | {"TypeCast"}


class End(NamedTuple):
    """A tensor that an op reads or writes."""

    id: int
    shape: Shape

    @property
    def ndims(self) -> int | None:
        """The number of axes, None where it is unknown."""
        return None if self.shape is None else len(self.shape)


class WiredOp(NamedTuple):
    """An op of a partition or graph, and its tensors."""

    kind: str
    inputs: Sequence[End]
    outputs: Sequence[End]


def added(nodes: Sequence[WiredOp]) -> set[int]:
    """The inputs of a partition that are added, as a whole, to what its other ops compute; or moves of data of them."""
    producers = _producers(nodes)
    sources: set[int] = set()
    for node in nodes if len(nodes) > 1 else ():
        if node.kind != "Add":
            continue
        shape = node.outputs[0].shape
        for end in node.inputs:
            if end.shape is None or shape is None or None in (*end.shape, *shape) or end.shape == shape:
                sources.add(_source(end, producers))
    return sources


def spread(nodes: Sequence[WiredOp]) -> set[int]:
    """The inputs that ops compute from, in a partition whose results take on axes: they get those beforehand."""
    producers = _producers(nodes)
    inside = [(end.ndims, node.outputs[0].ndims) for node in nodes for end in node.inputs if end.id in producers]
    if all(rank is not None and result is not None and rank >= result for rank, result in inside):
        return set()
    return {_source(node.inputs[0], producers) for node in nodes if node.kind not in ONE_TO_ONE}


def computed(nodes: Sequence[WiredOp], constants: set[int]) -> set[int]:
    """The inputs of a partition that an op computes from which reads constants alone."""
    producers = _producers(nodes)
    return {
        _source(node.inputs[0], producers)
        for node in nodes
        if node.kind not in ONE_TO_ONE and all(_source(end, producers) in constants for end in node.inputs)
    }


def _producers(nodes: Sequence[WiredOp]) -> dict[int, WiredOp]:
    return {end.id: node for node in nodes for end in node.outputs}


def _source(end: End, producers: Mapping[int, WiredOp]) -> int:
    """Where the data of a tensor comes from."""
    while (producer := producers.get(end.id)) is not None and producer.kind in ONE_TO_ONE:
        end = producer.inputs[0]
    return end.id


class Constants(NamedTuple):
    """The ops of a partition, and the numbers of its inputs that are constant."""

    nodes: Sequence[WiredOp]
    constants: set[int]


CONSTANTS = Faults[Constants](where="property", severity=UNSAFE)

ADDED_CONSTANT = CONSTANTS.add(
    "added_constant",
    ops="Add",
    when=lambda part: not part.constants.isdisjoint(added(part.nodes)),
    seen={(3, 2): "wrong", (3, 3): "right"},  # newer ones run without that cache
    reason="a constant that is added as a whole is reordered once, and later executions add up in the copy that is "
    "kept",
    instead="the same partition with the constant as a variable",
    mended=NEVER,
)


@ADDED_CONSTANT.example({(3, 2): "right"}, policy="fusion")  # in the first execution
def product_and_a_constant(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 4, 16)), g.constant(np.ones((16, 16), np.float32)))
    return g.add(product, g.constant(np.ones((4, 4, 16), np.float32)))


SPREAD_CONSTANT = CONSTANTS.add(
    "spread_constant",
    ops=EVERY,
    when=lambda part: not part.constants.isdisjoint(spread(part.nodes)),
    seen={(3, 2): "wrong", (3, 3): "right"},
    reason="a constant whose result takes on axes inside of the partition is computed from in the first execution only",
    instead="the same partition with the constant as a variable",
    mended=NEVER,
)


@SPREAD_CONSTANT.example({(3, 2): "right"}, policy="fusion")
def constant_that_takes_on_axes(g: DataGraph) -> LogicalTensor:
    return g.multiply(g.tanh(g.constant(np.ones((3, 4), np.float32))), g.input("x", "f32", (1, 3, 4)))


COMPUTED_CONSTANT = CONSTANTS.add(
    "computed_constant",
    ops=EVERY,
    when=lambda part: bool(computed(part.nodes, part.constants)),
    seen={(3, 2): "wrong", (3, 3): "right"},
    reason="what follows from constants alone is written to the output of the first execution only",
    instead="the same partition with the constants as variables",
    mended=NEVER,
)


@COMPUTED_CONSTANT.example({(3, 2): "right | wrong"}, policy="fusion")
def image_of_constants(g: DataGraph) -> LogicalTensor:
    ends = g.constant(np.ones((3, 4, 1), np.float32)), g.constant(np.ones((4, 1, 7), np.float32))
    window = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "groups": 2}
    image = g.op("ConvTranspose", ends, {**window, "data_format": "NCX", "weights_format": "IOX"})
    return g.minimum(image, g.input("x", "f32", (7,)))


def variables(nodes: Sequence[WiredOp], constants: set[int]) -> set[int]:
    """The inputs of a partition that the library must not take for constants, be they some or not."""
    return added(nodes) | spread(nodes) | computed(nodes, constants)
