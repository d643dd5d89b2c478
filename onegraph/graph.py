"""The op-builder: a graph from Python calls, with every shape inferred and every mistake reported at once."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import aligned_empty, owners
from .errors import ArgumentError, shown
from .memo import signature
from .methods import OpMethods
from .op import Array, LogicalTensor, Op, Signature
from .outputs import count_outputs, result_type
from .spec.dtypes import DataType
from .spec.editions import DEFAULT, Edition
from .spec.editions import edition as edition_named
from .spec.schema import Shape
from .spec.shapes import compatible, overlaps, show
from .tensor_types import MAX_RANK, as_shape

if TYPE_CHECKING:
    from .capi.partition import Partition
    from .executor import Executable
    from .serialize import Origin


class Graph(OpMethods):
    """A graph under construction. Nothing here needs the library; ``compile`` does.

    Ops are added by ``op``, in the words of any edition, or by one method for each op of the base vocabulary. Every
    call infers the shapes of its outputs, and checks the op against the specification before anything is changed.

    Args:
        edition: edition of the specification whose words ``op`` takes by default.
        strict: False takes ops too that the specification forbids and the library takes, as ``load`` does by default:
            negative ``pads_end``, and mixtures of floating-point types in binary ops, are among them.

    Raises:
        ArgumentError: there is no such edition, or ``strict`` is neither True nor False.
    """

    def __init__(self, edition: str = DEFAULT, *, strict: bool = True) -> None:
        if not isinstance(strict, bool):
            raise ArgumentError(f"strict: {shown(strict)}; expected True or False")
        self.edition, self.strict = edition_named(edition).name, strict
        self._ops: list[Op] = []
        self._tensors: list[LogicalTensor] = []
        self._inputs: dict[str, LogicalTensor] = {}
        self._outputs: dict[str, LogicalTensor] = {}
        self._names: set[str] = set()
        self._file: Origin | None = None  # what the file that it was loaded from says beyond this

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops, in the order in which they were added; every op stands after those that it reads from."""
        return tuple(self._ops)

    @property
    def inputs(self) -> Mapping[str, LogicalTensor]:
        """The graph inputs by name, in the order of the ``input`` calls."""
        return MappingProxyType(self._inputs)

    @property
    def outputs(self) -> Mapping[str, LogicalTensor]:
        """The graph outputs by name, in the order of the ``output`` calls."""
        return MappingProxyType(self._outputs)

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that the file calls constant and has no contents of; see ``with_constants``."""
        names = () if self._file is None else self._file.constants
        return tuple(name for name in names if name in self._inputs)

    def input(
        self, name: str, dtype: object, shape: object = None, *, strides: Sequence[int] | None = None
    ) -> LogicalTensor:
        """Declare a graph input.

        Args:
            name: unique among inputs and outputs; calls of the compiled graph use it.
            dtype: data type: ``og.f32``, ``"f32"``, a numpy or ml_dtypes type.
            shape: dims; None for an unknown dim, or as a whole for an unknown rank.
            strides: elements between neighbours along each axis, for data that is not dense row-major.

        Raises:
            ArgumentError: the name is taken, or the data type, shape or strides make no sense.
        """
        self._free_name(name)
        if name == "out":
            raise ArgumentError("name 'out' is the keyword that calls take their output arrays by; choose another")
        try:
            data_type, dims = DataType.of(dtype), as_shape(shape)
            steps = _input_strides(strides, dims)
        except ArgumentError as error:
            raise ArgumentError(f"input {name!r}: {error}") from None
        tensor = self._tensor(data_type, dims, name, steps)
        self._inputs[name] = tensor
        return tensor

    def constant(self, array: object, *, name: str = "", copy: bool = True) -> LogicalTensor:
        """Take an array as a constant, such as trained weights: the library prepares it once.

        Args:
            array: the contents. float64 and int64 arrays are refused; convert them first.
            name: text for reports.
            copy: True copies into aligned read-only memory; False keeps the caller's array and makes it read-only.
                Whoever makes that writable again and writes changes results, or not, as the library keeps copies.

        Raises:
            ArgumentError: it is no array, no logical tensor has its data type, or copy=False is asked for an array
                that cannot be kept: one that is not C-contiguous and aligned, or a view of memory that others write.
        """
        if not isinstance(copy, bool):
            raise ArgumentError(f"copy: {shown(copy)}; expected True or False")
        if not isinstance(array, (np.ndarray, np.generic)):
            raise ArgumentError(f"constant: {type(array).__name__}; expected a numpy array")
        values = np.asarray(array)
        dtype = DataType.of(values.dtype)
        if values.ndim > MAX_RANK:
            raise ArgumentError(f"constant: rank {values.ndim}; expected at most {MAX_RANK} dimensions")
        if not copy:
            _refuse_unfit(values)
        if copy:
            kept = aligned_empty(values.shape, values.dtype)
            kept[...] = values
        else:
            kept = values
        kept.flags.writeable = False
        number = len(self._tensors)
        watches = () if copy else tuple(weakref.ref(owner) for owner in owners(kept))
        return self._tensor(dtype, kept.shape, name or f"constant_{number}", None, kept, watches)

    def output(self, name: str, tensor: LogicalTensor) -> LogicalTensor:
        """Declare a graph output; returns ``tensor``.

        Raises:
            ArgumentError: the name is taken, or the tensor is of another graph.
        """
        self._free_name(name)
        self._own(tensor, "output")
        self._outputs[name] = tensor
        return tensor

    def op(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor | None] | LogicalTensor,
        attrs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> Any:
        """Add an op, in the words of an edition.

        Args:
            kind: the op, as the edition names it.
            inputs: tensors of this graph in port order; None skips an optional port where no later one is given.
            attrs: attributes; defaults may be left out.
            name: text for reports, unique; made from the kind by default.
            dtype: data type of the result, where the type table leaves it open.
            outputs: names of the optional output ports that are wanted; by default what the attributes imply.
            edition: the graph's edition by default.

        Returns:
            The tensor where the op has one output in this call, else a named tuple in port order.

        Raises:
            SpecError: the op breaks the specification; every violation is in it, and the graph is unchanged.
            ArgumentError: an input is of another graph, or the name, dtype or edition makes no sense.
        """
        chosen = edition_named(self.edition if edition is None else edition)
        tensors = self._op_inputs(inputs)
        schema = chosen.schema(kind) if isinstance(kind, str) else None
        label = self._op_name(str(kind) if schema is None else schema.name, name)
        wanted = None if dtype is None else DataType.of(dtype)
        count = None if schema is None or outputs is None else count_outputs(schema, outputs)
        lenient = not self.strict
        found = signature(chosen, kind, attrs, tensors, name=name or "", dtype=wanted, n_outputs=count, lenient=lenient)
        while tensors and tensors[-1] is None:
            tensors.pop()
        ports = found.schema.outputs
        results = self._add_op(found, tensors, label, chosen, [f"{label}.{port.name}" for port in ports])
        if len(results) == 1:
            return results[0]
        return result_type(found.schema.kind, tuple(port.name for port in ports[: len(found.dtypes)]))._make(results)

    def compile(
        self,
        *,
        policy: str = "fusion",
        fallback: bool = True,
        fpmath_mode: str | None = "strict",
        threads: int | Mapping[int, int] | None = None,
    ) -> Executable:
        """Compile for the CPU engine.

        Args:
            policy: ``fusion`` joins ops into one kernel where the library can; ``debug`` runs them one by one.
            fallback: run on numpy what the library does not support; False raises instead.
            fpmath_mode: how far f32 arithmetic may be lowered for speed: strict, bf16, f16, tf32, any; None takes the
                mode that the file says which the graph was loaded from, strict where there is none.
            threads: number of threads to execute with. By default every partition gets the number that measured best,
                up to what the calling thread may use (``onegraph.set_num_threads``); a dictionary fixes some of them,
                by index of partition in ``report()``.

        Returns:
            The executable. The graph can be extended and compiled again; this executable does not change.

        Raises:
            UnsupportedError: with ``fallback=False``: what the library does not support.
            ArgumentError: an option is wrong, or the graph has no output.
            LibraryError: there is no usable oneDNN library.
        """
        from .executor import Executable

        return Executable(self.copy(), policy=policy, fallback=fallback, fpmath_mode=fpmath_mode, threads=threads)

    def partitions(self, policy: str = "fusion") -> list[Partition]:
        """The partitions that the library makes of this graph, without compiling them.

        Raises:
            ArgumentError: the policy is unknown, or a graph input has unknown dims.
            LibraryError: there is no usable oneDNN library.
        """
        from .lower import library_partitions

        return library_partitions(self, policy)

    def to_json(self, *, for_version: str | None = None) -> str:
        """The graph in oneDNN Graph's own JSON form, which its test program and Netron read.

        Names and editions stand at the end, under ``onegraph``; contents of constants are not in it: see ``save``.

        Args:
            for_version: version of oneDNN that is to read it, such as ``"3.2"``: attributes and outputs that it does
                not know are left out where they say nothing and nobody reads them.

        Raises:
            UnsupportedError: that version does not have an op, an attribute, a data type, or such a form of an op.
            ArgumentError: there is no such version.
        """
        from .serialize import write

        return write(self, for_version)

    @classmethod
    def from_json(cls, text: str | bytes, *, strict: bool = False) -> Graph:
        """The graph of a JSON text, of onegraph or of any version of oneDNN.

        Inputs and outputs that have no names are called ``t<id>``, in the order of the file's ports, else of first
        use. A constant without data is an input, listed by ``constant_inputs``; ``with_constants`` gives it contents.
        Results are dense row-major, whatever strides the file declares for them. What the file says beyond that is
        kept, and ``to_json`` gives it back as it was; with ``for_version``, only what that version reads.

        Args:
            text: the JSON.
            strict: refuse too what the specification forbids and the library takes, such as negative ``pads_end``; the
                graph that is made has it too.

        Raises:
            FormatError: it is no such graph; the error says where in it and what is expected there.
            SpecError: an op breaks the specification.
        """
        from .serialize import read

        return read(cls, text, strict=strict)

    def save(self, path: str | PathLike[str], *, for_version: str | None = None) -> None:
        """Write ``to_json`` to a file, and contents of constants to an ``.npz`` beside it.

        Raises:
            FormatError: a file cannot be written.
            UnsupportedError: the version lacks an op, an attribute or a data type.
            ArgumentError: the path or the version makes no sense.
        """
        from .serialize import save

        save(self, path, for_version)

    @classmethod
    def load(cls, path: str | PathLike[str], *, strict: bool = False) -> Graph:
        """The graph of a file, with the contents of its constants; as ``from_json`` otherwise.

        Raises:
            FormatError: the file cannot be read or holds no graph; the error says where in it.
            SpecError: an op breaks the specification.
        """
        from .serialize import load

        return load(cls, path, strict=strict)

    def to_dot(self) -> str:
        """The graph in the dot language of Graphviz; ``onegraph.view`` draws it with partitions and times."""
        from .view import dot

        return dot(self)

    def _repr_html_(self) -> str:
        """The graph for a notebook: a frame to zoom, search and click through."""
        from .view import notebook_html

        return notebook_html(self)

    def _repr_svg_(self) -> str | None:
        """The graph for a notebook that runs no scripts; None where it is too large, or nothing can draw it."""
        from .view import notebook_svg

        return notebook_svg(self)

    def copy(self) -> Graph:
        """A graph of the same records; adding to either does not change the other."""
        other = Graph(self.edition, strict=self.strict)
        other._ops, other._tensors = list(self._ops), list(self._tensors)
        other._inputs, other._outputs = dict(self._inputs), dict(self._outputs)
        other._names, other._file = set(self._names), self._file
        return other

    def with_constants(self, arrays: Mapping[str, Array]) -> Graph:
        """The same graph with contents of inputs as constants, which the library prepares once.

        Files that oneDNN itself writes say which inputs are constant (``constant_inputs``), and not what is in them.

        Args:
            arrays: an array for each input that is to be a constant, by name; they are copied.

        Raises:
            ArgumentError: a name is not that of an input, or an array does not fit its input.
            SpecError: an op cannot have such an input, as where it gives another shape than the graph has.
        """
        from .serialize import with_constants

        return with_constants(self, arrays)

    def specialise(self, shapes: Mapping[str, Shape], values: Mapping[str, Array] | None = None) -> Graph:
        """The same graph for inputs of known shapes.

        Args:
            shapes: a shape for each input to change, by name.
            values: contents of integer inputs that give shapes or axes, by name.

        Raises:
            SpecError: an op cannot have inputs of these shapes.
            ArgumentError: a name is unknown, or a shape is not one of the input's.
        """
        for what, given in (("shapes", shapes), ("values", {} if values is None else values)):
            if not isinstance(given, Mapping) or not all(name in self._inputs for name in given):
                raise ArgumentError(f"{what}: {shown(given)}; expected a dictionary by names of inputs")
        other = Graph(self.edition, strict=self.strict)
        renewed: dict[int, LogicalTensor] = {}
        values = {} if values is None else values
        for tensor in self._tensors:
            if tensor.constant:
                renewed[tensor.id] = other._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        for name, tensor in self._inputs.items():
            shape = as_shape(shapes.get(name, tensor.shape))
            if not compatible(shape, tensor.shape):
                raise ArgumentError(f"input {name!r}: shape {show(shape)}; expected {show(tensor.shape)}")
            renewed[tensor.id] = other._inputs[name] = other._tensor(
                tensor.dtype, shape, name, tensor.strides, values.get(name)
            )
        for op in self._ops:
            sources = [None if tensor is None else renewed[tensor.id] for tensor in op.inputs]
            chosen, types = edition_named(op.edition), tuple(tensor.dtype for tensor in op.outputs)
            found = signature(
                chosen,
                op.kind,
                dict(op.attrs),
                sources,
                name=op.name,
                n_outputs=len(types),
                dtypes=types,
                lenient=not self.strict,
            )
            results = other._add_op(found, sources, op.name, chosen, [tensor.name for tensor in op.outputs])
            renewed.update(zip((tensor.id for tensor in op.outputs), results, strict=True))
        other._outputs = {name: renewed[tensor.id] for name, tensor in self._outputs.items()}
        return other

    # Internals ---------------------------------------------------------------------------------------------------

    def _tensor(
        self,
        dtype: DataType,
        shape: Shape,
        name: str,
        strides: tuple[int, ...] | None = None,
        value: Array | None = None,
        watches: tuple[object, ...] = (),
    ) -> LogicalTensor:
        tensor = LogicalTensor(len(self._tensors), dtype, shape, strides, name, value, watches)
        self._tensors.append(tensor)
        return tensor

    def _add_op(
        self,
        found: Signature,
        inputs: Sequence[LogicalTensor | None],
        name: str,
        chosen: Edition,
        names: Sequence[str],
    ) -> tuple[LogicalTensor, ...]:
        """Add an op that is in order; ``names`` are those of its outputs."""
        results = tuple(
            [
                self._tensor(dtype, shape, text)
                for text, dtype, shape in zip(names, found.dtypes, found.shapes, strict=False)
            ]
        )
        kept = None if found.lenient else found
        op = Op(len(self._ops), found.schema.kind, tuple(inputs), results, found.attrs, name, chosen.name, kept)
        self._ops.append(op)
        self._names.add(name)
        return results

    def _free_name(self, name: object) -> None:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty")
        if name in self._inputs or name in self._outputs:
            raise ArgumentError(f"name {shown(name)} is taken; inputs and outputs share one namespace")

    def _own(self, tensor: object, where: str) -> LogicalTensor:
        if isinstance(tensor, np.ndarray):
            raise ArgumentError(f"{where}: an array; expected a tensor of this graph: wrap it in g.constant(array)")
        if isinstance(tensor, tuple) and hasattr(tensor, "_fields"):
            names = ", ".join(tensor._fields)
            raise ArgumentError(f"{where}: the outputs {names}; expected one of them, as in .{tensor._fields[0]}")
        if not isinstance(tensor, LogicalTensor):
            raise ArgumentError(f"{where}: {shown(tensor)}; expected a tensor of this graph")
        if not (tensor.id < len(self._tensors) and self._tensors[tensor.id] is tensor):
            raise ArgumentError(f"{where}: tensor {tensor.name!r} is of another graph")
        return tensor

    def _op_inputs(self, inputs: object) -> list[LogicalTensor | None]:
        if isinstance(inputs, LogicalTensor):
            inputs = (inputs,)
        if not isinstance(inputs, (list, tuple)):
            raise ArgumentError(f"inputs: {shown(inputs)}; expected a list of tensors of this graph")
        own, count = self._tensors, len(self._tensors)
        if all(type(t) is LogicalTensor and t.id < count and own[t.id] is t for t in inputs):
            return [*inputs]  # which needs no look at each for a message
        return [
            None if tensor is None else self._own(tensor, f"inputs[{index}]") for index, tensor in enumerate(inputs)
        ]

    def _op_name(self, stem: str, name: object) -> str:
        if name is None:
            number = len(self._ops)
            label = f"{stem}_{number}"
            while label in self._names:
                number += 1
                label = f"{stem}_{number}"
            return label
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty")
        if name in self._names:
            raise ArgumentError(f"name {name!r} is taken by another op")
        return name

    def __repr__(self) -> str:
        lines = [f"Graph(edition={self.edition!r})"]
        lines += [f"  {t.name}: {t.dtype} {show(t.shape)} input" for t in self._inputs.values()]
        for op in self._ops:
            ins = ", ".join("-" if t is None else t.name for t in op.inputs)
            outs = ", ".join(f"{t.name}: {t.dtype} {show(t.shape)}" for t in op.outputs)
            attrs = ", ".join(f"{key}={value!r}" for key, value in op.attrs.items())
            lines.append(f"  {outs} = {op.kind}({ins}{'; ' + attrs if attrs else ''})")
        lines += [f"  {name}: {t.name} output" for name, t in self._outputs.items()]
        return "\n".join(lines)


def _input_strides(strides: object, dims: Shape) -> tuple[int, ...] | None:
    if strides is None:
        return None
    if not isinstance(strides, (tuple, list)) or dims is None or None in dims or len(strides) != len(dims):
        raise ArgumentError(f"strides: {shown(strides)}; expected one integer for each dim of a shape that is known")
    for step in strides:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not 0 <= step < 2**48:
            raise ArgumentError(f"strides: {shown(step)}; expected a non-negative number of elements")
    steps = tuple(int(step) for step in strides)
    if overlaps([dim or 0 for dim in dims], steps):
        raise ArgumentError(f"strides: {steps} for shape {show(dims)}; expected memory of its own for each element")
    return steps


def _refuse_unfit(array: Array) -> None:
    """Raise where an array cannot be kept as a constant without a copy."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ArgumentError("constant: an array that is not C-contiguous and aligned; expected copy=True")
    base = array.base
    if base is not None and (not isinstance(base, np.ndarray) or base.flags.writeable):
        raise ArgumentError("constant: a view of memory that can still be written; expected copy=True")
