"""Objects that are made once: what they hold may be in use, by the library or by another thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from .errors import StateError

Record = TypeVar("Record")


def once(made: object, attribute: str) -> None:
    """Raise StateError where ``__init__`` is called on an object that is made, and has the attribute."""
    try:
        getattr(made, attribute)
    except (AttributeError, StateError):
        return  # as it should be
    raise StateError(f"this {type(made).__name__} is made; make another one instead of calling __init__ again")


def made_once(record: type[Record]) -> type[Record]:
    """A frozen dataclass, whose first field has no default, that neither ``__init__`` nor ``__setstate__`` changes."""
    first = fields(record)[0].name  # type: ignore[arg-type]

    def guarded(method: Callable[..., None]) -> Callable[..., None]:
        @wraps(method)
        def checked(self: object, *args: Any, **kwargs: Any) -> None:
            once(self, first)
            method(self, *args, **kwargs)

        return checked

    for name in ("__init__", "__setstate__"):
        if name in vars(record):
            setattr(record, name, guarded(vars(record)[name]))
    return record
