"""Changes graphs: other tensors in the place of the results of an op, and ops removed.

An edit computes the new ops, tensors and outputs first, and puts them in the place of the old ones in one step. The
records of ops that read other tensors now are made anew; a tensor whose type stays keeps its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._util.counted import counted, some_of
from .._util.exact_types import elements, has_type, text
from ..errors import ArgumentError, shown
from ..ir.file_origin import FileOrigin
from ..ir.op import LogicalTensor, Op, make_op, make_tensor
from ..opset.editions.registry import edition as edition_named
from ..opset.shapes import compatible, show
from .adding_ops import OpAdding
from .model_values import tensor_of_value
from .operators import contents_like
from .readers import own_op, readers_named
from .signature_cache import signature
from .transaction import atomic, exchange
from .uses import depended_on, in_order, uses_of, with_inputs


class Editing(OpAdding):
    """The calls that change what a graph has."""

    _file: FileOrigin | None = None
    _n_read = 0  # number of ops of the model that a front end has read
    # None if each op rounds its results to their data type. Else a program may keep f32 numbers between ops of 16 bits,
    # and behind these TypeCasts, by name, with which the reader of a model rounds what it computes in f32.
    _roundings: frozenset[str] | None = None

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op that makes a tensor; None for inputs, constants and variables.

        Raises:
            ArgumentError: ``tensor`` is no tensor of this graph.
        """
        return uses_of(self).producers.get(self._own(tensor, "producer").id)

    def consumers(self, tensor: LogicalTensor) -> tuple[Op, ...]:
        """The ops that read a tensor, in their order; outputs of the graph are not among them.

        Raises:
            ArgumentError: ``tensor`` is no tensor of this graph.
        """
        return tuple(uses_of(self).consumers.get(self._own(tensor, "consumers").id, ()))

    @atomic
    def replace(
        self,
        op: Op | LogicalTensor | str | Sequence[Op | LogicalTensor | str],
        tensors: Any,
        *,
        consumers: Sequence[Op | str] | None = None,
    ) -> None:
        """Let the consumers of an op, and the outputs of the graph, read other tensors in place of its results.

        Ops that the new tensors are computed from still read the old results. So ``g.replace(conv,
        g.relu(conv.outputs[0]))`` inserts a ReLU behind ``conv``. Shapes and data types of the ops behind are inferred
        again. The op, and the ops and constants that it alone has read, leave the graph if nothing reads them now.

        Args:
            op: the op, or its name; a tensor, such as an input, a constant or one of several results, or its name; or a
                list of these, which are replaced at once, such as the weights and the bias of another head.
            tensors: the new tensor for each result of the op in port order, with None for a result that stays; one
                tensor if the op has one result. A number or an array becomes a constant of the result's data type.
            consumers: the ops, or names of ops and of graph outputs, that read the new tensors; by default all of them.

        Raises:
            ArgumentError: the op or a tensor is not of this graph, or the number of tensors differs from that of the
                results. After any error the graph is as it was.
            SpecError: a consumer cannot have the new tensor.
        """
        removed, old = self._replaced(op)
        new = self._replacements(op, old, tensors)
        pairs = {a.id: b for a, b in zip(old, new, strict=True) if b is not None and b is not a}
        chosen, ends = (None, None) if consumers is None else readers_named(self, consumers, pairs)
        self._rewire(pairs, chosen, ends)
        if pairs:
            self._drop(old if removed is None else removed.outputs)

    @atomic
    def remove(self, op: Op | str) -> None:
        """Remove an op or a graph output, and the ops and constants that it alone has read; or an input.

        If something reads the result of the op, it reads in its place the one input with the same data type and shape:
        removing a ReLU or a Dropout joins what was before and behind it.

        Args:
            op: the op, or its name; or the name of an input or a variable, if no op has the name; or of an output, if
                no op that can be joined has it.

        Raises:
            ArgumentError: the op is not of this graph; its results are read, and there is not exactly one input to
                read instead; or the input is read. The graph is as it was then.
        """
        label = text(op)
        if label in self._inputs and not self._is_taken(label):
            self._remove_input(label)
            return
        if (
            label is not None
            and label in self.outputs
            and not (self._is_taken(label) and self._joined(own_op(self, op, "remove")))
        ):
            end = self._outputs[label]
            outputs = {name: one for name, one in self._outputs.items() if name != label}
            exchange(self, {"_outputs": outputs, **self._as_edited()})
            self._drop([end])
            return
        known = own_op(self, op, "remove")
        if self._is_read(known):
            self._rewire({known.outputs[0].id: self._passed_through(known)})
        self._drop(known.outputs, known)

    def _remove_input(self, name: str) -> None:
        tensor = self._inputs[name]
        readers = [op.name for op in uses_of(self).consumers.get(tensor.id, ())]
        readers += [output for output, end in self._outputs.items() if end.id == tensor.id]
        if readers or name in self._next:
            reason = f"is read by {some_of(readers, 5)}; g.replace(name, tensor) lets them read another tensor"
            raise ArgumentError(f"remove: {name!r} {reason if readers else 'is assigned; expected one that is not'}")
        exchange(
            self,
            {
                "_inputs": {other: one for other, one in self._inputs.items() if other != name},
                "_initial": {other: array for other, array in self._initial.items() if other != name},
                "_constant_inputs": self._constant_inputs - {name},
                "_by_id": {number: one for number, one in self._by_id.items() if number != tensor.id},
                **self._as_edited(),
            },
        )

    def _is_read(self, op: Op) -> bool:
        read, ends = uses_of(self).consumers, {tensor.id for tensor in self._outputs.values()}
        return any(tensor.id in read or tensor.id in ends for tensor in op.outputs)

    def _joined(self, op: Op) -> list[LogicalTensor]:
        """The inputs of the type of the only result of an op."""
        ends = {(tensor.dtype, tensor.shape) for tensor in op.outputs if len(op.outputs) == 1}
        return [
            tensor
            for tensor in dict.fromkeys(op.inputs)
            if not tensor.constant and (tensor.dtype, tensor.shape) in ends
        ]

    def _passed_through(self, op: Op) -> LogicalTensor:
        """The input that takes the place of the result of a removed op."""
        if len(alike := self._joined(op)) == 1:
            return alike[0]
        consumers = uses_of(self).consumers
        names = [other.name for tensor in op.outputs for other in consumers.get(tensor.id, ())]
        numbers = {tensor.id for tensor in op.outputs}
        names += [name for name, tensor in self._outputs.items() if tensor.id in numbers]
        several = "several inputs are" if alike else "no input is"
        reason = f"{several} of its type" if len(op.outputs) == 1 else "it has several results"
        raise ArgumentError(
            f"remove: {op.kind} {op.name!r} is read by {some_of(names, 5)}, and {reason} for them to read instead; "
            f"g.replace(op, tensors) says which tensors they read"
        )

    def _replaced(self, argument: object) -> tuple[Op | None, tuple[LogicalTensor, ...]]:
        """The op that is removed, if it is one, and the tensors that are replaced."""
        several = elements(argument)
        if several is None:
            return self._replaced_one(argument)
        return None, tuple(tensor for one in several for tensor in self._replaced_one(one)[1])

    def _replaced_one(self, argument: object) -> tuple[Op | None, tuple[LogicalTensor, ...]]:
        label = text(argument)
        if has_type(argument, LogicalTensor):
            return None, (self._by_id[self._own(argument, "replace").id],)
        if label is not None and not self._is_taken(label):
            return None, (self._tensor_named(label, "replace"),)
        op = own_op(self, argument, "replace")
        value = None if label is None else tensor_of_value(self._model_values, self._tensors, label)
        if value is not None and not any(value[0] is result for result in op.outputs):  # of another node than the op
            return None, (self._tensor_named(str(label), "replace"),)
        return op, op.outputs

    def _replacements(self, op: object, old: Sequence[LogicalTensor], argument: object) -> list[LogicalTensor | None]:
        """The tensor in the place of each result; None for one that stays."""
        several = elements(argument)
        values = [argument] if several is None else several
        label = op.name if has_type(op, (Op, LogicalTensor)) else op
        if len(values) != len(old):
            expected = f"{len(old)}, one for each of {', '.join(tensor.name for tensor in old)}"
            raise ArgumentError(f"replace {shown(label)}: {counted(len(values), 'tensor')}; expected {expected}")
        values_: list[LogicalTensor | None] = []
        for tensor, value in zip(old, values, strict=True):
            if value is None or has_type(value, LogicalTensor):
                own = None if value is None else self._own(value, f"replace {shown(label)}")
                values_.append(None if own is None else self._by_id[own.id])
                continue
            contents = contents_like("replace", value, tensor)
            if contents is None:
                expected = "a tensor of this graph, a number or an array"
                raise ArgumentError(f"replace {shown(label)}: {shown(value)}; expected {expected}")
            values_.append(self.constant(contents, name=tensor.name, dtype=tensor.dtype))
        return values_

    def _rewire(
        self, pairs: Mapping[int, LogicalTensor], chosen: set[int] | None = None, ends: set[str] | None = None
    ) -> None:
        """Let ops read other tensors: all but those that the tensors are computed from, or the chosen ones.

        Args:
            pairs: the new tensor by the id of the old one.
            chosen: ids of ops; None for all of them.
            ends: names of graph outputs; None for all of them.
        """
        kept = depended_on(self, pairs.values())
        ops = []
        for op in self._ops:
            reads = op.id not in kept and (chosen is None or op.id in chosen)
            if reads and any(tensor.id in pairs for tensor in op.inputs):
                op = with_inputs(op, [_other(tensor, pairs) for tensor in op.inputs])
            ops.append(op)
        changed: dict[int, LogicalTensor] = {}
        before = {op.id: op for op in self._ops}
        ops = [self._inferred(op, before[op.id], changed) for op in in_order(ops)]
        outputs = {
            name: self._end(name, end, pairs if ends is None or name in ends else {}, changed)
            for name, end in self._outputs.items()
        }
        names = {number: changed.get(number, tensor) for number, tensor in self._by_id.items()}
        self._refuse_assignments(outputs)
        exchange(self, {"_ops": ops, "_by_id": names, "_outputs": outputs, **self._as_edited()})

    def _as_edited(self) -> dict[str, object]:
        """What an edited graph does not keep of the file or model that it was read from."""
        mode = "strict" if self._file is None else self._file.fpmath_mode
        file = None
        if mode != "strict":
            file = FileOrigin({"graph": [], "fpmath_mode": mode}, (), {}, 0, (), ())
        return {"_file": file, "_n_read": 0}

    def _inferred(self, op: Op, before: Op, changed: dict[int, LogicalTensor]) -> Op:
        """The op with the types that follow from its inputs; ``changed`` gets the results whose types are others."""
        inputs = [_other(tensor, changed) for tensor in op.inputs]
        if all(a is b for a, b in zip(inputs, before.inputs, strict=True)):
            return op
        same = all(a.dtype is b.dtype for a, b in zip(inputs, before.inputs, strict=True))
        dtypes = tuple(tensor.dtype for tensor in op.outputs) if same else None
        inferred = signature(
            edition_named(op.edition),
            op.kind,
            dict(op.attrs),
            inputs,
            name=op.name,
            n_outputs=len(op.outputs),
            dtypes=dtypes,
            lenient=not self.strict,
        )
        outputs = []
        for tensor, dtype, shape in zip(op.outputs, inferred.dtypes, inferred.shapes, strict=True):
            if (dtype, shape) == (tensor.dtype, tensor.shape):
                outputs.append(tensor)
                continue
            made = make_tensor(tensor.id, dtype, shape, None, tensor.name, None, (), tensor._graph)
            outputs.append(made)
            changed[tensor.id] = made
        kept = None if inferred.lenient else inferred
        return make_op(op.id, op.kind, tuple(inputs), tuple(outputs), inferred.attrs, op.name, op.edition, kept)

    def _end(
        self,
        name: str,
        end: LogicalTensor,
        pairs: Mapping[int, LogicalTensor],
        changed: Mapping[int, LogicalTensor],
    ) -> LogicalTensor:
        """What a graph output becomes."""
        new = pairs.get(end.id, changed.get(end.id))
        if new is None:
            return end
        if end.strides is not None and new.shape != end.shape:
            problem = f"strides {list(end.strides)} for the shape {show(end.shape)}"
            raise ArgumentError(
                f"output {name!r} has {problem}, and would become {show(new.shape)}; expected that shape"
            )
        return new._laid_out(end.strides)

    def _refuse_assignments(self, outputs: Mapping[str, LogicalTensor]) -> None:
        """Raise ArgumentError if the next value of a variable would not fit it."""
        for name, output in self._next.items():
            own, new = self._inputs[name], outputs[output]
            if new.dtype is not own.dtype or not compatible(new.shape, own.shape):
                actual, expected = f"{new.dtype} {show(new.shape)}", f"{own.dtype} {show(own.shape)}"
                raise ArgumentError(f"the next value of variable {name!r} would be {actual}; expected {expected}")

    def _drop(self, tensors: Iterable[LogicalTensor], removed: Op | None = None) -> None:
        """Remove tensors that nothing reads, with the ops and constants that only they needed."""
        uses, ends = uses_of(self), {tensor.id for tensor in self._outputs.values()}
        held = {tensor.id for tensor in self._inputs.values()} | ends
        gone, ops = set[int](), set[int]()
        waiting = [*tensors]
        if removed is not None and not removed.outputs:
            ops.add(removed.id)
            waiting += removed.inputs
        while waiting:
            tensor = waiting.pop()
            op = uses.producers.get(tensor.id)
            results = [tensor] if op is None else op.outputs
            readers = [other.id for result in results for other in uses.consumers.get(result.id, ())]
            if not ops.issuperset(readers) or any(result.id in held for result in results) or tensor.id in gone:
                continue
            if op is None and tensor.value is None:
                continue
            gone.update(result.id for result in results)
            if op is not None:
                ops.add(op.id)
                waiting += op.inputs
        left = [op for op in self._ops if op.id not in ops]
        names = {op.name for op in self._ops if op.id in ops}
        roundings = None if self._roundings is None else self._roundings - names
        exchange(
            self,
            {
                "_ops": left,
                "_by_id": {number: tensor for number, tensor in self._by_id.items() if number not in gone},
                "_names": {name: number for name, number in self._names.items() if name not in names},
                "_roundings": roundings,
                **self._as_edited(),
            },
        )


def _other(tensor: LogicalTensor, replacements: Mapping[int, LogicalTensor]) -> LogicalTensor:
    return replacements.get(tensor.id, tensor)
