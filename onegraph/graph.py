"""Graphs: what is built, and what can be done with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from .arrays import array_of
from .builder import Builder
from .errors import ArgumentError, shown
from .op import Array, LogicalTensor
from .plain import isinstance
from .spec.editions import edition as edition_named
from .spec.schema import Shape
from .spec.shapes import compatible, show
from .tensor_types import as_shape
from .validate import expect

if TYPE_CHECKING:
    from .capi.partition import Partition
    from .executor import Executable
    from .serialize import Origin


class Graph(Builder):
    """A graph under construction. Nothing here needs the library; ``compile`` does.

    Ops are added by ``op``, in the words of any edition, or by one method for each op of the base vocabulary. Every
    call infers the shapes of its outputs, and checks the op against the specification before anything is changed.

    A graph is built by one thread at a time, as the order of ops and the names that they get depend on it. Threads that
    add to one all the same get tensors and ops of their own.

    Args:
        edition: edition of the specification whose words ``op`` takes by default.
        strict: False takes ops too that the specification forbids and the library takes, as ``load`` does by default:
            negative ``pads_end``, and mixtures of floating-point types in binary ops, are among them.

    Raises:
        ArgumentError: there is no such edition, or ``strict`` is neither True nor False.
    """

    _file: Origin | None = None  # what the file that it was loaded from says beyond this

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

        return Executable(Graph.copy(self), policy=policy, fallback=fallback, fpmath_mode=fpmath_mode, threads=threads)

    def partitions(self, policy: str = "fusion") -> list[Partition]:
        """The partitions that the library makes of this graph, without compiling them.

        Raises:
            ArgumentError: the policy is unknown, or a graph input has unknown dims, or gives a shape or axes.
            LibraryError: there is no usable oneDNN library.
        """
        from .library_graph import library_partitions

        return library_partitions(Graph.copy(self), policy)

    def to_json(self, *, for_version: str | None = None) -> str:
        """The graph in oneDNN Graph's own JSON form, which its test program and Netron read.

        Names and editions stand at the end, under ``onegraph``; contents of constants are not in it: see ``save``.

        Args:
            for_version: version of oneDNN that is to read it, such as ``"3.2"``: attributes and outputs that it does
                not know are left out where they say nothing and nobody reads them, and defaults are said.

        Raises:
            UnsupportedError: that version does not have an op, an attribute, a data type, or such a form of an op.
            ArgumentError: there is no such version.
        """
        from .serialize import write

        return write(Graph.copy(self), for_version)

    @classmethod
    def from_json(cls, text: str | bytes, *, strict: bool = False) -> Graph:
        """The graph of a JSON text, of onegraph or of any version of oneDNN.

        Inputs and outputs that have no names are called ``t<id>``, in the order of the file's ports, else of first
        use. A constant without data is an input, listed by ``constant_inputs``; ``with_constants`` gives it contents.
        Results have the strides that the file declares, as long as these leave no gaps. What the file says beyond that
        is kept, and ``to_json`` gives it back as it was; with ``for_version``, only what that version reads.

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

        save(Graph.copy(self), path, for_version)

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
        # Each in one step of the interpreter, and before what it refers to: another thread may add to this graph.
        other._outputs, other._ops = dict(self._outputs), list(self._ops)
        other._inputs, other._by_id = dict(self._inputs), dict(self._by_id)
        other._op_ids, other._names, other._file = copy.copy(self._op_ids), dict(self._names), self._file
        other._constant_inputs = set(self._constant_inputs)
        return other

    __copy__ = copy

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

    def without_wildcards(self) -> Graph:
        """The same graph cut at its Wildcards, so that the rest can be run.

        Frameworks write what oneDNN does not compute as Wildcards, and PyTorch its weights too. What they write is an
        input here, called ``t<id>`` as in a file, and constant where the file says so; what they read is an output.

        Raises:
            SpecError: an op breaks the specification.
        """
        from .flex_rewrite import without_wildcards

        return without_wildcards(self)

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
                names = ", ".join(self._inputs) or "none"
                raise ArgumentError(f"{what}: {shown(given)}; expected a dictionary by names of inputs: {names}")
        other = Graph(self.edition, strict=self.strict)
        renewed: dict[int, LogicalTensor] = {}
        # Copies: shapes are inferred of the very contents that the graph then has.
        values = {name: array_of(f"values: {name!r}", value).copy() for name, value in (values or {}).items()}
        for name, value in values.items():
            if value.dtype.kind not in "iu":
                raise ArgumentError(f"values: {name!r}: an array of {value.dtype}; expected integers")
        before = Graph.copy(self)
        for tensor in before._tensors:
            if tensor.constant:
                renewed[tensor.id] = other._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        for name, tensor in before._inputs.items():
            shape = as_shape(shapes.get(name, tensor.shape))
            if not compatible(shape, tensor.shape):
                raise ArgumentError(f"input {name!r}: shape {show(shape)}; expected {show(tensor.shape)}")
            renewed[tensor.id] = other._inputs[name] = other._tensor(
                tensor.dtype, shape, name, tensor.strides, values.get(name)
            )
        other._constant_inputs = before._constant_inputs - values.keys()
        for op in before._ops:
            sources = [None if tensor is None else renewed[tensor.id] for tensor in op.inputs]
            chosen, types = edition_named(op.edition), tuple(tensor.dtype for tensor in op.outputs)
            labels = [tensor.name for tensor in op.outputs]
            results = other._add_op(chosen, op.kind, dict(op.attrs), sources, types, name=op.name, names=labels)
            renewed.update(zip((tensor.id for tensor in op.outputs), results, strict=True))
        other._outputs = {name: renewed[t.id]._laid_out(t.strides) for name, t in before._outputs.items()}
        return other

    def __repr__(self) -> str:
        seen = Graph.copy(self)
        lines = [f"Graph(edition={self.edition!r})"]
        lines += [f"  {t.name}: {t.dtype} {show(t.shape)} input" for t in seen._inputs.values()]
        for op in seen._ops:
            ins = ", ".join("-" if t is None else t.name for t in op.inputs)
            outs = ", ".join(f"{t.name}: {t.dtype} {show(t.shape)}" for t in op.outputs)
            attrs = ", ".join(f"{key}={value!r}" for key, value in op.attrs.items())
            lines.append(f"  {outs} = {op.kind}({ins}{'; ' + attrs if attrs else ''})")
        lines += [f"  {name}: {t.name} output" for name, t in seen._outputs.items()]
        return "\n".join(lines)


def snapshot(graph: Graph) -> Graph:
    """A copy of a graph to read from, as other threads, or signal handlers, may add to the graph meanwhile.

    Raises:
        ArgumentError: it is no graph.
    """
    expect("graph", graph, Graph)
    return Graph.copy(graph)
