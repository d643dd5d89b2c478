"""Has the table of the functions that write ops: kind of the op in the base vocabulary -> function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....errors import UnsupportedError
from ....opset.dtypes import DataType
from ....opset.schema import Call
from ....opset.signature import Shape
from ..own import DOMAIN
from .body import FunctionBody, NodeValue

Writer = Callable[..., Any]
WRITERS: dict[str, Writer] = {}
# Ops that become a node of one of our functions; the body computes in f32 and rounds once, as the specification does.
COMPOSED: set[str] = set()
# Ops that no nodes compute, and the reason.
REFUSED: Mapping[str, str] = {
    "Wildcard": "it stands for a computation that the graph does not define",
    **dict.fromkeys(["host AllReduceStart", "host AllReduceDone"], "it averages over processes"),
    "host CouplePairs": "no node of ONNX couples probabilities of pairs",
}
NARROW = frozenset([DataType.f16, DataType.bf16])


def writes(*kinds: str) -> Callable[[Writer], Writer]:
    """Enter a function into the table: ``function(call, *values)`` returns a value, or a tuple in port order."""

    def enter(function: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(kinds, function))
        return function

    return enter


def composes(*kinds: str) -> Callable[[Writer], Writer]:
    """As :func:`writes`, for ops without a standard node: the nodes become the body of a function."""

    def enter(function: Writer) -> Writer:
        COMPOSED.update(kinds)
        return writes(*kinds)(function)

    return enter


def composed(
    body: FunctionBody, kind: str, call: Call, values: list[NodeValue | None], attrs: Mapping[str, Any]
) -> list[NodeValue]:
    """The results of an op as a node that calls a function."""
    ports = [call.schema.input_port(index).name for index in range(len(values))]
    names = [f"{port}_{index}" if ports.count(port) > 1 else port for index, port in enumerate(ports)]
    inner = FunctionBody(body.functions, {*names})
    declared = [
        None if value is None else NodeValue(inner, name, value.dtype)
        for name, value in zip(names, values, strict=True)
    ]
    wide = [one.cast(DataType.f32) if one is not None and one.dtype in NARROW else one for one in declared]
    results = WRITERS[kind](call, *wide)
    results = list(results) if isinstance(results, tuple) else [results]
    types = zip(results, call.output_types, strict=False)
    results = [result.cast(dtype) for result, dtype in types if dtype is not None]
    # A result may be an input, which a function cannot return.
    named_results = [result.op("Identity") if result.name in names else result for result in results]
    name = body.functions.named(
        kind.rpartition(" ")[2].removesuffix("-1"), names, inner, [v.name for v in named_results], attrs
    )
    return [*body.nodes_results(name, values, [one.dtype for one in named_results], DOMAIN, **attrs)]


def result_type(call: Call) -> DataType:
    """The data type of the first result, which each op of a graph has."""
    dtype = call.output_type(0)
    assert dtype is not None
    return dtype


def rank_of(call: Call, port: str) -> int:
    """The rank of an input.

    Raises:
        UnsupportedError: it is unknown.
    """
    rank = call.rank(port)
    if rank is None:
        raise UnsupportedError(f"{call.schema.kind}: the rank of {port} is unknown; specialise the graph first")
    return rank


def known_dims_of(call: Call, shape: Shape, tensor_name: str) -> tuple[int, ...]:
    """The dims of a shape.

    Raises:
        UnsupportedError: one of them is unknown.
    """
    if shape is None or None in shape:
        raise UnsupportedError(f"{call.schema.kind}: dims of {tensor_name} are unknown; specialise the graph first")
    return tuple(dim for dim in shape if dim is not None)


def channels_first(value: NodeValue, data_format: str, rank: int) -> NodeValue:
    """The activations with the channels after the batch."""
    return value if data_format == "NCX" else value.transpose((0, rank - 1, *range(1, rank - 1)))


def channels_back(value: NodeValue, data_format: str, rank: int) -> NodeValue:
    """The activations in the format of the op."""
    return value if data_format == "NCX" else value.transpose((0, *range(2, rank), 1))
