"""Arrays of callers that are taken, refused, copied, packed and laid out: materials of :mod:`draws`."""

from __future__ import annotations

import array as arrays_of_python
import ctypes
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import onegraph as og
from onegraph.arrays import ndarrays, packed_codes
from onegraph.opset.dtypes import DataType
from tests.lowering import test_recorded_graphs as recorded

from .dlpack_producers import Fixed, OldProducer, Producer, Wrapped
from .draws import material
from .recorded import numbers_of

TYPES = (np.float32, np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.complex64)
TYPES = (*TYPES, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn)
SHAPES = ((), (1,), (3,), (2, 3), (3, 1, 2), (0, 2), (1, 4), (2, 2, 2))


def some(drawn: Random, dtype: Any = None) -> Any:
    """An array of small numbers."""
    shape = drawn.choice(SHAPES)
    count = int(np.prod(shape))
    return (np.arange(count) % drawn.choice((2, 7))).reshape(shape).astype(dtype or drawn.choice(TYPES))


def laid(made: Any, drawn: Random) -> Any:
    """The array in another layout: turned, with gaps, repeated, unaligned, read-only."""
    kind = drawn.random()
    if kind < 0.2:
        made = made.T
    elif kind < 0.35 and made.ndim:
        made = np.repeat(made, 2, -1)[..., ::2]
    elif kind < 0.45 and made.ndim:
        made = np.flip(made, 0)
    elif kind < 0.55 and made.size and made.ndim:
        made = np.broadcast_to(made.reshape(-1)[:1], made.shape)
    elif kind < 0.65 and made.size:
        memory = np.zeros(made.nbytes + 1, np.uint8)[1:]
        memory[:] = np.frombuffer(made.tobytes(), np.uint8)
        made = memory.view(made.dtype).reshape(made.shape)
    if drawn.random() < 0.15:
        made = made.view()
        made.flags.writeable = False
    return made


def about(found: Any) -> str:
    flags = found.flags
    layout = (flags.c_contiguous, flags.writeable, flags.aligned, found.strides if found.size else ())
    return f"{type(found).__name__} {'' if found.dtype.kind in 'OSU' else numbers_of(found)} {layout}"


def lent(drawn: Random) -> str:
    """A tensor of another library, of which some fields are others."""
    made = laid(some(drawn), drawn)
    kinds = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
    code = kinds.get(made.dtype.kind, drawn.choice((4, 10, 12, 14, 17, 0, 1)))
    bits = 8 * made.itemsize if drawn.random() < 0.7 else drawn.choice((4, 4, 8, 16, 32, 64))
    given: dict[str, Any] = {"code": code, "bits": bits}
    if drawn.random() < 0.3:
        given["code"] = drawn.choice((0, 1, 2, 3, 4, 5, 6, 10, 12, 14, 17))
    size = made.size
    others: dict[str, tuple[Any, ...]] = {
        "flags": (0, 1, 1, 2, 4, 4, 5, 6),
        "lanes": (1, 2),
        "device": (1, 1, 3, 11, 2, 10, 99),
        "tensor_device": (1, 3, 2),
        "major": (1, 0, 2),
        "ndim": (made.ndim, made.ndim, 0, -1, 33, 64),
        "data": (0,),
        "byte_offset": (0, 2**63 - 1, 2**63),
        "strides": (None, (0,) * made.ndim, (1,) * made.ndim, (-1,) * made.ndim, (2**58,) * made.ndim),
        "shape": ((size,), (1, size), (-1,), (2**60, 1), (2**59,), (0, 2**62), (2**30, 2**30)),
    }
    for name in drawn.sample([*others], drawn.choice((0, 1, 1, 2))):
        given[name] = drawn.choice(others[name])
    if "shape" in given and "strides" not in given:
        given["strides"] = None
    is_safe = not {"shape", "ndim", "strides", "byte_offset"} & given.keys() and given["bits"] <= 8 * made.itemsize
    kind = drawn.choice((Producer, Producer, OldProducer, Fixed))
    given |= {"versioned": drawn.random() < 0.75}
    found = ndarrays.array_of("input 'x'", kind(made, **given))
    return about(found) if is_safe else f"{found.dtype} {found.shape} {found.strides} {found.flags.writeable}"


