import gc
import os
from pathlib import Path

import pytest

pytest.register_assert_rewrite("helpers")
SHARED = Path(__file__).resolve().parents[2] / "shared"
# The processes of the suite share the processors, so waiting OpenMP threads must not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # make asan


def pytest_collection_finish():
    """Exempt objects that live until the end from garbage collection, which is faster."""
    gc.collect()
    gc.freeze()
