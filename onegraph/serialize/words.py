"""Writes a small graph as one word of plain characters, and reads it: the bodies of control flow are attributes."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..builder.graph import DataGraph
from ..errors import OneGraphError
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.schema import Call
from .document import document
from .names import read_names
from .reader import build
from .writer import as_form, tensor_ids

MOST = 1 << 28  # bytes of a word that is unpacked


def as_word(graph: DataGraph) -> str:
    """The word of a graph, with its constants, and with what its front end has noted."""
    ids = tensor_ids(graph)
    data = {
        str(ids[tensor.id]): _written(tensor.dtype, tensor.value)
        for tensor in graph._tensors
        if tensor.value is not None
    }
    roundings = None if graph._roundings is None else sorted(graph._roundings)
    whole = {"graph": as_form(graph), "data": data, "roundings": roundings, "as_read": graph._is_as_read()}
    return b64encode(zlib.compress(json.dumps(whole, separators=(",", ":")).encode())).decode()


@lru_cache(maxsize=256)
def of_word(word: str) -> DataGraph:
    """The graph of a word. It is kept for the next call, so nobody may add to it.

    Raises:
        ValueError: the word is no graph.
    """
    try:
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(b64decode(word, validate=True), MOST)
        if not unpacked.eof:
            raise ValueError("too long, or cut off")
        whole = json.loads(text)
        doc, names = document(whole["graph"]), read_names(whole["graph"])
        graph = DataGraph(names.edition, strict=False)
        build(graph, doc, names, {int(number): _read(*one) for number, one in whole["data"].items()})
        roundings = whole["roundings"]
        known = None if roundings is None else frozenset(map(str, roundings))
        graph._note_reading(known, as_read=whole["as_read"] is True)
        graph._file = None
    except (OneGraphError, ValueError, KeyError, TypeError, zlib.error, RecursionError) as error:
        raise ValueError(f"the body is no graph: {error}") from None
    return graph


def body_of(call: Call, name: str) -> DataGraph:
    """The graph that an attribute of a use of control flow is.

    Raises:
        ValueError: the word is no graph, or the graph reads or returns something else than this body does.
    """
    graph, count, results = of_word(call.string(name)), len(call.inputs) - 1, call.n_outputs
    assert results is not None
    read, wanted = _named("c", count), _named("y", results)
    if name == "body":  # of a Loop
        states, scanned = call.s64("n_states"), call.s64("n_scanned")
        read = ["i", *_named("s", states), *_named("x", scanned), *_named("c", count - 1 - states - scanned)]
        wanted = ["going", *_named("t", states), *_named("y", results - states)]
    for side, tensors, missing in (
        ("inputs", graph.inputs, [end for end in graph.inputs if end not in read]),
        ("outputs", graph.outputs, [end for end in wanted if end not in graph.outputs]),
    ):
        if missing:
            allowed = ", ".join(read if side == "inputs" else wanted)
            raise ValueError(f"{name}: a graph with the {side} {', '.join(tensors)}; expected {allowed}")
    return graph


def _named(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def _written(dtype: DataType, array: Array) -> list[Any]:
    return [dtype.value, array.shape, b64encode(array.tobytes()).decode()]


def _read(name: str, shape: list[int], contents: str) -> Array:
    dtype = DataType[name].numpy
    array = aligned_empty(tuple(shape), dtype)
    array[...] = np.frombuffer(b64decode(contents), dtype).reshape(shape)
    array.flags.writeable = False
    return array
