"""Checks an op of a graph against another edition than the one whose words it uses."""

from __future__ import annotations

from ..errors import SpecError, Violation
from ..inference.infer import infer_op
from ..inference.suggestions import unknown_op
from ..inference.translate_op import translate
from ..inference.violations import Violations
from ..ir.op import Op, schema_of
from ..opset.editions.registry import Edition, base_of


def there(op: Op, n_outputs: int, target: Edition) -> list[Violation]:
    """The violations of ``op`` in the edition ``target``: what the edition lacks, and what it forbids.

    Args:
        op: an op that its own edition allows.
        n_outputs: number of outputs that are used; the edition may lack outputs behind them.
        target: the edition to check against.
    """
    noted = Violations(target, f"{op.kind} {op.name!r}")
    schema = target.meaning(base_of(schema_of(op)))
    if schema is None:
        noted.add("unknown_op", "kind", op.kind, f"an op of edition {target.name}", unknown_op(target, op.kind))
        return noted.violations
    noted.page = target.page(schema)
    outputs = op.outputs if schema.outputs[-1:] and schema.outputs[-1].variadic else op.outputs[: len(schema.outputs)]
    outputs = op.outputs[: max(len(outputs), n_outputs)]
    try:
        result = translate(op.kind, dict(op.attrs), op.inputs, outputs, source=op.edition, target=target.name)
    except SpecError as error:
        return list(error.violations)
    for where in result.lost:
        noted.add(
            "not_in_edition", where, op.attrs.get(where, "given"), f"what {target.name} has", result.reasons[where]
        )
    if result.lost:
        return noted.violations
    tensors, results = list(result.inputs), list(result.outputs)
    return list(infer_op(result.kind, result.attrs, tensors, results, edition=target, name=op.name).violations)
