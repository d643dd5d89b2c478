"""Checks the options of the backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..._util.exact_types import entries
from ..._util.literals import FpmathMode
from ..._util.validation import flag, integer, string
from ...errors import ArgumentError, shown

FALLBACKS = ("eager", "error")
NEW_SIZES = ("compile", "eager")


class BackendOptions(NamedTuple):
    """Options of the backend.

    Attributes:
        fallback: ``eager`` leaves unsupported ops to PyTorch; ``error`` raises.
        prepare: whether graphs that need no gradient keep what they computed from weights, until the weights change;
            otherwise each call reads the weights.
        frozen: whether the weights of such graphs are taken as they are at the first call. Tensors that are replaced
            and writes that PyTorch counts are noticed; other writes are not.
        threads: number of threads; by default that of PyTorch.
        fpmath_mode: the lowest precision that f32 arithmetic may use.
        smallest: number of cheap ops that are worth a graph of their own.
        cache_capacity: number of compiled graphs that are kept for combinations of sizes.
        new_sizes: ``compile`` lets calls with new sizes of marked dims wait; ``eager`` lets PyTorch answer such
            calls while a thread compiles.
        reproducible: whether the compiled graphs compute the same bits for any number of threads and any batch size.
        finite_math: whether ops such as ReLU may lose NaN and infinities, which is faster.
    """

    fallback: str = "eager"
    prepare: bool = True
    frozen: bool = False
    threads: int | None = None
    fpmath_mode: FpmathMode = "strict"
    smallest: int = 3
    cache_capacity: int = 128
    new_sizes: str = "compile"
    reproducible: bool = False
    finite_math: bool = False


def options_of(argument: object) -> BackendOptions:
    """The options of a dictionary.

    Raises:
        ArgumentError: an option is unknown, or has a wrong value.
    """
    if argument is None:
        return BackendOptions()
    named: Mapping[str, object] | None = entries(argument)
    if named is None:
        raise ArgumentError(f"options: {shown(argument)}; expected a dictionary")
    for name in named:
        if name not in BackendOptions._fields:
            raise ArgumentError(f"options: unknown option {shown(name)}; expected {', '.join(BackendOptions._fields)}")
    options = BackendOptions()._replace(**named)  # type: ignore[arg-type]
    if string("fallback", options.fallback) not in FALLBACKS:
        raise ArgumentError(f"fallback: {shown(options.fallback)}; expected 'eager' or 'error'")
    flag("prepare", options.prepare)
    flag("frozen", options.frozen)
    if options.threads is not None:
        integer("threads", options.threads, 1, 2**31 - 1)
    string("fpmath_mode", options.fpmath_mode)
    integer("smallest", options.smallest, 1, 2**31 - 1)
    integer("cache_capacity", options.cache_capacity, 1, 2**31 - 1)
    if string("new_sizes", options.new_sizes) not in NEW_SIZES:
        raise ArgumentError(f"new_sizes: {shown(options.new_sizes)}; expected 'compile' or 'eager'")
    flag("reproducible", options.reproducible)
    flag("finite_math", options.finite_math)
    return options
