"""Implements ``onegraph completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .once import OnceCommand
from .options import json_option
from .terminal import emit

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=OnceCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
def command(shell: str, as_json: bool) -> None:
    """Print the script for shell completion of commands, options and files.

    \b
    bash: eval "$(onegraph completion bash)" in ~/.bashrc
    zsh:  eval "$(onegraph completion zsh)" in ~/.zshrc
    fish: onegraph completion fish > ~/.config/fish/completions/onegraph.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(click.get_current_context().find_root().command, {}, "onegraph", "_ONEGRAPH_COMPLETE").source()
    if as_json:
        emit({"shell": shell, "script": script})
    else:
        click.echo(script)
