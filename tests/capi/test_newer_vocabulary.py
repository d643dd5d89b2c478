"""What oneDNN 3.2 lacks of the newest vocabulary: the list, its table in the docs, and what onegraph runs instead."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import onegraph as og
from onegraph.cli import cli
from onegraph.compiler.kernels.elements import ELEMENTS
from onegraph.compiler.kernels.kernel import DIGITS, KEEPS
from onegraph.inference.infer import infer_op
from onegraph.opset.editions.registry import BASE, DEFAULT, NEWEST, edition
from onegraph.opset.newer import cells, newer_than
from onegraph.testing.cases import CASES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "library.md"
NEWER = newer_than((3, 2))


def rows():
    """The table of the page: first version and text -> what runs with 3.2."""
    section = PAGE.read_text().partition("## What oneDNN 3.2 lacks")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (3\.\d+) \| (.*?) \| (.*?) \|$", section, flags=re.MULTILINE)
    return {(since, text.replace("\\|", "|")): instead for since, text, instead in lines}


def key(one):
    return f"{one.since[0]}.{one.since[1]}", str(one)


def graph_of(case):
    g = og.Graph()
    dtypes = ["s64" if array.dtype == np.int64 else array.dtype for array in case.inputs]
    inputs = [
        g.input(f"x{n}", dtype, array.shape) for n, (dtype, array) in enumerate(zip(dtypes, case.inputs, strict=True))
    ]
    found = g.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    for number, tensor in enumerate((found,) if isinstance(found, og.LogicalTensor) else found):
        g.output(f"y{number}", tensor)
    return g


def is_given(text, schema, attrs):
    """Whether the attributes of a case have what is newer: a name, ``name=value`` or ``name left out``."""
    name, _, value = text.removesuffix(" left out").partition("=")
    if text.endswith(" left out"):
        return name not in attrs
    return attrs.get(name) == value if value else name in attrs and attrs[name] != schema.attribute(name).default


def is_used(one, case, op):
    """Whether an op, which is that of a case, uses what is newer."""
    schema, types = BASE[op.kind], {str(t.dtype) for t in (*op.inputs, *op.outputs) if t is not None}
    if one.part == "data type":
        return bool(types & {*one.names})
    if op.kind not in one.kinds:
        return False
    if one.part == "types":
        ends = [tensor.type for tensor in op.outputs]
        found = infer_op(op.kind, op.attrs, op.inputs, ends, edition=edition(DEFAULT), name=op.name).rows
        return bool(found) and all(cells(row) in one.names for row in found)
    if one.part == "output":
        return any(port.name in one.names for port, _ in zip(schema.outputs, op.outputs, strict=False))
    if one.part == "attribute":
        is_older = all(og.DataType.of(name).since <= (3, 2) for name in types)  # otherwise the data type decides
        return is_older and any(is_given(text, schema, case.attrs) for text in one.names)
    return True


def ran_by(partition, *, is_attribute):
    """What a partition of the report is, in the words of the table; empty if it only moves or casts."""
    if partition.executor == "oneDNN":  # a known fault is another reason to rewrite an op
        reasons = [reason for reason in partition.reason.split("; ") if not reason.startswith("on four axes")]
        is_itself = not any(reasons) or reasons[0].startswith("rewritten: ")
        return "the op" if is_itself else "other ops"
    if partition.reason.startswith(ELEMENTS.reason):
        return "a kernel of onegraph or numpy"  # numpy, if there are more elements
    if partition.executor == "kernel":  # of an older op, it is only the faster way, unless the library would be wrong
        kind = partition.kinds[0].partition(":")[0]  # of an op that was rewritten, the part follows
        is_needed = BASE[kind].since > (3, 2) or partition.reason.startswith((KEEPS, DIGITS))
        return "a kernel of onegraph" if is_needed else ""
    return "numpy" if partition.executor == "reference" else ""


def test_the_list_of_newer_ops():
    kinds = [one.kinds[0] for one in NEWER if one.part == "op"]
    assert sorted(kinds) == ["Dropout", "GenIndex", "GreaterEqual", "GroupNorm", "RMSNorm"]
    assert f"[{len(kinds)} of the {len(BASE)} ops, " in (ROOT / "README.md").read_text()
    assert newer_than(NEWEST) == []
    assert len({key(one) for one in NEWER}) == len(NEWER)


@pytest.mark.parametrize("minor", range(NEWEST[1]))
def test_nothing_newer_stands_in_the_edition(minor):
    older, newest = edition(f"onednn-3.{minor}"), edition(DEFAULT)
    found = newer_than((3, minor))
    added = {one.kinds[0] for one in found if one.part == "op"}
    assert {*newest.schemas} - {*older.schemas} == added
    for kind, schema in older.schemas.items():
        names = {attribute.name for attribute in newest.schemas[kind].attributes}
        names -= {attribute.name for attribute in schema.attributes}
        assert names == {
            name for one in found if (kind, one.part) == (*one.kinds, "attribute")
            for name in one.names if not re.search(" |=", name)
        }  # fmt: skip


def test_the_page_lists_what_is_newer():
    assert [*rows()] == [key(one) for one in NEWER]


@pytest.mark.library
def test_the_page_says_what_runs_instead():
    if og.capi.version_info()["version"].rpartition(".")[0] != "3.2":
        pytest.skip("the table is of oneDNN 3.2")
    found = {}
    for case in CASES:
        graph = graph_of(case) if case.kind not in ("Wildcard", "End") else og.Graph()
        used = [one for one in NEWER for op in graph.ops[-1:] if is_used(one, case, op)]
        for partition in graph.compile().report().partitions if used else ():
            for one in used:
                if ran := ran_by(partition, is_attribute=one.part == "attribute"):
                    found.setdefault(key(one), set()).update(ran.split(" or "))
    assert {place: " or ".join(sorted(ran)) for place, ran in found.items()} == {
        place: instead for place, instead in rows().items() if instead != "no op takes it"
    }


def test_command_lists_what_is_newer():
    shown = CliRunner().invoke(cli, ["ops", "--newer-than", "3.2"]).stdout.splitlines()
    assert len(shown) == len(NEWER)
    assert "since 3.9   GELU: attribute mode" in shown
    facts = json.loads(CliRunner().invoke(cli, ["ops", "--newer-than", "3.2", "--json"]).stdout)
    assert facts[0] == {"since": "3.7", "kinds": ["GreaterEqual"], "part": "op", "names": []}


@pytest.mark.parametrize("arguments", [["ReLU"], ["--markdown"], ["--edition", "legacy-1"]])
def test_command_refuses_other_options_beside(arguments):
    done = CliRunner().invoke(cli, ["ops", "--newer-than", "3.2", *arguments])
    assert done.exit_code == 2
    assert "--newer-than is of all ops of onednn-3.13" in done.stderr
