"""The graph C API without the checks of onegraph.capi: structures built by hand, handles that nobody owns.

Only the guard of the extension stands before the library, so that a C++ exception, which would end the process of any
other caller, is :class:`ThrewError` here. Nothing is freed; run it in a process of its own.
"""

import numpy as np

from onegraph.errors import STATUS_ERRORS
from onegraph.faults.capabilities import LIBRARY_VALUES
from onegraph.native.library import enum_value, ffi, lib
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE

UNKNOWN = -(2**63)
MAX_RANK = 12
GUARD = 64  # bytes before and after the memory of an output
FILL = 0x7F  # 3e38 as f32 and bf16: nothing that could pass for a result
STATUSES = {enum_value("", name): name for name in (*STATUS_ERRORS, "last_impl_reached", "not_required")}
POLICIES = {"fusion": lib.dnnl_graph_partition_policy_fusion, "debug": lib.dnnl_graph_partition_policy_debug}


class RefusedError(Exception):
    """A status other than success."""


class ThrewError(RefusedError):
    """A C++ exception: any caller but this one would have been terminated."""


class UnsupportedError(RefusedError):
    """The library says beforehand that it cannot compile the partition."""


def call(function, *arguments):
    status = function(*arguments)
    if status:
        what = ffi.string(lib.onegraph_what()).decode()
        if what:
            raise ThrewError(what)
        raise RefusedError(f"{function.__name__.removeprefix('dnnl_graph_')}: {STATUSES[status]}")


def made(function, ctype, *arguments):
    """What a call creates whose first argument is a pointer to it."""
    pointer = ffi.new(f"{ctype} *")
    call(function, pointer, *arguments)
    return pointer[0]


def told(function, ctype, *arguments):
    """What a call answers whose last argument is a pointer to it."""
    pointer = ffi.new(f"{ctype} *")
    call(function, *arguments, pointer)
    return pointer[0]


_kept = []  # structures that handles point to


def kept(thing):
    _kept.append(thing)
    return thing


def lt(number, dims=None, dtype="f32", *, layout="strided", strides=None, property="undef", layout_id=None):
    """A logical tensor; dims None is an unknown rank, a dim None an unknown dim."""
    struct = kept(ffi.new("dnnl_graph_logical_tensor_t *"))
    struct.id, struct.data_type = number, enum_value("", dtype)
    struct.layout_type = enum_value("graph_layout_type_", layout)
    struct.property = enum_value("graph_tensor_property_", property)
    struct.ndims = -1 if dims is None else len(dims)
    for axis in range(MAX_RANK):  # as the library's own dnnl_graph_logical_tensor_init leaves them
        struct.dims[axis] = struct.layout.strides[axis] = UNKNOWN
    for axis, dim in enumerate(dims or ()):
        struct.dims[axis] = UNKNOWN if dim is None else dim
    if layout_id is not None:
        struct.layout.layout_id = layout_id
    elif layout == "strided" and dims is not None:
        step = 1
        for axis in reversed(range(len(dims))):
            struct.layout.strides[axis] = step if strides is None else strides[axis]
            step *= max(UNKNOWN if dims[axis] is None else dims[axis], 1)
    return struct


def like(struct, number=None):
    """A copy of a logical tensor, with another id."""
    copy = kept(ffi.new("dnnl_graph_logical_tensor_t *", struct[0]))
    if number is not None:
        copy.id = number
    return copy


def op(kind, number, inputs=(), outputs=(), attrs=None):
    """An op; ``kind`` is a name of the specification or any number."""
    code = kind if isinstance(kind, int) else enum_value("graph_op_", BASE[kind].name)
    new = made(lib.dnnl_graph_op_create, "dnnl_graph_op_t", number, code, b"op")
    for tensor in inputs:
        call(lib.dnnl_graph_op_add_input, new, tensor)
    for tensor in outputs:
        call(lib.dnnl_graph_op_add_output, new, tensor)
    for name, value in (attrs or {}).items():
        set_attr(new, name, value)
    return new


