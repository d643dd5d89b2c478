"""Compares the enumerators of the C headers with the ops, attributes and data types of an edition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...opset.dtypes import SPECIFIED
from ...opset.editions.legacy import WITHOUT_PAGE
from ...opset.editions.registry import BASE, Edition
from .differences import OP, PageDifference

# Enumerators that end a list or stand for no value.
MARKS = {"last_symbol", "undef", "data_type_undef", "data_type_max"}
# Data types of primitives that no op of a graph has; the second one was removed again.
NOT_OF_GRAPHS = {"f64", "f4_e3m0"}


def compare_headers(headers: Mapping[str, str], edition: Edition) -> list[PageDifference]:
    """The ops, attributes and data types that the headers have and the edition lacks, and the other way round.

    The headers share their data types with the primitives, so that only a type that no record knows is reported. A
    header without an enumeration says nothing about it, as in the oneAPI specification.
    """
    text = "\n".join(headers.values())
    schemas = edition.schemas.values()
    kinds = {_c_name(edition, schema.name) for schema in schemas}
    if edition.name == "legacy-1":
        kinds |= {BASE[kind].name for kind in WITHOUT_PAGE}
    attributes = {attribute.name for schema in schemas for attribute in schema.attributes}
    differences = list(_each(op_names(headers), kinds, "op kind"))
    named = _enumerators(text, "dnnl_graph_op_attr_", "dnnl_graph_op_attr_t") - {"end"}  # a mark there, an op above
    differences += _each(named, attributes, "attribute")
    dtypes = _enumerators(text, "dnnl_", "dnnl_data_type_t") - NOT_OF_GRAPHS
    return differences + list(_each(dtypes, dtypes & set(SPECIFIED), "data type"))


def op_names(headers: Mapping[str, str]) -> set[str]:
    """The names of ops in the headers, without their prefix."""
    return _enumerators("\n".join(headers.values()), "dnnl_graph_op_", "dnnl_graph_op_kind_t")


def _enumerators(text: str, prefix: str, enum: str) -> set[str]:
    """The names behind a prefix in the enumeration whose type has this name; none if there is no such type."""
    match = re.search(rf"typedef enum[^{{]*\{{([^}}]*)\}}\s*{enum};", text)
    body = re.sub(r"//.*|/\*.*?\*/", "", match[1] if match else "")
    return set(re.findall(rf"\b{prefix}(\w+)", body)) - MARKS


def _c_name(edition: Edition, name: str) -> str:
    """The name of an op in the C API of the edition."""
    if edition.name != "legacy-1":
        return name
    return name.removeprefix("legacy_").replace("backward_weights", "backprop_filters").replace("backward", "backprop")


def _each(header: set[str], records: set[str], noun: str) -> Iterator[PageDifference]:
    if not header:
        return
    for name in sorted(header - records):
        yield PageDifference(
            name, OP, noun, "nothing", "an enumerator of the header", f"add the {noun} with its version"
        )
    for name in sorted(records - header):
        proposal = f"the C API of this version lacks the {noun}: a Correction says what onegraph does"
        yield PageDifference(name, OP, noun, f"the {noun}", "no enumerator in the header", proposal)
