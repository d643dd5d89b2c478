"""Objects of the C API that are made, changed, compiled and executed: materials of :mod:`draws`."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.testing.random_graph import random_graph
from tests.lowering import test_recorded_graphs as recorded

from .draws import BOUNDS, cases_by_kind, material
from .neighbours import attributes_beside
from .recorded import numbers_of

F32, MOST = DataType.f32, 2**61
WRONG = (None, 5, -1, 1.5, True, "", "x", (1, 2), [], {}, b"x", object, 2**64)
TYPES = ("f32",) * 9 + ("bf16", "f16", "s8", "s8", "u8", "s32", "s32", "boolean", "s64", "s4")
LAYOUTS = ("strided",) * 8 + ("any", "any", "undef", "opaque", "x")
KINDS = ("variable", "variable", "constant", "undef", "undef") * 3 + ("host_scalar", "x")
VERSION = (3, 2)  # of the library whose words are recorded
PLACES = re.compile(r"(?<=Partition\()\d+")  # the number of a partition in this process


def attempt(make: Callable[..., Any], *given: object, **named: object) -> Any:
    """What a call makes, or the text of its error."""
    try:
        return make(*given, **named)
    except OneGraphError as error:
        return f"{type(error).__name__}: {error}"


def dims(drawn: Random) -> Any:
    """A shape, mostly a right one."""
    if drawn.random() < 0.05:
        return drawn.choice((*WRONG, [2] * 13, [MOST, 4], [2**31] * 2, [MOST, 1], [-1, 2], [MOST, 3], [2**20, 0]))
    rank = drawn.choice((0, 1, 2, 2, 3, 4))
    known = [drawn.choice((1, 1, 2, 3, 4, 0)) for _ in range(rank)]
    return known if drawn.random() < 0.8 else drawn.choice((None, [drawn.choice((one, None)) for one in known]))


def steps(shape: Any, drawn: Random) -> Any:
    """Strides of a shape: dense ones, others, or wrong ones."""
    if drawn.random() < 0.5 or not isinstance(shape, list):
        return None if drawn.random() < 0.9 else [1]
    made, step = [0] * len(shape), 1
    order = range(len(shape) - 1, -1, -1) if drawn.random() < 0.4 else drawn.sample(range(len(shape)), len(shape))
    for axis in order:
        made[axis] = step
        step *= max(shape[axis] or 1, 1) + (drawn.random() < 0.15)
    for axis in range(len(made)):
        if drawn.random() < 0.12:
            made[axis] = drawn.choice((0, 1, -1, 2**62 - 1, 2**62, MOST, 1.5, 9))
    return drawn.choice((made, made, made, made, tuple(made), made[1:], drawn.choice(WRONG)))


def logical(drawn: Random, number: object = None) -> Any:
    """A logical tensor, or why there is none."""
    shape = dims(drawn)
    number = (
        drawn.choice((0, 1, 2, 7, 8, 2**64 - 2, drawn.choice((2**64 - 1, -1, "1", True)))) if number is None else number
    )
    named = {"strides": steps(shape, drawn), "layout": drawn.choice(LAYOUTS), "property": drawn.choice(KINDS)}
    named = {key: one for key, one in named.items() if drawn.random() < 0.5}
    dtype = drawn.choice(TYPES) if drawn.random() < 0.97 else drawn.choice(WRONG)
    return attempt(og.capi.LogicalTensor, number, dtype, shape, **named)


def told(tensor: Any) -> str:
    if not hasattr(tensor, "layout_id"):
        return str(tensor)
    parts = (tensor.id, tensor.dtype, tensor.ndims, tensor.shape, tensor.layout, tensor.strides, tensor.layout_id)
    return f"{tensor!r} {parts} {tensor.property} {tensor.mem_size} {tensor.known_size} {tensor._as_variable()!r}"


def tensors(drawn: Random) -> str:
    """Logical tensors, some of them alike."""
    first = logical(drawn)
    state = drawn.getstate()
    second = logical(drawn)
    drawn.setstate(state)
    third = logical(drawn)
    equal = [one == other for one in (first, second) for other in (second, third, 5)]
    hashes = [hash(one) == hash(second) for one in (first, third)]
    return "\n".join([*map(told, (first, second)), str(equal), str(hashes)])


# Ops and graphs -------------------------------------------------------------------------------------------------------


class Parts:
    """Ops with their tensors, as a random graph has them."""

    def __init__(self, drawn: Random) -> None:
        types = ("f32", drawn.choice(("f32", "s8", "bf16")))
        kinds = None if drawn.random() < 0.5 else ("ReLU", "Add", "MatMul", "Convolution", "SoftMax", "Multiply", "Abs")
        graph = random_graph(drawn.randrange(2**12), drawn.choice((1, 1, 2, 3, 5)), dtypes=types, kinds=kinds)
        self.drawn, self.graph, self.tensors = drawn, graph, dict[int, Any]()

    def tensor(self, end: Any) -> Any:
        """The logical tensor of an end of an op; seldom another one than before."""
        drawn = self.drawn
        if end.id not in self.tensors or drawn.random() < 0.03:
            is_constant = end.value is not None or drawn.random() < 0.15
            shape = end.shape if drawn.random() < 0.9 else drawn.choice((None, [None] * len(end.shape or ())))
            word = "constant" if is_constant else drawn.choice(("variable", "variable", "undef"))
            self.tensors[end.id] = og.capi.LogicalTensor(end.id, end.dtype, shape, property=word)
        return self.tensors[end.id] if drawn.random() < 0.97 else logical(drawn, end.id)

    def op(self, op: Any) -> Any:
        """An op of the C API, made at once or part by part, maybe with other attributes."""
        drawn, attrs = self.drawn, dict(op.attrs)
        if drawn.random() < 0.2:
            attrs = dict(drawn.choice([*attributes_beside(BASE[op.kind], attrs, BOUNDS), attrs]))
        ins, outs = ([self.tensor(end) for end in side if end is not None] for side in (op.inputs, op.outputs))
        if any(isinstance(one, str) for one in (*ins, *outs)):
            return "no tensors"
        kind = drawn.choice((op.kind, op.kind, BASE[op.kind].name, op.kind.lower()))
        number = op.id if drawn.random() < 0.95 else drawn.choice((0, 1, 2))
        name = drawn.choice(("", op.name, "a\0b", "\ud800"))
        if drawn.random() < 0.5:
            return attempt(og.capi.Op, number, kind, name, inputs=ins, outputs=outs, attrs=attrs)
        made = attempt(og.capi.Op, number, kind, name)
        for add, sides in (("add_input", ins), ("add_output", outs)):
            for tensor in sides if not isinstance(made, str) else ():
                getattr(made, add)(tensor)
        return made if isinstance(made, str) else self.with_attributes(made, attrs)

    def with_attributes(self, made: Any, attrs: dict[str, Any]) -> Any:
        """The op with attributes, of which some were set before and others are none."""
        drawn, lines = self.drawn, list[str]()
        names = [one.name for one in made.schema.attributes]
        for name, value in attrs.items():
            for _ in range(drawn.choice((0, 0, 1))):
                other = drawn.choice((None, value, *WRONG))
                lines.append(str(attempt(made.set_attr, drawn.choice((name, *names, "x", 5)), other)))
            lines.append(str(attempt(made.set_attr, name, value)))
        return made if drawn.random() < 0.7 else "\n".join(lines)


def described(op: Any) -> str:
    if isinstance(op, str):
        return op
    return f"{op!r} {op.id} {op.kind} {op.name!r} {sorted(op.attrs.items())} {[*map(repr, op.inputs + op.outputs)]}"


def ops(drawn: Random) -> str:
    """Ops of a graph, and what a check says of them."""
    parts, lines = Parts(drawn), list[str]()
    for op in parts.graph.ops[:2]:
        made = parts.op(op)
        lines += [described(made), "" if isinstance(made, str) else str(attempt(made.check))]
        if not isinstance(made, str) and drawn.random() < 0.4:
            lines.append(str(attempt(og.capi.Partition.from_op, made)))
            lines.append(str(attempt(made.add_input, drawn.choice((*made.inputs, *WRONG)))))
            lines.append(str(attempt(og.capi.Partition.from_op, made)))
    return "\n".join(lines)


def graphs(drawn: Random) -> str:
    """Ops that are put into a graph in any order, and its partitions."""
    parts, lines = Parts(drawn), list[str]()
    mode = drawn.choice(("strict", "strict", "strict", "bf16", "any", "x", None))
    rare = drawn.choice((("cpu", mode), ("cpu", mode), ("gpu",), ("x",)))
    graph = attempt(og.capi.Graph, *drawn.choice(((), (), (), rare)))
    if isinstance(graph, str):
        return graph
    ops = [parts.op(op) for op in parts.graph.ops]
    if drawn.random() < 0.3:
        drawn.shuffle(ops)
    if drawn.random() < 0.1:
        ops.append(ops[0])
    for op in ops:
        lines.append(str(attempt(graph.add_op, op)) if not isinstance(op, str) else op)
    if drawn.random() < 0.3:
        mode = drawn.choice(("bf16", "any", "x", "strict"))
        lines += [str(attempt(graph.set_fpmath_mode, mode, drawn.choice((False, True, 1)))), graph.fpmath_mode]
        lines.append(str(attempt(graph.get_fpmath_mode)))
    for _ in range(drawn.choice((0, 1, 1, 1, 2))):
        lines += [str(attempt(graph.finalize)), str(graph.finalized), str(attempt(graph.get_fpmath_mode))]
    lines += [graph.engine_kind, graph.fpmath_mode, *map(repr, graph.ops)]
    found = attempt(graph.partitions, drawn.choice(("fusion", "debug", "debug", "x")))
    for one in [found] if isinstance(found, str) else found:
        lines.append(str(one))
        if not isinstance(one, str):
            ports = [*map(repr, one.input_ports), *map(repr, one.output_ports)]
            lines.append(f"{one.ops} {one.input_ids} {one.output_ids} {ports} {one.engine_kind} {one.supported}")
    return "\n".join(lines)


# Executions -----------------------------------------------------------------------------------------------------------

WHOLE = ("ReLU", "Add", "Multiply", "Abs", "Maximum", "Minimum", "Subtract", "Square", "MatMul", "Convolution")
WHOLE = (*WHOLE, "MaxPool", "ReduceSum", "BiasAdd", "Concat", "TypeCast", "MaxPoolBackward")


def of_whole(drawn: Random) -> Any:
    """A partition of ops whose results are whole numbers, which every CPU computes the same."""
    ops = cases_by_kind()[drawn.choice([kind for kind in WHOLE if kind in cases_by_kind()])]
    known = {np.dtype(one) for one in (np.float32, np.int8, np.uint8, np.int32)}  # any CPU has these types
    case = drawn.choice([one for one in ops if known >= {array.dtype for array in one.inputs}])
    from .graphs import graph_of_case

    graph = graph_of_case(case)
    op, word = graph.ops[0], drawn.choice(("variable", "variable", "constant", "undef"))
    ins = [og.capi.LogicalTensor(end.id, end.dtype, end.shape, property=word) for end in op.inputs]
    outs = [og.capi.LogicalTensor(end.id, end.dtype, drawn.choice((end.shape, None))) for end in op.outputs]
    if len(ins) == 2 and ins[0].shape == ins[1].shape and drawn.random() < 0.3:
        ins[1] = ins[0]
    return attempt(og.capi.Op, 0, op.kind, inputs=ins, outputs=outs, attrs=op.attrs)


def beside(tensor: Any, drawn: Random) -> Any:
    """A logical tensor of the type of a port, with a layout or strides, or another one."""
    shape = list(tensor.shape or ())
    kind = drawn.random()
    if kind < 0.55:
        return tensor
    if kind < 0.7:
        return attempt(og.capi.LogicalTensor, tensor.id, tensor.dtype, tensor.shape, layout=drawn.choice(LAYOUTS[6:]))
    if kind < 0.9:
        named = {"strides": steps(shape, drawn), "property": drawn.choice(KINDS[:-1])}
        return attempt(og.capi.LogicalTensor, tensor.id, tensor.dtype, tensor.shape, **named)
    return logical(drawn, tensor.id)


def array_of(tensor: Any, drawn: Random) -> Any:
    """An array of small whole numbers for a logical tensor; seldom one that does not fit."""
    if tensor.strides is None or tensor.dtype.numpy is None:
        return np.zeros(drawn.choice((tensor.mem_size or 4, 4)), np.uint8)
    rng, shape, size = np.random.default_rng(drawn.randrange(99)), tensor.shape, tensor.dtype.numpy.itemsize
    values = rng.integers(-3, 4, shape).astype(tensor.dtype.numpy)
    reach = sum(max(dim - 1, 0) * step for dim, step in zip(shape, tensor.strides, strict=True)) + 1
    whole = np.zeros(reach, tensor.dtype.numpy)
    laid = np.lib.stride_tricks.as_strided(whole, shape, [step * size for step in tensor.strides])
    laid[...] = values
    kind = drawn.random()
    if kind < 0.8:
        return laid
    wide = np.zeros(whole.nbytes + size, np.uint8)
    wrong = (whole, values.ravel(), values.astype(np.float64), values[..., None], values.tolist(), whole[:-1], None)
    wrong = (
        *wrong,
        values.T,
        np.repeat(values, 2, -1)[..., ::2] if shape else whole,
        whole.astype(object),
        wide[:-size],
    )
    return drawn.choice(
        (*wrong, np.frombuffer(whole.tobytes(), whole.dtype), wide[1 : -size + 1 or None].view(whole.dtype))
    )


def executed(drawn: Random) -> str:
    """A partition of one op that is compiled and executed."""
    op = of_whole(drawn)
    partition = op if isinstance(op, str) else attempt(og.capi.Partition.from_op, op)
    if isinstance(partition, str):
        return partition
    sides = [[beside(one, drawn) for one in ports] for ports in (partition.input_ports, partition.output_ports)]
    if any(isinstance(one, str) for side in sides for one in side):
        return "no tensors"
    for side in sides:
        if drawn.random() < 0.06:
            side[:] = drawn.choice((side[::-1], side[1:], [*side, *side], [*side, og.capi.LogicalTensor(99, "f32")]))
    given = [side if drawn.random() < 0.7 else None for side in sides]
    compiled = attempt(partition.compile, *given)
    if isinstance(compiled, str):
        return compiled
    lines = [*map(repr, (*compiled.inputs, *compiled.outputs)), str(compiled.inplace_pairs)]
    lines += [repr(attempt(compiled.query_logical_tensor, drawn.choice((0, 1, 2, 3, 99, "x")))), repr(compiled.engine)]
    lines.append(f"{compiled.is_thread_bound} {compiled.partition is partition}")
    ins, outs = ([filled(one, drawn) for one in side] for side in (compiled.inputs, compiled.outputs))
    if drawn.random() < 0.15 and not isinstance(ins[0], str) and compiled.outputs[0].strides is not None:
        place = drawn.choice((ins[0].data, ins[0].data.ravel()[1:]))
        outs[0] = attempt(og.capi.Tensor, compiled.outputs[0], place)
    lines += [str(one) if isinstance(one, str) else data(one) for one in (*ins, *outs)]
    if any(isinstance(one, str) for one in (*ins, *outs)):
        return "\n".join(lines)
    order = drawn.choice((ins, ins, ins, ins[::-1], [*ins, *ins], ins[1:]))
    scratch = drawn.choice((None,) * 9 + (outs[0], 5))
    lines.append(str(attempt(compiled.execute, og.capi.Stream(), order, outs, scratch)))
    return "\n".join([*lines, *(numbers_of(one.data) for one in outs)])


def filled(tensor: Any, drawn: Random) -> Any:
    made = array_of(tensor, drawn)
    if isinstance(made, np.ndarray) and drawn.random() < 0.1:
        made.flags.writeable = False
    return attempt(og.capi.Tensor, tensor, made)


def data(tensor: Any) -> str:
    own = tensor.address == tensor.data_handle
    return (
        f"{tensor!r} {tensor.nbytes} {tensor._span} {tensor.writable} {tensor.engine!r} {own} {attempt(tensor.check)}"
    )


def arrays(drawn: Random) -> str:
    """A tensor whose array is replaced."""
    shape = [drawn.choice((1, 2, 3)) for _ in range(drawn.choice((0, 1, 2, 2, 3)))]
    given = steps(shape, drawn) if drawn.random() < 0.6 else None
    logical_tensor = attempt(og.capi.LogicalTensor, 3, drawn.choice(("f32", "f32", "s8", "s32")), shape, strides=given)
    if drawn.random() < 0.2:
        logical_tensor = logical(drawn, 3)
    if isinstance(logical_tensor, str) or logical_tensor.known_size > 2**16:
        return str(logical_tensor)
    tensor = attempt(og.capi.Tensor, logical_tensor, array_of(logical_tensor, drawn))
    if isinstance(tensor, str):
        return tensor
    lines = [data(tensor)]
    for _ in range(2):
        lines.append(str(attempt(tensor.set_data_handle, array_of(logical_tensor, drawn))))
        lines += [data(tensor), str(attempt(tensor.query_logical_tensor)), tensor._contents().hex()]
    return "\n".join(lines)


WAYS = {"tensors": tensors, "ops": ops, "graphs": graphs, "executed": executed, "arrays": arrays}


@material(lambda: WAYS, needs="onegraph.capi", version=VERSION)
def handled(name: str, number: int) -> list[str]:
    """What becomes of objects of the C API, and why calls are refused."""
    return [PLACES.sub("", line) for line in recorded.outcome(WAYS[name], Random(f"{name} {number}"))]
