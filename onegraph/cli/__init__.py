"""The command line: ``onegraph`` or ``python -m onegraph``. Every command is a module of its name, loaded when wanted.

A module here exports ``command``, whose function returns the exit status: 0 or None for success, 1 where the answer is
no. An :class:`onegraph.OneGraphError` that leaves it becomes one line on standard error and exit status 2.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from .._version import __version__
from ..errors import OneGraphError, SpecError
from ..opset.values import nearest

# Command and what the list of commands says of it, so that the list is printed without loading any.
COMMANDS = {
    "run": "Run a graph on given or random inputs.",
    "check": "Check a graph, or ops that a JSON or TOML file describes.",
    "verify": "Hold the results of a graph against the numpy reference.",
    "bench": "Time a graph, and each of its partitions.",
    "show": "Show ops, shapes and partitions of a graph.",
    "view": "Write the page of a graph: HTML to look at in a browser.",
    "convert": "Rewrite a graph file: another form, version or shape.",
    "reduce": "Make a graph smaller while it keeps failing.",
    "random": "Make random valid graphs.",
    "info": "Show the library, the machine and the settings.",
    "ops": "Show what an op takes, in any edition.",
    "conformance": "Hold the loaded library against the specification.",
    "completion": "Print the script that completes commands in a shell.",
}

BLOCKS = range(0x2580, 0x25A0)  # of which bars are made


class Commands(click.Group):
    """The commands of ``COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from its module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __name__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As ever; an error names the command that was probably meant."""
        close = nearest(args[0], COMMANDS)
        if args[0] not in COMMANDS and close and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}; did you mean {close!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without loading a command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As ever; ``--help`` is printed here."""
        with _closed_pipes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """As ever."""
        with _closed_pipes():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run one command and exit; whatever was wrong with the input is one line."""
        extra["standalone_mode"] = False
        _write_anything()
        try:
            sys.exit(super().main(args, prog_name or "onegraph", **extra) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            with _unheard():
                error.show()
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            see = f"; see {context.command_path} --help" if context is not None else ""
            note(error.format_message().rstrip(".") + see)
        except SpecError as error:
            first, *others = str(error).splitlines()
            note(first + (f" (and {len(others)} more; onegraph check lists them)" if others else ""))
        except OneGraphError as error:
            note(str(error))
        except MemoryError:
            note("not enough memory for this graph")
        except click.Abort:
            sys.exit(130)  # as shells count an interrupt
        except OSError as error:  # files have errors of their own, which name them
            if error.filename is None:
                _give_up(sys.stdout)
            note(f"{error.filename or 'standard output'}: {error.strerror or error}")
        except Exception as error:
            if os.environ.get("ONEGRAPH_TRACEBACK"):
                raise
            fix = "this is a bug of onegraph; ONEGRAPH_TRACEBACK=1 in the environment shows where"
            note(f"{type(error).__name__}: {error}; {fix}")
        sys.exit(2)


@contextmanager
def _closed_pipes() -> Iterator[None]:
    """A reader that has seen enough is no failure; to click it is one, with the status of a negative answer."""
    try:
        yield
    except BrokenPipeError:
        _give_up(sys.stdout)
        sys.exit(0)


def _write_anything() -> None:
    """Let standard output take every character: what its encoding lacks is escaped, and bars are made of ``#``."""
    codecs.register_error("onegraph", _replaced)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="onegraph")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join("#" if ord(one) in BLOCKS else escaped(one) for one in missing), error.end


def escaped(character: str) -> str:
    """A character that cannot be shown, as in Python code."""
    return character.encode("unicode_escape").decode()


def _give_up(stream: TextIO) -> None:
    """What waits to be written goes nowhere; the interpreter would try once more at exit, and complain."""
    with suppress(OSError, ValueError):  # it may be closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _unheard() -> Iterator[None]:
    """Where standard error takes nothing, the exit status says it alone."""
    try:
        yield
    except OSError:
        _give_up(sys.stderr)


def note(message: str) -> None:
    """One line on standard error."""
    with _unheard():
        click.echo(f"onegraph: {' '.join(message.split())}", err=True)


@click.group(name="onegraph", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="onegraph", message="%(prog)s %(version)s")
def cli() -> None:
    """Build, check, run and measure oneDNN graphs.

    Exit status: 0 for success, 1 where the answer is no (check found errors, verify a difference, conformance a
    disagreement, reduce nothing that fails), 2 for bad input, a bad call or a failure. --json prints JSON and nothing
    else on standard output; progress and errors go to standard error.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its status."""
    cli.main(argv)
