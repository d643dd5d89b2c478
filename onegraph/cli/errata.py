"""Implements ``onegraph errata``."""

from __future__ import annotations

import click

from ..errors import ArgumentError
from ..inference.suggestions import unknown_op
from ..opset.editions.registry import DEFAULT, EDITIONS, edition
from ..opset.errata.catalogue import CORRECTIONS
from ..opset.errata.page import markdown_errata, terminal_errata, to_dict
from .once import OnceCommand
from .options import json_option
from .terminal import emit
from .value_types import EditionName, OpName


@click.command(cls=OnceCommand)
@click.argument("ops", nargs=-1, type=OpName())
@click.option("--edition", "name", type=EditionName(), metavar="NAME", help="Edition; all by default.")
@json_option
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def command(ops: tuple[str, ...], name: str | None, as_json: bool, as_markdown: bool) -> None:
    """Print the mistakes in the texts of the specification: printed, meant, the reason, and what onegraph does.

    OPS are names of ops in the edition, or in any edition; all by default.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json or --markdown, not both")
    kinds = [_kind(op, name) for op in ops]
    corrections = [
        correction
        for correction in CORRECTIONS
        if (name is None or name in correction.editions) and (not kinds or not set(kinds).isdisjoint(correction.ops))
    ]
    if as_json:
        emit([to_dict(one) for one in corrections])
    elif as_markdown:
        click.echo(markdown_errata(corrections))
    else:
        click.echo(terminal_errata(corrections) or "no known mistake")


def _kind(op: str, name: str | None) -> str:
    """The name of an op in the edition, or in the newest that has it."""
    for edition_name in reversed(EDITIONS) if name is None else [name]:
        schema = edition(edition_name).schema(op)
        if schema is not None:
            return schema.kind
    hint = unknown_op(edition(name or DEFAULT), op)
    where = f"edition {name} has no op" if name else "no edition has an op"
    raise ArgumentError(f"{where} {op!r}{'; ' if hint else ''}{hint}")