def set_attr(new, name, value):
    code = enum_value("graph_op_attr_", name)
    if isinstance(value, str):
        word = LIBRARY_VALUES.get(name, {}).get(value, value).encode()
        call(lib.dnnl_graph_op_set_attr_str, new, code, word, len(word) + 1)
        return
    elements = list(value) if isinstance(value, (list, tuple)) else [value]
    real = name in ("scales", "alpha", "beta", "epsilon", "max", "min", "momentum")
    if isinstance(value, bool):
        call(lib.dnnl_graph_op_set_attr_bool, new, code, ffi.new("uint8_t[]", elements), 1)
    elif real:
        call(lib.dnnl_graph_op_set_attr_f32, new, code, ffi.new("float[]", elements), len(elements))
    else:
        call(lib.dnnl_graph_op_set_attr_s64, new, code, ffi.new("int64_t[]", elements), len(elements))


def graph(*ops, finalize=True):
    new = made(lib.dnnl_graph_graph_create, "dnnl_graph_graph_t", lib.dnnl_cpu)
    for one in ops:
        call(lib.dnnl_graph_add_op, new, one)
    if finalize:
        call(lib.dnnl_graph_graph_finalize, new)
    return new


def partitions(of, policy="debug"):
    call(lib.dnnl_graph_graph_filter, of, POLICIES.get(policy, policy))
    count = told(lib.dnnl_graph_graph_get_partition_num, "size_t", of)
    if not count:
        return []
    found = ffi.new("dnnl_graph_partition_t[]", count)
    call(lib.dnnl_graph_graph_get_partitions, of, count, found)
    return list(found)


def op_ids(partition):
    count = told(lib.dnnl_graph_partition_get_op_num, "size_t", partition)
    ids = ffi.new("size_t[]", count)
    call(lib.dnnl_graph_partition_get_ops, partition, count, ids)
    return list(ids)


def ports(partition, side):
    count = told(getattr(lib, f"dnnl_graph_partition_get_{side}_ports_num"), "size_t", partition)
    structs = kept(ffi.new("dnnl_graph_logical_tensor_t[]", count))
    if count:
        call(getattr(lib, f"dnnl_graph_partition_get_{side}_ports"), partition, count, structs)
    return [kept(ffi.addressof(structs, index)) for index in range(count)]


_default = []


def engine(allocator=None):
    if allocator is not None:
        make = lib.dnnl_graph_make_engine_with_allocator
        return made(make, "dnnl_engine_t", lib.dnnl_cpu, 0, allocator)
    if not _default:
        _default.append(made(lib.dnnl_engine_create, "dnnl_engine_t", lib.dnnl_cpu, 0))
    return _default[0]


def stream(on=None):
    return made(lib.dnnl_stream_create, "dnnl_stream_t", on or engine(), lib.dnnl_stream_default_flags)


def compile_(partition, inputs, outputs, on=None, compiled=None):
    if compiled is None:
        if not told(lib.dnnl_graph_partition_is_supported, "uint8_t", partition):
            raise UnsupportedError("unsupported")
        compiled = made(lib.dnnl_graph_compiled_partition_create, "dnnl_graph_compiled_partition_t", partition)
    ins = kept(ffi.new("dnnl_graph_logical_tensor_t *[]", inputs))
    outs = kept(ffi.new("dnnl_graph_logical_tensor_t *[]", outputs))
    call(lib.dnnl_graph_partition_compile, partition, compiled, len(ins), ins, len(outs), outs, on or engine())
    return compiled


def query(compiled, number):
    struct = kept(ffi.new("dnnl_graph_logical_tensor_t *"))
    call(lib.dnnl_graph_compiled_partition_query_logical_tensor, compiled, number, struct)
    return struct


def size(struct):
    return told(lib.dnnl_graph_logical_tensor_get_mem_size, "size_t", struct)


def address(array):
    return ffi.cast("void *", kept(array).__array_interface__["data"][0])


