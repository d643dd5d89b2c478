import os
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # make asan
