"""Registers the gradients of ops by the kind of the op in the base vocabulary.

Kinds of ops that only legacy-1 has are those of their pages, such as ``Pow-1``. A host op is called ``host Pow``; if it
has no entry of its own, it has that of the base op of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..._util.records import record
from ...opset.schema import Schema
from ..use import Part

Found = Part | None | tuple[Part | None, ...]
Function = TypeVar("Function", bound=Callable[..., object])


@record(frozen=True)
class Rule:
    """The gradients with respect to some inputs of an op.

    Attributes:
        ports: the names of the inputs.
        function: takes the emitter, the :class:`.GradientUse` of the op, and the gradient with respect to
            each of its outputs; None stands for zero, unless the op has one output. It returns the gradient with
            respect to each of ``ports``, which may still be broadcast or of a wider data type.
    """

    ports: tuple[str, ...]
    function: Callable[..., Found]


RULES: dict[str, list[Rule]] = {}
# Ops whose gradient is that of a composition of simpler ops. A function takes the emitter and the use, and adds the
# composition, which computes the outputs of the op; it returns None for a use that has rules.
COMPOSED: dict[str, Callable[..., Found]] = {}
# Ops whose gradient is zero everywhere, or whose results are integers, and why.
FLAT: dict[str, str] = {}
# Ops without a gradient, and why.
REFUSED: dict[str, str] = {}


def gradient_of(kinds: str, ports: str) -> Callable[[Function], Function]:
    """Register the gradient of ops with respect to some inputs; kinds are separated by commas, ports by spaces."""

    def register(function: Function) -> Function:
        for kind in kinds.split(", "):
            RULES.setdefault(kind, []).append(Rule(tuple(ports.split()), function))  # type: ignore[arg-type]
        return function

    return register


def composed(kinds: str) -> Callable[[Function], Function]:
    """Register a composition that computes ops; kinds are separated by commas."""

    def register(function: Function) -> Function:
        COMPOSED.update(dict.fromkeys(kinds.split(", "), function))  # type: ignore[arg-type]
        return function

    return register


def flat(kinds: str, reason: str) -> None:
    """Register ops whose gradient is zero."""
    FLAT.update(dict.fromkeys(kinds.split(", "), reason))


def refused(kinds: str, reason: str) -> None:
    """Register ops without a gradient."""
    REFUSED.update(dict.fromkeys(kinds.split(", "), reason))


Entry = TypeVar("Entry")


def entry(table: Mapping[str, Entry], base: Schema) -> Entry | None:
    """The entry of an op, given by its schema in the base vocabulary."""
    rule = table.get(base.kind)
    return rule if rule is not None else table.get(base.kind.removeprefix("host "))


def rules_of(base: Schema, ports: frozenset[str]) -> list[Rule]:
    """The rules for the gradients with respect to some inputs of an op."""
    return [rule for rule in _rules(base) if not ports.isdisjoint(rule.ports)]


def _rules(base: Schema) -> list[Rule]:
    rules = entry(RULES, base)
    assert rules is not None  # an op without rules is in another table
    return rules


def refusal(base: Schema, ports: frozenset[str]) -> str:
    """The reason why the gradient with respect to some inputs does not exist; empty if it does."""
    reason = entry(REFUSED, base)
    if reason is not None:
        return reason
    if entry(FLAT, base) is not None or entry(COMPOSED, base) is not None:
        return ""
    missing = ports.difference(*(rule.ports for rule in _rules(base)))
    return f"it has no gradient with respect to {', '.join(sorted(missing))}" if missing else ""


def described(base: Schema) -> str:
    """In a few words, the inputs with respect to which an op has gradients, or why it has none."""
    for table, effect in ((REFUSED, "none"), (FLAT, "zero")):
        reason = entry(table, base)
        if reason is not None:
            return f"{effect}: {reason}"
    if entry(COMPOSED, base) is not None:
        return "that of a composition of simpler ops"
    ports = {port for rule in _rules(base) for port in rule.ports}
    return ", ".join(port.name for port in base.inputs if port.name in ports)
