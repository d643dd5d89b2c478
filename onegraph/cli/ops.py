"""Implements ``onegraph ops``."""

from __future__ import annotations

import textwrap

import click

from ..builder.op_pages import by_category, markdown, markdown_edition, terminal_page, to_dict
from ..errors import ArgumentError
from ..inference.suggestions import unknown_op
from ..opset.editions.registry import DEFAULT, edition
from .options import EditionName, json_option
from .terminal import emit


@click.command()
@click.argument("op", required=False)
@click.option(
    "--edition", "name", type=EditionName(), default=DEFAULT, metavar="NAME", show_default=True, help="Edition."
)
@json_option
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def command(op: str | None, name: str, as_json: bool, as_markdown: bool) -> None:
    """Print the ops of an edition, or the attributes, ports, types and rules of OP.

    OP is its name in the specification or in Python.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json or --markdown, not both")
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
        click.echo(terminal_page(chosen, schema))
    else:
        click.echo(f"{chosen.name}: {chosen.title}, {len(chosen.schemas)} ops")
        for category, schemas in by_category(chosen):
            lines = (textwrap.shorten(one.doc, 118 - 31, placeholder=" ...") for one in schemas)
            pairs = zip(schemas, lines, strict=True)
            click.echo(f"\n{category}\n  " + "\n  ".join(f"{one.kind:30} {line}" for one, line in pairs))
