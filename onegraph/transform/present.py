"""Makes a copy of a graph with open sizes for their present values."""

from __future__ import annotations

from .._util.open_numbers import has_open_numbers, numbers_of
from .._util.open_sizes import is_open, present
from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, make_op, make_tensor
from ..opset.signature import AttrValue, Shape


def at_present(graph: DataGraph) -> DataGraph:
    """The graph, with the same numbers of tensors and ops, whose dims, attributes and contents are plain numbers.

    Contents stay arrays as ``numbers_of`` makes them, so that passes treat them as those of open sizes.
    """
    made = DataGraph.copy(graph)
    made._by_id = {number: _tensor(tensor) for number, tensor in graph._by_id.items()}
    made._inputs = {name: made._by_id[tensor.id] for name, tensor in graph._inputs.items()}
    made._outputs = {name: _tensor(tensor) for name, tensor in graph._outputs.items()}
    made._ops = [
        make_op(
            op.id,
            op.kind,
            tuple([made._by_id[tensor.id] for tensor in op.inputs]),
            tuple([made._by_id[tensor.id] for tensor in op.outputs]),
            {name: _value(value) for name, value in op.attrs.items()},
            op.name,
            op.edition,
            None,
        )
        for op in graph._ops
    ]
    return made


def _tensor(tensor: LogicalTensor) -> LogicalTensor:
    shape, strides, value = _dims(tensor.shape), _dims(tensor.strides), tensor.value
    if value is not None and has_open_numbers(value):
        value = numbers_of([present(size) for size in value.ravel()], value.shape)  # to be treated alike
    if shape is tensor.shape and strides is tensor.strides and value is tensor.value:
        return tensor
    return make_tensor(tensor.id, tensor.dtype, shape, strides, tensor.name, value, tensor._watches, tensor._graph)


def _dims(dims: Shape) -> Shape:
    if dims is None or not is_open(dims):
        return dims
    return tuple([None if dim is None else present(dim) for dim in dims])


def _value(value: AttrValue) -> AttrValue:
    return tuple(map(present, value)) if isinstance(value, tuple) and is_open(value) else value
