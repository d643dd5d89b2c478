"""Collects nodes: those of a model's graph, or those of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ...._util.records import record
from ....opset.dtypes import OF_NUMPY, DataType
from ..own import DOMAIN
from ..types import NUMBERS
from .nodes import HELPERS, POINTWISE, QUANTIZING, Attr, UnwrittenNode, order_of, proto

Array = NDArray[Any]


@record(frozen=True, eq=False)
class NodeValue:
    """A tensor in a body. Python's operators add nodes; a number stands for a scalar of the same data type."""

    body: FunctionBody
    name: str
    dtype: DataType

    def op(
        self, kind: str, *operands: NodeValue | float | None, dtype: DataType | None = None, **attrs: Attr
    ) -> NodeValue:
        """The result of a node on this tensor and others."""
        return self.body.node(kind, [self, *operands], dtype=dtype, **attrs)

    def cast(self, dtype: DataType, **attrs: Attr) -> NodeValue:
        """The tensor in another data type."""
        return self if dtype is self.dtype else self.op("Cast", dtype=dtype, to=NUMBERS[dtype], **attrs)

    def transpose(self, order: Sequence[int]) -> NodeValue:
        """The tensor with its axes in another order, as in numpy."""
        return self.body.transpose(self, tuple(order))

    def reshape(self, *dims: int) -> NodeValue:
        """The tensor in another shape; one dim may be -1, and 0 copies a dim."""
        return self.op("Reshape", self.body.numbers(*dims))

    def reduce(self, kind: str, axes: Iterable[int], keep: bool = True) -> NodeValue:
        """A reduction over axes, such as ReduceSum; over no axes it changes nothing."""
        sorted_axes = sorted(axes)
        return self.op(kind, self.body.numbers(*sorted_axes), keepdims=int(keep), noop_with_empty_axes=1)

    def dims(self) -> NodeValue:
        """The shape of the tensor when the model runs."""
        return self.op("Shape", dtype=DataType.s64)

    def where(self, first: NodeValue | float, second: NodeValue | float) -> NodeValue:
        """The elements of one tensor where this boolean tensor holds, else those of the other."""
        model_value = first if isinstance(first, NodeValue) else second
        assert isinstance(model_value, NodeValue)
        pair = [
            one if isinstance(one, NodeValue) else self.body.scalar(one, model_value.dtype) for one in (first, second)
        ]
        return self.body.node("Where", [self, *pair], dtype=model_value.dtype)

    def compare(self, kind: str, second: NodeValue | float) -> NodeValue:
        """A boolean tensor."""
        return self.op(kind, second, dtype=DataType.boolean)

    def __add__(self, other: NodeValue | float) -> NodeValue:
        return self.op("Add", other)

    def __radd__(self, other: float) -> NodeValue:
        return self.op("Add", other)

    def __sub__(self, other: NodeValue | float) -> NodeValue:
        return self.op("Sub", other)

    def __rsub__(self, other: float) -> NodeValue:
        return self.body.scalar(other, self.dtype).op("Sub", self)

    def __mul__(self, other: NodeValue | float) -> NodeValue:
        return self.op("Mul", other)

    def __rmul__(self, other: float) -> NodeValue:
        return self.op("Mul", other)

    def __truediv__(self, other: NodeValue | float) -> NodeValue:
        return self.op("Div", other)

    def __rtruediv__(self, other: float) -> NodeValue:
        return self.body.scalar(other, self.dtype).op("Div", self)

    def __neg__(self) -> NodeValue:
        return self.op("Neg")