def tensor(struct, data, on=None):
    """A tensor over an array, or over NULL for None."""
    place = ffi.NULL if data is None else address(data)
    new = made(lib.dnnl_graph_tensor_create, "dnnl_graph_tensor_t", struct, on or engine(), place)
    if data is None:  # creating it with NULL lets the library allocate where it can
        call(lib.dnnl_graph_tensor_set_data_handle, new, ffi.NULL)
    return new


def execute(compiled, inputs, outputs, on=None):
    ins = ffi.new("const_dnnl_graph_tensor_t[]", inputs)
    outs = ffi.new("const_dnnl_graph_tensor_t[]", outputs)
    queue = on or stream()
    call(lib.dnnl_graph_compiled_partition_execute, compiled, queue, len(ins), ins, len(outs), outs)
    call(lib.dnnl_stream_wait, queue)  # a SYCL library returns before it is done


def numpy_type(struct):
    return next(d.numpy for d in DataType if enum_value("", d.value) == struct.data_type)


def run(ops, feeds, policy="debug", outputs=None):
    """Arrays by id after every partition has run; outputs lie between guards, and are dense or as ``outputs`` says.

    Args:
        outputs: logical tensors to compile with, by id; the others have an unknown rank.
    """
    arrays, waiting, written = dict(feeds), partitions(graph(*ops), policy), False
    while waiting:
        ready = [p for p in waiting if all(port.id in arrays for port in ports(p, "input"))]
        assert ready, "partitions wait for each other"
        for partition in ready:
            waiting.remove(partition)
            inside = {port.id: port for port in ports(partition, "input")}
            ins = [_as_fed(port, arrays[port.id]) for port in inside.values()]
            outs = [(outputs or {}).get(port.id) or _unknown(port) for port in ports(partition, "output")]
            compiled = compile_(partition, ins, outs)
            found = [query(compiled, struct.id) for struct in outs]
            memory = [np.full(size(struct) + 2 * GUARD, FILL, np.uint8) for struct in found]
            execute(
                compiled,
                [tensor(struct, arrays[struct.id]) for struct in ins],
                [tensor(struct, data[GUARD:-GUARD]) for struct, data in zip(found, memory, strict=True)],
            )
            for struct, data in zip(found, memory, strict=True):
                dtype, rank = numpy_type(struct), struct.ndims
                strides = [step * dtype.itemsize for step in struct.layout.strides[0:rank]]
                arrays[struct.id] = np.ndarray(tuple(struct.dims[0:rank]), dtype, data, GUARD, strides)
                written |= bool((data[:GUARD] != FILL).any() or (data[-GUARD:] != FILL).any())
    if written:
        raise OverflowError("written beside the output")
    return arrays


def _as_fed(port, array):
    struct = like(port)
    struct.ndims = array.ndim
    for axis, (dim, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        struct.dims[axis], struct.layout.strides[axis] = dim, step // array.itemsize
    step = 1
    for axis in reversed(range(array.ndim)):
        if array.flags.c_contiguous:  # numpy's strides of an empty array, or of an axis of 1, may be anything
            struct.layout.strides[axis] = step
        step *= max(array.shape[axis], 1)
    struct.layout_type = lib.dnnl_graph_layout_type_strided
    return struct


def _unknown(port):
    struct = lt(port.id)
    struct.data_type = port.data_type
    return struct


def ops_of(built):
    """The raw ops of a graph of the builder that is written in base words, and the arrays of its constants."""
    made_ops, constants = [], {}
    for number, record in enumerate(built.ops):
        for one in record.inputs:
            if one is not None and one.value is not None:
                constants[one.id] = one.value
        ins = [_lt_of(one) for one in record.inputs if one is not None]
        outs = [_lt_of(one) for one in record.outputs]
        made_ops.append(op(record.kind, number + 1, ins, outs, dict(record.attrs)))
    return made_ops, constants


def _lt_of(record):
    property = "undef" if record.value is None else "constant"
    return lt(record.id, record.shape, record.dtype.value, strides=record.strides, property=property)
