"""Calls of onegraph.capi as inputs: a list of calls in JSON. Any of them may be refused; none may do anything else.

A call is a list: the name of a class or of a method, the arguments, and those by name. ``{"made": n}`` stands for what
the n-th call gave, ``{"made": n, "of": k}`` for the k-th part of it, and ``{"array": [dtype, shape]}`` for an array of
ones. The object of a method is its first argument.
"""

from __future__ import annotations

import json
import math
import random
from operator import attrgetter
from typing import Any

import numpy as np

import onegraph as og
from onegraph import capi

from .json_changes import changed_text

MAKERS = (
    *("LogicalTensor", "Op", "Graph", "Engine", "Stream", "Tensor", "CompiledPartition", "Allocator"),
    "Partition.from_op",
)
METHODS = {
    "Graph": ("add_op", "finalize", "partitions", "set_fpmath_mode", "get_fpmath_mode", "ops", "finalized"),
    "Op": ("add_input", "add_output", "set_attr", "check", "inputs", "outputs", "attrs", "schema"),
    "LogicalTensor": ("dtype", "shape", "strides", "layout", "layout_id", "mem_size", "ndims", "property"),
    "Partition": ("compile", "ops", "supported", "input_ports", "output_ports", "input_ids", "engine_kind"),
    "CompiledPartition": ("execute", "query_logical_tensor", "inplace_pairs", "inputs", "outputs", "scratchpad"),
    "Tensor": ("data", "set_data_handle", "check", "nbytes", "writable", "query_logical_tensor", "data_handle"),
    "Stream": ("wait", "engine"),
    "Engine": ("kind", "index", "allocator"),
}
NAMES = {f"{kind}.{method}": method for kind, methods in METHODS.items() for method in methods}
MOST = 1 << 16  # elements of an array
UNKNOWN = object()


def replay(data: bytes) -> str:
    """The first error that a user of the C API should not see; empty if there is none."""
    try:
        calls = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    made: list[object] = []
    for call in calls if isinstance(calls, list) else []:
        try:
            made.append(_result(call, made))
        except (og.OneGraphError, TypeError, MemoryError) as error:  # TypeError: an argument too many
            made.append(UNKNOWN)
            str(error)
        except Exception as error:
            return f"{call}: {type(error).__name__}: {error}"
    return ""


def _result(call: object, made: list[object]) -> object:
    """What a call gives; ``UNKNOWN`` for one that names nothing, or an object that no call has made."""
    if not isinstance(call, list) or not call or not isinstance(call[0], str):
        return UNKNOWN
    name, given, named = call[0], call[1] if len(call) > 1 else [], call[2] if len(call) > 2 else {}
    if not isinstance(given, list) or not isinstance(named, dict):
        return UNKNOWN
    args, kwargs = [_argument(one, made) for one in given], {key: _argument(one, made) for key, one in named.items()}
    if name in MAKERS:
        return attrgetter(name)(capi)(*args, **kwargs)
    if name not in NAMES or not args or not isinstance(args[0], getattr(capi, name.partition(".")[0])):
        return UNKNOWN
    method = getattr(args[0], NAMES[name])
    return method(*args[1:], **kwargs) if callable(method) else method


def _argument(value: object, made: list[object]) -> Any:
    if isinstance(value, list):
        return [_argument(one, made) for one in value]
    if not isinstance(value, dict):
        return value
    if "made" in value:
        found, part = _at(made, value["made"]), value.get("of", UNKNOWN)
        return found if part is UNKNOWN else _at(found, part)
    if "array" in value:
        return _array(value["array"])
    return {key: _argument(one, made) for key, one in value.items()}


def _at(values: object, place: object) -> object:
    is_one = isinstance(values, list | tuple) and isinstance(place, int) and 0 <= place < len(values)
    return values[place] if is_one else None


def _array(told: object) -> object:
    """An array of ones; None if JSON tells none, or a large one."""
    try:
        dtype, shape = told  # type: ignore[misc]
        dims = [int(dim) for dim in shape]
        if any(dim < 0 for dim in dims) or math.prod(dims) > MOST:
            return None
        return np.ones(dims, og.DataType(dtype).numpy)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def changed(population: list[bytes], rng: random.Random) -> bytes:
    """One of the inputs with one to four changes."""
    data = rng.choice(population)
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = changed_text([data, rng.choice(population)], rng) or data
    return data
