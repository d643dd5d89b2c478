"""Converts data types and tensors of ONNX."""

from __future__ import annotations

from ...errors import FormatError
from ...opset.dtypes import DataType
from .protos import TensorProto

DTYPES = {
    TensorProto.FLOAT: DataType.f32,
    TensorProto.FLOAT16: DataType.f16,
    TensorProto.BFLOAT16: DataType.bf16,
    TensorProto.DOUBLE: DataType.float64,
    TensorProto.INT8: DataType.s8,
    TensorProto.UINT8: DataType.u8,
    TensorProto.INT16: DataType.int16,
    TensorProto.UINT16: DataType.uint16,
    TensorProto.INT32: DataType.s32,
    TensorProto.UINT32: DataType.uint32,
    TensorProto.INT64: DataType.s64,
    TensorProto.UINT64: DataType.uint64,
    TensorProto.BOOL: DataType.boolean,
    TensorProto.INT4: DataType.s4,
    TensorProto.UINT4: DataType.u4,
    TensorProto.FLOAT8E4M3FN: DataType.f8_e4m3,
    TensorProto.FLOAT8E5M2: DataType.f8_e5m2,
    TensorProto.FLOAT8E4M3FNUZ: DataType.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2FNUZ: DataType.float8_e5m2fnuz,
    TensorProto.FLOAT4E2M1: DataType.f4_e2m1,
    TensorProto.FLOAT8E8M0: DataType.e8m0,
    getattr(TensorProto, "INT2", -1): DataType.int2,
    getattr(TensorProto, "UINT2", -2): DataType.uint2,
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items() if number >= 0}


def data_type(number: int, where: str) -> DataType:
    """The data type that ONNX gives this number.

    Raises:
        FormatError: tensors of a graph have no such type.
    """
    if number not in DTYPES:
        name = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else str(number)
        raise FormatError(where, f"data type {name}", f"one of {', '.join(sorted(map(str, NUMBERS)))}")
    return DTYPES[number]
