"""Arrays and foreign tensors that pass in and out without a copy, and aligned memory."""

import array
import contextlib
import ctypes
import gc
import itertools
import subprocess
import sys
import threading
import weakref
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers.dlpack_producers import NAME, Fixed, OldProducer, Producer, Wrapped, numbers
from helpers.grouped import grouped

import onegraph as og
from onegraph.arrays import dlpack
from onegraph.arrays.dlpack import from_dlpack
from onegraph.arrays.ndarrays import aligned_empty, array_of, as_array, cast_to, check_output, numpy_name


def address(data):
    return data.__array_interface__["data"][0]


def relu(shape=(2, 3), dtype=og.f32, **options):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", dtype, shape, **options)))
    return g.compile()


# DLPack import --------------------------------------------------------------------------------------------------------

TYPES = [
    *[(dtype, None, None) for dtype in ("f4", "f2", "i1", "u1", "i4", "f8", "i8", "c8")],
    ("?", 6, 8),
    (ml_dtypes.bfloat16, 4, 16),
    (ml_dtypes.float8_e4m3fn, 10, 8),
    (ml_dtypes.float8_e5m2, 12, 8),
    (ml_dtypes.float8_e8m0fnu, 14, 8),
]


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize(("dtype", "code", "bits"), TYPES, ids=lambda value: str(value))
def test_imports_every_data_type_without_a_copy(dtype, code, bits, versioned):
    data = np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype)
    producer = Producer(data, versioned=versioned, code=code, bits=bits)
    found = as_array("x", producer)
    assert found.dtype == data.dtype
    assert found.shape == (2, 3)
    assert address(found) == address(data)
    assert found.tobytes() == data.tobytes()
    assert found.flags.writeable
    assert producer.asked[0]["max_version"] >= (1, 0)
    assert producer.deleted == 0
    del found
    assert producer.deleted == 1


@pytest.mark.parametrize(("code", "dtype"), [(0, ml_dtypes.int4), (1, ml_dtypes.uint4), (17, ml_dtypes.float4_e2m1fn)])
def test_imports_unpacked_four_bit_types_only(code, dtype):
    data = numbers(dtype)
    found = from_dlpack(Producer(data, code=code, bits=4, flags=4))
    assert found.dtype == data.dtype
    assert address(found) == address(data)
    packed = Producer(data, code=code, bits=4)
    with pytest.raises(og.ArgumentError, match="packed into bytes; expected a byte for each element"):
        as_array("x", packed)
    assert packed.deleted == 1


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("device", [1, 3, 11])
def test_memory_lives_as_long_as_its_views(device, versioned):
    producer = Producer(numbers(), versioned=versioned, device=device)
    found = as_array("x", producer)
    part = found[1:].T
    del found
    gc.collect()
    assert producer.deleted == 0
    assert part.tolist() == [[3], [4], [5]]
    del part
    assert producer.deleted == 1


def test_renames_the_consumed_capsule():
    for versioned, used in ((True, b"used_dltensor_versioned"), (False, b"used_dltensor")):
        producer = Fixed(numbers(), versioned=versioned)
        found = as_array("x", producer)
        assert NAME(producer.kept) == used
        with pytest.raises(og.ArgumentError, match=r"input 'x': Fixed gives no array: .* consumed before"):
            as_array("x", producer)
        del found
        producer.kept = None
        assert producer.deleted == 1


def test_accepts_unversioned_producers_and_missing_deleters():
    data = numbers()
    assert address(as_array("x", OldProducer(data, versioned=False))) == address(data)
    assert address(as_array("x", Producer(data, deleter=False))) == address(data)


def test_read_only_memory_stays_read_only():
    found = as_array("x", Producer(numbers(), flags=1))
    assert not found.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.flags.writeable = True


def test_byte_offset_strides_and_ranks():
    data = numbers(shape=(4, 6))
    cases = {
        "offset": (Producer(data, shape=(2, 6), strides=(6, 1), byte_offset=48), data[2:]),
        "no strides": (Producer(data, strides=None), data),
        "transposed": (Producer(data, shape=(6, 4), strides=(1, 6)), data.T),
        "every second": (Producer(data, shape=(4, 3), strides=(6, 2)), data[:, ::2]),
        "broadcast": (Producer(data, shape=(3, 6), strides=(0, 1)), np.broadcast_to(data[0], (3, 6))),
        "a stride that means nothing": (Producer(data, shape=(1, 6), strides=(2**62, 1)), data[:1]),
        "scalar": (Producer(data, shape=(), strides=None, byte_offset=4), data[0, 1]),
        "twelve": (Producer(data, shape=(1,) * 10 + (4, 6), strides=None), data.reshape((1,) * 10 + (4, 6))),
    }
    for name, (producer, expected) in cases.items():
        found = as_array("x", producer)
        assert np.array_equal(found, expected), name
        assert found.shape == expected.shape, name
        assert np.shares_memory(found, data), name


