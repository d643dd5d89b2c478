"""Binds the oneDNN Graph API to Python.

Build a graph with :class:`Graph`, compile it with ``Graph.compile``, check ops against any edition of the specification
with :func:`check_op`. ``onegraph.capi`` has the objects of the C API, one to one; ``onegraph.reference`` runs any graph
in numpy. Building, checking and the reference work without the oneDNN library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__
from .arrays.ndarrays import as_dlpack
from .checker.check import Violation, check_attrs, check_graph, check_op
from .errors import *  # noqa: F403
from .graph import Graph
from .ir.op import LogicalTensor, Op
from .opset.dtypes import SPECIFIED, DataType
from .opset.editions.registry import EDITIONS
from .tools.capture import capture
from .transform.translate_op import Translation, translate

if TYPE_CHECKING:
    from . import capi as capi
    from . import onnx as onnx
    from . import reference as reference
    from . import training as training
    from . import view as view
    from .capi import get_num_threads as get_num_threads
    from .capi import num_threads as num_threads
    from .capi import set_num_threads as set_num_threads
    from .capi import version_info as version_info

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

# Names imported at their first use, because they need the library or few programs use them.
_LAZY = {
    "capi": ".capi",
    "reference": ".reference",
    "get_num_threads": ".capi",
    "num_threads": ".capi",
    "set_num_threads": ".capi",
    "version_info": ".capi",
    "onnx": ".onnx",
    "training": ".training",
    "view": ".view",
}

__all__ = [
    "EDITIONS",
    "DataType",
    "Graph",
    "LogicalTensor",
    "Op",
    "Translation",
    "Violation",
    "as_dlpack",
    "capture",
    "check_attrs",
    "check_graph",
    "check_op",
    "translate",
    "__version__",
    *errors.__all__,
    *SPECIFIED,
    *_LAZY,
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'onegraph' has no attribute {name!r}")
    module = import_module(_LAZY[name], __name__)
    return module if _LAZY[name] == f".{name}" else getattr(module, name)
