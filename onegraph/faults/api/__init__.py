"""What a misuse of the C API ends in, and what onegraph says instead.

Misuse is no graph, so the two sides are written in ``tests/capi/test_crashes.py``: the bare calls, and the same wish
through onegraph, registered by the name of the fault.
"""

from __future__ import annotations

from ..fault import Fault
from . import calls, objects, partitions

API: tuple[Fault[None], ...] = (*calls.FAULTS, *objects.FAULTS, *partitions.FAULTS)
GROUPS = {
    "ops": "Attributes, ranks and shapes that the specification forbids",
    "graph": "Graphs and ops",
    "tensors": "Logical tensors and tensors",
    "strides": "Strides",
    "compile": "Compile",
    "execute": "Execute",
    "lifetimes": "Lifetimes and settings of the process",
}
