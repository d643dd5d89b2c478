import gc
import os
import sys
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
# The processes of the suite share the processors: threads of OpenMP that wait are not to keep others from working.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # make asan


def interrupted(work, step):
    """Whether ``work`` was interrupted, at that call or return of a function of C within the package."""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if event in ("call", "c_return") and frame.f_globals["__name__"].startswith("onegraph."):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def pytest_collection_finish():
    """What was made up to here lives as long as the tests: no collection need look at it again."""
    gc.collect()
    gc.freeze()
