"""The generators of drawn uses, one for each kernel of the package; ``entry.py`` says how an entry looks."""

from __future__ import annotations

import importlib
import pkgutil

from . import generators
from .entry import CASES, GRAPHS, Generator

for _module in pkgutil.iter_modules(generators.__path__):
    importlib.import_module(f"{generators.__name__}.{_module.name}")

GENERATORS = {name: Generator(name, case, GRAPHS.get(name)) for name, case in sorted(CASES.items())}
# Kernels of which no graph is drawn, and why.
NO_GRAPH: dict[str, str] = {}
