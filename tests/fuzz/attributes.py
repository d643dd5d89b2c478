"""hypothesis strategies for ops as users might hand them in: any attributes, shapes, data types and editions."""

from hypothesis import strategies as st

import onegraph as og
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.testing.cases import CASES

NUMBERS = st.one_of(st.integers(-3, 9), st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400]))
FLOATS = st.one_of(st.floats(), st.sampled_from([1e39, -0.0, 5e-324]))
WORDS = st.sampled_from(
    ["NXC", "NCX", "none", "None", "SAME_UPPER", "valid", "per_channel", "OIX", "XIO", "", "a\0", "\ud800", "linear"]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, FLOATS, WORDS, st.binary(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=6,
)
SHAPES = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-1, 8)), max_size=7), VALUES)
NAMES = st.one_of(WORDS, st.sampled_from(["axis", "groups", "auto_pad", "scales", "qtype"]))
DTYPES = st.one_of(st.sampled_from([dtype.value for dtype in og.DataType]), VALUES)


@st.composite
def uses(draw):
    """(kind, attributes, inputs, edition): a valid use of an op with some things changed."""
    case = draw(st.sampled_from(CASES))
    attrs = dict(case.attrs)
    # An int64 array is a mistake anywhere but in Dropout, so that the data type is not read from it.
    inputs = [("s64" if a.dtype == "int64" else og.DataType.of(a.dtype).value, a.shape) for a in case.inputs]
    for _ in range(draw(st.integers(0, 3))):
        what = draw(st.sampled_from(["attr", "attr", "drop", "new", "shape", "dtype", "count"]))
        if what == "attr" and attrs:
            attrs[draw(st.sampled_from(sorted(attrs)))] = draw(VALUES)
        elif what == "drop" and attrs:
            del attrs[draw(st.sampled_from(sorted(attrs)))]
        elif what == "new":
            attrs[draw(NAMES)] = draw(VALUES)
        elif what == "shape" and inputs:
            place = draw(st.integers(0, len(inputs) - 1))
            inputs[place] = (inputs[place][0], draw(SHAPES))
        elif what == "dtype" and inputs:
            place = draw(st.integers(0, len(inputs) - 1))
            inputs[place] = (draw(DTYPES), inputs[place][1])
        elif what == "count":
            inputs = draw(st.sampled_from([inputs[:-1], [*inputs, ("f32", (4,))], []]))
    name = draw(st.sampled_from(["onednn-3.13", *EDITIONS]))
    kind = case.kind
    if name != "onednn-3.13" and draw(st.booleans()):
        kind = draw(st.sampled_from(sorted(schema.name for schema in edition(name).schemas.values())))
    return kind, attrs, inputs, name


def examine(use):
    """Check a use, then build it: the checker raises nothing, and the builder refuses exactly what it reports."""
    kind, attrs, inputs, name = use
    found = og.check_op(kind, attrs, inputs, edition=name)
    text = [violation.message for violation in found]
    assert all(text)
    graph = og.Graph(name)
    try:
        tensors = [graph.input(f"x{index}", *pair) for index, pair in enumerate(inputs)]
    except og.OneGraphError:
        return
    try:
        graph.op(kind, tensors, attrs)
    except og.OneGraphError as error:
        assert str(error)  # noqa: PT017
        assert not graph.ops
    else:
        assert not [violation for violation in found if violation.severity == "error"], text
