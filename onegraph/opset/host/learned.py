"""Defines host ops of models that scikit-learn and libraries of boosted trees train."""

from __future__ import annotations

from collections.abc import Iterable

from ..._util.counted import counted
from ..dtypes import DataType
from ..schema import Call, RuleFinding, same_shape
from ..shapes import compatible, show
from ..signature import NON_NEGATIVE, POSITIVE, Attribute, Shape, rows
from ..traits import Trait
from .types import host

SUM, AVERAGE, MINIMUM, MAXIMUM = AGGREGATES = ("sum", "average", "minimum", "maximum")
NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO = TRANSFORMS = ("none", "logistic", "softmax", "softmax_zero")
COMPLEMENT, MIRROR, ZERO = OPPOSITES = ("complement", "mirror", "zero")


def _rows(call: Call) -> int | None:
    shape = call.shape("src")
    return shape[0] if shape else None


def scores_shape(call: Call) -> tuple[Shape, ...]:
    """A row of targets for each row of features."""
    return ((_rows(call), call.s64("n_targets")),)


def table_fits(call: Call) -> Iterable[RuleFinding]:
    """src is (rows, features), and the words of a node are those of its data type."""
    src, nodes = call.shape("src"), call.shape("nodes")
    if src is not None and len(src) != 2:
        yield RuleFinding("src", f"shape {show(src)}", "(rows, features)")
    tensor = call.input("src")
    wanted = (None, 6 if tensor is not None and tensor.dtype is DataType.float64 else 4)
    if not compatible(nodes, wanted):
        yield RuleFinding("nodes", f"shape {show(nodes)}", f"(nodes, {wanted[1]})")
    for port in ("roots", "weights", "starts"):
        if not compatible(call.shape(port), (None,)):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", "one axis")
    weights, targets = call.shape("weights"), call.shape("targets")
    if not compatible(targets, weights):
        yield RuleFinding("targets", f"shape {show(targets)}", f"shape {show(weights)} of weights")
    if not compatible(call.shape("base"), (call.s64("n_targets"),)):
        yield RuleFinding(
            "base", f"shape {show(call.shape('base'))}", f"({call.s64('n_targets')},), one for each target"
        )


def labels_shape(call: Call) -> tuple[Shape, ...]:
    """A label for each row, and a score for each class."""
    classes = call.shape("classes")
    return (_rows(call),), (_rows(call), classes[0] if classes and len(classes) == 1 else None)


def classes_fit(call: Call) -> Iterable[RuleFinding]:
    """src has a column for each class, or one for two classes."""
    src, classes = call.shape("src"), call.shape("classes")
    if src is not None and len(src) != 2:
        yield RuleFinding("src", f"shape {show(src)}", "(rows, classes)")
    elif not compatible(classes, (None,)):
        yield RuleFinding("classes", f"shape {show(classes)}", "one axis")
    elif src and classes and None not in (src[1], classes[0]) and (src[1], classes[0]) != (1, 2):
        fits = src[1] == classes[0] != 0
        if not fits:
            yield RuleFinding(
                "src", f"{src[1]} columns", f"{classes[0]} columns, one for each class, or 1 for 2 classes"
            )


def table_of_keys_fits(call: Call) -> Iterable[RuleFinding]:
    """keys and values have one axis of equal length, and other is one element."""
    keys, values = call.shape("keys"), call.shape("values")
    for port, wanted in (("keys", (None,)), ("values", keys or (None,)), ("other", ())):
        if not compatible(call.shape(port), wanted):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {show(wanted)}")
    if values == (0,):
        yield RuleFinding("values", "no elements", "a value for each key")


