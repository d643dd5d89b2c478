"""Objects that are made once, and by their constructor: what they hold may be in use, by the library or a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import StateError

Record = TypeVar("Record")


class Made:
    """An object that only its constructor completes: any use of one that ``__new__`` alone made is a clear error."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Called for what was never filled, or a name that there is not."""
            refuse_unmade(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def refuse_unmade(made: object, name: str) -> None:
    """Raise StateError where an attribute is missing because no constructor filled it."""
    kind = type(made)
    is_empty = bool(kind.__dictoffset__) and not vars(made) and not name.startswith("__")
    if is_empty or any(name in vars(base).get("__slots__", ()) for base in kind.__mro__):
        raise StateError(f"this {kind.__name__} was not made by its constructor, or that failed")


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
