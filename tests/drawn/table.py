"""The generators of drawn uses, one for each kernel of the package; ``entry.py`` says how an entry looks."""

from __future__ import annotations

import importlib
import pkgutil

from onegraph.capi.settings import has_avx2, has_vnni

from . import generators
from .entry import CASES, GRAPHS, Generator

for _module in pkgutil.iter_modules(generators.__path__):
    importlib.import_module(f"{generators.__name__}.{_module.name}")

# Kernels of which no graph need be drawn, and why.
NO_GRAPH = {
    **dict.fromkeys(("add", "look_up", "multiply", "rescale"), "tests/compiler/test_codes.py compiles steps of codes"),
    **dict.fromkeys(("guarded", "norm_relu"), "tests/faults/test_special_values.py compiles what the library loses"),
    **dict.fromkeys(
        ("unbounded", "when_special", "when_special_end"), "tests/compiler/test_row_leaks.py compiles them"
    ),
    "cast": "other kernels' graphs cast",
    "log_softmax_gradient": "its rows are too many for a drawn graph: see tests/compiler/test_label_gradients.py",
    "written_sizes": "its graphs are those of ONNX: see tests/kernels/test_written_sizes.py",
}
if not has_avx2():
    panels = ("panel_convolution", "panel_matrices", "panel_product")
    NO_GRAPH |= dict.fromkeys(panels, "weights do not become panels on a CPU without AVX2")
if not has_vnni():
    NO_GRAPH |= dict.fromkeys(("code_matrices", "code_product"), "codes are multiplied as f32 on a CPU without VNNI")
GENERATORS = {
    name: Generator(name, case, None if name in NO_GRAPH else GRAPHS.get(name)) for name, case in sorted(CASES.items())
}