def pairs_fit(call: Call) -> Iterable[RuleFinding]:
    """src has a column for each pair of classes."""
    src, count = call.shape("src"), call.s64("classes")
    if not compatible(src, (None, count * (count - 1) // 2)):
        yield RuleFinding(
            "src", f"shape {show(src)}", f"(rows, {count * (count - 1) // 2}), the pairs of {counted(count, 'class')}"
        )


def counts_shape(call: Call) -> tuple[Shape, ...]:
    """The counts of each row; without an axis of rows, of the only one."""
    src = call.shape("src")
    return (None if src is None else (*src[:-1], call.s64("width")),)


def tuples_are_counted(call: Call) -> Iterable[RuleFinding]:
    """src is one row or (rows, elements), and each tuple has a size, elements and a column."""
    src, sizes, columns = call.shape("src"), call.s64s("sizes"), call.s64s("columns")
    if src is not None and len(src) not in (1, 2):
        yield RuleFinding("src", f"shape {show(src)}", "one axis, or (rows, elements)")
    if any(size < 1 for size in sizes) or sum(sizes) != len(call.s64s("tuples")):
        yield RuleFinding("sizes", f"{[*sizes]}", f"positive sizes of {counted(len(call.s64s('tuples')), 'element')}")
    if len(columns) != len(sizes) or any(not 0 <= column < call.s64("width") for column in columns):
        yield RuleFinding("columns", f"{[*columns]}", f"a column below {call.s64('width')} for each of the tuples")


OPS = (
    host(
        "TreeEnsemble",
        "Walks each row of src through decision trees, and combines the weights of the leaves that it reaches. A node "
        "is words of 32 bits: 16 * feature + comparison (1 to 6: <=, <, >=, >, ==, !=; 8 more if NaN goes where it "
        "holds; 0 for a leaf), the node where it holds, the node where it fails, and the threshold, for float64 "
        "behind an empty word. The next nodes come after a node; a leaf leads to itself, and has its number in the "
        "place of the threshold. Leaf n has the weights n, or those from starts[n] to starts[n + 1], which count for "
        "their targets. "
        "A target without a weight is 0, or NaN if absent is set. base is added last.",
        "src:T nodes:s32 roots:s32 weights:T base:T? targets:s32? starts:s32?",
        "dst:T",
        rows("T", "f32", "float64"),
        scores_shape,
        (
            Attribute("n_targets", "s64", "The columns of dst.", required=True, range=POSITIVE),
            Attribute("aggregate", "str", "How weights are combined.", default=SUM, values=AGGREGATES),
            Attribute("absent", "bool", "Whether a target without a weight is NaN.", default=False),
        ),
        shape_rules=(table_fits,),
        traits=Trait.BY_ROW | Trait.JUMPS,
    ),
    host(
        "Classify",
        "label = the class of the largest score of a row, the first one of equal ones; scores = transform(row). A "
        "column x for two classes makes the row (1 - x, x), (-x, x) or (0, x) as opposite says, and label = "
        "classes[x > threshold]. softmax_zero is softmax of the scores beyond 1e-7, and the others are divided by "
        "the same sum.",
        "src:T classes:s64",
        "label:s64 scores:f32",
        rows("T", "f32|float64"),
        labels_shape,
        (
            Attribute("transform", "str", "What is computed of the scores.", default=NONE, values=TRANSFORMS),
            Attribute("threshold", "f32", "The largest x of the first class.", default=0.0),
            Attribute("opposite", "str", "The score of the other class.", default=COMPLEMENT, values=OPPOSITES),
            Attribute("absent", "bool", "Whether NaN is no score: it counts as 0, and is not chosen.", default=False),
        ),
        shape_rules=(classes_fit,),
        traits=Trait.BY_ROW | Trait.JUMPS,
    ),
    host(
        "LookUp",
        "The value of the key that equals each element of src, and other for an element without a key. keys are in "
        "ascending order; NaN may be the last one, and is equal to NaN.",
        "src:K keys:K values:V other:V",
        "dst:V",
        rows("K V", "f32|float64|s32|s64 f32|float64|s32|s64"),
        same_shape,
        shape_rules=(table_of_keys_fits,),
        traits=Trait.BY_ROW | Trait.JUMPS,
    ),
    host(
        "CouplePairs",
        "Probabilities of classes from those of the first class of each pair (0, 1), (0, 2) .. (1, 2) ..: method 2 of "
        "Wu, Lin, Weng: Probability Estimates for Multi-class Classification by Pairwise Coupling, as in libsvm: at "
        "most 100 rounds, until the largest error is below 0.005 / classes.",
        "src:T",
        "dst:T",
        rows("T", "f32|float64"),
        lambda call: ((_rows(call), call.s64("classes")),),
        (Attribute("classes", "s64", "The number of classes.", required=True, range=POSITIVE),),
        shape_rules=(pairs_fit,),
        traits=Trait.BY_ROW,
    ),
    host(
        "CountTuples",
        "dst = how often the tuples of a column stand in a row of src: their elements one behind the other, or, if "
        "there are more than one, with the same number of elements between them, from 0 to skips.",
        "src:I",
        "dst:f32",
        rows("I", "s32|s64"),
        counts_shape,
        (
            Attribute("tuples", "s64[]", "The elements of all tuples, one tuple behind the other.", required=True),
            Attribute("sizes", "s64[]", "The number of elements of each tuple.", required=True),
            Attribute("columns", "s64[]", "The column of dst where each tuple is counted.", required=True),
            Attribute("width", "s64", "The number of columns of dst.", required=True, range=POSITIVE),
            Attribute(
                "skips", "s64", "The most elements between two of a tuple in src.", default=0, range=NON_NEGATIVE
            ),
        ),
        shape_rules=(tuples_are_counted,),
        traits=Trait.JUMPS,
    ),
)
