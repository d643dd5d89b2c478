"""The kinds of inputs that are fuzzed, each with the module that replays and changes them.

A module has these functions, or an entry of its table ``DRAWN`` has them:

- ``replay(data)`` returns what goes wrong with an input, or raises it.
- ``changed(population, rng)`` makes another input of some.
- ``originals()`` returns inputs besides those of the corpus.
- ``kept(data)`` is the input without bytes that nothing reads.
- ``smaller(data)`` gives inputs that are a part shorter, and ``shown(data)`` an input as a person reads it.

All but the first two may be missing. A module is imported where it is needed: nothing may import the package before its
branches are marked.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of inputs.

    Attributes:
        tries: what an input is, and what it is compared with.
        module: in this folder.
        entry: in the table ``DRAWN`` of the module; without one, the module has the functions itself.
        needs: a package without which there are no inputs of the kind.
        seconds: that the replay of its inputs in tests/corpus may take.
        is_slow: whether the import of what it needs takes seconds, so that only ``make test-long`` replays its inputs.
    """

    tries: str
    module: str
    entry: str = ""
    needs: str = ""
    seconds: float = 0.7
    is_slow: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the package is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    @property
    def functions(self) -> Any:
        """What has the functions."""
        module = import_module(f".{self.module}", __package__)
        return module.DRAWN[self.entry] if self.entry else module


KINDS = {
    "graphs": Kind("graphs of ops, run in every way, beside the reference", "differ", "graphs", seconds=1.5),
    "host": Kind("the same with host ops and unknown shapes", "differ", "host", seconds=1.5),
    "training": Kind("an op in the shapes of training", "differ", "training"),
    "blocks": Kind("blocks of networks, whose ops the library fuses", "differ", "blocks"),
    "quantized": Kind("chains of quantized ops", "differ", "quantized"),
    "gradients": Kind("first and second derivatives, beside PyTorch", "gradients", "gradients", "torch"),
    "attributes": Kind("a use of an op with any attributes, checked and built", "attributes", "attributes"),
    "expressions": Kind("functions of arrays, beside numpy", "expressions", "expressions"),
    "onnx": Kind("changed models, which are loaded", "onnx_models", needs="onnx"),
    "nodes": Kind("ONNX nodes, alone and in bodies, beside ONNX Runtime", "onnx_nodes", "nodes", "onnxruntime"),
    "dims": Kind("ONNX nodes of known, open and no dims, beside ONNX Runtime", "onnx_open_dims", "dims", "onnxruntime"),
    "files": Kind("graph files, and uses of ops in JSON, which are read", "one_input"),
    "capi": Kind("calls of the C API", "capi_calls"),
    "torch": Kind("programs of PyTorch, beside eager mode", "torch_programs", "torch", "torch", 2.0),
    "functions": Kind("functions as users of PyTorch write them", "torch_programs", "functions", "torch", 1.2),
    "samples": Kind("PyTorch's samples of ops in functions", "torch_programs", "samples", "torch", 9.0, is_slow=True),
}
