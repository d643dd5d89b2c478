"""Adds many ops to a C graph in one call: equal ops share a template, which is checked once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..inference.lenient import LenientInference
from ..native.library import call, ffi, lib, status_error
from ..opset.editions.registry import BASE
from ..opset.schema import TensorType
from ..opset.signature import AttrValue
from .logical_tensor import LogicalTensor
from .op import CODES, SETTERS, Op, c_name, setting_of
from .op_checks import check_use, checked_shapes, refuse_newer

_TENSORS = ffi.typeof("dnnl_graph_logical_tensor_t[]")


class OpTemplate:
    """The kind and attributes of equal ops, converted to C once.

    The constructor checks nothing: use it only for ops that the loaded library is known to compute right, such as the
    parts of a form; use ``checked`` otherwise.

    Args:
        kind: name in the specification of an op that the library has.
        attrs: attributes as they are stored.
    """

    __slots__ = ("_settings_in_c", "attrs", "in_c", "schema", "settings")

    def __init__(self, kind: str, attrs: Mapping[str, AttrValue]) -> None:
        self.schema, self.attrs = BASE[kind], dict(attrs)
        self.settings = tuple([setting_of(self.schema.attribute(key), value) for key, value in attrs.items()])
        in_c = [(s.number, SETTERS[s.kind][1], s.value, s.length) for s in self.settings]
        self._settings_in_c = ffi.new("onegraph_setting_t[]", in_c)
        self.in_c = ffi.new("onegraph_template_t *", (CODES[self.schema.name], len(in_c), self._settings_in_c))

    @classmethod
    def checked(
        cls,
        kind: str,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        name: str = "",
    ) -> OpTemplate:
        """A template of ops that are checked here.

        Args:
            kind, attrs: as for the constructor.
            inputs, outputs: the types of the tensors.
            name: text for messages.

        Raises:
            SpecError: the op breaks the specification.
            UnsupportedError: the library is too old, refuses the op, crashes on it or computes it wrong.
        """
        schema = BASE[kind]
        refuse_newer(schema)
        for attribute in attrs:
            refuse_newer(schema, attribute)
        pads = attrs.get("pads_end")
        # Negative padding comes from a graph that is not strict.
        if kind == "Convolution" and isinstance(pads, tuple) and any(pad < 0 for pad in pads):
            checked_shapes(schema, dict(attrs), name, inputs, outputs, LenientInference)
        else:
            check_use(schema, dict(attrs), name, inputs, outputs)
        return cls(kind, attrs)


class LazyOps(Mapping[int, Op]):
    """Ops by id; an Op object is made at its first access.

    Args:
        tensors: logical tensors that differ in more than their ids.
        places: by id of a tensor, the index in ``tensors`` of the logical tensor that is equal except for its id.
    """

    def __init__(self, tensors: Sequence[LogicalTensor], places: Mapping[int, int]) -> None:
        self._tensors, self._places = tensors, places
        self._structs = ffi.new(_TENSORS, [tensor._struct[0] for tensor in tensors])
        self._given: dict[int, tuple[OpTemplate, str, Sequence[int], Sequence[int]]] = {}
        self._made: dict[int, Op] = {}
        self.n_ids = 0  # number of ids of ops, inputs and outputs

    def add(self, template: OpTemplate, id: int, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Store an op without any checks.

        The caller guarantees: the template was checked for the types of these tensors, the id is new, every tensor is
        in ``places``, and no tensor has two producers.
        """
        self._given[id] = template, name, inputs, outputs
        self.n_ids += 1 + len(inputs) + len(outputs)

    def hand_over(self, graph: object, ids: Sequence[int]) -> dict[int, str]:
        """Add the stored ops with these ids to a C graph; returns the library's reason for each op that it refuses."""
        templates, places = [self._given[number] for number in ids], self._places
        counts: list[int] = []
        ends: list[int] = []
        for _, _, inputs, outputs in templates:
            counts += (len(inputs), len(outputs))
            ends += inputs
            ends += outputs
        names = b"".join([c_name(name) + b"\0" for _, name, _, _ in templates])
        statuses = ffi.new("int[]", len(templates))
        call(
            lib.onegraph_graph_add_ops,
            graph,
            len(templates),
            ffi.new("size_t[]", ids),
            ffi.new("onegraph_template_t *[]", [template.in_c for template, _, _, _ in templates]),
            names,
            ffi.new("size_t[]", counts),
            ffi.new("size_t[]", ends),
            ffi.new("size_t[]", [places[number] for number in ends]),
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
            template, name, *ends = self._given[id]
            tensors, places = self._tensors, self._places
            ins, outs = ([tensors[places[number]]._numbered(number) for number in numbers] for numbers in ends)
            self._made[id] = Op._of(template.schema, template.attrs, template.settings, id, name, ins, outs)
        return self._made[id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)
