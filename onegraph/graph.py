"""Defines the public Graph: the graph builder with compilation, files, pictures and transformations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from ._util.late_imports import import_late
from ._util.tracebacks import methods_end_tracebacks
from .builder.chosen_outputs import returning
from .builder.graph import DataGraph
from .ir.op import Array, LogicalTensor
from .opset.signature import Shape

if TYPE_CHECKING:
    from ._util.literals import FpmathMode, Policy
    from .builder.op_methods import Operand
    from .capi.partition import Partition
    from .runtime.compile_options import GivenOptions
    from .runtime.executable import Executable
    from .runtime.explanation import Explanation
    from .runtime.origin import Origin
    from .training.layers import Recurrent

RUNTIME = "onegraph.runtime.executable"  # takes 30 ms to import


@methods_end_tracebacks
class Graph(DataGraph):
    """A graph under construction. Only ``compile`` and ``partitions`` need the library.

    Add ops with ``op``, which takes the names of any edition, or with the method of each op of the base vocabulary.
    Every call checks the op against the specification before it changes the graph, and infers the output shapes.

    Build a graph in one thread: the order of the ops and their default names depend on the order of the calls. If
    several threads add ops, each call still makes its own op and tensors.

    Args:
        edition: edition of the specification whose names ``op`` takes by default.
        strict: False also accepts ops that the specification forbids and the library takes, as ``load`` does by
            default: for example negative ``pads_end``, and mixed floating-point types in binary ops.

    Raises:
        ArgumentError: the edition is unknown, or ``strict`` is neither True nor False.
    """

    _origin: Origin | None = None  # the files that the graph was read from

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_origin"}

    @staticmethod
    def _kind() -> type[Graph]:
        return Graph

    def compile(
        self,
        *,
        policy: Policy = "fusion",
        fallback: bool = True,
        fpmath_mode: FpmathMode | None = "strict",
        threads: int | Mapping[int, int] | None = None,
        reproducible: bool = False,
        finite_math: bool = False,
        outputs: Sequence[LogicalTensor | str] | None = None,
    ) -> Executable:
        """Compile for the CPU engine.

        Args:
            policy: ``fusion`` joins ops into one kernel where the library can; ``debug`` runs them one by one.
            fallback: True runs ops that the library does not support in numpy; False raises instead. Ops on constants
                run once, at compilation, always in numpy.
            fpmath_mode: the lowest precision that f32 arithmetic may use for speed: strict, bf16, f16, tf32, any. None
                takes the mode from the file that the graph was loaded from, or strict if the file has none.
            threads: number of threads to execute with. By default every partition gets the number that measured best,
                up to the limit of the calling thread (``onegraph.set_num_threads``). A dictionary sets the number for
                some partitions, by their index in ``report()``.
            reproducible: True chooses kernels whose results have the same bits for any number of threads, any batch
                size and any process on the same CPU. Compilation takes longer.
            finite_math: True lets the library fuse and compute ops that lose NaN and infinities, such as ReLU, which
                saves up to some per cent of the time. By default they pass through every op as IEEE 754 says.
            outputs: the results to return in place of the outputs of the graph: tensors, or names of outputs, of
                tensors such as ``conv.dst``, or of ops with one result. Variables are assigned all the same.

        Returns:
            The executable. The graph can be extended and compiled again; this executable does not change.

        Raises:
            UnsupportedError: ``fallback`` is False, and the library does not support an op.
            ArgumentError: an option is wrong, an output is unknown, or the graph has no output.
            LibraryError: there is no usable oneDNN library.
        """
        import_late(RUNTIME)
        from .runtime.executable import compile_graph
        from .runtime.warm_start import keep

        if outputs is None:
            known = self._compiled_before((policy, fallback, fpmath_mode, threads, reproducible, finite_math))
            if known is not None:
                return known
        graph, origin = Graph.copy(self), self._origin
        if outputs is not None:
            graph, origin = returning(self, outputs), None
        executable = compile_graph(
            graph,
            policy=policy,
            fallback=fallback,
            fpmath_mode=fpmath_mode,
            threads=threads,
            reproducible=reproducible,
            finite_math=finite_math,
        )
        if origin is not None and origin.fits(graph):
            keep(origin, executable)
        return executable

    def explain(self, *arrays: object, **named: object) -> Explanation:
        """What each op costs once compiled, and why ops are not fused.

        See :meth:`onegraph.runtime.executable.Executable.explain`, which also takes options.

        Args:
            arrays, named: the inputs, as in a call; by default ones of the declared shapes.

        Raises:
            ArgumentError: an array does not fit; or none is given, and the shape of an input is unknown.
            LibraryError: there is no usable oneDNN library.
        """
        return self.compile().explain(*arrays, **named)  # type: ignore[arg-type]

    def _compiled_before(self, _options: GivenOptions) -> Executable | None:
        """The executable with these options of a program that an earlier process has compiled; None without one."""
        return None

    def gradient(
        self,
        outputs: LogicalTensor | str | Sequence[LogicalTensor | str],
        wrt: LogicalTensor | str | Sequence[LogicalTensor | str],
        grad_outputs: object = None,
        *,
        checkpoint: LogicalTensor | str | Sequence[LogicalTensor | str] | None = None,
    ) -> tuple[LogicalTensor, ...]:
        """Add the gradient of outputs with respect to some tensors to the graph: the vector-Jacobian product.

        Backward ops of the specification are used where they exist. The new ops are called ``<op>/gradient``.

        Args:
            outputs: tensors of this graph, or names of inputs and outputs; floating-point numbers.
            wrt: the tensors to differentiate with respect to: inputs, constants, or results of ops, or names.
            grad_outputs: for each of ``outputs`` the gradient of some scalar with respect to it: a tensor or an array
                of its shape, a number for that number everywhere, or None for ones. By default ones for all outputs,
                which differentiates their sum.
            checkpoint: the results of ops that the new ops may read. They compute all others again, which takes more
                time and less memory. By default the new ops read every result they need.

        Returns:
            One tensor for each of ``wrt``, of its shape and data type. It is zero where no output depends on it, or
            only through ops such as Round, whose gradient is zero.

        Raises:
            UnsupportedError: an op between has no gradient; the message names the path from the output to ``wrt``.
            ArgumentError: an argument is no tensor of this graph, or holds integers, or a shape does not fit. After an
                error the graph is unchanged.
        """
        from .gradient import gradient

        return gradient(self, outputs, wrt, grad_outputs, checkpoint)

    def partitions(self, policy: Policy = "fusion") -> list[Partition]:
        """The partitions that the library makes of this graph with ``finite_math=True``, not compiled.

        Raises:
            ArgumentError: the policy is unknown, a graph input has unknown dims, or an op takes a shape or axes from a
                graph input.
            LibraryError: there is no usable oneDNN library.
        """
        from .compiler.library_partitions import library_partitions

        return library_partitions(self._as_step(), policy)

    def to_json(self, *, for_version: str | None = None) -> str:
        """The graph in the JSON format of oneDNN Graph, which benchdnn and Netron read.

        Names and editions are at the end, under ``onegraph``. The contents of constants are not included: see ``save``.

        Args:
            for_version: version of oneDNN that will read the text, such as ``"3.2"``. Attributes that this version
                lacks are dropped when they have no effect, unused outputs are dropped, and defaults are written out.

        Raises:
            UnsupportedError: that version lacks an op, an attribute, a data type, or this form of an op.
            ArgumentError: there is no such version.
        """
        from .serialize import write

        return write(Graph.copy(self), for_version)

    @classmethod
    def from_json(cls, text: str | bytes, *, strict: bool = False) -> Graph:
        """The graph of a JSON text that onegraph or any version of oneDNN wrote.

        Unnamed inputs and outputs are called ``t<id>``. Their order is that of the ports in the file, or of first use
        if the file lists no ports. A constant without data becomes an input, listed by ``constant_inputs``;
        ``with_constants`` gives it contents. Results have the strides that the file declares, if these leave no gaps.
        Everything else in the file is kept, and ``to_json`` writes it unchanged; with ``for_version``, only the parts
        that this version reads.

        Args:
            text: the JSON.
            strict: True also refuses ops that the specification forbids and the library takes, such as negative
                ``pads_end``. The new graph is strict too.

        Raises:
            FormatError: the text is not such a graph; the error names the place in it and what is expected there.
            SpecError: an op breaks the specification.
        """
        from .serialize import read

        return read(cls, text, strict=strict)

    def save(self, path: str | PathLike[str], *, for_version: str | None = None) -> None:
        """Write the text of ``to_json`` to a file, and the contents of constants to an ``.npz`` file beside it.

        Both files are replaced as one: a reader finds the old graph or the new one, also if this process is killed. The
        JSON file has a digest of the archive, so that ``load`` refuses the archive of another graph. A symbolic link
        stays: the file that it leads to is replaced.

        Args:
            path: of the JSON file.
            for_version: as for ``to_json``.

        Raises:
            FormatError: a file cannot be written.
            UnsupportedError: the version lacks an op, an attribute or a data type.
            ArgumentError: the path is no path, or ends as another kind of file; or there is no such version.
        """
        from .serialize import save

        save(Graph.copy(self), path, for_version)

    @classmethod
    def load(cls, path: str | PathLike[str], *, strict: bool = False) -> Graph:
        """The graph of a JSON file, with the contents of constants from the ``.npz`` file beside it.

        Names, order and strides are those of ``from_json``.

        Args:
            path: of the JSON file.
            strict: as for ``from_json``.

        Raises:
            FormatError: the file cannot be read or is not a graph; the error names the place in it.
            SpecError: an op breaks the specification.
        """
        from .serialize import load

        return load(cls, path, strict=strict)

    def to_dot(self) -> str:
        """The graph in the dot language of Graphviz; ``onegraph.view`` draws it with partitions and times."""
        from .view import dot

        return dot(self)

    def _repr_html_(self) -> str:
        """The graph as HTML for a notebook, with zoom, search and details on click."""
        from .view import notebook_html

        return notebook_html(self)

    def _repr_svg_(self) -> str | None:
        """The graph as SVG for a notebook that runs no scripts; None if too large or without the extra ``view``."""
        from .view import notebook_svg

        return notebook_svg(self)

    def translate(self, edition: str) -> Graph:
        """The same graph in the words of another edition; see :func:`onegraph.translate_graph`."""
        from .transform.translate_graph import translate_graph

        return translate_graph(self, edition)

    def embedding(self, table: Operand, indices: Operand) -> LogicalTensor:
        """Rows of a table.

        Args:
            table: (rows, ...).
            indices: s32 or s64 of any shape; a negative one counts from the end.

        Returns:
            A tensor with the shape of the indices, then that of a row.
        """
        return self.gather(table, indices, axis=0)

    def lstm(
        self,
        x: Operand,
        weights: Operand,
        recurrence: Operand,
        bias: Operand | None = None,
        *,
        state: Operand | None = None,
        cell: Operand | None = None,
    ) -> Recurrent:
        """A layer of an LSTM over all steps; see :func:`onegraph.training.lstm`."""
        from .training.layers import lstm

        return lstm(self, x, weights, recurrence, bias, state=state, cell=cell)

    def gru(
        self,
        x: Operand,
        weights: Operand,
        recurrence: Operand,
        bias: Operand | None = None,
        state_bias: Operand | None = None,
        *,
        state: Operand | None = None,
    ) -> Recurrent:
        """A layer of a GRU over all steps; see :func:`onegraph.training.gru`."""
        from .training.layers import gru

        return gru(self, x, weights, recurrence, bias, state_bias, state=state)

    def with_constants(self, arrays: Mapping[str, Array]) -> Graph:
        """The same graph with some inputs turned into constants, which the library prepares once.

        Files that oneDNN writes say which inputs are constant (``constant_inputs``) but have no contents for them.

        Args:
            arrays: an array for each input that becomes a constant, by name; the arrays are copied.

        Raises:
            ArgumentError: a name is not that of an input, or an array does not fit its input.
            SpecError: an op cannot have this input, for example because it sets another shape than the graph has.
        """
        from .serialize import with_constants

        return with_constants(self._as_step(), arrays)._with_variables_of(self)

    def with_variables(self, names: Sequence[str] | None = None, *, batch_norm: float | None = None) -> Graph:
        """The same graph with constants turned into variables of their names, as training needs.

        So a model from a file is trained further: ``onegraph.training`` adds a loss and an optimizer to the new graph,
        and ``for_inference`` gives a graph to save.

        Args:
            names: of constants; ``*`` and ``?`` stand for any characters. By default all constants of floating-point
                numbers with at least one axis, without the statistics of BatchNormInference, and without single
                numbers that were given no name.
            batch_norm: the momentum of BatchNorm ops that take the statistics of each batch from now on: the share of
                the old running statistics, which become variables too. By default a BatchNormInference stays one.

        Raises:
            ArgumentError: no constant has such a name; or ``batch_norm`` is given, and the graph has no such op, or
                statistics are computed, inputs, or variables that ops share.
        """
        from .transform.modes import with_variables

        return with_variables(self, names, batch_norm)

    def for_inference(
        self,
        values: Mapping[str, Array] | None = None,
        *,
        outputs: Sequence[LogicalTensor | str] | None = None,
    ) -> Graph:
        """The same graph without training: variables become constants of their names.

        A BatchNormForwardTraining becomes a BatchNormInference of its running statistics, and a Dropout passes its
        source on. Ops that only variables needed, such as those of gradients and optimizers, are left out.

        Args:
            values: the contents of variables, such as ``model.variables`` of an executable of this graph; the others
                have their first contents.
            outputs: the outputs to keep, as for ``compile``; inputs that they do not need are left out. By default all.

        Raises:
            ArgumentError: a name is unknown, an array does not fit its variable, there is no output, or an output needs
                what exists in training alone, such as the statistics of a batch.
        """
        from .transform.modes import for_inference

        return for_inference(self, values, outputs)

    def without_wildcards(self) -> Graph:
        """The same graph without its Wildcard ops, so that the rest can run.

        Frameworks write ops that oneDNN does not compute as Wildcards; PyTorch writes its weights as Wildcards too. An
        output of a Wildcard becomes a graph input, called ``t<id>`` as in a file, and constant if the file says so. An
        input of a Wildcard becomes a graph output.

        Raises:
            SpecError: an op breaks the specification.
        """
        from .transform.json_removal import without_wildcards

        return without_wildcards(self._as_step())._with_variables_of(self)

    def specialise(self, shapes: Mapping[str, Shape], values: Mapping[str, Array] | None = None) -> Graph:
        """The same graph for inputs of given shapes, where the graph leaves dims open.

        Known dims stay. ``g.replace("x", g.input("images", og.f32, (None, 64)))`` gives an input other sizes.

        Of a model that a front end has read, the patterns that need known dims are tried again. Long attention that the
        model spells out becomes one op then, for example.

        Args:
            shapes: the new shapes, by name of the input.
            values: contents of integer inputs that set shapes or axes, by name.

        Raises:
            SpecError: an op cannot have inputs of these shapes.
            ArgumentError: a name is unknown, or a shape does not fit the shape that the input has now.
        """
        from .lowering.for_shapes import for_shapes

        return for_shapes(self._as_step(), shapes, values)._with_variables_of(self)
