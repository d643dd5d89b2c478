"""An op in the words of one edition, said in the words of another.

The way leads through the base vocabulary: the source edition's words are read as the checker reads them, and what is
meant is looked up in the target edition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from .._util.exact_types import elements, has_type
from ..checker.check import check_op
from ..errors import ArgumentError, SpecError, Violation, shown
from ..inference.infer import infer_attrs, infer_op
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, channel_swap, format_of, is_swapped, swap_channels
from ..opset.editions.registry import Edition, base_of, edition
from ..opset.schema import Attribute, AttrValue, Call, Fill, Schema, Shape, TensorType
from ..opset.shapes import MAX_RANK, dense_strides, known_dims
from ..opset.values import BadValueError, convert

Pair = tuple[DataType | None, Shape]
# What can be done about an op that the target lacks, where the target has the other op.
INSTEAD = {
    "DynamicReshape": ("StaticReshape", "StaticReshape does it where the shape is known when the graph is built"),
    "DynamicTranspose": ("StaticTranspose", "StaticTranspose does it where the order is known when the graph is built"),
    "Rsqrt": ("Pow", "Pow with beta -0.5 computes it"),
    "Pow": ("Pow", "the exponent is a tensor in legacy-1 and the attribute beta elsewhere"),
    "Negative": ("Multiply", "Multiply by -1 computes it"),
}


@dataclass(frozen=True)
class Translation:
    """One op in the words of the target edition.

    Attributes:
        kind: the op there; None where that edition has no such op.
        attrs: the attributes there. What is the default in both editions is left out where it was not given.
        inputs: every input in the target's axis order; None for a port that was skipped. A logical tensor stays one,
            its strides exchanged with its dims, so that it describes the same memory; of everything else it is the
            (data type, shape).
        permutations: for each port whose axes stand in another order there, input or output, the order: the target's
            array is ``array.transpose(order)``. Of a one-dimensional input that holds such a tensor's shape it is
            ``array[list(order)]``.
        lost: names of what has no counterpart: attributes, inputs, or the op itself. Where it is empty, the translation
            means just what was given.
        reasons: for each name in ``lost``, why.
    """

    kind: str | None
    attrs: Mapping[str, AttrValue]
    inputs: tuple[Pair | LogicalTensor | None, ...] = ()
    permutations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def translate(
    kind: str,
    attrs: Mapping[str, object] | None = None,
    inputs: Sequence[object] | LogicalTensor = (),
    *,
    source: str,
    target: str,
) -> Translation:
    """Say an op of one edition of the specification in the words of another.

    Names of ops, ports and attributes, values of attributes and defaults are translated, and so is meaning: the weights
    of the ConvTranspose ops have their two channel axes the other way round in legacy-1, so shapes and attributes that
    hold shapes are permuted, and ``permutations`` tells how to permute the arrays. Zero points that may be left out in
    the source are added where the target requires them. What the target cannot say is left out and named in ``lost``.
    Data types are compared for the inputs; which outputs the op has, and of what type, is not part of the call.

    Args:
        kind: the op, as the source edition names it.
        attrs: its attributes; those that are required may be missing.
        inputs: logical tensors, (dtype, shape) pairs or arrays in port order; None skips an optional port. They may be
            left out altogether.
        source: name of the edition that the op is in.
        target: name of the edition to say it in.

    Raises:
        ArgumentError: an edition is unknown.
        SpecError: the source edition has no such op, or what was given breaks its specification; ``.violations`` says
            how, as ``check_op`` does.
    """
    ours, theirs = edition(source), edition(target)
    given_inputs = [inputs] if has_type(inputs, LogicalTensor) else elements(inputs)
    if given_inputs is None:
        raise ArgumentError(
            f"inputs: {shown(inputs)}; expected a list of logical tensors, (dtype, shape) pairs or arrays"
        )
    schema, given, tensors = _checked(kind, attrs, given_inputs, ours)
    meant = base_of(schema)
    wanted = theirs.meaning(meant)
    if wanted is None:
        reasons = {schema.kind: _no_such_op(schema.kind, theirs)}
        return Translation(None, {}, tuple(map(_pair, tensors)), {}, tuple(reasons), reasons)
    work = _Work(schema, wanted, base_call(schema, meant, given, tensors), given)
    result = work.result(tensors, theirs)
    kept = [
        _same_memory(tensor, result.permutations.get(wanted.input_port(index).name)) if pair else None
        for index, (tensor, pair) in enumerate(zip(given_inputs, result.inputs, strict=False))
    ]
    return replace(
        result, inputs=tuple(tensor or pair for tensor, pair in zip_longest(kept, result.inputs[: len(kept)]))
    )


def _same_memory(tensor: object, order: tuple[int, ...] | None) -> LogicalTensor | None:
    """A logical tensor with its axes in another order: the strides go along, so it describes the same memory."""
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
    kind: str, attrs: object, inputs: Sequence[object], chosen: Edition
) -> tuple[Schema, Mapping[str, AttrValue], Sequence[TensorType | None]]:
    """The schema, attributes and input types of an op that is in order as far as it was given."""
    found = infer_op(kind, attrs, inputs, edition=chosen) if inputs else infer_attrs(kind, attrs, edition=chosen)
    wrong = [one for one in found.errors if one.rule != "missing_attribute"]
    if wrong or found.schema is None or found.attrs is None:
        raise SpecError(wrong)
    return found.schema, found.attrs, found.inputs


def _no_such_op(kind: str, theirs: Edition) -> str:
    other, text = INSTEAD.get(kind, ("", ""))
    return f"{theirs.name} has no op of this meaning" + (f"; {text}" if theirs.schema(other) else "")


def _pair(tensor: TensorType | None) -> Pair | None:
    return None if tensor is None else (tensor.dtype, tensor.shape)


class _Work:
    """One translation: ``call``, in the base vocabulary, from the words of ``source`` to those of ``target``."""

    def __init__(self, source: Schema, target: Schema, call: Call, given: Mapping[str, AttrValue]) -> None:
        self.source, self.target, self.call, self.given = source, target, call, given
        self.reasons: dict[str, str] = {}
        self.attrs: dict[str, AttrValue] = {}

    def result(self, tensors: Sequence[TensorType | None], theirs: Edition) -> Translation:
        self.translate_attributes()
        self.require_zero_points()
        inputs = self.translated_inputs(tensors)
        self.check_data_types(inputs, theirs)
        permutations = self.permutations()
        return Translation(self.target.kind, self.attrs, inputs, permutations, tuple(self.reasons), self.reasons)

    # Attributes --------------------------------------------------------------------------------------------------

    def translate_attributes(self) -> None:
        words = _names(self.target)
        # The format decides how the shapes that follow are permuted, so it goes first.
        for name in sorted(self.call.given, key=lambda name: not name.endswith("_format")):
            self._translate(name, words.get(name, name))
        order = [attribute.name for attribute in self.target.attributes]
        self.attrs = dict(sorted(self.attrs.items(), key=lambda item: order.index(item[0])))

    def _translate(self, name: str, word: str) -> None:
        value, own = self.call.given[name], self._word(name)
        shown = self.given.get(own, value)
        said = self.target.has_attribute(word)
        default = _default(self.target, word) if said else self.call.schema.attribute(name).default
        if own not in self.given and value == default:
            return
        if not said:
            # An attribute that came later, at its default: leaving it out means the same.
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
        if dialect is not None and has_type(value, str):
            back = {new: old for old, new in dialect.values.get(attribute.name, {}).items()}
            value = back.get(value, value)
        if is_swapped(self.target, attribute.name) and has_type(value, tuple):
            dims = swap_channels(tuple(map(int, value)), format_of(self.target, self.attrs))
            value = known_dims(dims)
        if attribute.kind == "s64" and has_type(value, float) and value.is_integer():
            value = int(value)
        return convert(attribute, value)

    def require_zero_points(self) -> None:
        """Zero points that were left out are zeros; there they may have to be said."""
        name = "zps"
        if not self.target.has_attribute(name) or not self.target.attribute(name).required or name in self.attrs:
            return
        if not self.source.attribute(name).required and "scales" in self.attrs:
            self.attrs[name] = (0,) * len(self.call.f32s("scales"))

    # Ports -------------------------------------------------------------------------------------------------------

    def translated_inputs(self, tensors: Sequence[TensorType | None]) -> tuple[Pair | None, ...]:
        seen = [_pair(tensor) for tensor in self.call.inputs]
        for index, pair in enumerate(seen):
            port = self.target.input_port(index)
            if pair is not None and is_swapped(self.target, port.name) and not port.gives_shape:
                seen[index] = (pair[0], swap_channels(pair[1], format_of(self.target, self.attrs)))
        for index in range(len(seen), len(tensors)):
            port = self.source.input_port(index)
            if len(self.target.inputs) == len(self.source.inputs):
                seen.append(_pair(tensors[index]))
            elif tensors[index] is not None:
                self.reasons[port.name] = f"{port.name}: {self.target.kind} has no such input there"
        return tuple(seen)

    def check_data_types(self, inputs: tuple[Pair | None, ...], theirs: Edition) -> None:
        found: list[Violation] = []
        if inputs:
            found = check_op(self.target.kind, self.attrs, inputs, edition=theirs.name)
        for violation in found:
            if violation.rule == "data_type":
                self.reasons[violation.where] = violation.message

    def permutations(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        sides = ((self.source.inputs, self.target.inputs), (self.source.outputs, self.target.outputs))
        for ours, theirs in sides:
            for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
                if is_swapped(self.source, our.name) == is_swapped(self.target, their.name):
                    continue
                if our.gives_shape and not any(self.call.inputs[index:]):
                    continue  # the attribute gives the shape
                rank = self.rank()
                if rank is None:
                    self.reasons[our.name] = f"{our.name}: its axis order, as nothing that was given says its rank"
                else:
                    found[their.name] = channel_swap(rank, format_of(self.target, self.attrs))
        return found

    def rank(self) -> int | None:
        """The rank that all tensors of a convolution have."""
        for tensor, port in zip(self.call.inputs, self.call.schema.inputs, strict=False):
            if tensor is not None and tensor.rank is not None and port.name != "bias" and not port.gives_shape:
                return tensor.rank
        for name in ("strides", "dilations", "pads_begin", "pads_end"):
            if self.call.has(name):
                rank = len(self.call.s64s(name)) + 2
                return rank if rank <= MAX_RANK else None
        return len(self.call.s64s("weights_shape")) if "weights_shape" in self.call.given else None


def _names(schema: Schema) -> dict[str, str]:
    """Base name -> edition's name of the attributes where they differ."""
    return {} if schema.dialect is None else {new: old for old, new in schema.dialect.attributes.items()}


def _default(schema: Schema, name: str) -> AttrValue | Fill | None:
    """The default of an edition's attribute, in base words."""
    default = schema.attribute(name).default
    if schema.dialect is None or not has_type(default, str):
        return default
    return schema.dialect.values.get(name, {}).get(default, default)
