"""Defines the types of values that several commands share, with messages of one line."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from .._util.atomic_write import expect_folder, expect_writable
from ..errors import ArgumentError
from ..opset.editions.registry import DEFAULT, EDITIONS, HOST, edition


class FilePath(click.Path):
    """The name of a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if it is no valid file name."""
        if value == "" or "\0" in value:
            self.fail(f"{value!r} is not the name of a file", param, ctx)
        return super().convert(value, param, ctx)


class OutputPath(FilePath):
    """The name of a file to write; it must have one of the suffixes, if there are any.

    Special files such as ``/dev/null`` may have any name. Named pipes are refused, because opening one waits for a
    reader.
    """

    def __init__(self, *suffixes: str, **options: Any) -> None:
        super().__init__(**options)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if such a file cannot be written, before a command computes what goes there."""
        path = super().convert(value, param, ctx)
        if path == "-" and self.allow_dash:
            return path
        mode = 0
        with suppress(OSError):
            mode = os.stat(path).st_mode
        # Pipes of a shell, such as /dev/fd/63 or /dev/stdout, have a reader; their real path does not exist.
        if stat.S_ISFIFO(mode) and os.path.lexists(os.path.realpath(path)):
            self.fail(f"{path!r} is a named pipe; expected a file", param, ctx)
        if self.suffixes and Path(path).suffix not in self.suffixes and (mode == 0 or stat.S_ISREG(mode)):
            self.fail(f"{path!r}; expected a name that ends in {' or '.join(self.suffixes)}", param, ctx)
        expect_writable(Path(path))
        return path


class FolderPath(FilePath):
    """The name of a folder to write files into, which may be missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if no file can be written there."""
        path = super().convert(value, param, ctx)
        expect_folder(Path(path))
        return path


class EditionName(click.Choice[str]):
    """The name of an edition; an error suggests the nearest one."""

    def __init__(self) -> None:
        super().__init__(EDITIONS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if there is no such edition."""
        try:
            return edition(value).name
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


class OpName(click.ParamType):  # type: ignore[type-arg]  # older versions of click have no argument
    """The name of an op, which a shell completes from those of the given edition, or of the newest one."""

    name = "op"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin like a text, in any case."""
        given = next((value for value in ctx.params.values() if value in (*EDITIONS, HOST)), DEFAULT)
        known = edition(given).schemas
        return [CompletionItem(kind) for kind in known if kind.casefold().startswith(incomplete.casefold())]


class Integer(click.IntRange):
    """An integer in a range, called an integer in messages."""

    name = "integer"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The integer; fails if the text is none."""
        if isinstance(value, str) and not value.isascii():  # int() accepts the digits of every script
            self.fail(f"{value!r} is not a valid integer", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number in a range, called a number in messages."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails if the text is none, or NaN."""
        number = super().convert(value, param, ctx)
        if number != number or (isinstance(value, str) and not value.isascii()):
            self.fail(f"{value!r} is not a valid number", param, ctx)
        return number
