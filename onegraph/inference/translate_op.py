"""Translates an op from one edition of the specification to another.

The op is first translated to the base vocabulary, as in the checker, and then to the target edition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import zip_longest

from .._util.exact_types import elements, has_type
from .._util.records import record
from .._util.tracebacks import ends_traceback
from ..errors import ArgumentError, SpecError, shown
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, channel_swap, format_of, in_words, is_swapped, swap_channels
from ..opset.editions.registry import Edition, base_of, edition
from ..opset.schema import Call, Schema, TensorType
from ..opset.shapes import MAX_RANK, dense_strides, known_dims
from ..opset.signature import Attribute, AttrValue, Fill, Port, Shape
from ..opset.values import BadValueError, convert
from .infer import infer_attrs, infer_op
from .op_inference import OpInference

Pair = tuple[DataType | None, Shape]
RESHAPE = "StaticReshape", "StaticReshape does it where the shape is known when the graph is built"
OF_KNOWN_SIZES = "StaticReshape", "a graph whose sizes are known needs none: onegraph.onnx.load takes them as shapes="
# Op that the target lacks -> (another op, a suggestion to show if the target has that other op).
INSTEAD = {
    "DynamicReshape": RESHAPE,
    "DynamicTranspose": ("StaticTranspose", "StaticTranspose does it where the order is known when the graph is built"),
    "Rsqrt": ("Pow", "Pow with beta -0.5 computes it"),
    "Pow": ("Pow", "the exponent is a tensor in legacy-1 and the attribute beta elsewhere"),
    "Negative": ("Multiply", "Multiply by -1 computes it"),
    "Shape": OF_KNOWN_SIZES,
    "Size": OF_KNOWN_SIZES,
    "Reshape": RESHAPE,
}


@record(frozen=True)
class Translation:
    """One op in the vocabulary of the target edition.

    Attributes:
        kind: the op in the target edition; None if that edition has no such op.
        attrs: the attributes in the target edition. An attribute that was not given, and whose default is the same in
            both editions, is left out.
        inputs: every input in the target's axis order; None for an omitted port. A logical tensor stays a logical
            tensor, with dims and strides permuted together, so that it describes the same memory. Any other input
            becomes a pair (data type, shape).
        permutations: the order of axes for each input or output port whose axes have another order in the target
            edition. The target's array is ``array.transpose(order)``; for a one-dimensional input that holds a shape it
            is ``array[list(order)]``.
        lost: names of attributes, inputs or outputs that have no counterpart or whose data type the target lacks, or
            the op itself. If it is empty, the translation has exactly the meaning of the original.
        reasons: the reason for each name in ``lost``.
        outputs: every given output in the target's axis order, in the same form as ``inputs``.
    """

    kind: str | None
    attrs: Mapping[str, AttrValue]
    inputs: tuple[Pair | LogicalTensor | None, ...] = ()
    permutations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[Pair | LogicalTensor | None, ...] = ()


@ends_traceback
def translate(
    kind: str,
    attrs: Mapping[str, object] | None = None,
    inputs: Sequence[object] | LogicalTensor = (),
    outputs: Sequence[object] | LogicalTensor | None = None,
    *,
    source: str,
    target: str,
) -> Translation:
    """Translate an op from one edition of the specification to another.

    Names of ops, ports and attributes, attribute values and defaults are translated. The weights of the ConvTranspose
    ops have their two channel axes in the opposite order in legacy-1, so shapes are permuted too, and ``permutations``
    gives the order for the arrays. Zero points that the source edition makes optional are added if the target requires
    them. Attributes and inputs that the target cannot express are left out and named in ``lost``. So are inputs and
    outputs of a data type that the target does not allow there.

    Args:
        kind: the op, as the source edition names it.
        attrs: its attributes; required ones may be missing.
        inputs: logical tensors, (dtype, shape) pairs or arrays in port order; None omits an optional input. All inputs
            together may be omitted.
        outputs: the outputs in the same form; None if they are not to be checked.
        source: name of the edition of the op.
        target: name of the edition to translate to.

    Raises:
        ArgumentError: an edition is unknown, or ``inputs`` or ``outputs`` is not a list.
        SpecError: the source edition has no such op, or the op breaks its specification; ``.violations`` has the
            details, as from ``check_op``.
    """
    ours, theirs = edition(source), edition(target)
    given_inputs, given_outputs = _listed("inputs", inputs), _listed("outputs", () if outputs is None else outputs)
    schema, given_attrs, tensors, results = _checked(kind, attrs, given_inputs, given_outputs, ours)
    base = base_of(schema)
    wanted = theirs.meaning(base)
    if wanted is None:
        reasons = {schema.kind: _no_such_op(schema.kind, theirs)}
        sides = [tuple(map(_pair, side)) for side in (tensors, results)]
        return Translation(None, {}, sides[0], {}, tuple(reasons), reasons, sides[1])
    work = _Work(schema, wanted, base_call(schema, base, given_attrs, tensors), given_attrs)
    result = work.result(tensors, results, theirs)
    return replace(
        result,
        inputs=_same_kinds(given_inputs, result.inputs, wanted.inputs, result.permutations),
        outputs=_same_kinds(given_outputs, result.outputs, wanted.outputs, result.permutations),
    )


def _same_kinds(
    tensors: Sequence[object],
    pairs: Sequence[Pair | LogicalTensor | None],
    ports: Sequence[Port],
    permutations: Mapping[str, tuple[int, ...]],
) -> tuple[Pair | LogicalTensor | None, ...]:
    """The pairs, with a logical tensor in place of the pair where one was given."""
    pairs_found: list[Pair | LogicalTensor | None] = []
    for tensor, pair, port in zip_longest(tensors[: len(pairs)], pairs, ports[: len(pairs)]):
        order = None if port is None else permutations.get(port.name)
        same = None if pair is None else _same_memory(tensor, order)
        pairs_found.append(pair if same is None else same)
    return tuple(pairs_found)


def _listed(name: str, tensors: object) -> Sequence[object]:
    """The tensors as a list; one logical tensor is a list of one."""
    listed = [tensors] if has_type(tensors, LogicalTensor) else elements(tensors)
    if listed is None:
        allowed = "a list of logical tensors, (dtype, shape) pairs or arrays"
        raise ArgumentError(f"{name}: {shown(tensors)}; expected {allowed}")
    return listed


def _same_memory(tensor: object, order: tuple[int, ...] | None) -> LogicalTensor | None:
    """The same memory with dims and strides permuted together; None if ``tensor`` is not a logical tensor."""
    if not has_type(tensor, LogicalTensor):
        return None
    if order is None or tensor.shape is None or len(order) != len(tensor.shape):
        return tensor
    strides = tensor.strides
    if strides is None and None not in tensor.shape:
        strides = dense_strides(known_dims(tensor.shape))
    return replace(
        tensor,
        shape=tuple(tensor.shape[axis] for axis in order),
        strides=None if strides is None else tuple(strides[axis] for axis in order),
        value=None if tensor.value is None else tensor.value.transpose(order),
    )


def _checked(
    kind: str, attrs: object, inputs: Sequence[object], outputs: Sequence[object], chosen: Edition
) -> tuple[Schema, Mapping[str, AttrValue], Sequence[TensorType | None], Sequence[TensorType | None]]:
    """The schema, attributes and tensor types of an op; SpecError for any mistake except missing attributes."""
    known_ends = kind, attrs, inputs, outputs or None
    checked = infer_op(*known_ends, edition=chosen) if inputs else infer_attrs(kind, attrs, edition=chosen)
    errors = [error for error in checked.errors if error.rule != "missing_attribute"]
    results: Sequence[TensorType | None] = ()
    if checked.schema is None:
        raise SpecError(errors)
    if outputs:
        examination = OpInference(chosen, checked.schema.kind)
        results = examination.tensor_types(outputs, "outputs") or ()
        if not inputs:
            examination.check_outputs(checked.schema, len(results))
            examination.matching_rows(checked.schema, (), results)
            errors += examination.errors
    if errors:
        raise SpecError(errors)
    assert checked.attrs is not None  # as the op has a schema
    return checked.schema, checked.attrs, checked.inputs, results


def _no_such_op(kind: str, theirs: Edition) -> str:
    instead, text = INSTEAD.get(kind, ("", ""))
    return f"{theirs.name} has no op of this meaning" + (f"; {text}" if theirs.schema(instead) else "")


def _pair(tensor: TensorType | None) -> Pair | None:
    return None if tensor is None else (tensor.dtype, tensor.shape)


class _Work:
    """One translation from schema ``source`` to schema ``target``; ``call`` is the op in the base vocabulary."""

    def __init__(self, source: Schema, target: Schema, call: Call, given_attrs: Mapping[str, AttrValue]) -> None:
        self.source, self.target, self.call, self.given_attrs = source, target, call, given_attrs
        self.reasons: dict[str, str] = {}
        self.attrs: dict[str, AttrValue] = {}

    def result(
        self, tensors: Sequence[TensorType | None], results: Sequence[TensorType | None], theirs: Edition
    ) -> Translation:
        self.translate_attributes()
        self.require_zero_points()
        inputs = self.translated_inputs(tensors)
        permutations = self.permutations()
        outputs = self.translated_outputs(results, permutations)
        self.check_data_types(inputs, outputs, theirs)
        lost = tuple(self.reasons)
        return Translation(self.target.kind, self.attrs, inputs, permutations, lost, self.reasons, outputs)

    # Attributes --------------------------------------------------------------------------------------------------

    def translate_attributes(self) -> None:
        words = _names(self.target)
        # The format decides how shapes are permuted, so it is translated first.
        for name in sorted(self.call.given, key=lambda name: not name.endswith("_format")):
            self._translate(name, words.get(name, name))
        order = [attribute.name for attribute in self.target.attributes]
        self.attrs = dict(sorted(self.attrs.items(), key=lambda item: order.index(item[0])))

    def _translate(self, name: str, word: str) -> None:
        value, own = self.call.given[name], self._word(name)
        shown = self.given_attrs.get(own, value)
        is_known = self.target.has_attribute(word)
        default = _default(self.target, word) if is_known else self.call.schema.attribute(name).default
        if own not in self.given_attrs and value == default:
            return
        beside = self.source.attribute(own).ignored_beside if own in self.given_attrs else ""
        if self.given_attrs.get(beside) and not self.target.attribute(word).ignored_beside:
            return  # the source ignores the attribute, and the target refuses it
        if not is_known:
            # The target lacks an attribute that was added later. Omitting it means its default.
            if value != default:
                self.reasons[own] = f"{own} = {shown!r}: {self.target.kind} has no such attribute there"
            return
        try:
            self.attrs[word] = self._value(self.target.attribute(word), value)
        except BadValueError as bad:
            self.reasons[own] = f"{own} = {shown!r}: there it is {bad.expected}"

    def _word(self, name: str) -> str:
        """The source edition's name of a base attribute."""
        return _names(self.source).get(name, name)

    def _value(self, attribute: Attribute, value: AttrValue) -> AttrValue:
        dialect = self.target.dialect
        if dialect is not None:
            back: dict[AttrValue, AttrValue] = {new: old for old, new in dialect.values.get(attribute.name, {}).items()}
            value = back.get(value, value)
        if is_swapped(self.target, attribute.name):
            assert has_type(value, tuple)  # dims
            value = known_dims(swap_channels(tuple(map(int, value)), format_of(self.target, self.attrs)))
        if attribute.kind == "s64" and has_type(value, float) and value.is_integer():
            value = int(value)
        return convert(attribute, value)

    def require_zero_points(self) -> None:
        """Add zero points of 0 if they were omitted and the target requires them."""
        name = "zps"
        if not self.target.has_attribute(name) or not self.target.attribute(name).required or name in self.attrs:
            return
        if not self.source.attribute(name).required and "scales" in self.attrs:
            self.attrs[name] = (0,) * len(self.call.f32s("scales"))

    # Ports -------------------------------------------------------------------------------------------------------

    def translated_inputs(self, tensors: Sequence[TensorType | None]) -> tuple[Pair | None, ...]:
        pairs = [_pair(tensor) for tensor in self.call.inputs]
        for index, pair in enumerate(pairs):
            port = self.target.input_port(index)
            if pair is not None and is_swapped(self.target, port.name) and not port.gives_shape:
                pairs[index] = (pair[0], swap_channels(pair[1], format_of(self.target, self.attrs)))
        for index in range(len(pairs), len(tensors)):
            port = self.source.input_port(index)
            if len(self.target.inputs) == len(self.source.inputs):
                pairs.append(_pair(tensors[index]))
            elif tensors[index] is not None:
                self.reasons[port.name] = f"{port.name}: {self.target.kind} has no such input there"
        return tuple(pairs)

    def translated_outputs(
        self, results: Sequence[TensorType | None], permutations: Mapping[str, tuple[int, ...]]
    ) -> tuple[Pair | None, ...]:
        known = self.target.outputs
        pairs = [_pair(tensor) for tensor in results]
        if not any(port.variadic for port in known):
            for port, pair in zip(self.source.outputs[len(known) :], pairs[len(known) :], strict=False):
                if pair is not None:
                    self.reasons[port.name] = f"{port.name}: {self.target.kind} has no such output there"
            del pairs[len(known) :]
        for index, (port, pair) in enumerate(zip(known, pairs, strict=False)):
            order = permutations.get(port.name)
            if pair is not None and order is not None and pair[1] is not None and len(pair[1]) == len(order):
                pairs[index] = (pair[0], tuple(pair[1][axis] for axis in order))
        return tuple(pairs)

    def check_data_types(self, inputs: Sequence[Pair | None], outputs: Sequence[Pair | None], theirs: Edition) -> None:
        examination = OpInference(theirs, self.target.kind)
        types = [[pair and TensorType(*pair) for pair in pairs] for pairs in (inputs, outputs)]
        examination.matching_rows(self.target, types[0], types[1])
        sides = ((self.target.inputs, self.source.inputs), (self.target.outputs, self.source.outputs))
        words = {their.name: our.name for side in sides for their, our in zip(*side, strict=False)}
        for violation in examination.violations:
            name = words.get(violation.where, violation.where)
            self.reasons[name] = f"{name} is {violation.given}; there it must be {in_words(violation.expected, words)}"

    def permutations(self) -> dict[str, tuple[int, ...]]:
        swaps: dict[str, tuple[int, ...]] = {}
        sides = ((self.source.inputs, self.target.inputs), (self.source.outputs, self.target.outputs))
        for ours, theirs in sides:
            for index, (our, their_port) in enumerate(zip(ours, theirs, strict=False)):
                if is_swapped(self.source, our.name) == is_swapped(self.target, their_port.name):
                    continue
                if our.gives_shape and not any(self.call.inputs[index:]):
                    continue  # the attribute gives the shape
                rank = self.rank()
                if rank is None:
                    self.reasons[our.name] = f"{our.name}: its axis order, as nothing that was given says its rank"
                else:
                    swaps[their_port.name] = channel_swap(rank, format_of(self.target, self.attrs))
        return swaps

    def rank(self) -> int | None:
        """The rank that all tensors of a convolution share; None if unknown."""
        for tensor, port in zip(self.call.inputs, self.call.schema.inputs, strict=False):
            if tensor is not None and tensor.rank is not None and port.name != "bias" and not port.gives_shape:
                return tensor.rank
        for name in ("strides", "dilations", "pads_begin", "pads_end"):
            if self.call.has(name):
                rank = len(self.call.s64s(name)) + 2
                return rank if rank <= MAX_RANK else None
        return len(self.call.s64s("weights_shape")) if "weights_shape" in self.call.given else None


def _names(schema: Schema) -> dict[str, str]:
    """Map base names of attributes to the edition's names, where they differ."""
    return {} if schema.dialect is None else {new: old for old, new in schema.dialect.attributes.items()}


def _default(schema: Schema, name: str) -> AttrValue | Fill | None:
    """The default of an edition's attribute, translated to the base vocabulary."""
    default = schema.attribute(name).default
    if schema.dialect is None:
        return default
    words = schema.dialect.values.get(name, {})
    return next((new for old, new in words.items() if old == default), default)
