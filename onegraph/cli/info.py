"""Implements ``onegraph info``."""

from __future__ import annotations

import click

from .._version import __version__
from .once import OnceCommand
from .options import json_option
from .terminal import emit


@click.command(cls=OnceCommand)
@json_option
def command(as_json: bool) -> None:
    """Print the library, the machine and the settings."""
    from ..capi import version_info

    facts = {"onegraph": __version__, **version_info()}
    if as_json:
        emit(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        click.echo(f"{name.replace('_', ' '):{width}}  {shown}")