@pytest.mark.parametrize("strides", [None, (4, 1)])
def test_empty_tensor_needs_no_memory(strides):
    producer = Producer(numbers(), shape=(0, 4), strides=strides, data=0)
    found = as_array("x", producer)
    assert found.shape == (0, 4)
    assert producer.deleted == 1


REFUSED = {
    "of another device": ({"device": 2}, r"in memory of CUDA \(DLPack device type 2\); copy it to the CPU first"),
    "of a device nobody knows": ({"device": 99}, "another device"),
    "that says one device and is on another": ({"tensor_device": 2}, "expected memory of the CPU"),
    "of a later DLPack": ({"major": 2}, "DLPack 2; expected 1"),
    "of lanes": ({"lanes": 2}, "code 2 of 32 bits in 2 lanes; expected f32, f16, bf16"),
    "of handles": ({"code": 3, "bits": 64}, "code 3 of 64 bits"),
    "of another fp8": ({"code": 11, "bits": 8}, "code 11 of 8 bits"),
    "without memory": ({"data": 0}, "it has no memory"),
    "of a negative rank": ({"ndim": -1}, "rank -1"),
    "of a huge rank": ({"ndim": 2**31 - 1}, "rank 2147483647; expected a shape of at most 32 dims"),
    "of a negative dim": ({"shape": (2, -1)}, r"shape \(2, -1\); expected dims of 0 or more"),
    "that is huge": ({"shape": (2**31, 2**31)}, r"fewer than 2\*\*60 elements"),
    "that is huge but for a 0": ({"shape": (0, 2**62)}, r"fewer than 2\*\*60 elements"),
    "whose product overflows": ({"shape": (2**32, 2**32)}, r"fewer than 2\*\*60 elements"),
    "that goes backwards": ({"strides": (3, -1)}, r"strides \[3, -1\]; expected none below 0"),
    "whose strides overflow": ({"strides": (2**62, 2**62)}, "lead out of memory"),
    "whose offset overflows": ({"byte_offset": 2**64 - 1}, "lead out of memory"),
    "whose offset has a sign": ({"byte_offset": 2**63}, "lead out of memory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_deletes_refused_tensors_once(name):
    fields, message = REFUSED[name]
    producer = Producer(numbers(), **fields)
    with pytest.raises(og.ArgumentError, match=rf"^input 'x': Producer gives no array: .*{message}"):
        as_array("x", producer)
    gc.collect()
    assert producer.deleted == len(producer.asked)


def test_refused_tensors_are_deleted_before_their_error_is_dropped():
    producer = Producer(numbers(), lanes=2)
    with pytest.raises(BufferError) as kept:
        from_dlpack(producer)
    assert producer.deleted == 1
    assert "lanes" in str(kept.value)


def test_minor_versions_of_dlpack_are_compatible(monkeypatch):
    monkeypatch.setattr(dlpack, "MAX_VERSION", (1, 7))
    assert from_dlpack(Producer(numbers(), major=1)).tolist() == numbers().tolist()
    with pytest.raises(BufferError, match="DLPack 7; expected 1"):
        from_dlpack(Producer(numbers(), major=7))


def test_rejects_producers_that_break_the_protocol():
    class Rude:
        device, capsule = (1, 0), None

        def __dlpack_device__(self):
            return self.device

        def __dlpack__(self, **options):
            if isinstance(self.capsule, Exception):
                raise self.capsule
            return self.capsule

    class NoDevice:
        def __dlpack__(self, **options):
            return Producer(numbers()).capsule()

    class Hidden:
        def __getattr__(self, name):
            raise RuntimeError(f"no {name} here")

    cases = [
        ({}, "__dlpack__ returned NoneType; expected a DLPack capsule"),
        ({"device": None}, "not subscriptable"),
        ({"device": ("cpu",)}, "invalid literal"),
        ({"device": ()}, "out of range"),
        ({"capsule": BufferError("that requires grad, use .detach()")}, "that requires grad, use .detach()"),
        ({"capsule": TypeError("something else")}, "something else"),
    ]
    for fields, message in cases:
        rude = Rude()
        vars(rude).update(fields)
        with pytest.raises(og.ArgumentError, match="input 'x': Rude gives no array: ") as caught:
            as_array("x", rude)
        assert message in str(caught.value)
    for value in (NoDevice(), Hidden(), Rude, Producer):
        with pytest.raises(og.ArgumentError, match=f"input 'x': {type(value).__name__} gives no array"):
            as_array("x", value)


def test_rejects_a_lazy_negative_bit():
    class Negated(Producer):
        def is_neg(self):
            return True

    with pytest.raises(og.ArgumentError, match=r"negative bit is set; pass tensor\.resolve_neg\(\)"):
        as_array("x", Negated(numbers()))
    Negated.is_neg = lambda self: False
    assert as_array("x", Negated(numbers())).tolist() == numbers().tolist()


def test_only_one_thread_gets_a_capsule():
    for _ in range(20):
        producer, found, refused = Fixed(numbers()), [], []
        producer.kept = producer.capsule()
        start = threading.Barrier(4)

        def take(producer=producer, found=found, refused=refused, start=start):
            start.wait()
            try:
                found.append(as_array("x", producer))
            except og.ArgumentError as error:
                refused.append(error)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(found), len(refused)) == (1, 3)
        found.clear()
        assert producer.deleted == 1


def test_another_consumer_may_take_the_capsule_first():
    moment, found = 0, ["numpy"]
    while found == ["numpy"]:  # until the import is complete before that moment
        producer, found, moment = Fixed(numbers()), [], moment + 1
        steps = itertools.count()

        def watch(frame, event, argument, *, producer=producer, found=found, moment=moment, steps=steps):
            frame.f_trace_opcodes = frame.f_code.co_name == "_take"
            if event == "opcode" and next(steps) == moment:
                with contextlib.suppress(BufferError, ValueError):
                    found.append(np.from_dlpack(producer) is None or "numpy")
            return watch

        before = sys.gettrace()
        sys.settrace(watch)
        try:
            with contextlib.suppress(og.ArgumentError):
                found.append(as_array("x", producer) is None or "ours")
        finally:
            sys.settrace(before)
        assert len(found) == 1, f"moment {moment}"
    assert moment > 10


def test_numpy_as_a_producer():
    data = numbers()
    found = as_array("x", Wrapped(data))
    assert address(found) == address(data)
    assert np.array_equal(as_array("x", Wrapped(data[:, ::2].T)), data[:, ::2].T)


def test_arrays_may_outlive_the_interpreter():
    code = """
import atexit, sys
sys.path.insert(0, "tests")
from onegraph.arrays.ndarrays import as_array
from helpers.dlpack_producers import Wrapped, numbers
class Holder:
    pass
holder = Holder()
holder.me, holder.array = holder, as_array("x", Wrapped(numbers()))
capsule = numbers().__dlpack__()
class Kept:
    def __dlpack__(self, **options):
        return capsule
    def __dlpack_device__(self):
        return 1, 0
from_capsule = as_array("x", Kept())
kept = as_array("x", Wrapped(numbers()))
sys.kept = as_array("x", Wrapped(numbers()))
atexit.register(print, as_array("x", Wrapped(numbers())))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    assert done.stdout.split() == ["[[0.", "1.", "2.]", "[3.", "4.", "5.]]"]
    assert done.stderr == ""


def test_destructor_may_import_during_another_import():
    """The garbage collector may run wherever objects are created; a lock there would deadlock its thread."""
    code = """
import faulthandler, gc, sys
sys.path.insert(0, "tests")
from onegraph.arrays import dlpack
from onegraph.arrays.dlpack import from_dlpack
from helpers.dlpack_producers import Wrapped, numbers
faulthandler.dump_traceback_later(20, exit=True)
passed = 0
class Cycle:
    def __init__(self):
        self.own = self
    def __del__(self):
        global passed
        gc.disable()
        passed += from_dlpack(Wrapped(numbers())).size
        gc.enable()
for step in range(4000):
    gc.set_threshold(1 + step % 13, 2, 2)
    Cycle()
    objects = [[] for _ in range(step % 9)]  # so that it comes sooner and later
    from_dlpack(Wrapped(numbers()))
assert passed > 6 * 1000, passed
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


# Buffer import --------------------------------------------------------------------------------------------------------

BUFFERS = {
    "f": (array.array("f", [1, 2]), np.float32),
    "i": (array.array("i", [1, 2]), np.int32),
    "b": (array.array("b", [1, 2]), np.int8),
    "B": (array.array("B", [1, 2]), np.uint8),
    "d": (array.array("d", [1, 2]), np.float64),
    "q": (array.array("q", [1, 2]), np.int64),
    "h": (array.array("h", [1, 2]), np.int16),
    "bytes": (b"\1\2", np.uint8),
    "bytearray": (bytearray(b"\1\2"), np.uint8),
    "e": (memoryview(np.float16([1, 2])), np.float16),
    "?": (memoryview(b"\1\0").cast("?"), np.bool_),
    "<f": ((ctypes.c_float * 2)(1, 2), np.float32),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_imports_buffers_by_their_format(name):
    value, dtype = BUFFERS[name]
    found = as_array("x", value)
    assert found.dtype == dtype
    assert found.tolist() == ([True, False] if name == "?" else [1, 2])
    assert np.shares_memory(found, np.frombuffer(value, np.uint8))
    assert found.flags.writeable == (name not in ("bytes", "?"))


def test_memoryviews_with_axes_and_strides():
    data = numbers(shape=(4, 6))
    found = as_array("x", memoryview(data)[::2])
    assert np.array_equal(found, data[::2])
    assert np.shares_memory(found, data)
    assert as_array("x", memoryview(b"\0\0\x80\x3f").cast("f").cast("B").cast("f", (1, 1))).tolist() == [[1]]
    assert as_array("x", memoryview(data.T)).strides == (4, 24)
    assert as_array("x", memoryview(b"")).shape == (0,)


def test_holds_the_buffer_while_its_array_lives():
    growing = array.array("f", [1, 2])
    found = as_array("x", growing)
    with pytest.raises(BufferError):
        growing.append(3)
    del found
    growing.append(3)


@pytest.mark.parametrize(
    "value",
    [memoryview(b"ab").cast("c"), memoryview(np.zeros(2, "f4,i4")), memoryview(np.zeros(2, "c8"))],
    ids=["c", "structured", "complex"],
)
def test_rejects_formats_that_are_not_numeric(value):
    with pytest.raises(og.ArgumentError, match=r"input 'x': memoryview gives no array: its format is '.*'; expected f"):
        as_array("x", value)


def test_rejects_a_released_memoryview():
    view = memoryview(b"ab")
    view.release()
    with pytest.raises(og.ArgumentError, match=r"input 'x': memoryview gives no array: .* released"):
        as_array("x", view)


@pytest.mark.parametrize(
    "value", [None, 1.5, [1.0], "text", object(), {"a": 1}, dict], ids=lambda value: str(type(value))
)
def test_rejects_objects_without_memory(value):
    with pytest.raises(og.ArgumentError, match=r"input 'x': \w+; expected a numpy array or anything with __dlpack__"):
        as_array("x", value)


def test_takes_numpy_arrays_without_a_wrapper(tmp_path):
    data = numbers()
    assert as_array("x", data) is data
    assert as_array("x", np.float32(3)).shape == ()
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(2, 3))
    assert np.shares_memory(as_array("x", mapped), mapped)
    assert type(as_array("x", mapped)) is np.ndarray
    with pytest.raises(og.ArgumentError, match="weights: a masked array"):
        array_of("weights", np.ma.ones(3))


# Inputs of an executable ----------------------------------------------------------------------------------------------


@pytest.mark.library
def test_graph_runs_on_tensors_and_buffers():
    data = np.float32([[-1, 2, -3], [4, -5, 6]])
    expected, model = np.maximum(data, 0), relu()
    shaped = memoryview(array.array("f", data.ravel())).cast("B").cast("f", (2, 3))
    for value in (Producer(data), OldProducer(data, versioned=False), Wrapped(data), memoryview(data), shaped):
        assert np.array_equal(model(value), expected)
    assert model.copies == 0
    columns = np.asfortranarray(data)
    for value in (Producer(columns), Wrapped(columns), memoryview(columns)):
        assert np.array_equal(model(value), expected)
    assert model.copies == 3
    declared = relu(strides=(1, 2))
    assert np.array_equal(declared(memoryview(columns)), expected)
    assert declared.copies == 0


@pytest.mark.library
def test_rejects_wrong_data_type_or_shape():
    with pytest.raises(og.ArgumentError, match="input 'x': data type float64; expected f32"):
        relu()(Producer(numbers(np.float64)))
    with pytest.raises(og.ArgumentError, match="input 'x': data type int64; expected f32"):
        relu()(memoryview(numbers(np.int64)))
    with pytest.raises(og.ArgumentError, match=r"input 'x': shape \[6\]; expected \[2, 3\]"):
        relu()(array.array("f", range(6)))


def test_error_says_how_to_convert_the_data_type():
    assert cast_to(og.bf16, np.zeros(3)) == "convert it with .astype(ml_dtypes.bfloat16)"
    assert cast_to(og.f32, Producer(numbers(np.float64))) == "convert it to f32 first"
    for dtype in og.DataType:
        assert np.dtype(eval(numpy_name(dtype), {"np": np, "ml_dtypes": ml_dtypes})) == dtype.numpy


# Outputs --------------------------------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize("make", [Producer, Wrapped, memoryview, lambda data: OldProducer(data, versioned=False)])
def test_writes_results_into_given_memory(make):
    memory = np.zeros((2, 3), np.float32)
    target = check_output("y", og.f32, (2, 3), None, make(memory))
    assert address(target) == address(memory)
    result = relu()(numbers(), out=[make(memory)])
    assert memory.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert address(result) == address(memory)
    memory[...] = 0
    run = relu().bind(x=numbers(), y=make(memory))
    run.run()
    assert memory.tolist() == [[0, 1, 2], [3, 4, 5]]


class Boastful(np.ndarray):
    """An array subclass that lies about its properties."""

    dtype, shape, nbytes = np.dtype(np.float32), (2, 3), 24
    flags = np.zeros((2, 3), np.float32).flags

    def __array_finalize__(self, other):
        pass


class Long(list):
    """A list that claims to have two elements."""

    def __len__(self):
        return 2


@pytest.mark.library
def test_ignores_overridden_attributes_of_output_arrays():
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 3))
    graph.output("y", graph.relu(x))
    graph.output("z", graph.exp(x))
    both, one = graph.compile(), relu()
    tiny = np.zeros(2, np.float32).view(Boastful)
    for call in (
        lambda: one(numbers(), out=tiny),
        lambda: one.bind(x=numbers(), y=tiny),
        lambda: both(numbers(), out=[tiny, tiny]),
    ):
        with pytest.raises(og.ArgumentError, match=r"output 'y': shape \[2\]; expected \[2, 3\]"):
            call()
    with pytest.raises(og.ArgumentError, match="expected 2 arrays in the order y, z"):
        both(numbers(), out=Long())
    target = np.zeros((2, 3), np.float32).view(Boastful)
    one(numbers(), out=target)
    np.testing.assert_array_equal(np.asarray(target), np.maximum(numbers(), 0))


