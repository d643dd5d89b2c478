"""Names the choices of options, for type checkers."""

from __future__ import annotations

from typing import Literal

Policy = Literal["fusion", "debug"]
FpmathMode = Literal["strict", "bf16", "f16", "tf32", "any"]
