"""A part whose graph was lowered once with open sizes, for inputs of any sizes that it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node as FxNode

from ..._util.open_sizes import is_open, present
from ...builder.graph import DataGraph
from ...compiler.library_steps import NoParametersError
from ...compiler.open_values import At
from ...opset.shapes import dense_strides
from ...runtime.open_program import OpenProgram
from ...runtime.sized_program import SizedProgram
from .layouts import Call, Layout, viewed
from .stated_sizes import solved_symbols, value_of


def marks(nodes: Sequence[FxNode]) -> list[Any]:
    """What PyTorch states of the dims of these, one after another: sizes of its own, or numbers."""
    likes = [node.meta["val"] for node in nodes]
    return [dim for like in likes for dim in (like.shape if hasattr(like, "stride") else (like,))]


class Dims:
    """The numbers that decide the sizes of a part: the dims of its tensors, and numbers among its inputs.

    Strides follow where PyTorch states them by a symbol that no dim has, as those of a part of a tensor are.

    Args:
        nodes: the inputs.

    Attributes:
        stated: what PyTorch states of each of these: a size of its own, or a number.
        layouts: the number of strides.
    """

    def __init__(self, nodes: Sequence[FxNode]) -> None:
        dims, likes = marks(nodes), [node.meta["val"] for node in nodes]
        solved = solved_symbols(dims)
        steps = {
            (place, axis): step
            for place, like in enumerate(likes)
            if hasattr(like, "stride")
            for axis, step in enumerate(like.stride())
            if type(step) is torch.SymInt and step.node.expr.free_symbols - solved
        }
        self._strides = [*steps]
        self.stated, self.layouts = [*dims, *steps.values()], len(steps)

    def of(self, arguments: Sequence[Any]) -> list[int]:
        """The numbers of these inputs."""
        dims = [dim for one in arguments for dim in (one.shape if hasattr(one, "stride") else (one,))]
        return [*dims, *[arguments[place].stride(axis) for place, axis in self._strides]]


class OpenLike:
    """A tensor whose sizes are open, as the tables see it.

    Args:
        like: a fake tensor with the present sizes.
        shape, strides: with open sizes.
    """

    def __init__(self, like: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self._like, self.shape, self._strides = like, shape, strides

    def __getattr__(self, name: str) -> Any:
        return getattr(self._like, name)

    def stride(self, axis: int | None = None) -> Any:
        """The strides, or that of one axis."""
        return self._strides if axis is None else self._strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return self.shape if axis is None else self.shape[axis]

    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count


class OpenLikes:
    """Makes what the tables see of the tensors of a part.

    Args:
        known: the open sizes of symbols of PyTorch, and of expressions.
    """

    def __init__(self, known: Mapping[Any, Any]) -> None:
        self._known = known

    def of(self, stated: Any, like: Any) -> Any:
        """A tensor, or several, of which PyTorch states this, and that are like these for the present sizes."""
        if type(like) in (tuple, list):
            return type(like)(map(self.of, stated, like))
        if not hasattr(like, "stride"):
            return self._size(stated) if type(stated) is torch.SymInt else like
        shape = tuple([self._size(dim) for dim in stated.shape])
        if tuple(map(present, shape)) != tuple(like.shape):
            raise NoParametersError("a result has another shape than PyTorch states")
        strides = self._strides(stated, shape, like.stride())
        return OpenLike(like, shape, strides) if is_open((*shape, *strides)) else like

    def _strides(self, stated: Any, shape: Sequence[int], now: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of a tensor of this shape, which are these now."""
        try:
            strides = tuple([self._size(step) for step in stated.stride()])
        except NoParametersError:
            strides = ()
        order = sorted(range(len(shape)), key=lambda axis: -now[axis])
        steps = dense_strides([shape[axis] for axis in order])
        for steps_of in (strides, tuple([steps[order.index(axis)] for axis in range(len(shape))])):
            # The stride of an axis of one element says nothing.
            kept_strides = tuple(
                [step if size != 1 else plain for step, size, plain in zip(steps_of, shape, now, strict=False)]
            )
            if tuple(map(present, kept_strides)) == now:
                return kept_strides
        raise NoParametersError("a result has other strides than PyTorch states")

    def _size(self, size: Any) -> Any:
        return value_of(size.node.expr, self._known) if type(size) is torch.SymInt else int(size)


class OpenPart:
    """The program of a part with open sizes.

    Args:
        program: the program.
        dims: the numbers that decide the sizes.
        inputs: the layouts of the tensors among the inputs, in their order, with open sizes.
        outputs: the layouts of the results.
    """

    def __init__(self, program: OpenProgram, dims: Dims, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> None:
        self.program, self.dims, self.inputs, self.outputs = program, dims, inputs, outputs

    def sizes(self, arguments: Sequence[Any]) -> tuple[list[int], list[Call]] | None:
        """The sizes of these inputs, and the functions that view the tensors among them as arrays.

        Returns:
            None if the program does not fit the inputs.
        """
        sizes_of_call = self.program.parameters.sizes(self.dims.of(arguments))
        if sizes_of_call is None or not self.program.fits(sizes_of_call):
            return None
        at = self.program.at(sizes_of_call)
        pairs = [viewed(one) for one in arguments if hasattr(one, "stride")]
        if [layout for layout, _ in pairs] != [_at(layout, at) for layout in self.inputs]:
            return None
        return sizes_of_call, [view for _, view in pairs]

    def made(self, sizes: Sequence[int], whole: Callable[[], DataGraph]) -> tuple[SizedProgram, Sequence[Layout]]:
        """The program for these sizes, and the layouts of its results.

        Raises:
            OneGraphError: the library refuses a partition.
            NoParametersError: for these sizes, other steps are right or fast.
        """
        program, at = SizedProgram(self.program, sizes, whole), self.program.at(sizes)
        program.graph = shell(program.graph, at)
        program.placement = replace(program.placement, graph=program.graph)
        return program, [_at(layout, at) for layout in self.outputs]


def _at(layout: Layout, at: At) -> Layout:
    """A layout for known sizes."""
    if not is_open((*layout.shape, *(layout.strides or ()))):
        return layout
    strides = None if layout.strides is None else tuple(map(at, layout.strides))
    return replace(layout, shape=tuple(map(at, layout.shape)), strides=strides)


def shell(graph: DataGraph, at: At) -> DataGraph:
    """The inputs and outputs of a graph with open sizes, for known ones."""

    def known(tensor: Any) -> Any:
        if not is_open((*tensor.shape, *(tensor.strides or ()))):
            return tensor
        strides = None if tensor.strides is None else tuple(map(at, tensor.strides))
        return replace(tensor, shape=tuple(map(at, tensor.shape)), strides=strides)

    empty = graph._empty()
    empty._inputs = {name: known(tensor) for name, tensor in graph.inputs.items()}
    empty._outputs = {name: known(tensor) for name, tensor in graph.outputs.items()}
    return empty


__all__ = ["Dims", "OpenLikes", "OpenPart", "marks"]