@pytest.mark.library
def test_returns_the_given_output_array(tmp_path):
    memory = np.zeros((2, 3), np.float32)
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(2, 3))
    assert check_output("y", og.f32, (2, 3), None, memory) is memory
    assert relu()(numbers(), out=memory) is memory
    assert relu()(numbers(), out=mapped) is mapped


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Producer(numbers(), flags=1), "read-only"),
        (memoryview(bytes(24)).cast("f", (2, 3)), "read-only"),
        (np.broadcast_to(np.float32(0), (2, 3)), "not C-contiguous"),
        (Producer(numbers(), strides=(1, 2)), "not C-contiguous"),
        (memoryview(numbers(shape=(3, 2)).T), "not C-contiguous"),
        (Producer(numbers(shape=(3, 3)), shape=(2, 3), strides=None, byte_offset=1), "not aligned to 4 bytes"),
        (Producer(numbers(np.float64)), "data type float64; expected f32, numpy's float32"),
        (Producer(numbers(np.uint16), code=4), "data type bfloat16; expected f32"),
        (Producer(numbers(shape=(3, 2))), r"shape \[3, 2\]; expected \[2, 3\]"),
        (array.array("f", range(6)), r"shape \[6\]; expected \[2, 3\]"),
        (Producer(numbers(), device=2), "Producer gives no array: .* CUDA"),
        (np.float32(1), "float32; expected an array: scalars cannot be written"),
        (np.ma.zeros((2, 3), np.float32), "a masked array"),
        ([[0.0] * 3] * 2, "list; expected a numpy array"),
        (None, "NoneType; expected a numpy array"),
    ],
)
def test_rejects_memory_that_cannot_be_written(value, message):
    with pytest.raises(og.ArgumentError, match=f"^output 'y': {message}"):
        check_output("y", og.f32, (2, 3), None, value)
    if isinstance(value, Producer):
        gc.collect()
        assert value.deleted == len(value.asked)


