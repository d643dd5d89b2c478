"""The checker's verdict on an op compared with the library's: does dnnl_graph_add_op accept it, with which shapes.

The tests change every valid use of every op in one place, in every possible way: attributes left out, added, of
another kind, with other values; data types; numbers of inputs and outputs. The library's verdict is that of the plain
C calls. The table DIVERGENCES lists every difference and is exact: with our verdict it predicts the library's verdict
on every call, and each entry occurs for every op and every sort of change that it names.

add_op examines a single op: attributes, ports and data types. It reads only the shapes of scales and zero points.
Where verdicts are compared, all other shapes are therefore unknown, and rules on those shapes do not apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from math import ceil
from typing import Any

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph import capi
from onegraph.errors import SpecError, StatusError, UnsupportedError
from onegraph.faults.capabilities import LIBRARY_VALUES
from onegraph.inference.infer import infer_op
from onegraph.ir.op import LogicalTensor
from onegraph.native.library import VERSION, create, enum_value, ffi, lib
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, DEFAULT, edition
from onegraph.opset.schema import Schema, TensorType
from onegraph.opset.shapes import compatible
from onegraph.opset.signature import Attribute
from onegraph.testing.cases import CASES, Case

LIBRARY = (3, 2)
EDITION = edition("onednn-3.2")
KINDS = tuple(EDITION.schemas)
DTYPES = tuple(map(DataType, ("f32", "bf16", "f16", "s8", "u8", "s32", "boolean")))
EVERY_CALL = 20_000
LEAST_CALLS = draws(8_000, EVERY_CALL)
# Sorts of change of which one call is much like the next: of up to 2,600 for an op, some are tried, and all by
# make test-long. The other sorts have rare divergences: of them, the same change is tried in some of the valid uses
# with the same attributes, empty or not, and as many tensors.
ALIKE = ("unknown attribute", "kind", "output type", "output more")
SOME_CALLS = 25
SOME_USES = 2

needs_this_library = pytest.mark.skipif(VERSION[:2] != LIBRARY, reason="what this library takes was seen in 3.2")

Shape = tuple[int | None, ...]
Setting = tuple[str, Any]  # the kind of the setter, and its value


@dataclass(frozen=True)
class Call:
    """The arguments of add_op."""

    kind: str
    attrs: tuple[tuple[str, Setting], ...]
    inputs: tuple[tuple[DataType, Shape], ...]
    outputs: tuple[DataType, ...]

    @property
    def schema(self) -> Schema:
        return EDITION.schemas[self.kind]

    def has(self, name: str) -> bool:
        return any(name == given for given, _ in self.attrs)

    def attr(self, name: str) -> Any:
        """The value of the attribute, or its default."""
        for given, (_, value) in self.attrs:
            if given == name:
                return value
        return self.schema.attribute(name).default

    @property
    def key(self) -> Any:
        """What differs between distinct calls of an op; the text of the attributes, as True is equal to 1."""
        return repr(self.attrs), self.inputs, self.outputs

    def with_attr(self, name: str, kind: str, value: Any) -> Call:
        kept = tuple((given, setting) for given, setting in self.attrs if given != name)
        return replace(self, attrs=(*kept, (name, (kind, value))))

    def __str__(self) -> str:
        attrs = ", ".join(f"{name}={value!r} ({kind})" for name, (kind, value) in self.attrs)
        ins = ", ".join(str(dtype) for dtype, _ in self.inputs[:6]) + (", ..." if self.inputs[6:] else "")
        return f"{self.kind}({ins} -> {', '.join(map(str, self.outputs))}; {attrs})"


# The library's verdict ------------------------------------------------------------------------------------------------

SETTERS: dict[str, tuple[Any, str]] = {
    "f32": (lib.dnnl_graph_op_set_attr_f32, "float[]"),
    "s64": (lib.dnnl_graph_op_set_attr_s64, "int64_t[]"),
    "bool": (lib.dnnl_graph_op_set_attr_bool, "uint8_t[]"),
}


@cache
def tensor(number: int, dtype: DataType, shape: Shape | None) -> Any:
    return capi.LogicalTensor(number, dtype, shape)._struct


def set_attribute(op: Any, name: str, kind: str, value: Any) -> int:
    number = enum_value("graph_op_attr_", name)
    if kind == "str":
        word = str(value).encode()
        return int(lib.dnnl_graph_op_set_attr_str(op, number, word, len(word) + 1))
    setter, ctype = SETTERS[kind]
    elements = list(value) if isinstance(value, (list, tuple)) else [value]
    return int(setter(op, number, ffi.new(ctype, elements), len(elements)))


def library_takes(call: Call) -> bool:
    """Whether every call up to dnnl_graph_add_op succeeds."""
    number = enum_value("graph_op_", call.schema.name)
    op = create(lib.dnnl_graph_op_create, "dnnl_graph_op_t", 1, number, b"op")
    graph = create(lib.dnnl_graph_graph_create, "dnnl_graph_graph_t", lib.dnnl_cpu)
    try:
        for index, (dtype, shape) in enumerate(call.inputs):
            assert not lib.dnnl_graph_op_add_input(op, tensor(index, dtype, shape))
        for index, dtype in enumerate(call.outputs, len(call.inputs)):
            assert not lib.dnnl_graph_op_add_output(op, tensor(index, dtype, None))
        if any(set_attribute(op, name, kind, value) for name, (kind, value) in call.attrs):
            return False
        return not lib.dnnl_graph_add_op(graph, op)
    finally:
        lib.dnnl_graph_op_destroy(op)
        lib.dnnl_graph_graph_destroy(graph)


# Our verdict ----------------------------------------------------------------------------------------------------------


# The inputs whose shapes add_op reads: with static shapes it counts the scales and zero points of DynamicQuantize.
READ = frozenset({"scales", "zps"})


def broken_rules(call: Call) -> frozenset[str]:
    """Ids of the rules that the call breaks; none if our verdict is valid."""
    ports = [call.schema.input_port(index).name for index in range(len(call.inputs))]
    inputs = [
        TensorType(dtype, shape if port in READ else None)
        for port, (dtype, shape) in zip(ports, call.inputs, strict=True)
    ]
    outputs = [TensorType(dtype, None) for dtype in call.outputs]
    attrs = {name: value for name, (_, value) in call.attrs}
    rules = {error.rule for error in infer_op(call.kind, attrs, inputs, outputs, edition=EDITION).errors}
    results = call.schema.outputs
    required = sum(not port.optional for port in results)
    if len(outputs) < required or (len(outputs) > len(results) and not any(port.variadic for port in results)):
        rules.add("output_count")
    return frozenset(rules)


# The changes ----------------------------------------------------------------------------------------------------------

OTHER_KIND: dict[str, Any] = {"f32": 1.5, "s64": 7, "bool": True, "str": "7"}


def base_calls(kind: str) -> Iterator[Call]:
    """The valid uses of the op whose data types this library has, with strings in its spelling."""
    for case in CASES:
        if case.kind == kind and {*map(dtype_of, case.inputs), *result_types(case)} <= {*DTYPES}:
            attrs = tuple((name, setting(case, name, value)) for name, value in case.attrs.items())
            inputs = tuple((dtype_of(array), array.shape) for array in case.inputs)
            yield Call(kind, attrs, inputs, result_types(case))


def dtype_of(array: Any) -> DataType:
    return DataType.s64 if array.dtype == np.int64 else DataType.of(array.dtype)


@cache
def result_types(case: Case) -> tuple[DataType, ...]:
    graph = og.Graph()
    inputs = [graph.input(f"x{index}", dtype_of(array), array.shape) for index, array in enumerate(case.inputs)]
    result = graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    results = (result,) if isinstance(result, LogicalTensor) else result
    return tuple(found.dtype for found in results)


def setting(case: Case, name: str, value: Any) -> Setting:
    attribute = BASE[case.kind].attribute(name)
    value = LIBRARY_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
    return attribute.kind.removesuffix("[]"), tuple(value) if isinstance(value, (list, tuple)) else value


def changes(call: Call) -> Iterator[tuple[str, Call]]:
    """The unchanged call and every call with one change, each with the sort of change."""
    yield "none", call
    if broken_rules(call):
        return
    for index in range(len(call.attrs)):
        yield "left out", replace(call, attrs=call.attrs[:index] + call.attrs[index + 1 :])
    for name, (kind, value) in OTHER_ATTRIBUTES.items():
        if not call.schema.has_attribute(name):
            yield "unknown attribute", call.with_attr(name, kind, value)
    for attribute in call.schema.attributes:
        yield from attribute_changes(call, attribute)
    yield from port_changes(call)


def attribute_changes(call: Call, attribute: Attribute) -> Iterator[tuple[str, Call]]:
    name, scalar, many = attribute.name, attribute.kind.removesuffix("[]"), attribute.kind.endswith("[]")
    given = (call.attr(name) if call.has(name) else (1, 1)) if many else ()
    for kind, value in OTHER_KIND.items():
        if kind != scalar:
            yield "kind", call.with_attr(name, kind, (value,) * (len(given) or 2) if many and kind != "str" else value)
    if scalar == "str":
        for word in words(name):
            yield "string", call.with_attr(name, scalar, word)
    elif scalar == "bool":
        for value in (True, False):
            yield "bool", call.with_attr(name, scalar, value)
        yield "list for a scalar", call.with_attr(name, scalar, (True, True))
    elif many:
        for value in ((), given[:-1], (*given, given[-1] if given else 1)):
            yield "list length", call.with_attr(name, scalar, tuple(value))
        for number in NUMBERS[scalar]:
            yield "number", call.with_attr(name, scalar, (*given[:-1], number))
    else:
        yield "list for a scalar", call.with_attr(name, scalar, (call.attr(name) or 1,) * 2)
        for number in NUMBERS[scalar]:
            yield "number", call.with_attr(name, scalar, number)


NUMBERS: dict[str, tuple[Any, ...]] = {
    "s64": (-(2**63), -3, -1, 0, 1, 2, 2**63 - 1),
    "f32": (-np.inf, -1.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan),
}


@cache
def documented(name: str) -> tuple[str, ...]:
    """The documented values of an attribute of this name in any op, in both spellings."""
    found = [schema.attribute(name) for schema in EDITION.schemas.values() if schema.has_attribute(name)]
    return tuple(dict.fromkeys(word for attribute in found for word in (*attribute.aliases, *attribute.values)))


# Each attribute of any op, with a value that is valid for an op that has it.
OTHER_ATTRIBUTES = {
    attribute.name: (kind, next(iter(documented(attribute.name)), OTHER_KIND[kind]))
    for schema in EDITION.schemas.values()
    for attribute in schema.attributes
    for kind in (attribute.kind.removesuffix("[]"),)
}


def words(name: str) -> Iterable[str]:
    """The documented values, those of the library, other spellings, and invalid values."""
    spellings = [
        spelled for word in documented(name) for spelled in (word, word.upper(), word.lower(), word.title(), word + " ")
    ]
    return dict.fromkeys([*spellings, "", "no such value"])


def port_changes(call: Call) -> Iterator[tuple[str, Call]]:
    ins, outs = call.inputs, call.outputs
    for index, (given, shape) in enumerate(ins):
        for dtype in DTYPES:
            if dtype is not given:
                yield "input type", replace(call, inputs=(*ins[:index], (dtype, shape), *ins[index + 1 :]))
        yield "input fewer", replace(call, inputs=ins[:index] + ins[index + 1 :])
    for index, given in enumerate(outs):
        for dtype in DTYPES:
            if dtype is not given:
                yield "output type", replace(call, outputs=(*outs[:index], dtype, *outs[index + 1 :]))
        yield "output fewer", replace(call, outputs=outs[:index] + outs[index + 1 :])
    for dtype in DTYPES:
        yield "input more", replace(call, inputs=(*ins, (dtype, (1,))))
        yield "output more", replace(call, outputs=(*outs, dtype))


# Divergences -------------------------------------------------------------------------------------------------------

STRICTER, LAXER = "stricter", "laxer"
FLOATS = frozenset({DataType.f32, DataType.bf16, DataType.f16})


@dataclass(frozen=True)
class Divergence:
    """Calls on which the library is stricter or laxer than the specification.

    Attributes:
        library: stricter or laxer.
        kinds: the ops; each of them diverges.
        changes: the only sorts of change that diverge.
        reason: the behaviour of the library.
        rules: the rules that a laxer library does not enforce.
        when: whether a call diverges.
    """

    library: str
    kinds: frozenset[str]
    changes: frozenset[str]
    reason: str
    rules: frozenset[str] = frozenset()
    when: Callable[[Call], bool] = lambda call: True

    def applies(self, call: Call) -> bool:
        return call.kind in self.kinds and self.when(call)

    def explains(self, outcome: Outcome) -> bool:
        if self.library == STRICTER:
            return not outcome.taken and not outcome.rules and self.applies(outcome.call)
        return outcome.taken and bool(outcome.rules & self.rules) and self.applies(outcome.call)


def kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


def having(*attribute_kinds: str) -> frozenset[str]:
    """The ops with an attribute of one of these kinds."""
    return frozenset(
        kind
        for kind, schema in EDITION.schemas.items()
        if any(attribute.kind in attribute_kinds for attribute in schema.attributes)
    )


def stricter(kinds: frozenset[str], changes: str, when: Callable[[Call], bool], reason: str) -> Divergence:
    return Divergence(STRICTER, kinds, frozenset(changes.split(", ")), reason, when=when)


def laxer(
    rules: str, kinds: frozenset[str], changes: str, reason: str, when: Callable[[Call], bool] = lambda call: True
) -> Divergence:
    return Divergence(LAXER, kinds, frozenset(changes.split(", ")), reason, frozenset(rules.split()), when)


def integer_for_float(call: Call) -> bool:
    return any(
        kind == "s64" and call.schema.has_attribute(name) and call.schema.attribute(name).kind.startswith("f32")
        for name, (kind, _) in call.attrs
    )


def list_for_scalar(call: Call) -> bool:
    return any(
        kind in ("f32", "s64")
        and isinstance(value, tuple)
        and call.schema.has_attribute(name)
        and call.schema.attribute(name).kind == kind
        for name, (kind, value) in call.attrs
    )


def documented_padding(call: Call) -> bool:
    return call.has("auto_pad") and call.attr("auto_pad") in LIBRARY_VALUES["auto_pad"]


def with_input(name: str) -> Callable[[Call], bool]:
    return lambda call: len(call.inputs) > call.schema.input_index(name)


def mixed_floats(call: Call) -> bool:
    types = {*(dtype for dtype, _ in call.inputs), *call.outputs}
    return types <= FLOATS and len(types) > 1


REDUCTIONS = kinds("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")
TRANSPOSED = kinds("ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights")
RESIZING = kinds("Interpolate InterpolateBackward")
NUMERIC = having("f32", "f32[]", "s64", "s64[]")

DIVERGENCES = (
    stricter(
        having("f32", "f32[]"),
        "kind",
        integer_for_float,
        "an s64 is no f32 in C; in Python an integer is a number, and is made an f32 before C sees it",
    ),
    stricter(
        kinds(
            "Convolution ConvolutionBackwardData ConvolutionBackwardWeights AvgPool AvgPoolBackward MaxPool "
            "MaxPoolBackward"
        )
        | TRANSPOSED,
        "string",
        documented_padding,
        "auto_pad is taken only as None, SAME_UPPER, SAME_LOWER and VALID, not in lower case as it is documented",
    ),
    stricter(
        TRANSPOSED,
        "string",
        lambda call: call.attr("weights_format") in ("OIX", "XIO"),
        "weights_format is taken as IOX and XOI only; the table of the page prints OIX and XIO",
    ),
    stricter(
        TRANSPOSED - {"ConvTranspose"},
        "list length, number",
        lambda call: call.has("output_padding"),
        "the gradients have no output_padding in the library's schema; the pages list it",
    ),
    stricter(
        REDUCTIONS,
        "none, bool, left out, list length, input more",
        with_input("axes"),
        "axes as an input are always taken for a second source of the axes, beside the default of the attribute",
    ),
    stricter(
        RESIZING,
        "none, list length, string",
        lambda call: with_input("sizes")(call) and not call.attr("sizes") and not call.attr("scales"),
        "one of the attributes sizes and scales must be there, although the input sizes says the same",
    ),
    stricter(
        RESIZING,
        "none, kind, number, list length, string, input more",
        lambda call: bool(call.attr("sizes") and call.attr("scales")),
        "sizes and scales together are refused; the page says that scales are ignored then",
    ),
    stricter(
        kinds("Concat"),
        "none, number, input fewer, input more",
        lambda call: len(call.inputs) > 64,
        "at most 64 inputs are taken; the page sets no limit",
    ),
    laxer(
        "attribute_range",
        NUMERIC,
        "number",
        "no number is looked at: strides of 0, pads below 0, an epsilon below 0, infinity and NaN are taken",
        lambda call: call.kind not in RESIZING or not (call.attr("sizes") and call.attr("scales")),
    ),
    laxer(
        "attribute_kind",
        having("f32", "s64"),
        "list for a scalar",
        "several numbers are taken for a scalar, which is the first of them",
        list_for_scalar,
    ),
    laxer(
        "attribute_value",
        kinds("AvgPool MaxPool"),
        "string",
        "rounding_type may be any string",
        lambda call: call.attr("rounding_type") not in ("floor", "ceil"),
    ),
    laxer(
        "attribute_value",
        kinds("Quantize Dequantize DynamicQuantize DynamicDequantize"),
        "string",
        "qtype may be any string",
        lambda call: call.attr("qtype") not in ("per_tensor", "per_channel"),
    ),
    laxer(
        "bounds_in_order",
        kinds("Clamp ClampBackward"),
        "number",
        "a minimum above the maximum is taken",
    ),
    laxer(
        "axes_given",
        REDUCTIONS,
        "left out",
        "a reduction without axes is taken",
    ),
    laxer(
        "one_open_dim",
        kinds("StaticReshape"),
        "list length, number",
        "a shape with two elements of -1 is taken",
    ),
    laxer(
        "order_permutes",
        kinds("StaticTranspose"),
        "list length, number",
        "an order that is no permutation is taken",
    ),
    laxer(
        "mode_rank",
        RESIZING,
        "list length, string",
        "bilinear and trilinear are taken with any number of sizes",
    ),
    laxer(
        "data_type",
        kinds("Divide Multiply"),
        "none, input type, output type",
        "src_0, src_1 and dst may be of three different float types; until 3.8 the pages print one type for all",
        mixed_floats,
    ),
    laxer(
        "data_type",
        kinds("End"),
        "input type",
        "s8, u8 and s32 are taken; the page lists floats",
        lambda call: {dtype for dtype, _ in call.inputs} <= {DataType.s8, DataType.u8, DataType.s32},
    ),
    laxer(
        "affine_pair",
        kinds("BatchNormForwardTraining"),
        "input fewer, input more",
        "gamma is taken without beta; the page says both or neither",
    ),
    laxer(
        "gradient_pair",
        kinds("BatchNormTrainingBackward"),
        "output fewer",
        "diff_gamma is taken without diff_beta; the page says both or neither",
    ),
    laxer(
        "affine_inputs",
        kinds("LayerNorm"),
        "bool, left out",
        "gamma and beta are taken both or neither, whatever use_affine says",
        lambda call: len(call.inputs) in (1, 3),
    ),
    laxer(
        "output_count",
        kinds("LayerNorm"),
        "bool",
        "mean and variance may be outputs where keep_stats is False",
        lambda call: len(call.outputs) == 3,
    ),
    laxer(
        "affine_inputs",
        kinds("LayerNormBackward"),
        "bool, input fewer, input more",
        "gamma and beta are taken or left out, each by itself, whatever use_affine says",
    ),
    laxer(
        "output_count",
        kinds("LayerNormBackward"),
        "bool",
        "diff_gamma and diff_beta may be outputs where use_affine is False",
        lambda call: len(call.outputs) == 3,
    ),
    laxer(
        "shape_source",
        kinds("ConvolutionBackwardData ConvolutionBackwardWeights ConvTransposeBackwardWeights AvgPoolBackward"),
        "left out, input fewer",
        "the shape of the result may be given by neither the attribute nor the input; then it is twelve zeros",
    ),
    laxer(
        "shape_length spatial_list_length channels_match spatial_fits window_meets_source size_limit",
        kinds(
            "ConvolutionBackwardData ConvolutionBackwardWeights ConvTransposeBackwardWeights AvgPoolBackward "
            "StaticReshape Interpolate"
        ),
        "bool, left out, list length, number, string",
        "a shape that is an attribute is not looked at before the op is compiled",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """Both verdicts on a call."""

    change: str
    call: Call
    rules: frozenset[str]
    taken: bool

    @property
    def foretold(self) -> bool:
        """Whether the library should accept the call, from our verdict and the known divergences."""
        applying = [entry for entry in DIVERGENCES if entry.applies(self.call)]
        forgiven = frozenset().union(*(entry.rules for entry in applying))
        return self.rules <= forgiven and all(entry.library == LAXER for entry in applying)

    def __str__(self) -> str:
        ours = f"breaks {', '.join(sorted(self.rules))}" if self.rules else "is right"
        foretold = "takes" if self.foretold else "refuses"
        theirs = "takes" if self.taken else "refuses"
        return f"{self.change}: {self.call} {ours}; the library {theirs} it, foretold was that it {foretold} it"


def what_changed(base: Call, call: Call) -> str:
    """The attributes of which only one of two calls has the value, and the data types that differ."""
    attrs = [setting for setting in (*base.attrs, *call.attrs) if (setting in base.attrs) != (setting in call.attrs)]
    ports = zip_longest([dtype for dtype, _ in base.inputs], [dtype for dtype, _ in call.inputs])
    types = [pair for pair in (*ports, *zip_longest(base.outputs, call.outputs)) if len({*pair}) > 1]
    return f"{attrs} {types}"


@cache
def outcomes(kind: str) -> tuple[Outcome, ...]:
    """Both verdicts on distinct calls of an op."""
    calls: dict[str, list[Call]] = {}
    seen = set()
    uses: Counter[Any] = Counter()
    for base in base_calls(kind):
        alike = repr(
            (sorted((name, value == ()) for name, (_, value) in base.attrs), len(base.inputs), len(base.outputs))
        )
        for change, call in changes(base):
            if (key := call.key) not in seen:
                seen.add(key)
                uses[place := (change, what_changed(base, call), alike)] += 1
                if change == "none" or uses[place] <= draws(SOME_USES, EVERY_CALL):
                    calls.setdefault(change, []).append(call)
    steps = {change: ceil(len(calls[change]) / draws(SOME_CALLS, EVERY_CALL)) for change in ALIKE if change in calls}
    return tuple(
        Outcome(change, call, broken_rules(call), library_takes(call))
        for change, every in calls.items()
        for call in every[:: steps.get(change, 1)]
    )


@needs_this_library
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_agree(kind: str) -> None:
    found = outcomes(kind)
    wrong = [outcome for outcome in found if outcome.foretold != outcome.taken]
    first = "\n".join(map(str, wrong[:10]))
    assert not wrong, f"{kind}: {len(wrong)} of {len(found)} verdicts are not as foretold, the first of them:\n{first}"
    assert {outcome.taken for outcome in found} == {True, False}


@needs_this_library
@pytest.mark.parametrize("entry", DIVERGENCES, ids=lambda entry: f"{entry.library}: {entry.reason}")
def test_every_listed_divergence_occurs(entry: Divergence) -> None:
    seen = [outcome for kind in sorted(entry.kinds) for outcome in outcomes(kind) if entry.explains(outcome)]
    assert {outcome.call.kind for outcome in seen} == entry.kinds
    assert {outcome.change for outcome in seen} == entry.changes
    assert {rule for outcome in seen for rule in outcome.rules} >= entry.rules


@needs_this_library
def test_covers_enough_calls() -> None:
    assert sum(len(outcomes(kind)) for kind in KINDS) >= LEAST_CALLS


@pytest.mark.parametrize("kind", KINDS)
def test_examines_lists_of_any_length(kind: str) -> None:
    """No rule assumes that the length of a list matches a shape."""
    calls = {call.key: call for base in base_calls(kind) for change, call in changes(base) if change == "list length"}
    for call in calls.values():
        attrs = {name: value for name, (_, value) in call.attrs}
        for known in range(len(call.inputs)):
            types = [TensorType(dtype, s if index == known else None) for index, (dtype, s) in enumerate(call.inputs)]
            assert infer_op(call.kind, attrs, types, edition=EDITION).schema is call.schema


# Shapes ---------------------------------------------------------------------------------------------------------------


# The library compiles these ops with one group only.
ONE_GROUP = {
    "strides": [2, 1],
    "pads_begin": [1, 1],
    "pads_end": [0, 1],
    "dilations": [1, 2],
    "groups": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
    "dst_shape": [2, 4, 9, 8],
}


def cases_of(kind: str) -> list[Case]:
    found = [case for case in CASES if case.kind == kind]
    if kind == "ConvolutionBackwardData":
        found.append(Case(kind, "one group", (np.zeros((2, 6, 4, 6), "f4"), np.zeros((6, 4, 3, 3), "f4")), ONE_GROUP))
    return found


def as_attribute(case: Case) -> Case:
    """The case with its shape tensor as an attribute, the only form that the library compiles."""
    if case.kind == "Wildcard" or not case.inputs or case.inputs[-1].dtype != np.int32 or len(case.inputs) < 2:
        return case
    name = BASE[case.kind].inputs[-1].name
    if not BASE[case.kind].has_attribute(name):
        return case
    return replace(case, inputs=case.inputs[:-1], attrs={**case.attrs, name: case.inputs[-1].tolist()})


def given_types(case: Case) -> list[TensorType]:
    return [
        TensorType(dtype_of(array), array.shape, array if array.dtype == np.int32 else None) for array in case.inputs
    ]


def inferred(case: Case, inputs: list[TensorType]) -> tuple[Shape | None, ...]:
    """The inferred shapes of the outputs."""
    types = result_types(case)
    outputs = [TensorType(dtype, None) for dtype in types]
    checked = infer_op(case.kind, case.attrs, inputs, outputs, edition=edition(DEFAULT))
    assert not checked.errors, f"{case} with {inputs}: {checked.errors[0]}"
    return checked.shapes[: len(types)]


def library_shapes(case: Case) -> tuple[Shape | None, ...] | None:
    """The shapes that the library infers when it compiles the op; None if it does not compile."""
    try:
        ins = [capi.LogicalTensor(index, dtype_of(array), array.shape) for index, array in enumerate(case.inputs)]
        outs = [capi.LogicalTensor(index, dtype) for index, dtype in enumerate(result_types(case), len(ins))]
        graph = capi.Graph()
        graph.add_op(capi.Op(0, case.kind, inputs=ins, outputs=outs, attrs=case.attrs))
        graph.finalize()
        compiled = graph.partitions("debug")[0].compile()
    except (UnsupportedError, SpecError, StatusError):
        return None
    return tuple(compiled.query_logical_tensor(tensor.id).shape for tensor in outs)


# Ops that the library never compiles alone.
FUSED_ONLY = kinds("Pow Reciprocal Select BiasAddBackward StaticReshape StaticTranspose End Wildcard")


@needs_this_library
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_agree(kind: str) -> None:
    """Both infer the same, except that the library gives a sum of all elements an axis."""
    compiled = 0
    for case in map(as_attribute, cases_of(kind)):
        theirs = library_shapes(case)
        if theirs is None:
            continue
        compiled += 1
        ours = inferred(case, given_types(case))
        if kind in REDUCTIONS:
            ours = tuple(shape or (1,) for shape in ours)
        assert theirs == ours, str(case)
    assert (compiled == 0) == (kind in FUSED_ONLY)


@pytest.mark.parametrize("kind", BASE)
def test_unknown_dims_agree_with_known_dims(kind: str) -> None:
    """Fewer known input dims give fewer known output dims, no other dims and no violation."""
    for case in cases_of(kind):
        types = given_types(case)
        wanted = inferred(case, types)
        for index, tensor in enumerate(types):
            rank = len(tensor.shape or ())
            shapes = [(*tensor.shape[:axis], None, *tensor.shape[axis + 1 :]) for axis in range(rank)]
            for shape in (*shapes, (None,) * rank, None):
                less = [*types[:index], TensorType(tensor.dtype, shape), *types[index + 1 :]]
                for got, known in zip(inferred(case, less), wanted, strict=True):
                    assert compatible(got, known), f"{case}, input {index} of {shape}: {got}, {known}"
