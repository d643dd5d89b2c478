"""Materials of :mod:`draws` whose modules need the library, so that they are imported where something is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from random import Random

import click

from onegraph.errors import OneGraphError
from tests.lowering import test_recorded_graphs as recorded

from .draws import material


def tools() -> Mapping[str, Callable[[Random], object]]:
    """What tools make, by name."""
    from . import drawn_conformance, drawn_failures, drawn_probes, drawn_runs, drawn_tools  # noqa: F401  # they enter names

    return drawn_tools.TOOLS


def prints() -> Mapping[str, Callable[[Random], object]]:
    """What prints, by name."""
    from . import drawn_commands, drawn_prints  # noqa: F401  # both enter names

    return drawn_prints.PRINTS


@material(tools, needs="onegraph.capi")
def made_by_tools(name: str, number: int) -> list[str]:
    """What a tool makes or finds."""
    return recorded.outcome(tools()[name], Random(f"{name} {number}"))


@material(prints, needs="onnx")
def printed(name: str, number: int) -> list[str]:
    """What is printed, and the status or the error."""
    made, out, said = prints()[name], io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        try:
            status: object = made(Random(f"{name} {number}"))
        except SystemExit as error:
            status = f"exit {error.code}"
        except (OneGraphError, click.ClickException) as error:
            status = f"{type(error).__name__}: {error}"
    return [str(status), *out.getvalue().splitlines(), *said.getvalue().splitlines()]
