import gc
import os
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
# The processes of the suite share the processors: threads of OpenMP that wait are not to keep others from working.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # make asan


def pytest_collection_finish():
    """What was made up to here lives as long as the tests: no collection need look at it again."""
    gc.collect()
    gc.freeze()
