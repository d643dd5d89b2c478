"""Binds the oneDNN Graph API to Python.

Build a graph with :class:`Graph`, compile it with ``Graph.compile``, check ops against any edition of the specification
with :func:`check_op`. ``onegraph.capi`` has the objects of the C API, one to one; ``onegraph.reference`` runs any graph
in numpy. Building, checking and the reference work without the oneDNN library.
"""

from __future__ import annotations

from ._util import first_imports as _first_imports

_first_imports.guard()  # before the imports that take long

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from . import errors
from ._util.collector_pause import CollectorPause as _CollectorPause
from ._version import __version__
from .errors import *  # noqa: F403

with _CollectorPause():
    from .arrays.ndarrays import as_dlpack
    from .graph import Graph
    from .ir.op import LogicalTensor, Op
    from .loading import load
    from .opset.dtypes import SPECIFIED, DataType
    from .opset.editions.registry import EDITIONS

if TYPE_CHECKING:
    from . import capi as capi
    from . import distributed as distributed
    from . import onnx as onnx
    from . import reference as reference
    from . import training as training
    from . import view as view
    from ._util.cache_folder import get_cache_folder as get_cache_folder
    from ._util.cache_folder import set_cache_folder as set_cache_folder
    from .capi import get_num_threads as get_num_threads
    from .capi import num_threads as num_threads
    from .capi import set_num_threads as set_num_threads
    from .capi import version_info as version_info
    from .checker.check import Violation as Violation
    from .checker.check import check_attrs as check_attrs
    from .checker.check import check_graph as check_graph
    from .checker.check import check_op as check_op
    from .inference.translate_op import Translation as Translation
    from .inference.translate_op import translate as translate
    from .lowering.compression import compress_weights as compress_weights
    from .runtime.cache import Cache as Cache
    from .runtime.executable import Executable as Executable
    from .tools.capture import capture as capture
    from .tools.quantize import quantize as quantize
    from .tools.run_op import run_op as run_op
    from .transform.translate_graph import translate_graph as translate_graph

f32 = DataType.f32
f16 = DataType.f16
bf16 = DataType.bf16
s8 = DataType.s8
u8 = DataType.u8
s32 = DataType.s32
boolean = DataType.boolean
s64 = DataType.s64
f8_e4m3 = DataType.f8_e4m3
f8_e5m2 = DataType.f8_e5m2
s4 = DataType.s4
u4 = DataType.u4
e8m0 = DataType.e8m0
f4_e2m1 = DataType.f4_e2m1

_EXTRAS = ("gguf", "torch")  # modules that need another package, which a program imports itself

# Names imported at their first use, because they need the library or few programs use them.
_LAZY = {
    "capi": ".capi",
    "distributed": ".distributed",
    "reference": ".reference",
    "get_cache_folder": "._util.cache_folder",
    "set_cache_folder": "._util.cache_folder",
    "get_num_threads": ".capi",
    "num_threads": ".capi",
    "set_num_threads": ".capi",
    "version_info": ".capi",
    "onnx": ".onnx",
    "training": ".training",
    "view": ".view",
    "Violation": ".checker.check",
    "check_attrs": ".checker.check",
    "check_graph": ".checker.check",
    "check_op": ".checker.check",
    "capture": ".tools.capture",
    "compress_weights": ".lowering.compression",
    "quantize": ".tools.quantize",
    "run_op": ".tools.run_op",
    "translate_graph": ".transform.translate_graph",
    "Cache": ".runtime.cache",
    "Executable": ".runtime.executable",
    "Translation": ".inference.translate_op",
    "translate": ".inference.translate_op",
}

__all__ = [
    "EDITIONS",
    "DataType",
    "Graph",
    "LogicalTensor",
    "Op",
    "as_dlpack",
    "errors",
    "load",
    "__version__",
    *errors.__all__,
    *SPECIFIED,
    *_LAZY,
]


def __dir__() -> list[str]:
    return sorted({*__all__, *[name for name in globals() if name.startswith("__")]})


def _meant(name: str) -> str:
    """What a name that does not exist was probably to be: a method of graphs, or a name that contains it or is near."""
    if name.startswith("_"):
        return ""
    if name in _EXTRAS:
        return f"; it is there after: import onegraph.{name}"
    if callable(getattr(Graph, name, None)):
        return f"; it is a method of graphs, as in g.{name}(...)"
    from .opset.values import nearest

    names = [one for one in __all__ if not one.startswith("__")]
    longer = [one for one in names if len(name) > 3 and name.casefold() in one.casefold()]
    close = longer or [one for one in [nearest(name, names)] if one]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


if not TYPE_CHECKING:  # type checkers refuse names that the imports above do not have

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module 'onegraph' has no attribute {name!r}{_meant(name)}")
        with _CollectorPause():
            module = _import_module(_LAZY[name], __name__)
        member = globals()[name] = module if _LAZY[name] == f".{name}" else getattr(module, name)
        return member


_first_imports.over()
