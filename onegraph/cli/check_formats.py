"""Writes findings of ``onegraph check`` in the formats that services of continuous integration read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from urllib.parse import quote
from xml.etree import ElementTree as ET

from .._version import __version__
from ..errors import ERROR, NOTE
from .check_files import UNREADABLE, FileFinding
from .json_pointers import pointer

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
PAGES = "https://uxlfoundation.github.io/oneDNN/graph_supported_operations.html"
LEVELS = {ERROR: "error", NOTE: "note"}  # of SARIF; all others are warnings
COMMANDS = {ERROR: "error", NOTE: "notice"}  # of GitHub; all others are warnings


def as_sarif(findings: Sequence[FileFinding], files: Sequence[str]) -> str:
    """The findings as SARIF 2.1.0, which code scanning reads."""
    rules = {finding.violation.rule: _rule(finding) for finding in findings}
    results = [
        {
            "ruleId": finding.violation.rule,
            "level": LEVELS.get(finding.violation.severity, "warning"),
            "message": {"text": finding.violation.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": _location(finding.file),
                        "region": {"startLine": finding.line},
                    },
                    "logicalLocations": [{"fullyQualifiedName": pointer(finding.path) or finding.subject}],
                }
            ],
            "properties": {
                "edition": finding.violation.edition,
                "library": finding.library,
                "page": finding.violation.page,
            },
        }
        for finding in findings
    ]
    driver = {"name": "onegraph", "version": __version__, "informationUri": PAGES, "rules": [*rules.values()]}
    artifacts = [{"location": _location(file)} for file in dict.fromkeys(files)]
    runs = [{"tool": {"driver": driver}, "artifacts": artifacts, "results": results}]
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": runs}, indent=2)


def _location(file: str) -> dict[str, str]:
    """The address of a file, whose name may have bytes that are no text."""
    return {"uri": quote(os.fsencode(file))}


def _rule(finding: FileFinding) -> dict[str, object]:
    """The description of a rule, with the texts that code scanning shows."""
    rule, page = finding.violation.rule, finding.url or PAGES
    words = {"text": rule.replace("_", " ").capitalize()}
    return {
        "id": rule,
        "shortDescription": words,
        "fullDescription": words,
        "help": {"text": f"The rule {rule} of onegraph check; see {page}"},
        "helpUri": page,
    }


def as_junit(findings: Sequence[FileFinding], files: Sequence[str]) -> str:
    """The findings as JUnit XML: a suite for each file, with a failure for each error.

    Elements and attributes are those of the schema of Jenkins (junit-10.xsd), which has no place for a line: the text
    of each finding begins with file and line.
    """
    root = ET.Element("testsuites", name="onegraph check")
    for file in dict.fromkeys(files):
        here = [finding for finding in findings if finding.file == file]
        kinds = [_kind(finding) for finding in here]
        counts = {"tests": max(1, len(here)), "failures": kinds.count("failure"), "errors": kinds.count("error")}
        name = _printable(file)
        suite = ET.SubElement(root, "testsuite", {"name": name, **{key: str(count) for key, count in counts.items()}})
        for finding, kind in zip(here, kinds, strict=True):
            violation = finding.violation
            facts = {
                "name": _printable(f"{violation.rule}: {violation.where}"),
                "classname": _printable(finding.subject),
            }
            case = ET.SubElement(suite, "testcase", facts)
            facts = {} if kind == "system-out" else {"message": _printable(violation.message), "type": violation.rule}
            ET.SubElement(case, kind, facts).text = f"{name}:{finding.line}: {_printable(str(violation))}"
        if not here:
            ET.SubElement(suite, "testcase", classname=name, name="no violations")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _kind(finding: FileFinding) -> str:
    """The element of JUnit for a finding."""
    if finding.violation.rule == UNREADABLE:
        return "error"
    return "failure" if finding.violation.severity == ERROR else "system-out"


def _printable(text: str) -> str:
    """The text without the control characters that XML forbids."""
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


def as_github(findings: Sequence[FileFinding], files: Sequence[str]) -> str:
    """The findings as commands of GitHub Actions, which become annotations of the files."""
    return "\n".join(
        f"::{COMMANDS.get(finding.violation.severity, 'warning')} file={_escaped(finding.file, ',:')},"
        f"line={finding.line},title={_escaped(finding.violation.rule, ',:')}::{_escaped(finding.violation.message)}"
        for finding in findings
    )


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)


def as_json(findings: Sequence[FileFinding], files: Sequence[str]) -> str:
    """The findings as a JSON list: each violation with its file, record, JSON pointer, line and page."""
    return json.dumps([finding.to_dict() for finding in findings], indent=2)


FORMATS: dict[str, Callable[[Sequence[FileFinding], Sequence[str]], str]] = {
    "json": as_json,
    "sarif": as_sarif,
    "junit": as_junit,
    "github": as_github,
}
