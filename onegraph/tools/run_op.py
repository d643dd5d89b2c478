"""Runs one op on arrays, without a graph of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._util.exact_types import elements, has_type
from .._util.tracebacks import ends_traceback
from ..arrays.ndarrays import array_of
from ..graph import Graph
from ..ir.op import Array, LogicalTensor
from ..opset.editions.registry import DEFAULT
from ..opset.editions.registry import edition as edition_named

if TYPE_CHECKING:
    from ..runtime.call_types import Result


@ends_traceback
def run_op(
    kind: str,
    arrays: Sequence[Any] | Any,
    attrs: Mapping[str, object] | None = None,
    *,
    edition: str | None = None,
    dtype: object = None,
    outputs: Sequence[str] | None = None,
) -> Result:
    """Run one op of any edition on arrays: the shortest way to see what it computes.

    The op is checked, compiled and run like an op of a graph, so it runs in the library where the library has it right,
    and on numpy elsewhere.

    Args:
        kind: the op, as the edition names it.
        arrays: the inputs in port order, as numpy arrays or objects with ``__dlpack__``; None omits an optional input.
            One array stands for a list of one.
        attrs: a dictionary of attribute names and values.
        edition: name of the edition, ``onednn-3.13`` by default.
        dtype: data type of the output where the op leaves it open, as for ``Graph.op``.
        outputs: names of the optional outputs that are wanted, as for ``Graph.op``.

    Returns:
        An array for one output, else a named tuple in port order.

    Raises:
        SpecError: the op breaks the specification.
        ArgumentError: an array has a data type that oneDNN lacks, or the edition is unknown.
        LibraryError: there is no usable oneDNN library.
    """
    schema = edition_named(DEFAULT if edition is None else edition).schema(kind)
    listed = elements(arrays)
    graph = Graph(DEFAULT if edition is None else edition)
    inputs: list[LogicalTensor | None] = []
    values: dict[str, Array] = {}
    for index, array in enumerate([arrays] if listed is None else listed):
        if array is None:
            inputs.append(None)
            continue
        value = array_of(f"arrays[{index}]", array)
        port = schema.input_port(index) if schema is not None and index < len(schema.inputs) else None
        if port is not None and port.gives_shape:
            inputs.append(graph.constant(value))
        else:
            name = f"input_{index}"
            inputs.append(graph.input(name, value.dtype, value.shape))
            values[name] = value
    results = graph.op(kind, inputs, attrs, dtype=dtype, outputs=outputs)
    for tensor in results if has_type(results, tuple) else (results,):
        graph.output(tensor.name.rpartition(".")[2], tensor)
    return graph.compile()(**values)
