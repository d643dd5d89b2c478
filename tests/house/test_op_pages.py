"""The generated pages of the ops: their tables of data types, and examples that run."""

import re
from itertools import product

import pytest

import onegraph as og
from onegraph.builder.op_pages import IMPORTS, markdown, markdown_edition
from onegraph.opset.editions.registry import DEFAULT, EDITIONS, HOST, edition
from onegraph.reference import run
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.op_examples import example

WITHOUT_FORMULA = ("Wildcard", "End")


def page(name, kind):
    return markdown(edition(name), edition(name).schemas[kind], example)


def table(text, head):
    """The cells of the table whose first column has this head."""
    lines = re.search(rf"^\| {head} \|.*\n(?:\|.*\n)+", text, flags=re.MULTILINE)[0].splitlines()
    first, _, *rest = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return first, rest


def test_page_shows_the_method():
    assert "Method `g.softmax(src, *, axis=1, mode='none')`." in page(DEFAULT, "SoftMax")
    assert "Method `g.concat(*src_i, axis)`." in page(DEFAULT, "Concat")
    assert "Method `softmax`." in page("onednn-3.2", "SoftMax")


def test_page_of_edition_has_every_op():
    text = markdown_edition(edition("legacy-1"), example)
    assert len(re.findall(r"^## ", text, flags=re.MULTILINE)) == 99
    assert text.count("\ng = og.Graph(") == 99
    assert all(line in text for line in IMPORTS)


def test_page_of_host_ops_shows_their_call():
    text = markdown_edition(edition(HOST), example)
    assert len(re.findall(r"^## ", text, flags=re.MULTILINE)) == len(edition(HOST).schemas)
    assert '`g.op("Slice", [...], edition="host")`.' in text
    assert "- `fits_rank`: There is a number, or a pair of numbers, for each axis of src." in text
    assert "```py" not in text


def test_type_table_joins_rows_that_differ_once():
    assert table(page(DEFAULT, "ReLU"), "T") == (["T"], [["f32, bf16 or f16"]])
    assert table(page(DEFAULT, "MatMul"), "T1") == (
        ["T1", "T2"],
        [["f32, bf16 or f16", "f32"], ["bf16", "bf16"], ["f16", "f16"]],
    )


@pytest.mark.parametrize("name", EDITIONS)
def test_type_tables_allow_the_same_combinations(name):
    for kind, schema in edition(name).schemas.items():
        first = next(iter(schema.types[0].types))
        head, rows = table(page(name, kind), first)
        shown = [
            dict(zip(head, types, strict=True))
            for row in rows
            for types in product(*(re.split(", | or ", cell) for cell in row))
        ]
        allowed = {
            frozenset(zip(row.types, (dtype.value for dtype in types), strict=True))
            for row in schema.types
            for types in product(*row.types.values())
        }
        assert len(shown) == len(allowed), kind
        assert {frozenset(types.items()) for types in shown} == allowed, kind


@pytest.mark.parametrize("name", EDITIONS)
def test_examples_run(name):
    """Each builds one op of the edition; its results in numpy have the data types and shapes of the comments."""
    for kind, schema in edition(name).schemas.items():
        code = re.search(r"```py\n(.*?)```", page(name, kind), flags=re.DOTALL)[1]
        names = {}
        exec("\n".join(IMPORTS) + "\n" + code, names)
        g = names["g"]
        assert [(op.kind, op.edition) for op in g.ops] == [(kind, name)], kind
        assert [found for found in og.check_graph(g) if found.severity == "error"] == []
        comments = re.findall(r'^g\.output\("(\w+)", .*\)  # (\w+) (.*)$', code, flags=re.MULTILINE)
        assert len(comments) == len(schema.outputs) or kind in ("SoftMax", "Dropout"), kind
        if kind not in WITHOUT_FORMULA and name in (DEFAULT, "legacy-1"):
            results = run(g, random_inputs(g))
            assert comments == [(key, og.DataType.of(a.dtype).value, str(a.shape)) for key, a in results.items()]


def shown(name, kind):
    return example(edition(name), edition(name).schemas[kind])


def test_examples_suit_their_edition():
    """Dequantize needs zero points before 3.4. ConvTranspose in legacy-1 has weights (X, in, out / groups)."""
    assert "zps" not in shown("onednn-3.4", "Dequantize")
    assert '"zps": [0]' in shown("onednn-3.3", "Dequantize")
    assert 'g.input("filter", og.f32, (3, 3, 4, 2))' in shown("legacy-1", "ConvTranspose")
    assert 'g.input("weights", og.f32, (3, 3, 2, 4))' in shown(DEFAULT, "ConvTranspose")


def test_examples_are_short():
    assert "g.constant(np.array([0.4], np.float32), name=" in shown(DEFAULT, "Dropout")
    lines = [line for name in EDITIONS for kind in edition(name).schemas for line in shown(name, kind).splitlines()]
    assert max(map(len, lines)) <= 120
