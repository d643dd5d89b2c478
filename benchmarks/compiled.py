"""C code that is compiled when a benchmark runs."""

from __future__ import annotations

import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from cffi import FFI


def compiled(name: str, declarations: str, source: str) -> tuple[Any, Any]:
    """Compile C code in a scratch folder; returns its ``ffi`` and ``lib``. Its functions run without the GIL."""
    builder = FFI()
    builder.cdef(declarations)
    builder.set_source(name, source, extra_compile_args=["-O3"])
    with tempfile.TemporaryDirectory() as folder:
        spec = spec_from_file_location(name, builder.compile(tmpdir=folder))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.ffi, module.lib
