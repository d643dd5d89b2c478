"""Compares what onegraph computes of a model with what ONNX Runtime computes."""

from __future__ import annotations

import warnings

import numpy as np

import onegraph as og
import onegraph.onnx

from .onnx_session import session_of

# The largest difference, in units of the largest number of the expected result, by the size of a float.
RTOL = {8: 1e-6, 4: 3e-5, 2: 4e-3}
ATOL = {8: 1e-7, 4: 2e-5, 2: 4e-3}


def by_runtime(model, feeds):
    """The results of ONNX Runtime; None if it has no kernel, or refuses the model."""
    try:
        return session_of(model).run(None, feeds)
    except Exception:  # errors of many classes
        return None


def outcome(model, feeds, wanted, *, loose=0, scale=1.0, **options):
    """What onegraph makes of a model: "" if it agrees, "refused ..." if it refuses the model, or what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = onegraph.onnx.load(model, **options)
        except og.FormatError as error:
            return f"refused: {error}"
        except Exception as error:
            return f"load raises {type(error).__name__}: {error}"
        try:
            found = graph.compile()(**{name: feeds[name] for name in graph.inputs})
        except og.UnsupportedError as error:
            return f"refused: {error}"
        except Exception as error:
            return f"run raises {type(error).__name__}: {error}"
    found = found if isinstance(found, tuple) else (found,)
    for place, (got, want) in enumerate(zip(found, wanted, strict=True)):
        if text := difference(got, np.asarray(want), loose, scale):
            return f"output {place}: {text}"
    return ""


def difference(got, want, loose=0, scale=1.0):
    """How two arrays differ; "" if rounding explains it."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind in "iub":
        both = got.astype(np.int64), want.astype(np.int64)
        off = np.abs(both[0] - both[1])
        return f"{got.ravel()[:8]}, expected {want.ravel()[:8]}" if off.size and off.max() > loose else ""
    exact, wide = want.astype(np.float64), got.astype(np.float64)
    if not np.array_equal(np.isfinite(exact), np.isfinite(wide)):
        return f"not finite elsewhere: {got.ravel()[:8]}, expected {want.ravel()[:8]}"
    finite = np.isfinite(exact)
    if not np.array_equal(exact[~finite], wide[~finite], equal_nan=True):
        return f"other infinities: {got.ravel()[:8]}, expected {want.ravel()[:8]}"
    size = want.dtype.itemsize
    largest = np.abs(exact[finite]).max(initial=0.0)
    off = np.abs(exact[finite] - wide[finite]).max(initial=0.0)
    if off > scale * (ATOL[size] + RTOL[size] * largest):
        return f"off by {off:.2g} of {largest:.2g}: {got.ravel()[:6]}, expected {want.ravel()[:6]}"
    return ""
