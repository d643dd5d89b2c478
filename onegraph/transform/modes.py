"""Makes a graph for training of one for inference, and the reverse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from math import prod
from typing import cast

from .._util.counted import some_of
from .._util.exact_types import elements, text
from .._util.validation import as_dict, number
from ..arrays.ndarrays import array_of
from ..builder.chosen_outputs import returning
from ..builder.graph import AnyGraph, DataGraph
from ..builder.readers import own_op
from ..builder.uses import depended_on, uses_of, with_inputs
from ..errors import ArgumentError, shown
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.shapes import show

FLOATS = frozenset([DataType.f32, DataType.bf16, DataType.f16])


def with_variables(graph: AnyGraph, names: object, batch_norm: object) -> AnyGraph:
    """The graph with constants as variables; see :meth:`onegraph.Graph.with_variables`."""
    momentum = None if batch_norm is None else number("with_variables: batch_norm", batch_norm, 0, 1)
    new = DataGraph.copy(graph)
    if momentum is not None and not any(op.kind == "BatchNormInference" for op in new._ops):
        raise ArgumentError(
            "with_variables: batch_norm: the graph has no BatchNormInference; expected one, or no batch_norm; "
            "torch.onnx.export folds it into convolutions, unless optimize=False"
        )
    statistics = _own_statistics(new)
    constants = {tensor.id: tensor for tensor in new._tensors if tensor.constant}
    chosen = _chosen(constants, names, statistics)
    if momentum is not None:
        chosen = dict.fromkeys([*chosen, *statistics])
    pairs = {}
    for constant_id in chosen:
        pairs[constant_id] = new.variable(
            _free_name(new, constants[constant_id].name),
            constants[constant_id].value,
            dtype=constants[constant_id].dtype,
        )
    new._rewire(pairs)
    new._drop([constants[one] for one in chosen])
    if momentum is not None:
        for op in [op for op in new._ops if op.kind == "BatchNormInference"]:
            _train_batch_norm(new, own_op(new, op, "with_variables"), momentum)
    return new


def _own_statistics(graph: DataGraph) -> dict[int, None]:
    """The ids of the constants that are statistics of one BatchNormInference each, and nothing else.

    Exporters write equal constants once: the scale and the variance of a layer that was never trained are both ones.
    A statistic that is read elsewhere too gets a constant of its own. Else it would change with the weight, or the
    weight would be taken for a statistic.
    """
    ends = [tensor.id for tensor in graph._outputs.values()]
    reads = Counter([*ends, *(tensor.id for op in graph._ops for tensor in op.inputs)])
    statistics, ops = dict[int, None](), [*graph._ops]
    for index, op in enumerate(ops):
        if op.kind != "BatchNormInference":
            continue
        inputs = list(op.inputs)
        for port, name in ((3, "mean"), (4, "variance")):
            tensor = inputs[port]
            if not tensor.constant:
                continue
            if reads[tensor.id] > 1:
                reads[tensor.id] -= 1
                inputs[port] = tensor = graph.constant(tensor.value, name=f"{op.name}.{name}", dtype=tensor.dtype)
            statistics[tensor.id] = None
        ops[index] = with_inputs(op, inputs)
    graph._ops = ops
    return statistics


def for_inference(graph: AnyGraph, values: object, outputs: object) -> AnyGraph:
    """The graph without variables and training; see :meth:`onegraph.Graph.for_inference`."""
    contents = {**graph._initial, **_contents(graph, values)}
    new = DataGraph.copy(graph) if outputs is None else returning(graph, outputs)
    assigned = {*new._next.values()}
    new._outputs = {name: tensor for name, tensor in new._outputs.items() if name not in assigned}
    new._next = {}
    if not new._outputs:
        raise ArgumentError("for_inference: the graph has only variables as results; expected an output to compute")
    _keep_needed(new)
    for record in [*new._ops]:
        if record.kind == "BatchNormForwardTraining":
            _fix_batch_norm(new, own_op(new, record, "for_inference"))
        elif record.kind == "Dropout":
            op = own_op(new, record, "for_inference")  # it reads what has taken the place of an op before
            _expect_unread(new, op)
            new._rewire({op.outputs[0].id: op.inputs[0]})
    _keep_needed(new)
    variables = {name: new._inputs.pop(name) for name in new._initial}
    new._initial = {}
    new._rewire({old.id: new.constant(contents[name], name=name, dtype=old.dtype) for name, old in variables.items()})
    for old in variables.values():
        del new._by_id[old.id]
    _drop_unread(new, keep_inputs=outputs is None)
    return new


def _chosen(constants: Mapping[int, LogicalTensor], names: object, statistics: Mapping[int, None]) -> dict[int, None]:
    """The ids of the constants that become variables."""
    if names is None:
        return dict.fromkeys(
            constant_id
            for constant_id, tensor in constants.items()
            if constant_id not in statistics and tensor.dtype in FLOATS and tensor.shape and not _is_number(tensor)
        )
    patterns = elements(names)
    if patterns is None:
        raise ArgumentError(f"with_variables: names: {shown(names)}; expected a list of names of constants")
    chosen: dict[int, None] = {}
    for index, entry in enumerate(patterns):
        pattern = text(entry)
        matching = [
            one for one, tensor in constants.items() if pattern is not None and fnmatchcase(tensor.name, pattern)
        ]
        if not matching:
            known = some_of(tensor.name for tensor in constants.values())
            raise ArgumentError(f"with_variables: names[{index}]: {shown(entry)}; the constants are {known}")
        chosen.update(dict.fromkeys(matching))
    return chosen


def _is_number(tensor: LogicalTensor) -> bool:
    """Whether a constant is one number without a name of its own, such as the scale of an attention."""
    return prod(cast("tuple[int, ...]", tensor.shape)) == 1 and re.fullmatch(r"constant_\d+", tensor.name) is not None


def _free_name(graph: DataGraph, name: str) -> str:
    while name in graph._inputs or name in graph._outputs or name == "out":
        name += "_"
    return name


def _train_batch_norm(graph: DataGraph, op: Op, momentum: float) -> None:
    """Let a BatchNorm take the statistics of the batch, and assign the running ones."""
    src, gamma, beta, mean, variance = op.inputs
    known = {tensor.id for name, tensor in graph.variables.items() if name not in graph._next}
    if not {mean.id, variance.id} <= known:
        raise ArgumentError(
            f"with_variables: batch_norm: {op.kind} {op.name!r} reads statistics that are computed, given, or "
            "variables of another op too; expected constants or variables of its own"
        )
    attrs = {**op.attrs, "momentum": momentum}
    results = graph.op(
        "BatchNormForwardTraining", [src, mean, variance, gamma, beta], attrs, name=f"{op.name}/training"
    )
    graph._rewire({op.outputs[0].id: results.dst})
    graph._drop(op.outputs)
    graph.assign(mean, results.running_mean)
    graph.assign(variance, results.running_variance)


def _fix_batch_norm(graph: DataGraph, op: Op) -> None:
    """Let a BatchNorm take the running statistics that it reads."""
    _expect_unread(graph, op)
    if len(op.inputs) < 5:
        raise ArgumentError(
            f"for_inference: {op.kind} {op.name!r} has no gamma and beta, which a BatchNormInference needs; pass them"
        )
    src, mean, variance, gamma, beta = op.inputs
    attrs = {name: value for name, value in op.attrs.items() if name != "momentum"}
    name = op.name.removesuffix("/training")
    name = f"{name}/inference" if any(other.name == name for other in graph._ops) else name
    result = graph.op("BatchNormInference", [src, gamma, beta, mean, variance], attrs, name=name, edition=op.edition)
    graph._rewire({op.outputs[0].id: result})


def _expect_unread(graph: DataGraph, op: Op) -> None:
    """Raise ArgumentError if an output of the graph needs more of a training op than its first result."""
    ends = {tensor.id for tensor in graph._outputs.values()}
    for tensor in op.outputs[1:]:
        if tensor.id in ends or uses_of(graph).consumers.get(tensor.id):
            raise ArgumentError(
                f"for_inference: {tensor.name!r} of {op.kind} {op.name!r} exists in training alone, and an output "
                "needs it; outputs=[...] names the outputs to keep"
            )


def _keep_needed(graph: DataGraph) -> None:
    """Remove the ops that no output needs."""
    needed = depended_on(graph, graph._outputs.values())
    unneeded = [op for op in graph._ops if op.id not in needed]
    for op in unneeded:
        if not op.outputs:
            graph._drop((), op)
    graph._drop([tensor for op in unneeded for tensor in op.outputs])  # the last first, which others read


def _drop_unread(graph: DataGraph, *, keep_inputs: bool) -> None:
    """Remove constants that nothing reads, and such inputs too unless they are kept."""
    ends, read = {tensor.id for tensor in graph._outputs.values()}, uses_of(graph).consumers
    unread = [tensor for tensor in graph._tensors if not read.get(tensor.id) and tensor.id not in ends]
    if not keep_inputs:
        graph._inputs = {name: tensor for name, tensor in graph._inputs.items() if tensor not in unread}
    graph._drop([tensor for tensor in unread if tensor.constant])


def _contents(graph: DataGraph, values: object) -> dict[str, Array]:
    """The values of variables, checked."""
    new_values = (
        {} if values is None else as_dict("for_inference: values", values, "a dictionary of arrays by variable")
    )
    contents = {}
    for name, value in new_values.items():
        tensor = graph.variables.get(name)
        if tensor is None:
            names = some_of(graph.variables)
            raise ArgumentError(f"for_inference: values: {shown(name)} is no variable; the variables are {names}")
        array = array_of(f"for_inference: values[{name!r}]", value)
        if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
            given_type = f"{array.dtype} {show(array.shape)}"
            raise ArgumentError(
                f"for_inference: values[{name!r}]: {given_type}; expected {tensor.dtype} {show(tensor.shape)}"
            )
        contents[name] = array
    return contents
