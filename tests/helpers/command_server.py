"""Runs commands of onegraph in forked processes: see ``fork_server``."""

from contextlib import suppress
from importlib import import_module

from helpers.fork_server import serve
from onegraph.cli import COMMANDS, main

for name in COMMANDS:
    with suppress(Exception):  # without the library
        import_module(f"onegraph.cli.{name}")
serve(main)
