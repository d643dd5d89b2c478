"""Which conditions of the package the tests decide: ``python -m tests.conditions``; ``make conditions`` does.

Branches say whether a whole condition was true and false. These questions say whether a test would notice a change
inside of it, as modified condition/decision coverage does: whether each operand of ``and`` and ``or`` decided once,
whether the two sides of ``<`` were once equal, and whether both ways of a conditional expression were taken.
"""