# Aligned memory -------------------------------------------------------------------------------------------------------

SHAPES = [(), (1,), (5,), (16, 16), (3, 5), (0, 4), (4, 0), (1, 1, 7), (64, 64), (65, 64), (1000, 33), (2,) * 12]


@pytest.mark.parametrize("dtype", ["f4", "i1", "?", ml_dtypes.bfloat16, ml_dtypes.int4, "f8"], ids=str)
@grouped("shape", SHAPES, key=lambda _: "shapes")
def test_aligned_empty_allocates_aligned_memory(shape, dtype):
    dtype = np.dtype(dtype)
    made = [aligned_empty(shape, dtype) for _ in range(70)]
    for found in made:
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape) == (dtype, shape)
        assert address(found) % 64 == 0
        assert found.flags.c_contiguous
        assert found.flags.aligned
        assert found.flags.writeable
    if made[0].size:
        ranges = sorted((address(found), address(found) + found.nbytes) for found in made)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(ranges))
    for index, found in enumerate(made):
        found[...] = index % 2
    assert all((found.astype(int) == index % 2).all() for index, found in enumerate(made))


def test_rejects_more_memory_than_available():
    for shape in ((2**58,), (2**30, 2**31), (0, 2**62)):
        with pytest.raises(og.errors.OutOfMemoryError, match="bytes for shape"):
            aligned_empty(shape, np.dtype(np.float32))


