"""Records of decisions that no oracle knows, such as measured bounds: files of digests, which a run must meet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any


def digest(parts: Iterable[object]) -> str:
    """A digest of the texts of some parts."""
    return blake2b("\n".join(map(str, parts)).encode(), digest_size=6).hexdigest()


def kept(path: Path) -> Any:
    """What was recorded."""
    return json.loads(path.read_text())


def keep(path: Path, found: object) -> None:
    """Record what was found."""
    path.write_text(json.dumps(found, indent=1) + "\n")
