"""Builds a graph from the records of a file.

Ops are sorted so that each comes after the producers of its inputs, and each op is checked as in the builder. Contents
of the file that a graph cannot store are kept in :class:`FileOrigin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..builder.signature_cache import signature
from ..errors import NOTE, FormatError, SpecError, Violation, shown
from ..inference.infer import infer_op
from ..inference.lenient import LenientInference
from ..inference.suggestions import unknown_op
from ..inference.violations import Violations
from ..ir.file_origin import FileOrigin
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, DEFAULT, Edition, base_of, edition
from ..opset.schema import Schema, TensorType
from ..opset.shapes import compatible, has_gaps, known_dims, merge, show
from ..opset.signature import AttrValue, Shape
from .document import Document, OpForm, TensorForm, of_shape
from .names import Names
from .structure import agreed_shape, agreed_type, declared_strides, ordered, producers, useful_strides

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

# Attributes that the library adds to the graphs it dumps.
LIBRARY_ATTRIBUTES = frozenset({"partition_id", "backend", "op_depth", "matched"})
OUTPUT_SHAPE = "output_shape"  # the rule of inference.op_inference
FOLLOWS = "which follows from the inputs"
NOT_PRODUCED = "a tensor that ops read and none produces"


def build(graph: DataGraph, doc: Document, names: Names, data: Mapping[int, Array]) -> None:
    """Fill an empty graph.

    Args:
        graph: the empty graph. If it is strict, every breach of the specification is refused; otherwise breaches that
            the library accepts are allowed.
        doc: the records of the file.
        names: names and editions of tensors and ops.
        data: contents of constants, by tensor id.

    Raises:
        FormatError: the connections between ops are invalid, or a kind is unknown.
        SpecError: an op breaks the specification.
    """
    _Building(graph, doc, names, data).run()


class _Building:
    def __init__(self, graph: DataGraph, doc: Document, names: Names, data: Mapping[int, Array]) -> None:
        self.graph, self.found, self.names, self.data = graph, doc, names, data
        self.producers = producers(doc.ops)
        self.uses: dict[int, list[TensorForm]] = {}
        for op in doc.ops:
            for use in (*op.inputs, *op.outputs):
                self.uses.setdefault(use.id, []).append(use)
        self.typed = {use.id for op in doc.ops if op.kind != "Wildcard" for use in (*op.inputs, *op.outputs)}
        wanted = {number for number, _ in (*names.inputs, *(names.outputs or ()))}
        for use in names.tensors:
            # A constant that no op reads and that has no contents is skipped.
            if use.id in data or use.id in wanted or use.id not in names.constants:
                self.uses.setdefault(use.id, []).append(use)
        self.input_names = dict(names.inputs)
        self.taken = {name for _, name in (*names.inputs, *(names.outputs or ()))}
        self.tensors: dict[int, LogicalTensor] = {}
        self.notes: list[Violation] = []
        self.errors: list[Violation] = []
        self.repeated: dict[str, int] = {}  # op name -> last number that was added to make it unique

    def run(self) -> None:
        """Create inputs and constants, then ops, then outputs."""
        for uses in self.uses.values():
            agreed_type(uses)
        for number in self._input_ids():
            self._input(number)
        order = ordered(self.found.ops, self.producers)
        for index in order:
            try:
                self._op(self.found.ops[index])
            except FormatError:
                if not self.errors:
                    raise
                break  # an op before this one has errors, which come first
        if self.errors:
            raise SpecError(self.errors)
        for name, number, where in self._outputs():
            if number not in self.tensors:
                raise FormatError(where, f"tensor {number}", "a tensor of an op")
            self.graph._outputs[name] = self._output(name, number, where)
        by_id = {self.tensors[number].id: following for number, following in self.names.variables.items()}
        self.graph._next = {name: by_id[self.graph._inputs[name].id] for name in self.graph._initial}
        self.graph._next = {name: following for name, following in self.graph._next.items() if following}
        places = {index: place for place, index in enumerate(order)}
        self.graph._file = FileOrigin(
            self.found.raw,
            tuple(places[index] for index in range(len(order))),
            {tensor.id: number for number, tensor in self.tensors.items()},
            len(self.graph._ops),
            tuple(self.graph._outputs),
            tuple(self.notes),
        )

    # Inputs and outputs -----------------------------------------------------------------------------------------------

    def _input_ids(self) -> list[int]:
        """Ids of tensors that no op produces: first in port order, the others in order of first use.

        The library lists a port once for each op that reads it, and an edited dump may lack ports.
        """
        named = [number for number, _ in self.names.inputs]
        for index, number in enumerate(named):
            if number not in self.uses or number in self.producers:
                raise FormatError(f"onegraph.inputs[{index}]", f"tensor {number}", NOT_PRODUCED)
        return [
            number
            for number in dict.fromkeys([*named, *(self.found.input_ports or ()), *self.uses])
            if number in self.uses and number not in self.producers
        ]

    def _input(self, number: int) -> None:
        uses = self.uses[number]
        dtype, shape = self._dtype(uses), self.names.shape(number, agreed_shape(uses[0].shape, uses[0], uses))
        value = self.data.get(number)
        name = self.input_names.get(number, "")
        is_variable = number in self.names.variables and value is not None
        if value is not None and not is_variable:
            name = self.names.constants.get(number) or name or f"t{number}"
            tensor = self.graph._tensor(dtype, value.shape, name, None, value)
        else:
            name = name or self._unnamed(number)
            if name in self.graph._inputs:
                raise FormatError("onegraph.inputs", f"the name {shown(name)} twice", "each name once")
            tensor = self.graph._inputs[name] = self.graph._tensor(
                dtype, shape, name, useful_strides(declared_strides(uses), shape)
            )
            if any(use.property == "constant" for use in uses):
                self.graph._constant_inputs.add(name)
            if is_variable:
                assert value is not None
                self.graph._initial[name] = value
        self.tensors[number] = tensor

    def _output(self, name: str, number: int, where: str) -> LogicalTensor:
        """A graph output with the strides of the file; strides with gaps are ignored, as they may need much memory."""
        tensor = self.tensors[number]
        if name in self.names.strides:
            declared = of_shape(self.names.strides[name], f"{where}.stride", tensor.shape)
        elif number in self.producers:
            declared = declared_strides([use for use in self.uses[number] if compatible(use.shape, tensor.shape)])
        else:
            return tensor
        strides = useful_strides(declared, tensor.shape)
        gaps = strides is not None and has_gaps(known_dims(tensor.shape), strides)
        return tensor._laid_out(None if gaps else strides)

    def _unnamed(self, number: int) -> str:
        """A free name for an input that has none in the file, such as a constant without data."""
        name = f"t{number}"
        while name in self.taken:
            name += "_"
        return name

    def _outputs(self) -> Iterable[tuple[str, int, str]]:
        """Name, tensor id and JSON path of each graph output."""
        if self.names.outputs is not None:
            for index, (number, name) in enumerate(self.names.outputs):
                where = f"onegraph.outputs[{index}]"
                if name in self.graph._inputs or name in self.graph._outputs:
                    raise FormatError(where, f"the name {shown(name)} twice", "each name once")
                yield name, number, where
            return
        ports = [number for number in self.found.output_ports or () if number in self.tensors]
        ended = {use.id for op in self.found.ops if not op.outputs for use in op.inputs}
        read = {use.id for op in self.found.ops if op.outputs for use in op.inputs}
        left = [n for n in self.uses if n in self.producers and (n in ended or (not ports and n not in read))]
        for index, number in enumerate(dict.fromkeys((*ports, *left))):
            name = f"t{number}"
            while name in self.graph._inputs:
                name += "_out"
            yield name, number, f"output_ports[{index}]"

    def _dtype(self, uses: Sequence[TensorForm]) -> DataType:
        for use in uses:
            if use.dtype is not None:
                return use.dtype
        # Only tensors of Wildcards may have no data type; f32 is a placeholder.
        if uses[0].id in self.typed:
            raise FormatError(f"{uses[0].where}.dtype", "'undef'", "a data type")
        return DataType.f32

    # Ops --------------------------------------------------------------------------------------------------------------

    def _op(self, form: OpForm) -> None:
        chosen, schema, attrs = self._read(form)
        inputs = [self.tensors[use.id] for use in form.inputs]
        outputs = [TensorType(self._dtype(self.uses[use.id]), use.shape) for use in form.outputs]
        name = self.names.op(form.id).name or form.name or f"{schema.name}_{len(self.graph._ops)}"
        label = self._label(name)
        by = None if self.graph.strict else LenientInference
        checked = infer_op(schema.kind, attrs, inputs, outputs, edition=chosen, name=label, by=by)
        errors = list(checked.errors)
        stale = [error for error in errors if error.rule == OUTPUT_SHAPE and not self.graph.strict]
        self.errors += [
            replace(error, message=f"{form.where}: {error.message}") for error in errors if error not in stale
        ]
        if self.errors:  # the ops behind are checked too, with the types and shapes that the file gives
            self._results_of_file(form, label)
            return
        self.notes += [_as_note(error, form.where) for error in stale]
        kept: Mapping[str, AttrValue] = dict(checked.attrs or {})
        shapes, known = checked.shapes, None
        if not errors:  # share one signature between equal ops, as the builder does, so that they compile only once
            dtypes = tuple([tensor.dtype for tensor in outputs if tensor.dtype is not None])
            lenient = not self.graph.strict
            like = signature(
                chosen, schema.kind, attrs, inputs, name=label, n_outputs=len(outputs), dtypes=dtypes, lenient=lenient
            )
            known = None if like.lenient else like
        if known is not None:
            kept = known.attrs
        results = []
        for index, use in enumerate(form.outputs):
            port = schema.outputs[min(index, len(schema.outputs) - 1)].name
            noted = Violations(chosen, f"{schema.kind} {label!r}")
            shape = self._shape(shapes[index], use, noted, port)
            dtype = outputs[index].dtype
            assert dtype is not None
            self.tensors[use.id] = self.graph._tensor(dtype, shape, f"{label}.{port}")
            results.append(self.tensors[use.id])
        number = next(self.graph._op_ids)
        self.graph._append(Op(number, schema.kind, tuple(inputs), tuple(results), kept, label, chosen.name, known))

    def _results_of_file(self, form: OpForm, label: str) -> None:
        """Make the outputs of an op as the file has them, because an error hides what would be inferred."""
        self.graph._names[label] = 0  # taken; the graph is never used
        for index, use in enumerate(form.outputs):
            shape = self.names.shape(use.id, agreed_shape(use.shape, use, self.uses[use.id]))
            self.tensors[use.id] = self.graph._tensor(self._dtype(self.uses[use.id]), shape, f"{label}.{index}")

    def _label(self, name: str) -> str:
        """``name`` if no other op has it, else ``name`` with a number."""
        label = name
        while label in self.graph._names:
            self.repeated[name] = self.repeated.get(name, 0) + 1
            label = f"{name}_{self.repeated[name]}"
        return label

    def _read(self, form: OpForm) -> tuple[Edition, Schema, dict[str, object]]:
        """The edition that defines the op, its schema, and its attributes as a user would give them."""
        record = self.names.op(form.id)
        if record.edition:
            editions = [edition(record.edition)]
        else:
            editions = [edition(self.graph.edition), edition(DEFAULT), edition("legacy-1")]
        candidates = [
            (candidate, schema) for candidate in editions if (schema := candidate.schema(form.kind)) is not None
        ]
        if not record.edition and not any(candidate.name != "legacy-1" for candidate, _ in candidates):
            # The file may use an op name of legacy-1 with attribute names of the newest edition.
            candidates += [
                (edition(DEFAULT), BASE[base_of(schema).kind]) for _, schema in candidates if schema.dialect is not None
            ]
        if not candidates:
            fix = unknown_op(editions[0], form.kind)
            raise FormatError(f"{form.where}.kind", shown(form.kind), f"an op{'; ' if fix else ''}{fix}")
        names = [name for name in form.attrs if name not in LIBRARY_ATTRIBUTES]
        chosen, schema = next(
            ((candidate, schema) for candidate, schema in candidates if all(map(schema.has_attribute, names))),
            candidates[0],
        )
        attrs: dict[str, object] = {name: form.attrs[name][1] for name in names}
        attrs.update({name: value for name, value in record.attrs.items() if name in attrs})
        padding = attrs.get("output_padding")
        if isinstance(padding, list) and len(padding) == 12 and not any(padding):
            # The library's default: 12 zeros, which is longer than any op needs.
            del attrs["output_padding"]
        return chosen, schema, attrs

    def _shape(self, inferred: Shape, use: TensorForm, noted: Violations, port: str) -> Shape:
        """The shape of an output: inferred from the inputs, with unknown dims taken from any use in the file.

        Readers with another shape than the inferred one are added to the notes, unless the graph is strict.
        """
        shape = merge(inferred, use.shape) if compatible(inferred, use.shape) else inferred
        uses = self.uses[use.id]
        if not self.graph.strict:
            stale = [other for other in uses if other is not use and not compatible(inferred, other.shape)]
            uses = [other for other in uses if other not in stale]
            for error in stale:
                noted.add(OUTPUT_SHAPE, port, show(error.shape), f"{show(inferred)}, {FOLLOWS}")
                self.notes.append(_as_note(noted.violations[-1], error.where))
        return self.names.shape(use.id, agreed_shape(shape, use, uses))


def _as_note(error: Violation, where: str) -> Violation:
    """The note that the file has another shape than the inferred one, which the graph has."""
    return replace(error, severity=NOTE, message=f"{where}: {error.message} and is taken")
