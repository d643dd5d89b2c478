"""``python -m onegraph``."""

from .cli import main

main()
