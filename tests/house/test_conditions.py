"""Questions to conditions: which answers runs of a function give."""

import pytest
from conditions.questions import TAKES, Answers, questions

BOTH, EITHER, BOUND = "return a and b", "return a or b", "return a > 2"


def answers(body, *calls):
    """The questions that calls of a function ``f(a, b)`` answer, without their lines."""
    tree, asked = questions(f"def f(a, b=0):\n    {body}\n")
    met = bytearray(len(asked))
    space = {TAKES: Answers(met)}
    exec(compile(tree, "module", "exec"), space)
    for arguments in calls:
        space["f"](*arguments)
    return [text.split(" ", 1)[1].partition(":")[0] for text, is_met in zip(asked, met, strict=True) if is_met]


@pytest.mark.parametrize(
    ("body", "calls", "answered"),
    [
        (BOTH, [(True, True)], []),
        (BOTH, [(False, True)], ["operand 0 decides"]),
        (BOTH, [(False, False)], []),
        (BOTH, [(True, False)], ["operand 1 decides"]),
        (EITHER, [(False, False)], []),
        (EITHER, [(True, False)], ["operand 0 decides"]),
        (EITHER, [(True, True)], []),
        (EITHER, [(0, 5)], ["operand 1 decides"]),
        (EITHER, [((1,), (2,))], ["operand 0 decides"]),
        ("return not (a or b)", [((1,), (2,))], []),
        ("if a or b: return 1", [((1,), (2,))], []),
        ("return a is None or a.missing", [(None,)], ["operand 0 decides"]),
        (BOUND, [(1,), (4,)], []),
        (BOUND, [(2,)], ["equal"]),
        (BOUND, [(3,)], ["one more"]),
        ("return a < b", [(2, 2)], ["equal"]),
        ("return a < b", [(None, 2)], []),
        ("return 1 if a else 2", [(0,)], ["false"]),
        ("return 1 if a else 2", [(1,)], ["true"]),
        ("return [x for x in a if x]", [([0, 1],)], ["true", "false"]),
        ("return 0 < a < b", [(1, 2)], []),
        ("return a and (c := b)", [(0, 1)], []),
        ("raise ValueError('one' if a else 'two')", [], []),
    ],
)
def test_a_condition_is_answered_by(body, calls, answered):
    if calls == [(None, 2)]:
        with pytest.raises(TypeError):
            answers(body, *calls)
        return
    assert answers(body, *calls) == answered


def test_results_stay_the_same():
    body = "return [x for x in (a or ()) if x > 1 and x < 5 or x == b]"
    tree, _ = questions(f"def f(a, b=0):\n    {body}\n")
    space = {TAKES: Answers(bytearray(100))}
    exec(compile(tree, "module", "exec"), space)
    assert space["f"]([0, 1, 2, 5, 9], 9) == [2, 9]
    assert space["f"](None) == []


def test_nothing_is_asked_outside_of_functions():
    assert questions("X = 1 and 2\nclass A:\n    y = 1 < 2\n    def f(self, z=1 or 2): ...\n")[1] == []
