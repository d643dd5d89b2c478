"""Runs the command line, ``onegraph`` or ``python -m onegraph``.

Each command is a module of the same name, which is imported when the command runs. The module exports ``command``,
whose function returns the exit status: 0 or None for success, 1 if the answer is no. An
:class:`onegraph.OneGraphError` from a command becomes one line on standard error and exit status 2.
"""

from __future__ import annotations

import codecs
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn, TextIO

import click

from .._util import tracebacks
from .._util.first_imports import restore
from .._version import __version__
from ..errors import OneGraphError, SpecError
from ..opset.values import nearest

# The description of each command, so that ``onegraph --help`` imports none of them.
COMMANDS = {
    "run": "Run a graph on given or random inputs.",
    "check": "Check a graph, or ops that a JSON or TOML file describes.",
    "verify": "Compare the results of a graph with the numpy reference.",
    "bench": "Time a graph, and each of its partitions.",
    "explain": "Say what each op costs, and why ops are not fused.",
    "show": "Show ops, shapes and partitions of a graph.",
    "view": "Write an HTML page that shows a graph in a browser.",
    "convert": "Rewrite a graph file: another form, version or shape.",
    "reduce": "Make a graph smaller while it keeps failing.",
    "random": "Make random valid graphs.",
    "info": "Show the library, the machine and the settings.",
    "ops": "Show what an op takes, in any edition.",
    "errata": "List the mistakes in the texts of the specification.",
    "spec": "Compare the pages of a oneDNN checkout with the records of an edition.",
    "conformance": "Test the loaded library against the specification.",
    "completion": "Print the script that completes commands in a shell.",
}

BLOCKS = range(0x2580, 0x25A0)  # the characters of bars


class Commands(click.Group):
    """The commands of ``COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return its command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __name__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command like click; an error for an unknown name suggests the nearest command."""
        close = nearest(args[0], COMMANDS)
        if args[0] not in COMMANDS and close and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}; did you mean {close!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write ``COMMANDS`` without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Make the context like click, which prints ``--help``; a closed pipe is no error."""
        with _closed_pipes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command like click; a closed pipe is no error."""
        with _closed_pipes():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run one command and exit; an error in the input is printed as one line."""
        extra["standalone_mode"] = False
        words = sys.argv if args is None else args  # the name of the program is no option
        _write_anything()
        try:
            restore()
            sys.exit(super().main(args, prog_name or "onegraph", **extra) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            with _ignore_closed_stderr():
                error.show()
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            see = f"; see {context.command_path} --help" if context is not None else ""
            note(_after_flag(error.format_message().rstrip("."), words) + see)
        except SpecError as error:
            first, *further = str(error).splitlines()
            note(first + (f" (and {len(further)} more; onegraph check lists them)" if further else ""))
        except OneGraphError as error:
            note(_as_option(str(error), words))
        except MemoryError:
            note("not enough memory for this graph")
        except (click.Abort, KeyboardInterrupt):
            note("interrupted")
            sys.exit(130)  # the exit status that shells use for an interrupt
        except OSError as error:  # not about a file: those raise FormatError
            named = error.filename
            if named is None and error.errno == errno.ENOENT:
                named = "the working directory"  # whose name the system does not know once it is removed
            elif named is None:
                _discard_output(sys.stdout)
            note(f"{named or 'standard output'}: {error.strerror or error}")
        except Exception as error:
            if os.environ.get(tracebacks.VARIABLE):
                raise
            fix = f"this is a bug of onegraph; {tracebacks.VARIABLE}=1 in the environment shows where"
            note(f"{type(error).__name__}: {error}; {fix}")
        sys.exit(2)


@contextmanager
def _closed_pipes() -> Iterator[None]:
    """Exit with status 0 if the reader of standard output closes the pipe; click would exit with status 1."""
    try:
        yield
    except BrokenPipeError:
        _discard_output(sys.stdout)
        sys.exit(0)


def _write_anything() -> None:
    """Escape characters that the encoding of standard output lacks; in bars, replace them by ``#``."""
    codecs.register_error("onegraph", _replaced)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="onegraph")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join("#" if ord(one) in BLOCKS else escaped(one) for one in missing), error.end


def escaped(character: str) -> str:
    """A character as an escape sequence of Python."""
    return character.encode("unicode_escape").decode()


def _discard_output(stream: TextIO) -> None:
    """Discard buffered output, which the interpreter would otherwise write at exit and fail."""
    with suppress(OSError, ValueError):  # the stream may be closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _ignore_closed_stderr() -> Iterator[None]:
    """Ignore errors of writing to standard error; the exit status still reports the failure."""
    try:
        yield
    except OSError:
        _discard_output(sys.stderr)


def _as_option(message: str, args: Sequence[str]) -> str:
    """A message that begins with the name of an argument begins with the option that gave it: ``--for-version``."""
    name, colon, rest = message.partition(":")
    option = f"--{name.replace('_', '-')}"
    return f"{option}{colon}{rest}" if any(arg.partition("=")[0] == option for arg in args) else message


def _after_flag(message: str, args: Sequence[str]) -> str:
    """A message about one argument too many names the flag before it, to which it was probably given as a value."""
    for option, value in pairwise(args):
        if option.startswith("--") and "=" not in option and message == f"Got unexpected extra argument ({value})":
            return f"{message}; {option} takes no value"
    return message


def note(message: str) -> None:
    """Print a message as one line on standard error."""
    with _ignore_closed_stderr():
        click.echo(f"onegraph: {' '.join(message.split())}", err=True)


@click.group(name="onegraph", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="onegraph", message="%(prog)s %(version)s")
def cli() -> None:
    """Build, check, run and measure oneDNN graphs.

    Exit status: 0 for success; 1 if the answer is no (check found errors, verify a difference, conformance a
    disagreement, or reduce no failure); 2 for bad input, wrong arguments or a failure. --json prints only JSON on
    standard output; progress and errors go to standard error.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its status."""
    cli.main(argv)
