from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
