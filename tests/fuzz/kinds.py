"""The kinds of inputs that the corpus has, each with the module that replays and changes them.

A module has ``replay(data)``, which returns what goes wrong, ``changed(population, seed)``, which makes another input,
and perhaps ``originals()``, inputs besides those of the corpus, and ``shown(data)``, a shorter input that goes wrong in
the same way, as a person reads it. It is imported where it is needed: nothing may import
the package before its branches are marked.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of inputs.

    Attributes:
        suffix: of a file's name.
        module: in this folder.
        needs: a package without which there are no inputs of the kind.
    """

    suffix: str
    module: str
    needs: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the package is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    @property
    def functions(self) -> Any:
        return import_module(f".{self.module}", __package__)


KINDS = {
    "graphs": Kind(".json", "differ"),
    "expressions": Kind(".json", "expressions"),
    "onnx": Kind(".onnx", "onnx_models", "onnx"),
    "nodes": Kind(".json", "onnx_node_inputs", "onnxruntime"),
    "files": Kind("", "one_input"),
    "capi": Kind(".json", "capi_calls"),
    "torch": Kind(".json", "torch_programs", "torch"),
    "functions": Kind(".json", "torch_functions", "torch"),
}
