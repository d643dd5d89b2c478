"""Implements ``onegraph ops``."""

from __future__ import annotations

import textwrap

import click

from .._util.counted import counted
from ..builder.op_pages import by_category, markdown, markdown_edition, terminal_page, to_dict
from ..errors import ArgumentError
from ..inference.suggestions import unknown_op
from ..opset.editions.registry import DEFAULT, RELEASED, base_of, edition
from ..opset.newer import newer_than as find_newer
from ..opset.signature import Version
from .once import OnceCommand
from .options import json_option
from .terminal import emit
from .value_types import EditionName, OpName

OLDER = [f"{RELEASED[0]}.{minor}" for minor in range(RELEASED[1])]


@click.command(cls=OnceCommand)
@click.argument("op", required=False, type=OpName())
@click.option(
    "--edition", "name", type=EditionName(), default=DEFAULT, metavar="NAME", show_default=True, help="Edition."
)
@json_option
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.option(
    "--newer-than", type=click.Choice(OLDER), metavar="VERSION", help="Print what a version of oneDNN lacks, as 3.2."
)
def command(op: str | None, name: str, as_json: bool, as_markdown: bool, newer_than: str | None) -> None:
    """Print the ops of an edition, or the attributes, ports, types and rules of OP.

    OP is its name in the specification or in Python.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json or --markdown, not both")
    if newer_than is not None:
        if op is not None or as_markdown or name != DEFAULT:
            raise click.UsageError(f"--newer-than is of all ops of {DEFAULT}, as text or --json")
        _print_newer((RELEASED[0], int(newer_than.partition(".")[2])), as_json)
        return
    chosen = edition(name)
    schema = None
    if op is not None:
        schema = chosen.schema(op)
        if schema is None:
            hint = unknown_op(chosen, op)
            raise ArgumentError(f"edition {chosen.name} has no op {op!r}{'; ' if hint else ''}{hint}")
    if as_json:
        emit(to_dict(chosen, schema) if schema else [to_dict(chosen, record) for record in chosen.schemas.values()])
    elif as_markdown:
        from ..tools.op_examples import example

        click.echo(markdown(chosen, schema, example) if schema else markdown_edition(chosen, example))
    elif schema:
        from ..gradient.rules import described

        click.echo(f"{terminal_page(chosen, schema)}\n  gradient {described(base_of(schema))}")
    else:
        click.echo(f"{chosen.name}: {chosen.title}, {counted(len(chosen.schemas), 'op')}")
        for category, schemas in by_category(chosen):
            lines = (textwrap.shorten(schema.doc, 118 - 31, placeholder=" ...") for schema in schemas)
            pairs = zip(schemas, lines, strict=True)
            click.echo(f"\n{category}\n  " + "\n  ".join(f"{one.kind:30} {line}" for one, line in pairs))


def _print_newer(version: Version, as_json: bool) -> None:
    newer = find_newer(version)
    if as_json:
        emit([{**one._asdict(), "since": f"{one.since[0]}.{one.since[1]}"} for one in newer])
        return
    for entry in newer:
        click.echo(f"since {f'{entry.since[0]}.{entry.since[1]}':5} {entry}")
