"""Derives the edition legacy-1 from the base: oneDNN Graph specification 1.0-beta, whose op names end in "-1".

80 of its 99 ops are also in the base vocabulary; the others are in ``legacy_ops``. The 80 ops differ from the base in
their names, by fixed rules, and in the weights of the ConvTranspose ops. There OIX is (out / groups, in, X) and XIO is
(X, in, out / groups). Compared with IOX and XOI of the base, the two channel axes are exchanged and the spatial axes
are the same.

Abs is missing: the document has no page for it, although the page of its gradient refers to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..dtypes import DataType
from ..ops.interpolation import one_size_source
from ..schema import Dialect, Schema
from ..signature import FLOATS, Attribute, Fill, Port, Row
from .dialect import in_words, vocabulary

RENAMED = {"Backward": "Backprop", "BackwardData": "BackpropData", "BackwardWeights": "BackpropFilters"}
ATTRIBUTES = {
    "weights_format": "filter_format",
    "weights_shape": "filter_shape",
    "dst_shape": "output_shape",
    "src_shape": "input_shape",
}
PORTS = {
    "dst": "output",
    "weights": "filter",
    "diff_dst": "output_delta",
    "diff_src": "input_delta",
    "diff_weights": "filter_delta",
    "diff_bias": "bias_delta",
    "diff_gamma": "gamma_delta",
    "diff_beta": "beta_delta",
    "diff_slope": "slope_delta",
    "weights_shape": "filter_shape",
    "dst_shape": "output_shape",
    "src_shape": "input_shape",
    "src_0": "input_1",
    "src_1": "input_2",
}
OWN_PORTS = {
    "Concat": {"src_i": "input"},
    "MatMul": {"src": "input_1", "weights": "input_2"},
    "Select": {"src_0": "then", "src_1": "else"},
}
# Ops of legacy-1 that the base has only since a version after 3.0. Pow is not listed: in legacy-1 it is another op.
EARLIER = {"Select", "GreaterEqual"}
WITHOUT_PAGE = {"Abs"}
# Rules that only the pages of this edition state.
OWN_RULES = {"Interpolate": (one_size_source,), "InterpolateBackward": (one_size_source,)}
# (op, attribute) of the base whose default the page prints as None, where later pages print no default.
NONE_DEFAULTS = {("BatchNormForwardTraining", "momentum"), ("ConvTransposeBackwardWeights", "weights_shape")}
INDICES = Port("output_forward_indices", "T2", optional=True)
INDEX_TYPES = frozenset({DataType.u8, DataType.s32})
LEGACY_AXES = (
    "Later editions have the two channel axes of the filter in the opposite order. The array keeps the order of this "
    "edition; onegraph passes matching strides to the library and copies no data."
)
CHANNELS_SWAPPED = {"filter", "filter_delta", "filter_shape"}


def legacy_kind(kind: str) -> str:
    """The name in legacy-1 of an op of the base vocabulary."""
    for ending in sorted(RENAMED, key=len, reverse=True):
        if kind.endswith(ending):
            return kind.removesuffix(ending) + RENAMED[ending]
    return kind


def legacy(base: Schema) -> Schema | None:
    """The legacy-1 schema of ``base``, the op as of 3.0; None if legacy-1 lacks the op."""
    if base.kind in WITHOUT_PAGE or (base.since > (3, 0) and base.kind not in EARLIER):
        return None
    kind = legacy_kind(base.kind)
    transposed = base.kind.startswith("ConvTranspose")
    schema = replace(
        base,
        kind=kind,
        inputs=_inputs(base),
        outputs=tuple(_port(base, port, output=True) for port in base.outputs),
        types=_types(base),
        attributes=tuple(_attribute(base, attribute, transposed) for attribute in base.attributes),
        rules=(*base.rules, *OWN_RULES.get(base.kind, ())),
        since=(3, 0),
        dialect=Dialect(
            base.kind,
            {old: new for new, old in ATTRIBUTES.items() if base.has_attribute(new)},
            {"filter_format": {"XIO": "XOI", "OIX": "IOX"}} if transposed else {},
            frozenset(CHANNELS_SWAPPED) if transposed else frozenset(),
        ),
        page=f"{kind}-1",
    )
    return _described(schema, vocabulary(schema, base))


def _described(schema: Schema, words: Mapping[str, str]) -> Schema:
    """The schema with its texts translated to the edition's names."""
    attributes = (replace(attribute, doc=in_words(attribute.doc, words)) for attribute in schema.attributes)
    axes = (LEGACY_AXES,) if schema.dialect is not None and schema.dialect.swapped else ()
    notes = (*axes, *(in_words(note, words) for note in schema.notes))
    return replace(schema, doc=in_words(schema.doc, words), attributes=tuple(attributes), notes=notes)


def _attribute(base: Schema, attribute: Attribute, transposed: bool) -> Attribute:
    is_none = attribute.none_is_default or (base.kind, attribute.name) in NONE_DEFAULTS
    name = ATTRIBUTES.get(attribute.name, attribute.name)
    changed = replace(attribute, name=name, none_is_default=is_none, ignored_beside="")
    if attribute.name == "weights_format" and transposed:
        return replace(
            changed,
            default="XIO",
            values=("XIO", "OIX"),
            aliases={},
            disputed=frozenset(),
            doc="Axis order of the filter: OIX = (out / groups, in, X), XIO = (X, in, out / groups).",
        )
    if attribute.name == "beta" and attribute.default is not None and not isinstance(attribute.default, Fill):
        return replace(changed, kind="s64", default=1)
    return changed


def _inputs(base: Schema) -> tuple[Port, ...]:
    inputs = tuple(_port(base, port, output=False) for port in base.inputs)
    # The page does not define the numbering of the indices, so the gradient is always computed from the source.
    return (*inputs, INDICES) if base.kind == "MaxPoolBackward" else inputs


def _types(base: Schema) -> tuple[Row, ...]:
    if base.kind == "MaxPoolBackward":
        return tuple(Row({**row.types, INDICES.type: INDEX_TYPES}) for row in base.types)
    return FLOATS if base.kind == "GreaterEqual" else base.types


def _port(base: Schema, port: Port, *, output: bool) -> Port:
    own = OWN_PORTS.get(base.kind, {})
    gradient = base.kind.endswith(tuple(RENAMED))
    if port.name in own:
        return replace(port, name=own[port.name])
    if port.name == "src":
        with_result = base.has_attribute("use_dst")
        return replace(port, name="result_forward" if with_result else "input_forward" if gradient else "input")
    if port.name == "dst" and not output:
        return replace(port, name="result_forward")
    return replace(port, name=PORTS.get(port.name, port.name))
