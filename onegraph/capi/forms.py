"""Many ops at once: forms that were checked, as C arrays that a graph takes in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..native import call, ffi, lib, status_error
from .logical_tensor import LogicalTensor
from .op import Op, OpForm

_TENSORS = ffi.typeof("dnnl_graph_logical_tensor_t[]")


class Forms(Mapping[int, Op]):
    """Ops by their ids. They are objects from the moment on when somebody asks for them.

    Args:
        tensors: for each id of a tensor one that is the same but for the id.
    """

    def __init__(self, tensors: Mapping[int, LogicalTensor]) -> None:
        self._tensors = tensors
        self._structs = ffi.new(_TENSORS, len(tensors))
        self._places: dict[int, int] = {}
        for place, (number, alike) in enumerate(tensors.items()):
            self._structs[place] = alike._struct[0]
            self._structs[place].id = number
            self._places[number] = place
        self._given: dict[int, tuple[OpForm, str, Sequence[int], Sequence[int]]] = {}
        self._made: dict[int, Op] = {}
        self.n_ids = 0  # of ops, inputs and outputs

    def add(self, form: OpForm, id: int, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Note an op of a form that was checked for the types of these tensors: nothing is looked at again.

        The id is new; every tensor is one of those that are known here, and has one producer.
        """
        self._given[id] = form, name, inputs, outputs
        self.n_ids += 1 + len(inputs) + len(outputs)

    def hand_over(self, graph: object, ids: Sequence[int]) -> dict[int, str]:
        """Add ops that were noted to a C graph; returns the reasons for those that the library refuses."""
        given, places = [self._given[number] for number in ids], self._places
        counts: list[int] = []
        ports: list[int] = []
        for _, _, inputs, outputs in given:
            counts += (len(inputs), len(outputs))
            ports += [places[number] for number in (*inputs, *outputs)]
        names = "".join([name.replace("\0", "") + "\0" for _, name, _, _ in given]).encode(errors="replace")
        statuses = ffi.new("int[]", len(given))
        call(
            lib.onegraph_graph_add_ops,
            graph,
            len(given),
            ffi.new("size_t[]", ids),
            ffi.new("onegraph_form_t *[]", [form.in_c for form, _, _, _ in given]),
            names,
            ffi.new("size_t[]", counts),
            ffi.new("size_t[]", ports),
            self._structs,
            statuses,
        )
        refused = {}
        for number, status in zip(ids, statuses, strict=True):
            if status:
                refused[number] = str(status_error("dnnl_graph_add_op", status))
                del self._given[number]
        return refused

    def __getitem__(self, id: int) -> Op:
        if id not in self._made:
            form, name, *ends = self._given[id]
            ins, outs = ([self._tensors[number]._numbered(number) for number in numbers] for numbers in ends)
            self._made[id] = Op._of(form, id, name, ins, outs)
        return self._made[id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)
