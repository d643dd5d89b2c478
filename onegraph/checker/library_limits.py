"""Finds what a version of the library refuses, computes wrong or lacks, from the records of ``onegraph.faults``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .._util.counted import counted, some_of
from .._util.exact_types import text
from ..errors import LIBRARY, NOTE, ArgumentError, Violation, shown
from ..faults.capabilities import CAPABILITIES
from ..faults.cpus import CPU_SUPPORT, EVERY_ISA, ISA_NAMES, OnCpu, low_types
from ..faults.fault import LACKS, SLOW, Fault, Release
from ..faults.leaks import LEAKY, has_tiles
from ..faults.ops import OPS
from ..faults.precision import PRECISION
from ..faults.support import SUPPORT
from ..faults.user_faults import USER
from ..inference.infer import Inference
from ..inference.violations import Violations
from ..opset.editions.dialect import base_call, edition_words
from ..opset.editions.registry import BASE, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Call, RuleFinding, Schema
from ..opset.shapes import show
from ..opset.signature import Attribute, Port, Row, Version

OLDEST: Release = (3, 2, 0)
NONE = "none"  # check against the specification alone
TABLES = (OPS, CAPABILITIES, SUPPORT, PRECISION, LEAKY)


class Library(NamedTuple):
    """What ops are checked for: a version of the library, and the newest instruction set of a CPU.

    ``isa``: one of :data:`onegraph.faults.cpus.EVERY_ISA`; empty for the CPU of this machine.
    """

    version: Release
    isa: str = ""

    def __str__(self) -> str:
        return f"oneDNN {'.'.join(map(str, self.version))}" + (f" on {self.isa}" if self.isa in ISA_NAMES else "")

    def of_call(self, call: Call) -> list[tuple[Fault[Any], str, bool]]:
        """The faults that a call runs into, but for slow kernels: each with the reason, and whether it is certain."""
        kinds = frozenset([call.schema.kind])
        tables = [table for table in TABLES if table is not LEAKY or self._has_tiles(call)]
        faults_found = [
            fault for table in tables for fault in table.of(kinds, call, self.version) if fault.severity != SLOW
        ]
        faults: list[tuple[Fault[Any], str, bool]] = [(one, one.reason, one.is_certain(call)) for one in faults_found]
        if any(fault.severity == LACKS for fault in faults_found):
            return faults
        return faults + [(fault, reason, True) for fault, reason in self._of_cpu(call, kinds)]

    def _has_tiles(self, call: Call) -> bool:
        types = low_types(call)  # others need not ask the library, which fixes the instruction set that it uses
        return any(has_tiles(dtype, self.isa or _isa_of_this_cpu()) for dtype in types)

    def _of_cpu(self, call: Call, kinds: frozenset[str]) -> Iterator[tuple[Fault[OnCpu], str]]:
        if not low_types(call):
            return
        use = OnCpu(call, self.isa or _isa_of_this_cpu())
        for fault in filter(lambda one: one.is_certain(use), CPU_SUPPORT.of(kinds, use, self.version)):
            yield fault, fault.reason_of(use)


def library_named(choice: object) -> Library | None:
    """The library to check against; None for the specification alone.

    Args:
        choice: None for the loaded library on this CPU, if a library can be loaded; ``"none"``; or a version such as
            ``"3.6"`` or ``"3.6.2"``, which need not be installed, on a CPU that has every instruction set; or both,
            such as ``"3.6@avx2"``.

    Raises:
        ArgumentError: ``choice`` is no such text, or is older than 3.2; or no fault has a name that is switched off.
    """
    if USER.off:
        from ..faults.catalogue import check_names

        check_names(USER.off)
    if choice is None:
        return _loaded()
    word = text(choice)
    if word == NONE:
        return None
    parts = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:@(\w+))?", word or "")
    version = (0, 0, 0) if parts is None else (int(parts[1]), int(parts[2]), int(parts[3] or 0))
    if parts is None or version < OLDEST:
        raise ArgumentError(f"library: {shown(choice)}; expected 'none', or a version from '3.2' on, such as '3.6'")
    isa = (parts[4] or EVERY_ISA[-1]).lower()
    if isa not in EVERY_ISA:
        raise ArgumentError(f"library: {shown(choice)}; expected behind @ one of {', '.join(EVERY_ISA)}")
    return Library(version, isa)


def _loaded() -> Library | None:
    """The loaded library; None if no library can be loaded."""
    try:
        from ..native.library import VERSION
    except ImportError:
        return None
    return Library(VERSION)


def _isa_of_this_cpu() -> str:
    from ..native.library import newest_isa

    return newest_isa(EVERY_ISA)


def library_violations(
    checked: Inference, edition: str, op: str, n_outputs: int, library: Library | None
) -> list[Violation]:
    """Violations for features that are too new for the library, or that it refuses, lacks or computes wrong.

    Args:
        checked: the op, as the inference has examined it; an op with errors has no such violations.
        edition: name of the edition whose words the violations use.
        op: the op, for messages.
        n_outputs: number of outputs that are used; in a graph, all outputs up to the last one that is read.
        library: the version of the library and the CPU; None for no library.
    """
    schema, attrs = checked.schema, checked.attrs
    if library is None or checked.errors:
        return []
    assert schema is not None  # as there is no error
    assert attrs is not None
    noted = Violations(edition_named(edition), op)
    noted.page = noted.edition.page(schema)
    base = base_of(schema)
    for where, bound in _foreign(checked, schema, library.version, n_outputs) if base.kind in BASE else ():
        is_newer = bound > library.version
        rule, word, told = ("newer_than_library", "since", "or later") if is_newer else (
            "ended_before_library", "until", "is the first without it")  # fmt: skip
        dotted = f"{bound[0]}.{bound[1]}"
        expected = f"oneDNN {dotted} {told}; the library is {library}"
        noted.add(rule, where, f"{word} {dotted}", expected, severity=LIBRARY)
    if base.kind not in BASE:
        noted.add(
            "no_library_op", "kind", schema.kind, f"an op that {library} has; this runs on numpy", severity=LIBRARY
        )
    elif not noted.violations:
        call = base_call(schema, base, attrs, checked.inputs, checked.n_outputs, checked.dtypes)
        for fault, reason, is_certain in library.of_call(call):
            finding = edition_words(schema, base, RuleFinding(fault.where, "", reason), attrs)
            where = finding.where
            attr_value = attrs.get(where, "left out" if schema.has_attribute(where) else _tensors(checked))
            expected = _expected(fault, library, is_certain)
            # Whether some faults show depends on the numbers or the memory.
            severity = LIBRARY if fault.severity == LACKS else fault.severity
            noted.add(
                fault.name, where, attr_value, expected, finding.expected, severity=severity if is_certain else NOTE
            )
    return noted.violations


def _expected(fault: Fault[Any], library: Library, is_certain: bool) -> str:
    """What is expected of a call that runs into a fault."""
    if not is_certain and fault.of_nan:
        return f"a form that {library} gets right with NaN and infinities too; without them this one is right"
    if not is_certain:
        return (
            f"a form that {library} always gets right; this one it gets right or wrong, by what lies in memory or by "
            "the numbers"
        )
    return f"a form that {library} {'has a kernel for' if fault.severity == LACKS else 'gets right'}"


def _tensors(checked: Inference) -> str:
    """The number and types of the inputs of an op, for a message."""
    inputs = [tensor for tensor in checked.inputs if tensor is not None]
    types = some_of((f"{tensor.dtype} {show(tensor.shape)}" for tensor in inputs), 4)
    return f"{counted(len(inputs), 'input')}: {types}"


def _foreign(checked: Inference, schema: Schema, version: Release, n_outputs: int) -> Iterator[tuple[str, Version]]:
    """The parts of the op that the library lacks, each with the first version that has it or has it no more."""
    base = base_of(schema)
    if _is_foreign(base, version):
        yield "kind", _bound(base, version)
    assert checked.attrs is not None
    for name, value in checked.attrs.items():
        attribute = schema.attribute(name)
        if _is_foreign(attribute, version) and value != attribute.default:  # such a library always uses the default
            yield name, _bound(attribute, version)
    for index, tensor in enumerate(checked.inputs):
        if tensor is not None:
            port = schema.input_port(index)
            assert tensor.dtype is not None
            since = max(port.since, tensor.dtype.since)
            if since > version or _is_foreign(port, version):
                yield port.name, since if since > version else _bound(port, version)
    for port in schema.outputs[:n_outputs]:
        if _is_foreign(port, version):
            yield port.name, _bound(port, version)
    if checked.rows and all(_is_foreign(row, version) for row in checked.rows):
        yield "data types", min(_bound(row, version) for row in checked.rows)


def _is_foreign(part: Schema | Attribute | Port | Row, version: Release) -> bool:
    """Whether a part of the specification is newer than a library, or ended before it."""
    return part.since > version or part.until <= version


def _bound(part: Schema | Attribute | Port | Row, version: Release) -> Version:
    """The version that a library would have to reach, or must not reach, to have a part."""
    return part.since if part.since > version else part.until