def taken(drawn: Random) -> str:
    """Anything that may stand in the place of an array."""
    made = laid(some(drawn), drawn)
    plain = some(drawn, np.uint8)
    ways = (
        lambda: made,
        lambda: np.ma.masked_array(some(drawn, np.float32)),
        lambda: Wrapped(some(drawn, np.float32)),
        lambda: memoryview(some(drawn, drawn.choice(TYPES[:9]))),
        lambda: memoryview(plain).cast("B") if plain.ndim else b"x",
        lambda: arrays_of_python.array(drawn.choice("bBhHiIlLqQfd"), [1, 2]),
        lambda: bytearray(b"abc"),
        lambda: (ctypes.c_float * 3)(1, 2, 3),
        lambda: made.reshape(-1)[0] if made.size else made,
        lambda: drawn.choice((None, 5, 1.5, "x", [1.0], (1,), {}, object)),
        lambda: np.array(["x"]),
        lambda: og.as_dlpack(made),
    )
    value = drawn.choice(ways)()
    call = drawn.choice((ndarrays.array_of, ndarrays.output_array, lambda n, v: ndarrays.numpy_array(n, v, "numbers")))
    if drawn.random() < 0.2:
        told = og.as_dlpack(value)
        return f"{told.__dlpack_device__()} {about(ndarrays.array_of('x', told))}"
    return f"{about(call('x', value))} {ndarrays.cast_to(DataType.f32, value)}"


def written(drawn: Random) -> str:
    """An array that a result is to be written into."""
    dtype = drawn.choice((DataType.f32, DataType.f32, DataType.bf16, DataType.s8))
    made = laid(some(drawn, dtype.numpy if drawn.random() < 0.9 else np.float64), drawn)
    steps = tuple(step // made.itemsize for step in made.strides)
    strides = drawn.choice((None, steps, steps, steps[::-1], tuple(step + 1 for step in steps)))
    shape = made.shape if drawn.random() < 0.9 else made.shape[1:]
    return about(ndarrays.check_output("y", dtype, shape, strides, made))


def copied(drawn: Random) -> str:
    """Copies and new arrays with strides, and what tells that arrays are the same."""
    made = laid(some(drawn, drawn.choice(TYPES)), drawn)
    skew = drawn.choice((0, 0, 4, 64))
    copy = ndarrays.aligned_copy(made, skew=skew)
    place = copy.ctypes.data % ndarrays.ALIGNMENT if copy.size else 0
    dims, steps = made.shape, tuple(drawn.choice((0, 1, 2, 5)) for _ in made.shape)
    empty = ndarrays.laid_empty(dims, drawn.choice((None, steps, steps)), made.dtype)
    row = np.arange(60, dtype=np.int16)
    shape, shift = drawn.choice((((2, 3), 0), ((2, 2), 4), ((4,), 8), ((1, 3), 2)))
    view = ndarrays.strided(row[drawn.choice((0, 2)) :], shape, [drawn.choice((1, 2, 6)) for _ in shape], shift)
    same = [ndarrays.place_of(one) == ndarrays.place_of(made) for one in (made, made.view(), made[...], made.T, copy)]
    is_same = same if made.size and made.ndim else []
    owners = len([*ndarrays.owners(made)])
    lines = [about(copy), str(place), str(empty.strides if empty.size else ()), about(view), str(is_same), str(owners)]
    return "\n".join([*lines, str(ndarrays.is_read_only(made)), str(ndarrays.numpy_name(DataType.of(np.int8)))])


def large(drawn: Random) -> str:
    """Copies of large arrays, of which some are zeros."""
    made = np.zeros(drawn.choice((ndarrays.LARGE - 1, ndarrays.LARGE)), np.uint8).view(
        drawn.choice((np.int8, np.bool_))
    )
    if drawn.random() < 0.6:
        made[drawn.choice((0, 5, made.size - 1))] = 1
    whole = drawn.choice((made, made[::-1], np.broadcast_to(made[:1], (ndarrays.LARGE,)), made[::2]))
    found = ndarrays.aligned_copy(whole)
    return f"{found.shape} {int(found.sum())} {ndarrays._is_zeros(whole)}"


def coded(drawn: Random) -> str:
    """Codes that are packed and unpacked."""
    coding, rng = drawn.choice(("s4", "u4", "s8", "u8")), np.random.default_rng(drawn.randrange(99))
    bits = packed_codes.BITS[coding]
    low, high = (0, 1 << bits) if coding[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    depth = drawn.choice((1, 3, 63, 64, 65, 127, 128, 129))
    types = {"s4": (np.int8, ml_dtypes.int4, np.int32), "u4": (np.uint8, ml_dtypes.uint4, np.int64)}
    made = rng.integers(low, high, (2, depth)).astype(drawn.choice(types.get(coding, (np.int16, np.int32))))
    made = made.astype(np.uint8 if coding == "u8" else np.int8) if bits == 8 and drawn.random() < 0.5 else made
    rows = packed_codes.packed(made, bits)
    again = packed_codes.unpacked(rows, coding, depth)
    full = packed_codes.filled_up(rows[:, : drawn.choice((1, 32, 63, 64, 65))])
    return f"{numbers_of(rows)} {numbers_of(again)} {numbers_of(full)} {packed_codes.unit_of(bits)}"


WAYS = {"lent": lent, "taken": taken, "written": written, "copied": copied, "large": large, "coded": coded}


@material(lambda: WAYS)
def array_forms(name: str, number: int) -> list[str]:
    """What becomes of arrays of callers, or why they are refused."""
    return recorded.outcome(WAYS[name], Random(f"{name} {number}"))
