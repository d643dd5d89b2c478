"""Defines the ops of legacy-1 that later editions lack: 18 dropped ops, and Pow with its exponent as a tensor.

Their schemas use the names of legacy-1. The library has none of these ops, so numpy computes them. Where an op can be
seen as an op of the base vocabulary, it borrows the rules and the shape function of that op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..._util.counted import counted
from ..ops.binary import AUTO_BROADCAST, binary_shape, broadcastable
from ..ops.binary import OPS as BINARY
from ..ops.movement import OPS as MOVEMENT
from ..ops.movement import (
    SPECIAL_ZERO,
    element_count,
    one_open_dim,
    order_permutes,
    reshape_shape,
    transpose_shape,
    zero_has_source,
)
from ..schema import Call, Rule, RuleFinding, Schema, same_shape
from ..shapes import broadcast, compatible, of_rank, show
from ..signature import FLOATS, Attribute, Row, Shape, ports, rows
from .dialect import in_words

BASES = {schema.kind: schema for schema in (*BINARY, *MOVEMENT)}
View = Callable[[Call], Call | None]


def borrowed(rule: Rule, view: View) -> Rule:
    """Apply a rule of a base op to a legacy op.

    ``view`` converts the call of the legacy op to a call of the base op; if it returns None, nothing is checked.
    Findings are translated back to the names of the legacy op.
    """

    def found(call: Call) -> Iterable[RuleFinding]:
        seen = view(call)
        if seen is None:
            return
        ours = (*call.schema.inputs, *call.schema.outputs)
        theirs = (*seen.schema.inputs[: len(call.schema.inputs)], *seen.schema.outputs)
        pairs = zip(theirs, (*ours[: len(theirs) - 1], ours[-1]), strict=True)
        words = {their.name: our.name for their, our in pairs}
        for finding in rule(seen):
            where = words.get(finding.where, finding.where)
            yield RuleFinding(where, finding.given, in_words(finding.expected, words), in_words(finding.fix, words))

    found.__name__, found.__doc__ = rule.__name__, rule.__doc__
    return found


# Two tensors ---------------------------------------------------------------------------------------------------------


def as_binary(call: Call) -> Call:
    """The call seen as an Add, which broadcasts its two inputs."""
    return Call(BASES["Add"], call.given, call.inputs)


def two_inputs(
    kind: str,
    name: str,
    doc: str,
    inputs: str = "input_1:T input_2:T",
    output: str = "output:boolean",
    types: tuple[Row, ...] = FLOATS,
) -> Schema:
    """Schema of an op that broadcasts two tensors."""
    return Schema(
        kind,
        name,
        "legacy",
        doc,
        ports(inputs),
        ports(output),
        types,
        lambda call: binary_shape(as_binary(call)),
        (AUTO_BROADCAST,),
        shape_rules=(borrowed(broadcastable, as_binary),),
        page=f"{kind}-1",
    )


def logical(kind: str, name: str, doc: str) -> Schema:
    """Schema of an op of two boolean tensors."""
    return two_inputs(kind, name, doc, output="output:T", types=rows("T", "boolean"))


# Gradients of Pow ----------------------------------------------------------------------------------------------------


def gradient_fits(call: Call) -> Iterable[RuleFinding]:
    """input_forward and exponent broadcast, and output_delta and result_forward have the shape of the result."""
    source, exponent = call.shape("input_forward"), call.shape("exponent")
    try:
        target = broadcast(source, exponent)
    except ValueError:
        yield RuleFinding("exponent", f"shape {show(exponent)}", f"a shape that broadcasts with {show(source)}")
        return
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        if port.name not in ("output_delta", "result_forward") or tensor is None:
            continue
        if not compatible(tensor.shape, target):
            yield RuleFinding(port.name, f"shape {show(tensor.shape)}", f"shape {show(target)} of the result of Pow")


# Contents that decide shapes -----------------------------------------------------------------------------------------


def contents(call: Call, name: str) -> tuple[int, ...] | None:
    """The elements of an integer input; None if unknown. An input of shape (0,) is always known to be empty."""
    return () if call.shape(name) == (0,) else call.value(name)


def as_static(kind: str, name: str) -> View:
    """A view as base op ``kind``, with the contents of input ``name`` as an attribute; None while they are unknown."""

    def view(call: Call) -> Call | None:
        known = contents(call, name)
        return None if known is None else Call(BASES[kind], {**call.given, name: known}, call.inputs[:1])

    return view


def vector(name: str) -> Rule:
    """Make the rule that input ``name`` has one axis."""

    def parameter_vector(call: Call) -> Iterable[RuleFinding]:
        """The input that gives a shape or an order has one axis."""
        if call.rank(name) not in (None, 1):
            yield RuleFinding(name, f"rank {call.rank(name)}", "a tensor of rank 1")

    return parameter_vector


def shape_values(call: Call) -> Iterable[RuleFinding]:
    """No dim is below -1."""
    dims = contents(call, "shape")
    if dims is not None and any(dim < -1 for dim in dims):
        yield RuleFinding("shape", list(dims), "dims of -1 or more")


def order_length(call: Call) -> Iterable[RuleFinding]:
    """An order with unknown elements has one element for each axis, or no elements."""
    if contents(call, "order") is not None:
        return
    shape, rank = call.shape("order"), call.rank("input")
    if rank is not None and shape is not None and len(shape) == 1 and shape[0] not in (None, 0, rank):
        yield RuleFinding(
            "order", counted(shape[0], "element"), f"{rank}, one for each axis of input, or none to reverse them"
        )


def reshaped(call: Call) -> tuple[Shape, ...]:
    """Shape of the output of DynamicReshape."""
    static = as_static("StaticReshape", "shape")(call)
    if static is not None:
        return reshape_shape(static)
    length = call.shape("shape")
    return (of_rank(length[0]) if length else None,)


def transposed(call: Call) -> tuple[Shape, ...]:
    """Shape of the output of DynamicTranspose."""
    static = as_static("StaticTranspose", "order")(call)
    if static is not None:
        return transpose_shape(static)
    rank, length = call.rank("input"), call.shape("order")
    if rank is None and length:
        rank = length[0] or None  # an empty order, which a length of 0 or None allows, does not give the rank
    return (of_rank(rank),)


def indices_in_range(call: Call) -> Iterable[RuleFinding]:
    """Every index is within the first axis of the input; negative ones count from its end."""
    shape, tensor = call.shape("input"), call.input("indices")
    if shape == ():
        yield RuleFinding("input", "shape []", "at least one axis")
    elif shape is not None and shape[0] is not None and tensor is not None and tensor.value is not None:
        beyond = sorted({int(index) for index in tensor.value.ravel() if not -shape[0] <= int(index) < shape[0]})
        if beyond:
            yield RuleFinding("indices", beyond, f"indices from {-shape[0]} to {shape[0] - 1}")


def indexed(call: Call) -> tuple[Shape, ...]:
    """The shape of the indices, followed by the dims of the input after the first."""
    shape, indices = call.shape("input"), call.shape("indices")
    return (None if shape is None or indices is None else (*indices, *shape[1:]),)


# Ops -----------------------------------------------------------------------------------------------------------------


def one_input(kind: str, name: str, doc: str, types: tuple[Row, ...] = FLOATS) -> Schema:
    """Schema of an elementwise op of one tensor."""
    return Schema(kind, name, "legacy", doc, ports("input:T"), ports("output:T"), types, same_shape, page=f"{kind}-1")


def of_contents(
    kind: str,
    name: str,
    doc: str,
    parameter: str,
    shape: Callable[[Call], tuple[Shape, ...]],
    rules: tuple[Rule, ...],
    shape_rules: tuple[Rule, ...] = (),
    attributes: tuple[Attribute, ...] = (),
) -> Schema:
    """Schema of an op that moves elements as the contents of an integer input say."""
    return Schema(
        kind,
        name,
        "legacy",
        doc,
        ports(f"input:T {parameter}:s32"),
        ports("output:T"),
        FLOATS,
        shape,
        attributes,
        rules,
        shape_rules,
        page=f"{kind}-1",
    )


def pow_gradient(kind: str, name: str, doc: str, inputs: str, output: str, like: str) -> Schema:
    """Schema of a gradient of Pow; its output has the shape of input ``like``."""
    return Schema(
        kind,
        name,
        "legacy",
        doc,
        ports(inputs),
        ports(output),
        FLOATS,
        lambda call: (call.shape(like),),
        shape_rules=(gradient_fits,),
        page=f"{kind}-1",
    )


_reshape, _transpose = as_static("StaticReshape", "shape"), as_static("StaticTranspose", "order")
OPS = (
    two_inputs("Equal", "equal", "output = input_1 == input_2"),
    two_inputs("NotEqual", "not_equal", "output = input_1 != input_2"),
    two_inputs("Greater", "greater", "output = input_1 > input_2"),
    two_inputs("Less", "less", "output = input_1 < input_2"),
    two_inputs("LessEqual", "less_equal", "output = input_1 <= input_2"),
    logical("LogicalAnd", "logical_and", "output = input_1 and input_2"),
    logical("LogicalOr", "logical_or", "output = input_1 or input_2"),
    logical("LogicalXor", "logical_xor", "output = one of input_1 and input_2, not both"),
    one_input("LogicalNot", "logical_not", "output = not input", rows("T", "boolean")),
    one_input("Erf", "erf", "output = the error function of input"),
    one_input("Negative", "negative", "output = -input"),
    one_input("Rsqrt", "rsqrt", "output = 1 / sqrt(input)"),
    one_input("Sign", "sign", "output = -1, 0 or 1, as input is below, equal to or above 0"),
    # The Python name differs, because "pow" is the op of the base, which takes its exponent as an attribute.
    two_inputs("Pow", "legacy_pow", "output = input ** exponent", "input:T exponent:T", "output:T"),
    pow_gradient(
        "PowBackprop",
        "pow_backprop",
        "input_delta = output_delta * exponent * input ** (exponent - 1), summed where input was broadcast",
        "input_forward:T output_delta:T exponent:T",
        "input_delta:T",
        "input_forward",
    ),
    pow_gradient(
        "PowBackpropExponent",
        "pow_backprop_exponent",
        "exponent_delta = output_delta * result * ln(input), summed where exponent was broadcast",
        "input_forward:T output_delta:T result_forward:T exponent:T",
        "exponent_delta:T",
        "exponent",
    ),
    of_contents(
        "DynamicReshape",
        "dynamic_reshape",
        "output = the elements of input, in row-major order, in the shape that the input shape holds",
        "shape",
        reshaped,
        (vector("shape"), shape_values, borrowed(one_open_dim, _reshape), borrowed(zero_has_source, _reshape)),
        (borrowed(element_count, _reshape),),
        (SPECIAL_ZERO,),
    ),
    of_contents(
        "DynamicTranspose",
        "dynamic_transpose",
        "output = input with its axes in another order: axis i of output is axis order[i] of input",
        "order",
        transposed,
        (vector("order"), order_length, borrowed(order_permutes, _transpose)),
    ),
    # The page only says that elements are selected; this is integer indexing as in numpy.
    of_contents(
        "Index",
        "index",
        "output = the slices of input along its first axis at the positions in indices",
        "indices",
        indexed,
        (indices_in_range,),
    ),
)
