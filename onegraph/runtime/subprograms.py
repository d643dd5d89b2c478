"""Runs control flow in compiled programs: each body is an executable, made once for each combination of shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from .._util.fork_safety import cached_property
from .._util.late_imports import import_late
from ..builder.graph import DataGraph
from ..compiler.numpy_steps import CONTROL, copied_to
from ..errors import ArgumentError, OneGraphError, SpecError
from ..ir.op import Array, Op, schema_of
from ..native.library import address_of
from ..opset.host.control import BODIES, FIXED
from ..opset.schema import Call
from ..opset.shapes import known
from ..opset.signature import Shape
from ..reference.host.control import Course, branch, iterate
from ..transform.with_values import with_values
from .op_by_op import ExaminedOp
from .program import Program
from .repeat import OpenRepeat, Repeat, Slice, may_repeat

FOR_SHAPES = "onegraph.lowering.for_shapes"
MOST_BODIES = 64  # that are shared
# Compiles a graph, and returns an executable.
Make = Callable[[DataGraph], Any]


class CompiledBody:
    """A body of an op of control flow, compiled.

    Args:
        op: the op.
        name: the attribute that is the body.
        first: the index of the first input that the body reads by the names c0, c1 ...
        make: compiles a graph.
        shapes: of its inputs, as far as they are known.

    Attributes:
        values: the contents of its inputs that are constants.
        passed: by name of output, the input that it is.
        fixed: by name of output, the constant that it is.
        same: by name of output, the output that has the same contents; the executable has one of them.
    """

    def __init__(self, op: Op, name: str, first: int, make: Make, shapes: Mapping[str, Shape]) -> None:
        from ..serialize.words import body_of

        self._graph, self._make = _of_shapes(body_of(call_of(op), name), shapes), make
        self._compiled: dict[tuple[tuple[str, int], ...], Any] = {}
        self.values = {name: value for name, value in _constants(op, first).items() if name in self._graph._inputs}
        names = {tensor.id: name for name, tensor in self._graph._inputs.items()}
        self.passed, self.fixed, self.same = dict[str, str](), dict[str, Array](), dict[str, str]()
        self._ends: dict[int, str] = {}
        for end, tensor in self._graph.outputs.items():
            source = names.get(tensor.id)
            value = tensor.value if source is None else self.values.get(source)
            if value is not None:
                self.fixed[end] = value
            elif source is not None:
                self.passed[end] = source
            else:
                self.same[end] = self._ends.setdefault(tensor.id, end)

    @cached_property
    def executable(self) -> Any:
        """Runs the body; None if it computes nothing."""
        return self.compiled({}) if self._ends else None

    def compiled(self, shapes: Mapping[str, int]) -> Any:
        """What runs the body, with results of ops as further inputs, whose ids are given by name."""
        key = tuple(shapes.items())
        if key not in self._compiled:
            ends = {name: number for number, name in self._ends.items()}
            self._compiled[key] = self._make(with_values(self._graph, self.values, ends, shapes))
        return self._compiled[key]

    def slices(self) -> dict[int, Slice]:
        """By id of result, the slices that the number of the iteration chooses from what all iterations read."""
        slice_by_id: dict[int, Slice] = {}
        names = {input_.id: name for name, input_ in self._graph._inputs.items()}
        for op in self._graph.ops:
            if op.kind != "Gather":
                continue
            (source, place), (result,) = op.inputs, op.outputs
            name = names.get(source.id)
            if names.get(place.id) != "i" or result.id in self._ends:  # the program writes it
                continue
            if not known(result.shape) or (source.value is None and (name or "s")[0] != "c"):
                continue
            slice_by_id[result.id] = Slice(source.value if name is None else name, int(op.attrs.get("axis", 0)))  # type: ignore[arg-type]
        return slice_by_id

    @property
    def takes_shapes(self) -> bool:
        """Whether the body is compiled for the shapes that come, and not at once."""
        return self.executable is not None and self.executable._programs.takes_shapes

    def program(self, inputs: Mapping[str, Array]) -> Program | None:
        """The program of the body for the shapes of these arrays, if there is one already."""
        executable = self.executable
        if executable is None:
            return None
        return executable._programs.program_for([inputs[name].shape for name in executable._names])  # type: ignore[no-any-return]

    def _results(self, executable: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the body computes, by name: op by op at once, if no program fits two calls."""
        op_by_op = executable._programs.op_by_op
        if op_by_op is not None and op_by_op.is_open:
            results = op_by_op.run([inputs[name] for name in executable._names])
            if results is not None:
                return dict(zip(executable._interface.names, results, strict=True))
        named: dict[str, Array] = executable._run_by_name(inputs)
        return named

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the body by name, for arrays by the names of its inputs; some may share memory with these."""
        results: dict[str, Array] = {}
        if self.executable is not None:
            outputs = self._results(self.executable, inputs)
            results.update((name, outputs[source]) for name, source in self.same.items())
        results.update((name, inputs[source]) for name, source in self.passed.items())
        results.update(self.fixed)
        return results


class Bodies:
    """The bodies of an executable. Its programs share those that differ in nothing that a compilation reads.

    Args:
        make: compiles a graph.
    """

    def __init__(self, make: Make) -> None:
        self._make, self._bodies = make, dict[Hashable, tuple[CompiledBody, Mapping[str, Array]]]()

    def body(self, op: Op, name: str, first: int, shapes: Mapping[str, Shape]) -> CompiledBody:
        """A body of an op; the arguments are as of :class:`CompiledBody`."""
        constants = _constants(op, first)
        places = tuple([(port, address_of(one), one.dtype, one.strides) for port, one in constants.items()])
        key = op.attrs[name], places, tuple([(port, shape) for port, shape in shapes.items() if known(shape)])
        if key in self._bodies:
            return self._bodies[key][0]
        body = CompiledBody(op, name, first, self._make, shapes)
        if len(self._bodies) < MOST_BODIES:
            self._bodies[key] = body, constants  # no other array gets the memory of one that exists
        return body


def call_of(op: Op) -> Call:
    """The use of an op, with the data types of its results."""
    types = [input_.type for input_ in op.inputs]
    return Call(schema_of(op), op.attrs, types, len(op.outputs), [output.dtype for output in op.outputs])


def _constants(op: Op, first: int) -> dict[str, Array]:
    """The contents of constants that the bodies of an op may read, by the names of their inputs."""
    return {f"c{number}": input_.value for number, input_ in enumerate(op.inputs[first:]) if input_.value is not None}


def _of_shapes(graph: DataGraph, shapes: Mapping[str, Shape]) -> DataGraph:
    """A body for the shapes of its inputs that are known now; as it is if these tell nothing new."""
    known_shapes = {
        name: shapes[name]
        for name, tensor in graph._inputs.items()
        if name in shapes and known(shapes[name]) and not known(tensor.shape)
    }
    if not known_shapes:
        return graph
    import_late(FOR_SHAPES)
    try:
        made: DataGraph = sys.modules[FOR_SHAPES].for_shapes(graph, known_shapes, sparing=True)
    except (SpecError, ValueError):  # a run names the mistake
        return graph
    return made


class Control:
    """What runs an op of control flow.

    Args:
        op: the op.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self._call = call_of(op)
        self._bodies: dict[str, CompiledBody] = {}
        self._repeat: Repeat | OpenRepeat | None = None

    def compile(self, all_bodies: Bodies) -> None:
        """Compile the bodies as the program around them is compiled."""
        first = 1 if self.op.kind == "If" else self._n_fixed()
        try:
            shapes = self._shapes(first)
            bodies = {name: all_bodies.body(self.op, name, first, shapes) for name in BODIES[self.op.kind]}
        except ValueError as error:
            raise self._named(error) from None
        if self.op.kind == "Loop":
            body = bodies["body"]
            self._repeat = Repeat.of(self._call, body)
            if self._repeat is None and body.takes_shapes and may_repeat(body):
                self._repeat = OpenRepeat(self._call, body)
        if not isinstance(self._repeat, Repeat):
            _ = [body.executable for body in bodies.values()]
        self._bodies = bodies

    def _shapes(self, first: int) -> dict[str, Shape]:
        """The shapes that the inputs of a body have in every run, by name; those of values of its own come first."""
        inputs = [input_.shape for input_ in self.op.inputs]
        shapes = {f"c{number}": shape for number, shape in enumerate(inputs[first:])}
        if self.op.kind == "If":
            return shapes
        count = self._call.s64("n_states")
        axes = [*self._call.s64s("axes"), *[0] * len(inputs)]  # zeros by default
        for number, (shape, last) in enumerate(zip(inputs[FIXED:], self._call.shapes[:count], strict=False)):
            if shape == last:
                shapes[f"s{number}"] = shape
        for number, (shape, axis) in enumerate(zip(inputs[FIXED + count : first], axes, strict=False)):
            if shape is not None and -len(shape) <= axis < len(shape):
                shapes[f"x{number}"] = shape[: axis % len(shape)] + shape[axis % len(shape) + 1 :]
        return shapes

    def _n_fixed(self) -> int:
        return FIXED + self._call.s64("n_states") + self._call.s64("n_scanned")

    def __call__(self, arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
        """Run on the inputs of the op, and write its results."""
        copied_to(self.op, results, self.run(arrays, results))

    def run(self, arrays: Sequence[Array | None], results: Sequence[Array] | None = None) -> Sequence[Array]:
        """The results of the op, in the arrays of ``results`` where they fit."""
        try:
            if self.op.kind == "If":
                condition, *values = arrays
                assert condition is not None
                return branch(condition, values, lambda name: self._bodies[name].run)
            trips, going, *values = arrays
            assert trips is not None
            assert going is not None
            course, first = Course(self._call, trips, going, values), 0
            if self._repeat is not None:
                rounds, first = self._repeat.run(course, results)
                if rounds is not None:
                    return rounds
            return iterate(course, self._bodies["body"].run, first)
        except OneGraphError as error:
            raise _renamed(error, self.op) from None
        except (ValueError, IndexError) as error:
            raise self._named(error) from None

    def _named(self, error: Exception) -> Exception:
        return ArgumentError(f"{self.op.kind} {self.op.name!r}: {error}")


def _renamed(error: OneGraphError, op: Op) -> OneGraphError:
    """The error of a body, with the op in front."""
    text = f"{op.kind} {op.name!r}: {error}"
    error.args = (text, *error.args[1:])
    return error


def host_run(op: Op, bodies: Bodies) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """What gives the results of an op whose shapes follow from contents."""
    if op.kind not in CONTROL:
        return ExaminedOp(op)
    control = Control(op)
    control.compile(bodies)
    return control.run


CONTROL.update(dict.fromkeys(BODIES, Control))