# torch ----------------------------------------------------------------------------------------------------------------


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for dtype, given in ((og.f32, torch.float32), (og.bf16, torch.bfloat16), (og.f16, torch.float16)):
        x = torch.tensor([[-1.0, 2, -3], [4, -5, 6]]).to(given)
        y = torch.zeros(2, 3, dtype=given)
        model = relu(dtype=dtype)
        assert address(as_array("x", x)) == x.data_ptr()
        assert address(check_output("y", dtype, (2, 3), None, y)) == y.data_ptr()
        result = model(x, out=[y])
        assert address(result) == y.data_ptr()
        assert torch.equal(y, x.relu())
        assert model.copies == 0
        assert np.array_equal(model(x.T.contiguous().T), result)
        assert model.copies == 1
    assert as_array("x", torch.tensor([True, False])).tolist() == [True, False]
    refused = {
        r"requires? grad.*detach\(\)": torch.zeros(2, requires_grad=True),
        "meta": torch.zeros(2, device="meta"),
        r"resolve_neg\(\)": torch.ones(2)._neg_view(),
        "layout": torch.zeros(2).to_sparse(),
    }
    for message, tensor in refused.items():
        with pytest.raises(og.ArgumentError, match=f"input 'x': Tensor gives no array: .*{message}"):
            as_array("x", tensor)


