"""Objects that are made once, and by their constructor: what they hold may be in use, by the library or a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import StateError

Record = TypeVar("Record")
Method = TypeVar("Method", bound=Callable[..., None])
_making: dict[int, tuple[object]] = {}  # objects whose ``__init__`` runs, by ``id``


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


def once(attribute: str) -> Callable[[Method], Method]:
    """An ``__init__`` after which the object has the attribute, and which is refused then: StateError.

    Where two threads call it on one object that ``__new__`` alone made, one of them makes it.
    """

    def guarded(method: Method) -> Method:
        @wraps(method)
        def checked(self: object, *args: Any, **kwargs: Any) -> None:
            claim = (self,)  # an interrupt may leave it behind; no other object gets the number then
            try:
                if _making.setdefault(id(self), claim) is not claim or _is_made(self, attribute):
                    raise StateError(
                        f"this {type(self).__name__} is made; make another one instead of calling __init__ again"
                    )
                method(self, *args, **kwargs)
            finally:
                if _making.get(id(self)) is claim:
                    del _making[id(self)]

        return cast("Method", checked)

    return guarded


def _is_made(made: object, attribute: str) -> bool:
    try:
        object.__getattribute__(made, attribute)  # without the error that __getattr__ would make of it
    except AttributeError:
        return False  # as it should be
    return True


def made_once(record: type[Record]) -> type[Record]:
    """A frozen dataclass, whose first field has no default, that neither ``__init__`` nor ``__setstate__`` changes."""
    guarded = once(fields(record)[0].name)  # type: ignore[arg-type]
    for name in ("__init__", "__setstate__"):
        if name in vars(record):
            setattr(record, name, guarded(vars(record)[name]))
    return record
