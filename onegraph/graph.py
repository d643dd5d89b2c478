"""The public Graph: what is built, and all that can be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from .builder.graph import DataGraph
from .ir.op import Array
from .opset.schema import Shape
from .serialize import load, read, save, with_constants, write
from .transform.json_rewrite import without_wildcards
from .transform.specialise import specialise
from .view import dot, notebook_html, notebook_svg

if TYPE_CHECKING:
    from .capi.partition import Partition
    from .runtime.executable import Executable


class Graph(DataGraph):
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

    @staticmethod
    def _kind() -> type[Graph]:
        return Graph

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
        from .runtime.executable import compile_graph

        return compile_graph(
            Graph.copy(self), policy=policy, fallback=fallback, fpmath_mode=fpmath_mode, threads=threads
        )

    def partitions(self, policy: str = "fusion") -> list[Partition]:
        """The partitions that the library makes of this graph, without compiling them.

        Raises:
            ArgumentError: the policy is unknown, or a graph input has unknown dims, or gives a shape or axes.
            LibraryError: there is no usable oneDNN library.
        """
        from .compiler.to_capi import library_partitions

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
        return read(cls, text, strict=strict)

    def save(self, path: str | PathLike[str], *, for_version: str | None = None) -> None:
        """Write ``to_json`` to a file, and contents of constants to an ``.npz`` beside it.

        Raises:
            FormatError: a file cannot be written.
            UnsupportedError: the version lacks an op, an attribute or a data type.
            ArgumentError: the path or the version makes no sense.
        """
        save(Graph.copy(self), path, for_version)

    @classmethod
    def load(cls, path: str | PathLike[str], *, strict: bool = False) -> Graph:
        """The graph of a file, with the contents of its constants; as ``from_json`` otherwise.

        Raises:
            FormatError: the file cannot be read or holds no graph; the error says where in it.
            SpecError: an op breaks the specification.
        """
        return load(cls, path, strict=strict)

    def to_dot(self) -> str:
        """The graph in the dot language of Graphviz; ``onegraph.view`` draws it with partitions and times."""
        return dot(self)

    def _repr_html_(self) -> str:
        """The graph for a notebook: a frame to zoom, search and click through."""
        return notebook_html(self)

    def _repr_svg_(self) -> str | None:
        """The graph for a notebook that runs no scripts; None where it is too large, or nothing can draw it."""
        return notebook_svg(self)

    def with_constants(self, arrays: Mapping[str, Array]) -> Graph:
        """The same graph with contents of inputs as constants, which the library prepares once.

        Files that oneDNN itself writes say which inputs are constant (``constant_inputs``), and not what is in them.

        Args:
            arrays: an array for each input that is to be a constant, by name; they are copied.

        Raises:
            ArgumentError: a name is not that of an input, or an array does not fit its input.
            SpecError: an op cannot have such an input, as where it gives another shape than the graph has.
        """
        return with_constants(self, arrays)

    def without_wildcards(self) -> Graph:
        """The same graph cut at its Wildcards, so that the rest can be run.

        Frameworks write what oneDNN does not compute as Wildcards, and PyTorch its weights too. What they write is an
        input here, called ``t<id>`` as in a file, and constant where the file says so; what they read is an output.

        Raises:
            SpecError: an op breaks the specification.
        """
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
        return specialise(self, shapes, values)
