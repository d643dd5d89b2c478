"""Finds constant codes of 4 bits that products and Gathers alone read as numbers, and reads them as they are packed.

An array has a byte for each code. So a DequantizeLinear of such codes and the nodes behind it become nodes of
``DOMAIN``, before any code is unpacked: their weights are rows of bytes, which have the codes of a column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.mapped_files import give_back
from ...arrays.ndarrays import aligned_empty
from ...lowering.emitter import Array
from .functions import domain_of
from .order import captured
from .protos import AttributeProto, GraphProto, NodeProto, TensorProto, contents
from .storage import Storage

DOMAIN = "onegraph.packed"
CODINGS = {TensorProto.INT4: "s4", TensorProto.UINT4: "u4"}
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
UNIT = 16  # codes; the kernel takes groups of multiples of these
SIDES = " (packed by columns)", " (packed by rows)"  # by the axis of a column of the weights
LONGEST = 8  # nodes between codes and their readers
INT, FLOAT, INTS = AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS
TYPES = {
    **dict.fromkeys(("axis", "block_size", "output_dtype", "to", "transA", "transB", "saturate"), INT),
    **dict.fromkeys(("alpha", "beta"), FLOAT),
    "perm": INTS,
}
Attributes = dict[str, Any]
PART = 64  # bytes of a row that are turned at once


class Codes(NamedTuple):
    """Codes that stand for the numbers of a matrix.

    Attributes:
        name: of the numbers.
        tensor, scales, zeros: the initializers; zeros may be None.
        axis: along which blocks lie, or scales if there are no blocks.
        block: codes that share a scale; 0 for no blocks.
    """

    name: str
    tensor: TensorProto
    scales: TensorProto
    zeros: TensorProto | None
    axis: int
    block: int

    def fits(self, depth_axis: int) -> bool:
        """Whether the scales are those of groups along an axis, and the codes of a row fill whole bytes."""
        dims, parts = [*self.tensor.dims], [*self.scales.dims]
        if 0 in dims or dims[1] % 2 or dims[depth_axis] % 2:
            return False
        depth, columns = dims[depth_axis], dims[1 - depth_axis]
        if not self.block:
            return parts in ([], [1]) or (self.axis == 1 - depth_axis and parts == [columns])
        blocks = -(-depth // self.block)
        is_along = self.axis == depth_axis and (blocks == 1 or self.block % UNIT == 0)
        return is_along and parts == ([blocks, columns] if depth_axis == 0 else [columns, blocks])


class PackedConsumer(NamedTuple):
    """A node that reads the numbers.

    Attributes:
        node: the product or Gather.
        depth_axis: of the codes, along which a product sums, or along which a row of a table lies.
        dtype: the data type of the numbers.
    """

    node: NodeProto
    depth_axis: int
    dtype: int


class PackedNodes:
    """What becomes of the nodes of a graph.

    Args:
        graph: the graph of a model.
        storage: the contents of its tensors.
        given: names of initializers that inputs of the graph replace.

    Attributes:
        unread: the names of initializers that no node reads any more.
        values: the contents of those that are new.
    """

    def __init__(self, graph: GraphProto, storage: Storage, graph_inputs: Iterable[str]) -> None:
        self.unread, self.values = set[str](), dict[str, Array]()
        self._storage = storage
        self._new: dict[str, NodeProto | None] = {}  # by the first result of the old one; None for no node
        graph_inputs = {*graph_inputs}
        self._tensors = {one.name: one for one in graph.initializer if one.name not in graph_inputs}
        if not any(one.data_type in CODINGS for one in self._tensors.values()):
            return
        self._readers, self._makers = defaultdict[str, list[NodeProto]](list), dict[str, NodeProto]()
        self._seen = {one.name for one in graph.output}  # by others than nodes of the graph
        for node in graph.node:
            self._makers.update((name, node) for name in node.output)
            self._seen.update(captured(node))
            for name in {*node.input}:
                if name.endswith(SIDES):
                    return  # a name that a new tensor may have
                self._readers[name].append(node)
        for node in graph.node:
            if node.op_type == "DequantizeLinear" and domain_of(node.domain) == "" and _has_one_result(node):
                self._add(node)
        self.unread.update(name for name in self._tensors if name not in self._seen and self._is_replaced(name))

    def _is_replaced(self, name: str) -> bool:
        """Whether all nodes that read a tensor are no longer there."""
        return all(self._renewed(one) is None for one in self._readers[name])

    def _renewed(self, node: NodeProto) -> NodeProto | None:
        """The node in the place of another one, which may be the same; None if it is no longer there."""
        return self._new.get(node.output[0], node) if node.output else node

    def ordered(self, nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
        """The nodes with the new ones in the places of old ones."""
        if not self._new:
            return nodes
        return [one for one in map(self._renewed, nodes) if one is not None]

    def _add(self, node: NodeProto) -> None:
        """Replace a node and its readers, if all readers can read packed codes."""
        attrs = _attributes(node)
        if attrs is None or (codes := self._codes(node, attrs)) is None:
            return
        dropped: list[NodeProto] = [node]
        dtype = attrs.get("output_dtype", 0) or codes.scales.data_type
        readers = [*self._found(node.output[0], 1, dtype, dropped)]
        known = [one for one in readers if one is not None and codes.fits(one.depth_axis)]
        if not known or len(known) < len(readers):
            return
        self._new.update((one.output[0], None) for one in dropped)
        for reader in known:
            self._new[reader.node.output[0]] = self._made(codes, reader)

    def _codes(self, node: NodeProto, attrs: Attributes) -> Codes | None:
        parts = [self._tensors.get(name) for name in node.input]
        if len(parts) not in (2, 3) or (any(node.input[2:]) and parts[2] is None):
            return None
        tensor, scales, zeros = (*parts, None)[:3]
        if tensor is None or scales is None:
            return None
        if tensor.data_type not in CODINGS or len(tensor.dims) != 2 or scales.data_type not in FLOATS:
            return None
        if zeros is not None and (zeros.data_type != tensor.data_type or zeros.dims != scales.dims):
            return None
        axis, block = attrs.get("axis", 1), attrs.get("block_size", 0)
        if not -2 <= axis < 2 or block < 0:
            return None
        return Codes(node.output[0], tensor, scales, zeros, axis % 2, block)

    def _found(
        self, name: str, depth_axis: int, dtype: int, dropped: list[NodeProto]
    ) -> Iterator[PackedConsumer | None]:
        """Who reads numbers; None for a node that cannot read packed codes. ``dropped`` gets nodes in between."""
        if name in self._seen:
            yield None
        for node in self._readers[name]:
            attrs, kind = _attributes(node), node.op_type
            is_plain = domain_of(node.domain) == "" and [*node.input].count(name) == 1 and _has_one_result(node)
            if attrs is None or not is_plain or len(dropped) > LONGEST:
                yield None
            elif kind == "Transpose" and attrs.get("perm", [1, 0]) == [1, 0]:
                dropped.append(node)
                yield from self._found(node.output[0], 1 - depth_axis, dtype, dropped)
            elif kind == "Cast" and attrs.get("to") in FLOATS:
                dropped.append(node)
                yield from self._found(node.output[0], depth_axis, attrs["to"], dropped)
            elif kind in ("MatMul", "Gemm"):
                yield self._product(node, name, 1 - depth_axis, dtype, attrs)
            elif kind == "Gather" and [*node.input][:1] == [name] and attrs.get("axis", 0) in (0, -2):
                is_open = len(node.input) == 2 and node.input[1] not in self._tensors
                yield PackedConsumer(node, depth_axis, dtype) if is_open else None
            else:
                yield None

    def _product(
        self, node: NodeProto, name: str, depth_axis: int, dtype: int, attrs: Attributes
    ) -> PackedConsumer | None:
        if len(node.input) not in (2, 3):
            return None
        src = node.input[0]
        maker = self._makers.get(src)
        is_plain = attrs.get("alpha", 1) == attrs.get("beta", 1) == 1 and not attrs.get("transA", 0)
        # Codes on both sides are a product of codes.
        if src in self._tensors or (maker is not None and maker.op_type == "DequantizeLinear"):
            return None
        if node.input[1] != name or not is_plain:
            return None
        return PackedConsumer(node, 1 - depth_axis if attrs.get("transB", 0) else depth_axis, dtype)

    def _made(self, codes: Codes, reader: PackedConsumer) -> NodeProto:
        """The node in the place of a reader."""
        axis, old = reader.depth_axis, reader.node
        depth, columns = codes.tensor.dims[axis], codes.tensor.dims[1 - axis]
        ends = [codes.tensor, codes.scales, codes.zeros]
        owners = codes.tensor.name, f"scales of {codes.name}", f"zero points of {codes.name}"
        names = ["" if one is None else name + SIDES[axis] for name, one in zip(owners, ends, strict=True)]
        if names[0] not in self.values:
            self.values[names[0]] = self._rows(codes.tensor, axis)
        for name, tensor in zip(names[1:], ends[1:], strict=True):
            if tensor is not None and name not in self.values:
                self.values[name] = self._parameters(tensor, columns, axis)
        made = NodeProto(op_type=old.op_type, domain=DOMAIN, name=old.name, output=old.output)
        src = old.input[1] if old.op_type == "Gather" else old.input[0]
        made.input.extend([src, *names, *old.input[2:]])
        group = codes.block if codes.block < depth else 0
        for name, number in {"group": group, "depth": depth, "dtype": reader.dtype}.items():
            made.attribute.append(AttributeProto(name=name, type=AttributeProto.INT, i=number))
        coding = CODINGS[codes.tensor.data_type].encode()
        made.attribute.append(AttributeProto(name="coding", type=AttributeProto.STRING, s=coding))
        return made

    def _rows(self, tensor: TensorProto, depth_axis: int) -> Array:
        """The bytes of codes (columns, depth / 2)."""
        whole, (rows, columns) = TensorProto(), tensor.dims
        whole.CopyFrom(tensor)
        whole.data_type = TensorProto.UINT8
        whole.dims[:] = [rows, columns // 2]
        numbers = self._storage.array(whole, f"initializer {tensor.name!r}")
        if depth_axis == 1:
            return numbers
        made = turned(numbers)
        give_back([numbers])
        return made

    def _parameters(self, tensor: TensorProto, columns: int, depth_axis: int) -> Array:
        """Scales or zero points (columns, groups)."""
        numbers = self._storage.array(tensor, f"initializer {tensor.name!r}")
        if numbers.size == 1:
            numbers = np.full((columns, 1), numbers.reshape(-1)[0])
        elif numbers.ndim == 1:
            numbers = numbers.reshape(columns, 1)
        elif depth_axis == 0:
            numbers = np.ascontiguousarray(numbers.T)
        if tensor.data_type not in CODINGS:
            return numbers
        return numbers.astype(np.int8 if tensor.data_type == TensorProto.INT4 else np.uint8)


def _has_one_result(node: NodeProto) -> bool:
    return [*map(bool, node.output)] == [True]


def _attributes(node: NodeProto) -> Attributes | None:
    """The attributes of a node; None if one is unknown here, or has another type."""
    attributes = Attributes()
    for attribute in node.attribute:
        if attribute.ref_attr_name or attribute.type != TYPES.get(attribute.name):
            return None
        attributes[attribute.name] = contents(attribute)
    return attributes


def turned(rows: Array) -> Array:
    """Bytes (depth, columns / 2), of which each has the codes of two columns, as (columns, depth / 2)."""
    depth, width = rows.shape
    made = aligned_empty((2 * width, depth // 2), np.dtype(np.uint8))
    for begin in range(0, width, PART):
        piece = rows[:, begin : begin + PART]
        first, second = piece[::2], piece[1::2]
        target = made[2 * begin : 2 * (begin + piece.shape[1])]
        target[::2] = ((first & 15) | (second << 4)).T
        target[1::2] = ((first >> 4) | (second & 0xF0)).T
    return made
