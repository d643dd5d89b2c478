"""Reads the contents of tensors: from the model, from its file, or from files beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..._util.mapped_file import MappedFile, NotRegularError, SourceFiles
from ...arrays.mapped_files import LEAST_BYTES
from ...arrays.ndarrays import aligned_empty
from ...errors import FormatError
from ...ir.op import Array
from .protos import FunctionProto, NodeProto, TensorProto
from .types import data_type
from .wire import Pieces

# Several elements of these share a byte; the package onnx unpacks them.
PACKED = frozenset(
    number
    for name in ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
    if (number := getattr(TensorProto, name, None)) is not None
)
# The fields that hold the elements of these data types one by one.
FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT8: "int32_data",
    TensorProto.UINT8: "int32_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT64: "int64_data",
}
MAX_BYTES = 2**46  # more than any machine has
# What a model is read from.
Source = MappedFile | memoryview

Inlined = TypeVar("Inlined", NodeProto, FunctionProto)


class Storage:
    """Where the contents of a model's tensors are.

    Args:
        source: the file or bytes that the model came from; None if the model has all contents itself.
        pieces: where the large tensors are in the source.
        directory: the folder of external data; None if there is none.
        files: open the external data.
    """

    def __init__(
        self, source: Source | None, pieces: Pieces, directory: Path | None, files: SourceFiles | None = None
    ) -> None:
        self.source, self.pieces, self.directory = source, pieces, directory
        self._files = SourceFiles() if files is None else files
        self._maps: dict[str, MappedFile | None] = {}  # by location

    def array(self, tensor: TensorProto, where: str) -> Array:
        """The contents of a tensor.

        Raises:
            FormatError: the data type is not one of a graph, the contents do not fit the shape, or they are in a file
                that cannot be read or is not in the model's folder.
        """
        dtype = data_type(tensor.data_type, where).numpy
        dims = [*tensor.dims]
        if any(dim < 0 for dim in dims) or math.prod(dims) > MAX_BYTES:
            raise FormatError(where, f"shape {dims}", "dims of a tensor that fits into memory")
        if tensor.HasField("segment"):
            raise FormatError(where, "a segment of a tensor", "a whole tensor")
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._external(tensor, dims, dtype, where)
        raw = tensor.raw_data if tensor.HasField("raw_data") else None
        chunk = None if raw is None else self.pieces.chunk(raw)
        if chunk is not None and self.source is not None:
            return self._read(self.source, *chunk, tensor, dims, dtype, where)
        if raw is not None and tensor.data_type not in PACKED:
            self._expect(len(raw), dims, dtype, where)
            return np.frombuffer(raw, dtype).reshape(dims)
        return self._unpacked(tensor, dims, dtype, where)

    def inlined(self, proto: Inlined) -> Inlined:
        """A node or function whose tensors have their contents in themselves."""
        if not any(self._is_elsewhere(tensor) for tensor in _tensors(proto)):
            return proto
        made = type(proto)()
        made.CopyFrom(proto)
        for tensor in _tensors(made):
            if self._is_elsewhere(tensor):
                contents = self.array(tensor, f"tensor {tensor.name!r} of {proto.name!r}")
                from onnx import numpy_helper

                tensor.CopyFrom(numpy_helper.from_array(contents, tensor.name))
        return made

    def _is_elsewhere(self, tensor: TensorProto) -> bool:
        marked = self.pieces.chunk(tensor.raw_data) is not None
        return marked or tensor.data_location == TensorProto.EXTERNAL

    def _read(
        self,
        source: Source,
        offset: int,
        size: int,
        tensor: TensorProto,
        dims: list[int],
        dtype: np.dtype[np.generic],
        where: str,
    ) -> Array:
        """The contents at a place of the source: a part of the mapped file, or a copy if they are small or in bytes."""
        if tensor.data_type in PACKED:
            return self._inline(tensor, bytes(source[offset : offset + size]), dims, dtype, where)
        self._expect(size, dims, dtype, where)
        if isinstance(source, MappedFile) and size >= LEAST_BYTES:
            return source.array(offset, dims, dtype)
        array: Array = aligned_empty(dims, dtype)
        array.reshape(-1).view(np.uint8)[...] = np.frombuffer(source, np.uint8, size, offset)
        return array

    def _inline(
        self, tensor: TensorProto, raw: bytes, dims: Sequence[int], dtype: np.dtype[np.generic], where: str
    ) -> Array:
        """The contents of a packed tensor whose bytes are elsewhere."""
        whole = TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name, raw_data=raw)
        return self._unpacked(whole, dims, dtype, where)

    def _unpacked(self, tensor: TensorProto, dims: Sequence[int], dtype: np.dtype[np.generic], where: str) -> Array:
        try:
            if (field := FIELDS.get(tensor.data_type)) is not None and not tensor.HasField("raw_data"):
                array: Array = np.array(getattr(tensor, field)).astype(dtype).reshape(dims)
            else:
                from onnx import numpy_helper  # with the whole package, which few models need

                array = numpy_helper.to_array(tensor)
        except Exception as error:  # the package raises errors of many classes
            raise FormatError(where, str(error), f"contents of shape {[*dims]}") from None
        if array.shape != tuple(dims):
            raise FormatError(where, f"contents of shape {[*array.shape]}", f"shape {[*dims]}")
        return array.astype(dtype, copy=False)

    def _expect(self, size: int, dims: Sequence[int], dtype: np.dtype[np.generic], where: str) -> None:
        needed = math.prod(dims) * dtype.itemsize
        if size != needed:
            raise FormatError(where, f"{size} bytes", f"{needed} bytes for {dtype} of shape {[*dims]}")

    def _external(self, tensor: TensorProto, dims: list[int], dtype: np.dtype[np.generic], where: str) -> Array:
        entries = {one.key: one.value for one in tensor.external_data}
        location = entries.get("location", "")
        if location not in self._maps:
            self._maps[location] = self._mapped(location, where)
        mapped = self._maps[location]
        whole = 0 if mapped is None else len(mapped)
        offset = _number(entries.get("offset", "0"), where, "offset")
        size = _number(entries.get("length", str(max(whole - offset, 0))), where, "length")
        if offset + size > whole:
            raise FormatError(where, f"bytes {offset} to {offset + size}", f"a part of the file, which has {whole}")
        if tensor.data_type in PACKED:
            return self._inline(tensor, b"" if mapped is None else mapped[offset : offset + size], dims, dtype, where)
        self._expect(size, dims, dtype, where)
        if mapped is None or not size:
            return np.empty(dims, dtype)
        return mapped.array(offset, dims, dtype)

    def _mapped(self, location: str, where: str) -> MappedFile | None:
        """A file of the model's folder in memory; None if it is empty."""
        expected = "a file in the folder of the model"
        if self.directory is None:
            raise FormatError(where, f"external data in {location!r}", "a model that is loaded from a path, or folder=")
        if not location or "\0" in location or os.path.isabs(location):
            raise FormatError(where, f"external data in {location!r}", expected)
        path = Path(os.path.realpath(self.directory / location))
        if not path.is_relative_to(os.path.realpath(self.directory)):
            raise FormatError(where, f"external data in {location!r}, which is outside", expected)
        try:
            return self._files.open(self.directory / location, str(path))
        except NotRegularError:
            raise FormatError(where, f"external data in {location!r}", expected) from None
        except OSError as error:
            raise FormatError(where, f"external data in {location!r}: {error.strerror}", expected) from None


def _number(text: str, where: str, key: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FormatError(where, f"{key} {text!r} of external data", "a number")
    return int(text)


def _tensors(proto: NodeProto | FunctionProto) -> Iterator[TensorProto]:
    """The tensors in the attributes of a node, or of the nodes of a function."""
    if isinstance(proto, FunctionProto):
        for node in proto.node:
            yield from _tensors(node)
        return
    for attribute in proto.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
            yield from graph.initializer
            for node in graph.node:
                yield from _tensors(node)