# Given to other libraries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16, og.s8, og.s32, og.boolean, og.f8_e4m3, og.f8_e5m2, og.e8m0])
def test_as_dlpack_keeps_type_memory_and_strides(dtype):
    array = np.arange(12).astype(dtype.numpy).reshape(3, 4)[:, ::2]
    found = from_dlpack(og.as_dlpack(array))
    assert (found.dtype, found.shape, found.strides) == (array.dtype, array.shape, array.strides)
    assert found.ctypes.data == array.ctypes.data
    assert og.as_dlpack(array).__dlpack_device__() == (1, 0)


def test_as_dlpack_keeps_the_memory_alive():
    array = np.ones(4, og.bf16.numpy)
    watch = weakref.ref(array)
    found = from_dlpack(og.as_dlpack(array))
    del array
    gc.collect()
    assert watch() is not None or found.astype(np.float32).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], "as_dlpack: list; expected a numpy array"),
        (np.zeros(2, og.s4.numpy), "as_dlpack: an array of int4; expected numbers of whole bytes"),
        (np.array(["a"]), "as_dlpack: an array of <U1; expected numbers of whole bytes"),
    ],
)
def test_as_dlpack_refuses_what_dlpack_lacks(value, message):
    with pytest.raises(og.ArgumentError) as caught:
        og.as_dlpack(value)
    assert str(caught.value) == message


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_bf16_goes_to_torch_and_back_without_a_copy():
    import torch

    g = og.Graph()
    g.output("y", g.input("x", og.bf16, (2, 3)) + g.constant(torch.ones(3, dtype=torch.bfloat16)))
    model, x = g.compile(), torch.arange(6).reshape(2, 3).bfloat16()
    y = model(x)
    back = torch.from_dlpack(og.as_dlpack(y))
    assert torch.equal(back, x + 1)
    assert back.data_ptr() == y.ctypes.data
