"""A part whose graph was lowered once with open sizes, for inputs of any sizes that it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import sympy
import torch
from torch.fx import Node as FxNode
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

from ..._util.open_sizes import is_open, present
from ...builder.graph import DataGraph
from ...compiler.library_steps import NoParametersError
from ...compiler.open_values import At
from ...opset.shapes import dense_strides
from ...runtime.open_program import OpenProgram
from ...runtime.sized_program import SizedProgram
from .layouts import Layout

# What computes the value of an expression of PyTorch from those of its operands.
EXPRESSIONS: Mapping[Any, Callable[..., Any]] = {
    FloorDiv: lambda first, second: first // second,
    Mod: lambda first, second: first % second,
    PythonMod: lambda first, second: first % second,
    Max: lambda *sizes: reduce(lambda most, size: size if size >= most else most, sizes),
    Min: lambda *sizes: reduce(lambda least, size: size if size <= least else least, sizes),
}


def flat(given: Sequence[Any]) -> list[int]:
    """The dims of tensors and the numbers among the inputs of a part, one after another."""
    return [dim for one in given for dim in (one.shape if hasattr(one, "stride") else (one,))]


def marks(nodes: Sequence[FxNode]) -> list[Any]:
    """What PyTorch states of each of these: a size of its own, or a number."""
    likes = [node.meta["val"] for node in nodes]
    return [dim for like in likes for dim in (like.shape if hasattr(like, "stride") else (like,))]


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
        stated: what PyTorch states of the dims of inputs; see ``marks``.
        dims: the dims with open sizes.
    """

    def __init__(self, stated: Sequence[Any], dims: Sequence[int]) -> None:
        self._sizes: dict[Any, int] = {}
        for one, dim in zip(stated, dims, strict=True):
            if type(one) is torch.SymInt and isinstance(one.node.expr, sympy.Symbol):
                self._sizes.setdefault(one.node.expr, dim)

    def of(self, stated: Any, like: Any) -> Any:
        """A tensor, or several, of which PyTorch states this, and that are like these for the present sizes."""
        if type(like) in (tuple, list):
            return type(like)(map(self.of, stated, like))
        if not hasattr(like, "stride"):
            return self._size(stated) if type(stated) is torch.SymInt else like
        shape = tuple([self._size(dim) for dim in stated.shape])
        if tuple(map(present, shape)) != tuple(like.shape):
            raise NoParametersError("a result has another shape than PyTorch states")
        strides = next(
            (one for one in (self._strides(stated), dense_strides(shape)) if tuple(map(present, one)) == like.stride()),
            None,
        )
        if strides is None:
            raise NoParametersError("a result has other strides than PyTorch states")
        return OpenLike(like, shape, strides) if is_open((*shape, *strides)) else like

    def _strides(self, stated: Any) -> tuple[int, ...]:
        return tuple([self._size(step) for step in stated.stride()])

    def _size(self, size: Any) -> Any:
        return self._value(size.node.expr) if type(size) is torch.SymInt else int(size)

    def _value(self, expression: Any) -> Any:
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if isinstance(expression, sympy.Symbol) and expression in self._sizes:
            return self._sizes[expression]
        operands = [self._value(argument) for argument in expression.args]
        if isinstance(expression, sympy.Pow) and type(operands[1]) is int and operands[1] >= 0:
            operands = [operands[0]] * operands[1]
        if isinstance(expression, (sympy.Mul, sympy.Pow, sympy.Add)):
            found = 0 if isinstance(expression, sympy.Add) else 1
            for operand in operands:
                found = found + operand if isinstance(expression, sympy.Add) else found * operand
            return found
        if type(expression) in EXPRESSIONS and operands:
            return EXPRESSIONS[type(expression)](*operands)
        raise NoParametersError(f"a size is {expression}")


class OpenPart:
    """The program of a part with open sizes.

    Args:
        program: the program.
        inputs: the layouts of the tensors among the inputs, in their order, with open sizes.
        outputs: the layouts of the results.
    """

    def __init__(self, program: OpenProgram, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> None:
        self.program, self.inputs, self.outputs = program, inputs, outputs

    def sizes(self, given: Sequence[Any]) -> list[int] | None:
        """The sizes of these inputs; None if the program does not fit them."""
        found = self.program.parameters.sizes(flat(given))
        if found is None or not self.program.fits(found):
            return None
        at, tensors = self.program.at(found), [one for one in given if hasattr(one, "stride")]
        expected = [_at(layout, at) for layout in self.inputs]
        return found if [Layout.of(tensor) for tensor in tensors] == expected else None

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
    strides = None if layout.strides is None else tuple(map(at, layout.strides))
    return replace(layout, shape=tuple(map(at, layout.shape)), strides=strides)


def shell(graph: DataGraph, at: At) -> DataGraph:
    """The inputs and outputs of a graph with open sizes, for known ones."""

    def known(tensor: Any) -> Any:
        strides = None if tensor.strides is None else tuple(map(at, tensor.strides))
        return replace(tensor, shape=tuple(map(at, tensor.shape)), strides=strides)

    found = graph._empty()
    found._inputs = {name: known(tensor) for name, tensor in graph.inputs.items()}
    found._outputs = {name: known(tensor) for name, tensor in graph.outputs.items()}
    return found


__all__ = ["OpenLikes", "OpenPart", "flat", "marks"]
