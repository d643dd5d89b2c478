"""What oneDNN gets wrong, by version: one record for each fault, and one way to ask.

``ops`` has the faults of single ops (``faults_of``), ``fusions`` those of fused ops (``wrong_fusion``,
``wrong_strides``), ``layouts`` those of tensors that are not dense (``wrong_layout``), ``performance`` what is slow,
``precision`` and ``capabilities`` what a version lacks, ``execution`` what goes wrong between search, compile and
execute, ``api`` what a misuse of the C API ends in. ``catalogue`` has all of them.
"""

from __future__ import annotations

from .fault import Fault, Faults
from .ops import OPS, faults_of

__all__ = ["OPS", "Fault", "Faults", "faults_of"]
