"""Probes of ops, how they are judged and what is said of them, with outcomes that are made up: names of
:mod:`drawn_by_library`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch
from zlib import crc32

from onegraph._util.worker_process import Outcome
from onegraph.opset.editions.registry import EDITIONS, base_of, edition
from onegraph.tools import conformance
from onegraph.tools.conformance import causes, probes, uses
from onegraph.tools.conformance.changes import Changes
from onegraph.tools.conformance.page_of_op import PageOfOp

from .drawn_tools import tool

KINDS = ("refused", "refused", "unsupported", "wrong", "crash", "hang", "ran")
DETAILS = ("", "returned runtime_error: it threw", "unimplemented", "SIGSEGV")
VERSIONS = ((3, 2, 0), (3, 6, 1), (3, 13, 2), (3, 15, 0))


class MadeUp:
    """Makes up the outcomes of probes, which follow from their texts."""

    seed, share, asked = 0, 0, 0  # the share in percent of the probes that go wrong

    def __init__(self, *_: object) -> None:
        type(self).asked = 0

    def __enter__(self) -> MadeUp:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, requests: Any) -> list[Outcome]:
        """The outcome of each request."""
        type(self).asked += len(requests)
        return [self._outcome(json.dumps(one, sort_keys=True, default=str)) for one in requests]

    def _outcome(self, text: str) -> Outcome:
        number = crc32(f"{self.seed} {text}".encode())
        if number % 100 >= self.share:
            return Outcome("right", "execute", "")
        return Outcome(KINDS[number // 100 % len(KINDS)], "compile", DETAILS[number // 1000 % len(DETAILS)])


def one_of(drawn: Random) -> tuple[Any, Any]:
    """An edition, and one of its ops that has uses."""
    while True:
        words = edition(drawn.choice((*EDITIONS, "legacy-1", "legacy-1")))
        schema = drawn.choice([*words.schemas.values()])
        if uses.uses_of_cases(base_of(schema).kind):
            return words, schema


@cache
def special() -> list[tuple[Any, Any]]:
    """Ops whose pages print a fact by mistake, once for each, and those whose last input may be an attribute."""
    found: dict[str, tuple[Any, Any]] = {}
    for words in map(edition, (*EDITIONS, "legacy-1")):
        for kind, schema in words.schemas.items():
            base = base_of(schema)
            names = [one.name for one in words.corrections(schema) if one.fact is not None]
            names += [kind] if base.has_attribute(base.inputs[-1].name) else []
            found |= {name: (words, schema) for name in names if uses.uses_of_cases(base.kind)}
    return [*found.values()]


@tool
def changed_uses(drawn: Random) -> str:
    """What is asked of an op beside uses of it, some of which are right."""
    words, schema = one_of(drawn) if drawn.random() < 0.3 else drawn.choice(special())
    several = uses.uses_of_cases(base_of(schema).kind)
    several = tuple(drawn.sample(several, min(len(several), drawn.choice((1, 2, 3)))))
    count = drawn.choice((0, 1, len(several), len(several)))
    asked = Changes(PageOfOp(words, schema), several[:count], several[count:]).probes()
    return "\n".join(
        f"{one.group} {one.subject} {one.value} {one.says} {one.use.to_dict()} {[*one.call.items()]} "
        f"{one.control and one.control.to_dict()} {one.cause}"
        for one in asked
    )


@tool
def probed_ops(drawn: Random) -> object:
    """The probes of an op, their verdicts, the findings, and what was covered."""
    words, schema = one_of(drawn)
    several = uses.uses_of_cases(base_of(schema).kind)
    several = tuple(drawn.sample(several, min(len(several), drawn.choice((1, 1, 2, 3)))))
    version, share = drawn.choice(VERSIONS), drawn.choice((0, 10, 30, 50, 100))
    made = type("Made", (MadeUp,), {"seed": drawn.randrange(99), "share": share})
    shown, keep = {"shown": drawn.choice((0, 0, 1))}, drawn.randrange(3)

    def of_fault(fault: Any) -> Any:
        found = uses.uses_of_fault(fault) if shown["shown"] and crc32(fault.name.encode()) % 3 == keep else {}
        return dict([*found.items()][:1])

    with ExitStack() as stack:
        for place, name, value in (
            (conformance, "Runner", made),
            (conformance, "uses_of_cases", lambda kind: several),
            (probes, "uses_of_cases", lambda kind: several),
            (probes, "uses_of_fault", of_fault),
            (causes, "NOT_NATIVE", drawn.choice((["f16"], ["f16", "bf16"], []))),
        ):
            stack.enter_context(patch.object(place, name, value))
        stack.enter_context(patch("onegraph.native.library.VERSION", version))
        run = conformance.run(words, [schema.kind], 1)
        lines: list[object] = [made.asked, run.skipped, *run.coverage.lines(names=drawn.random() < 0.5)]
    for row in run:
        asked, control = row.asked, row.asked.control
        lines.append(
            [row.probe, asked.use.to_dict(), [*asked.call.items()], control and control.to_dict(), asked.cause]
        )
        lines.append([row.verdict, row.causes, row.outcome])
    lines += [conformance.table(run.results), run.coverage.to_dict()]
    lines += [one.to_dict() for one in run.findings]
    return "\n".join(map(str, lines))