@dataclass(eq=False)
class FunctionBody:
    """Nodes in their order, and constants.

    Attributes:
        functions: the functions that nodes of the model call.
        taken: names of values that are in use.
        op: name of the op of the graph whose nodes are added.
    """

    functions: Functions
    taken: set[str] = field(default_factory=set)
    op: str = ""
    nodes: list[UnwrittenNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    _made: dict[str, UnwrittenNode] = field(default_factory=dict)
    _transposed: dict[tuple[str, tuple[int, ...]], NodeValue] = field(default_factory=dict)
    _scalars: dict[tuple[object, ...], NodeValue] = field(default_factory=dict)

    def free(self, name: str) -> str:
        """A name that no other value has."""
        free_name, number = name, 1
        while free_name in self.taken:
            number += 1
            free_name = f"{name}_{number}"
        self.taken.add(free_name)
        return free_name

    def constant(self, array: Array, name: str = "constant") -> NodeValue:
        """A tensor with known contents."""
        result = self.free(name)
        self.constants[result] = array
        return NodeValue(self, result, OF_NUMPY[array.dtype])

    def scalar(self, number: object, dtype: DataType) -> NodeValue:
        """A number as a tensor without axes."""
        key = number, dtype, str(number)  # 0 and -0 are different numbers
        if key not in self._scalars:
            self._scalars[key] = self.constant(np.asarray(number).astype(dtype.numpy), "scalar")
        return self._scalars[key]

    def numbers(self, *values: int) -> NodeValue:
        """Integers as a tensor with one axis, for shapes and axes."""
        if values not in self._scalars:
            self._scalars[values] = self.constant(np.array(values, np.int64), "numbers")
        return self._scalars[values]

    def node(
        self,
        kind: str,
        inputs: Sequence[NodeValue | float | None],
        *,
        dtype: DataType | None = None,
        **attrs: Attr,
    ) -> NodeValue:
        """The result of a new node; numbers among the inputs become scalars of the data type of the first input."""
        first = next(input_ for input_ in inputs if isinstance(input_, NodeValue))
        values = [self.scalar(input_, first.dtype) if isinstance(input_, (int, float)) else input_ for input_ in inputs]
        if kind in POINTWISE:
            pushed = self._before_transposes(kind, values, dtype or first.dtype, attrs)
            if pushed is not None:
                return pushed
        (result,) = self.nodes_results(kind, values, [dtype or first.dtype], **attrs)
        return result

    def nodes_results(
        self,
        kind: str,
        inputs: Sequence[NodeValue | None],
        dtypes: Sequence[DataType | None],
        domain: str = "",
        **attrs: Attr,
    ) -> tuple[NodeValue, ...]:
        """The results of a new node with several outputs; one without a data type is left out, and not returned."""
        names = ["" if dtype is None else self.free(f"{self.op}/{kind}" if self.op else kind) for dtype in dtypes]
        names_of_inputs = ["" if input_ is None else input_.name for input_ in inputs]
        while names_of_inputs and not names_of_inputs[-1]:
            names_of_inputs.pop()
        made = UnwrittenNode(kind, names_of_inputs, names, attrs, domain, self.op, kind in HELPERS)
        self.nodes.append(made)
        self._made.update((name, made) for name in names if name)
        return tuple(
            NodeValue(self, name, dtype) for name, dtype in zip(names, dtypes, strict=True) if dtype is not None
        )

    def known(self, value: NodeValue) -> Array | None:
        """The contents of a constant; None for other tensors."""
        return self.constants.get(value.name)

    def known_scales(self, value: NodeValue) -> Array | None:
        """The known scales of what a DequantizeLinear without blocks makes; None for others."""
        node = self._made.get(value.name)
        if node is None or node.kind != "DequantizeLinear" or "block_size" in node.attrs:
            return None
        return self.constants.get(node.inputs[1])

    def transpose(self, value: NodeValue, order: tuple[int, ...]) -> NodeValue:
        """The tensor with its axes in another order. A constant is transposed at once; two Transposes become one."""
        if order == tuple(range(len(order))):
            return value
        key = value.name, order
        if key not in self._transposed:
            self._transposed[key] = self._transpose(value, order)
        return self._transposed[key]

    def _transpose(self, value: NodeValue, order: tuple[int, ...]) -> NodeValue:
        array = self.known(value)
        if array is not None:
            return self.constant(np.ascontiguousarray(array.transpose(order)), f"{value.name}_transposed")
        node = self._made.get(value.name)
        if node is not None and (first := order_of(node)) is not None:
            return self.transpose(NodeValue(self, node.inputs[0], value.dtype), tuple(first[axis] for axis in order))
        if node is not None and (node.kind == "DequantizeLinear" or self._is_cast_constant(node)):
            return self._through(node, value, order)
        (result,) = self.nodes_results("Transpose", [value], [value.dtype], perm=order)
        return result

    def _is_cast_constant(self, node: UnwrittenNode) -> bool:
        return node.kind == "Cast" and node.inputs[0] in self.constants

    def _through(self, node: UnwrittenNode, value: NodeValue, order: tuple[int, ...]) -> NodeValue:
        """The node on a transposed tensor. A DequantizeLinear so stays beside the node that reads it."""
        node.is_helper = True
        data, *operands = (NodeValue(self, name, value.dtype) for name in node.inputs)
        attrs = dict(node.attrs)
        if "block_size" in attrs:
            operands = [one.transpose(order) for one in operands]
        if "axis" in attrs:
            attrs["axis"] = order.index(int(attrs["axis"]))
        (result,) = self.nodes_results(node.kind, [data.transpose(order), *operands], [value.dtype], **attrs)
        return result

    def _before_transposes(
        self, kind: str, values: Sequence[NodeValue | None], dtype: DataType, attrs: Mapping[str, Attr]
    ) -> NodeValue | None:
        """The Transpose of the node's result on tensors that are not transposed yet; None if they do not allow it."""
        makers = [None if value is None else self._made.get(value.name) for value in values]
        orders = {order for order in map(order_of, makers) if order is not None}
        if len(orders) != 1:
            return None
        (order,) = orders
        back = tuple(order.index(axis) for axis in range(len(order)))
        attrs, moved = dict(attrs), list[NodeValue | None]()
        if "axis" in attrs:
            attrs["axis"] = order[int(attrs["axis"])]
        for number, (value, node) in enumerate(zip(values, makers, strict=True)):
            array = None if value is None else self.known(value)
            if value is None or (array is not None and (not array.ndim or (kind in QUANTIZING and number))):
                moved.append(value)
            elif node is not None and order_of(node) is not None:
                moved.append(NodeValue(self, node.inputs[0], value.dtype))
            elif array is not None and array.ndim <= len(order):
                whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
                moved.append(self.constant(np.ascontiguousarray(whole.transpose(back)), f"{value.name}_transposed"))
            else:
                return None
        (result,) = self.nodes_results(kind, moved, [dtype], **attrs)
        return self.transpose(result, order)

    def without_unused(self, results: Iterable[str]) -> list[UnwrittenNode]:
        """The nodes but those helpers whose results nothing reads."""
        read, kept = set(results), list[UnwrittenNode]()
        for node in reversed(self.nodes):
            if not node.is_helper or not read.isdisjoint(node.outputs):
                kept.append(node)
                read.update(node.inputs)
        return kept[::-1]


class Functions:
    """The functions of a model. Ops with the same body share one.

    Args:
        opset: the op set of the model.
        ir: the version of its format.
        export: makes a model of a graph with functions, and its constants by name.
    """

    def __init__(
        self, opset: int, ir: int, export: Callable[[Any, Functions], tuple[onnx.ModelProto, dict[str, Array]]]
    ) -> None:
        self.opset, self.ir, self._export = opset, ir, export
        self.protos: list[onnx.FunctionProto] = []
        self.imports: dict[str, int] = {}  # of domains of kept nodes
        self._known: dict[bytes, str] = {}
        self._counts: dict[str, int] = {}

    def exported(self, graph: object) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model of a body of control flow, whose functions are these, and its constants by name."""
        return self._export(graph, self)

    def named(
        self, kind: str, inputs: Sequence[str], body: FunctionBody, results: Sequence[str], attrs: Iterable[str]
    ) -> str:
        """The name of the function ``kind`` with this body."""
        nodes = body.without_unused(results)
        read = {name for node in nodes for name in node.inputs} | {*results}
        protos = [
            helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
            for name, array in body.constants.items()
            if name in read
        ]
        protos += [proto(node) for node in nodes]
        made = helper.make_function(
            DOMAIN, kind, inputs, results, protos, [helper.make_opsetid("", self.opset)], sorted(attrs)
        )
        return self._kept(made, kind)

    def of_model(self, model: onnx.ModelProto) -> str:
        """The name of the function that computes a model without constants of its own, with nodes of this op set."""
        graph = model.graph
        for function in model.functions:
            if not any((function.domain, function.name) == (other.domain, other.name) for other in self.protos):
                self._import(function)
                self.protos.append(function)
        constants = [helper.make_node("Constant", [], [one.name], value=one) for one in graph.initializer]
        kind = graph.node[0].op_type if len(graph.node) == 1 else "Nodes"
        made = helper.make_function(
            DOMAIN,
            kind,
            [one.name for one in graph.input],
            [one.name for one in graph.output],
            [*constants, *graph.node],
            model.opset_import,
        )
        self._import(made)
        return self._kept(made, kind)

    def added(self, made: onnx.FunctionProto) -> str:
        """The name of a function, which its kind begins, in the model."""
        return self._kept(made, made.name)

    def _import(self, function: onnx.FunctionProto) -> None:
        """Let a function import the op set of the model, and note its other domains."""
        for import_ in function.opset_import:
            if import_.domain in ("", "ai.onnx"):
                import_.version = self.opset
            else:
                self.imports[import_.domain] = max(import_.version, self.imports.get(import_.domain, 1))

    def _kept(self, made: onnx.FunctionProto, kind: str) -> str:
        key = made.SerializeToString(deterministic=True)
        if key not in self._known:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            made.name = self._known[key] = kind if count == 1 else f"{kind}_{count}"
            self.protos.append(made)
        return self._known[key]
