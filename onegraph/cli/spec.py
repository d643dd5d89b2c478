"""Implements ``onegraph spec``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .once import OnceCommand
from .options import json_option
from .terminal import emit
from .value_types import EditionName, FilePath


@click.group()
def command() -> None:
    """Compare the pages of a oneDNN checkout with the records of an edition.

    onegraph spec import CHECKOUT --json prints the differences of every page for programs.
    """


@command.command("import", cls=OnceCommand, short_help="Compare pages and headers of a version with the records.")
@click.argument("checkout", type=FilePath(), metavar="CHECKOUT")
@click.option("--tag", metavar="TAG", help="A tag, branch or commit; by default the files of the checkout.")
@click.option("--edition", "name", type=EditionName(), metavar="NAME", help="Edition; by default that of the tag.")
@json_option
def import_command(checkout: str, tag: str | None, name: str | None, as_json: bool) -> None:
    """Compare the op pages and headers of a version with the records, and write what to change.

    CHECKOUT is a checkout or a bare git directory of oneDNN, or of the oneAPI specification. The pages may be in any
    folder, in Markdown or reStructuredText. A difference that a known mistake of the page explains is not printed. A
    version that is no edition yet is compared with the newest one.

    The exit status is 0 without a difference, 1 with one, and 2 for bad input.
    """
    from ..tools.specification.importing import import_specification

    imported = import_specification(Path(checkout), tag, name)
    if as_json:
        emit(imported.to_dict())
    else:
        click.echo(imported.to_text())
    sys.exit(1 if imported.differences else 0)
