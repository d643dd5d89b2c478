"""The command line: ``onegraph`` or ``python -m onegraph``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from . import __version__
from .errors import OneGraphError


def info(arguments: argparse.Namespace) -> int:
    """Print what the library, the machine and the settings are."""
    from .settings import version_info

    facts = {"onegraph": __version__, **version_info()}
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        print(f"{name.replace('_', ' '):{width}}  {text}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    found = argparse.ArgumentParser(prog="onegraph", description="The Python home of oneDNN Graph.")
    found.add_argument("--version", action="version", version=f"onegraph {__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="command")
    command = commands.add_parser("info", help="library, machine and settings", description=info.__doc__)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=info)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 for success, 2 for an error."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except OneGraphError as error:
        print(f"onegraph: {error}", file=sys.stderr)
        return 2
    return status
