"""Prints JSON and tables on standard output, and progress on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

import click

from . import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Progress(Protocol):
    """Called to report progress."""

    def __call__(self, done: int, total: int, stage: str | None = None, /) -> None:
        """``done`` of ``total`` is done; ``total`` is 0 if unknown. ``stage`` is the new activity if it changed."""


# Characters that would move or hide other text: control characters, and those that change the writing direction.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_IN_TEXT, _IN_CELL = re.compile(f"[{_CONTROLS}]"), re.compile(f"[\t\n{_CONTROLS}]")


def _visible(text: str, controls: re.Pattern[str]) -> str:
    return controls.sub(lambda match: escaped(match[0]), text)


def emit(value: object) -> None:
    """Print a value as JSON, with infinities and NaN as strings."""
    click.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def print_rich(*parts: Table | str) -> None:
    """Print tables and texts with an empty line between them; tables fit the terminal, or have full width in a pipe."""
    screen = _console()
    for number, part in enumerate(parts):
        separator = "\n" if number else ""
        if isinstance(part, str):
            click.echo(separator + _visible(part, _IN_TEXT))
        elif screen.is_terminal:
            screen.print(*([""] if number else []), part, sep="\n")
        else:
            with screen.capture() as captured:
                screen.print(part)
            click.echo(separator + "\n".join(line.rstrip() for line in captured.get().splitlines()))


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made.width = 10_000
    return made


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without lines. A title ending in ``>`` marks a column of numbers, in ``=`` a column that never wraps."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        justify: Literal["left", "right"] = "right" if title.endswith(">") else "left"
        made.add_column(title.rstrip(">="), justify=justify, no_wrap=title.endswith((">", "=")), overflow="fold")
    for row in rows:
        plain = (cell if isinstance(cell, Text) else Text(str(cell)) for cell in row)
        made.add_row(*(Text(_visible(cell.plain, _IN_CELL), cell.style) for cell in plain))
    return made


def dims(shape: Sequence[int | None] | None) -> str:
    """A shape as text: 2x3x?, or * if the rank is unknown."""
    if shape is None:
        return "*"
    return "x".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


@contextmanager
def progress(stage: str) -> Iterator[Progress]:
    """A progress bar on standard error while the block runs; nothing if standard error is no terminal."""

    def silent(done: int, total: int, stage: str | None = None, /) -> None:
        pass

    if sys.stderr is None or not sys.stderr.isatty():  # None if it is closed
        yield silent
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(stage, total=None)

        def update(done: int, total: int, stage: str | None = None, /) -> None:
            bar.update(task, completed=done, total=total or None, description=stage)

        yield update


def duration(seconds: float) -> str:
    """A time in seconds as text with a suitable unit."""
    units: tuple[tuple[float, str], ...] = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
    unit, name = next(((unit, name) for unit, name in units if seconds >= unit), (1e-6, "us"))
    return f"{seconds / unit:.4g} {name}" if seconds < 1000 * unit else f"{seconds / unit:,.0f} {name}"
