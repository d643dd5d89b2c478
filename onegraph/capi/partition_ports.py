"""Asks the library which ops, inputs and outputs a partition has."""

from __future__ import annotations

from typing import Any

from ..native.library import call, ffi, lib, read
from .engine import ENGINE_KIND_NAMES
from .logical_tensor import LogicalTensor


class PartitionPorts:
    """What the library tells of a partition, by its pointer."""

    __slots__ = ()
    _ptr: Any
    _op_ids: tuple[int, ...]
    _input_ids: list[int]
    _output_ids: list[int]

    @property
    def id(self) -> int:
        """Number of the partition, unique in the process."""
        return int(read(lib.dnnl_graph_partition_get_id, "size_t", self._ptr))

    @property
    def ops(self) -> tuple[int, ...]:
        """Ids of the ops, in the library's order."""
        return self._op_ids

    @property
    def input_ports(self) -> list[LogicalTensor]:
        """The logical tensors of the inputs; a tensor that is read twice is listed twice."""
        return self._ports(lib.dnnl_graph_partition_get_input_ports_num, lib.dnnl_graph_partition_get_input_ports)

    @property
    def output_ports(self) -> list[LogicalTensor]:
        """The logical tensors of the outputs."""
        return self._ports(lib.dnnl_graph_partition_get_output_ports_num, lib.dnnl_graph_partition_get_output_ports)

    def _ports(self, count_of: Any, ports_of: Any) -> list[LogicalTensor]:
        count = int(read(count_of, "size_t", self._ptr))
        structs = ffi.new("dnnl_graph_logical_tensor_t[]", count)
        if count:
            call(ports_of, self._ptr, count, structs)
        return [LogicalTensor._of(struct) for struct in structs]

    @property
    def input_ids(self) -> list[int]:
        """Ids of ``input_ports``."""
        return [*self._input_ids]

    @property
    def output_ids(self) -> list[int]:
        """Ids of ``output_ports``."""
        return [*self._output_ids]

    @property
    def engine_kind(self) -> str:
        """Kind of engine that the partition can be compiled for."""
        return ENGINE_KIND_NAMES[read(lib.dnnl_graph_partition_get_engine_kind, "dnnl_engine_kind_t", self._ptr)]

    @property
    def supported(self) -> bool:
        """Whether the library can compile the partition."""
        return bool(read(lib.dnnl_graph_partition_is_supported, "uint8_t", self._ptr))
