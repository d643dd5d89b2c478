"""Uses of ops as users might hand them in: any attributes, shapes, data types and editions."""

import onegraph as og
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.testing.cases import CASES

from .drawn import Drawn

NUMBERS = (2**31, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 1e-5, 1e39, 5e-324, 1e308, float("inf"), -float("inf"), float("nan"))
WORDS = (
    *("NXC", "NCX", "none", "None", "SAME_UPPER", "valid", "per_channel", "OIX", "XIO", "", "a\0", "\ud800"),
    "linear",
)
NAMES = (*WORDS, "axis", "groups", "auto_pad", "scales", "qtype")
DTYPES = [dtype.value for dtype in og.DataType]
DEPTH = 3  # of lists in lists


def value(rng, depth=0):
    """Any value of Python: most are numbers, words and lists of them."""
    match rng.randrange(8 if depth < DEPTH else 6):
        case 0:
            return rng.choice((None, True, False, b"", b"\0a"))
        case 1 | 2:
            return rng.randint(-3, 9)
        case 3:
            return rng.choice(NUMBERS)
        case 4:
            return rng.choice(FLOATS)
        case 5:
            return rng.choice(WORDS)
        case 6:
            return [value(rng, depth + 1) for _ in range(rng.randrange(5))]
        case _:
            return {rng.choice(WORDS): value(rng, depth + 1) for _ in range(rng.randrange(3))}


def shape(rng):
    """Any shape, mostly one of numbers."""
    match rng.randrange(4):
        case 0:
            return None
        case 1:
            return value(rng)
        case _:
            return [rng.choice((None, rng.randint(-1, 8))) for _ in range(rng.randrange(8))]


def draw(rng):
    """(kind, attributes, inputs, edition): a valid use of an op with some things changed."""
    case = rng.choice(CASES)
    attrs = dict(case.attrs)
    # An int64 array is a mistake anywhere but in Dropout, so that the data type is not read from it.
    inputs = [("s64" if a.dtype == "int64" else og.DataType.of(a.dtype).value, a.shape) for a in case.inputs]
    for _ in range(rng.randrange(4)):
        what = rng.choice(("attr", "attr", "drop", "new", "shape", "dtype", "count"))
        if what == "attr" and attrs:
            attrs[rng.choice(sorted(attrs))] = value(rng)
        elif what == "drop" and attrs:
            del attrs[rng.choice(sorted(attrs))]
        elif what == "new":
            attrs[rng.choice(NAMES)] = value(rng)
        elif what == "shape" and inputs:
            place = rng.randrange(len(inputs))
            inputs[place] = (inputs[place][0], shape(rng))
        elif what == "dtype" and inputs:
            place = rng.randrange(len(inputs))
            inputs[place] = (rng.choice(DTYPES) if rng.random() < 0.5 else value(rng), inputs[place][1])
        elif what == "count":
            inputs = rng.choice((inputs[:-1], [*inputs, ("f32", (4,))], []))
    name = rng.choice(("onednn-3.13", *EDITIONS))
    kind = case.kind
    if name != "onednn-3.13" and rng.random() < 0.5:
        kind = rng.choice(sorted(schema.name for schema in edition(name).schemas.values()))
    return kind, attrs, inputs, name


def examine(use):
    """Check a use, then build it: the checker raises nothing, and the builder refuses exactly what it reports.

    Returns what goes wrong, if it is no exception; else the empty text.
    """
    kind, attrs, inputs, name = use
    found = og.check_op(kind, attrs, inputs, edition=name)
    text = [violation.message for violation in found]
    if not all(text):
        return f"a violation without a message: {found}"
    graph = og.Graph(name)
    try:
        tensors = [graph.input(f"x{index}", *pair) for index, pair in enumerate(inputs)]
    except og.OneGraphError:
        return ""
    try:
        graph.op(kind, tensors, attrs)
    except og.OneGraphError as error:
        return "" if str(error) and not graph.ops else f"refused, {str(error)!r}, and left {len(graph.ops)} ops"
    return f"built, but reported: {text}" if any(violation.severity == "error" for violation in found) else ""


DRAWN = {"attributes": Drawn(draw, examine)}
