"""Finds what a version of the library refuses, computes wrong or lacks, from the records of ``onegraph.faults``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .._util.exact_types import text
from ..errors import LIBRARY, NOTE, ArgumentError, Violation, shown
from ..faults.capabilities import CAPABILITIES
from ..faults.fault import LACKS, SLOW, Fault, Release
from ..faults.leaks import LEAKY
from ..faults.ops import OPS
from ..faults.precision import PRECISION
from ..faults.support import SUPPORT
from ..inference.infer import Inference
from ..inference.violations import Violations
from ..opset.editions.dialect import base_call, edition_words
from ..opset.editions.registry import BASE, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Call, Finding, Schema
from ..opset.shapes import counted, show
from ..opset.signature import Version

OLDEST: Release = (3, 2, 0)
NONE = "none"  # check against the specification alone
TABLES = (OPS, CAPABILITIES, SUPPORT, PRECISION, LEAKY)


def library_version(given: object) -> Release | None:
    """The version of the library to check against; None for the specification alone.

    Args:
        given: None for the loaded library, if one can be loaded; ``"none"``; or a version such as ``"3.6"`` or
            ``"3.6.2"``, which need not be installed.

    Raises:
        ArgumentError: ``given`` is no such text, or is older than 3.2.
    """
    if given is None:
        return _loaded()
    word = text(given)
    parts = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", word or "")
    version = None if parts is None else (int(parts[1]), int(parts[2]), int(parts[3] or 0))
    if word != NONE and (version is None or version < OLDEST):
        raise ArgumentError(f"library: {shown(given)}; expected 'none', or a version from '3.2' on, such as '3.6'")
    return version


def _loaded() -> Release | None:
    """Version of the loaded library; None if no library can be loaded."""
    try:
        from ..native.library import VERSION
    except ImportError:
        return None
    return VERSION


def library_violations(
    checked: Inference, edition: str, op: str, n_outputs: int, version: Release | None
) -> list[Violation]:
    """Violations for features that are too new for the library, or that it refuses, lacks or computes wrong.

    Args:
        checked: the op, as the inference has examined it; an op with errors has no such violations.
        edition: name of the edition whose words the violations use.
        op: the op, for messages.
        n_outputs: number of outputs that are used; in a graph, all outputs up to the last one that is read.
        version: the version of the library; None for no library.
    """
    schema, attrs = checked.schema, checked.attrs
    if version is None or schema is None or attrs is None or checked.errors:
        return []
    noted = Violations(edition_named(edition), op)
    noted.page = noted.edition.page(schema)
    library = f"oneDNN {'.'.join(map(str, version))}"
    base = base_of(schema)
    for where, since in _newer(checked, schema, version, n_outputs) if base.kind in BASE else ():
        needed = f"oneDNN {since[0]}.{since[1]} or later; the library is {library}"
        noted.add("newer_than_library", where, f"since {since[0]}.{since[1]}", needed, severity=LIBRARY)
    if base.kind not in BASE:
        noted.add(
            "no_library_op", "kind", schema.kind, f"an op that {library} has; this runs on numpy", severity=LIBRARY
        )
    elif not noted.violations:
        call = base_call(schema, base, attrs, checked.inputs, checked.n_outputs, checked.dtypes)
        for fault in (fault for table in TABLES for fault in table.of(frozenset([base.kind]), call, version)):
            if fault.severity == SLOW:
                continue
            finding = edition_words(schema, base, Finding(fault.where, "", fault.reason), attrs)
            where = finding.where
            given = attrs.get(where, "left out" if schema.has_attribute(where) else _tensors(checked))
            noted.add(
                fault.name, where, given, *_expected(fault, call, library, finding), severity=_severity(fault, call)
            )
    return noted.violations


def _severity(fault: Fault[Call], call: Call) -> str:
    """The severity of a fault in a call: a note where it depends on the numbers or the memory whether it shows."""
    if not fault.is_certain(call):
        return NOTE
    return LIBRARY if fault.severity == LACKS else fault.severity


def _expected(fault: Fault[Call], call: Call, library: str, finding: Finding) -> tuple[str, str]:
    """What is expected of a call that runs into a fault, and why."""
    if not fault.is_certain(call):
        return (
            f"a form that {library} always gets right; this one it gets right or wrong, by what lies in memory or by "
            "the numbers",
            finding.expected,
        )
    return f"a form that {library} {'has a kernel for' if fault.severity == LACKS else 'gets right'}", finding.expected


def _tensors(checked: Inference) -> str:
    """The number and types of the inputs of an op, for a message."""
    inputs = [tensor for tensor in checked.inputs if tensor is not None]
    shown = ", ".join(f"{tensor.dtype} {show(tensor.shape)}" for tensor in inputs[:4])
    return f"{counted(len(inputs), 'input')}: {shown}" + (", ..." if len(inputs) > 4 else "")


def _newer(checked: Inference, schema: Schema, version: Release, n_outputs: int) -> Iterator[tuple[str, Version]]:
    """The parts of the op that are newer than the library, each with the first version that has it."""
    base = base_of(schema)
    if base.since > version:
        yield "kind", base.since
    for name, value in (checked.attrs or {}).items():
        attribute = schema.attribute(name)
        if attribute.since > version and value != attribute.default:  # an older library always uses the default
            yield name, attribute.since
    for index, tensor in enumerate(checked.inputs):
        if tensor is not None:
            port = schema.input_port(index)
            since = max(port.since, tensor.dtype.since if tensor.dtype else port.since)
            if since > version:
                yield port.name, since
    for port in schema.outputs[:n_outputs]:
        if port.since > version:
            yield port.name, port.since
    if checked.rows and all(row.since > version for row in checked.rows):
        yield "data types", min(row.since for row in checked.rows)
