"""Runs the command line for ``python -m onegraph``."""

from .cli import main

main()
