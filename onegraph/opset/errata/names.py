"""Lists texts of other ops."""

from __future__ import annotations

from .correction import (
    ATTRIBUTES,
    CURRENT,
    DESCRIPTION,
    FIRST,
    LEGACY,
    ONEAPI,
    OUTPUTS,
    TYPES,
    Correction,
    guide,
)

CORRECTIONS = (
    Correction(
        "max_pool_gradient_name",
        editions=CURRENT,
        ops=("MaxPoolBackward",),
        section=DESCRIPTION,
        where="",
        printed="AvgPoolBackward operation accepts",
        meant="MaxPoolBackward",
        reason="it is the page of MaxPoolBackward, and AvgPoolBackward has no input src",
        action="It computes the gradient of MaxPool.",
    ),
    Correction(
        "batch_norm_types_name",
        editions=CURRENT,
        ops=("BatchNormForwardTraining",),
        section=TYPES,
        where="",
        printed="BatchNormInference operation supports",
        meant="BatchNormForwardTraining",
        reason="the sentence is that of BatchNormInference; the table below has the outputs of the training op",
        action="The table is that of the training op.",
    ),
    Correction(
        "subtract_types_name",
        editions=(*ONEAPI, *guide(0, 3)),
        ops=("Subtract",),
        section=TYPES,
        where="",
        printed="Substract operation supports",
        meant="Subtract",
        reason="no op has this name; corrected in the guide v3.4",
        action="The op is Subtract.",
    ),
    Correction(
        "logical_op_name",
        editions=LEGACY,
        ops=("LogicalOr", "LogicalXor"),
        section=OUTPUTS,
        where="output",
        printed="element-wise LogicalAnd operation",
        meant="the result of the op of the page",
        reason="the entry is that of LogicalAnd",
        action="Each op has its own result.",
    ),
    Correction(
        "pow_exponent_name",
        editions=LEGACY,
        ops=("PowBackpropExponent",),
        section=DESCRIPTION,
        where="",
        printed="PowBackprop computes gradient of exponent",
        meant="PowBackpropExponent",
        reason="PowBackprop is another op, the gradient of the base",
        action="It computes the gradient of the exponent.",
    ),
    *(
        Correction(
            f"quantization_{name}",
            editions=editions,
            ops=kinds,
            section=ATTRIBUTES,
            where=name,
            printed=printed,
            meant="quantization",
            reason="the row is that of the dequantization",
            action="It quantizes.",
        )
        for name, editions, kinds, printed in (
            ("qtype", ONEAPI, ("Quantize", "DynamicQuantize"), "which de-quantization type is used"),
            ("axis", ONEAPI, ("Quantize", "DynamicQuantize"), "per-channel de-quantization is applied"),
        )
    ),
    *(
        Correction(
            f"quantization_{name}_guide",
            editions=guide(2),
            ops=("DynamicQuantize",),
            section=ATTRIBUTES,
            where=name,
            printed=printed,
            meant="quantization",
            reason="the row is that of DynamicDequantize; the guide has quantization up to v3.1",
            action="It quantizes.",
        )
        for name, printed in (
            ("qtype", "which de-quantization type is used"),
            ("axis", "per-channel de-quantization is applied"),
        )
    ),
    *(
        Correction(
            f"softmax{name}_name",
            editions=FIRST,
            ops=(kind,),
            section=DESCRIPTION,
            where="",
            printed=printed,
            meant=kind,
            reason=f"the C++ API and later editions have {kind}",
            action=f"It takes {kind} and, in these editions, {printed.split()[0]}.",
        )
        for name, kind, printed in (
            ("", "SoftMax", "Softmax operation applies"),
            ("_gradient", "SoftMaxBackward", "SoftmaxBackward operation computes"),
        )
    ),
    Correction(
        "dropout_modes",
        editions=guide(12),
        ops=("Dropout",),
        section=DESCRIPTION,
        where="",
        printed="applies the same mask and scaling to the gradient",
        meant="the forward op of training alone",
        reason="the sentences on inference and on the gradient are those of the primitive; no attribute selects them, "
        "and the "
        "op has no port for a gradient",
        action="It always drops elements; a graph for inference leaves the op out.",
    ),
    Correction(
        "abs_page",
        editions=LEGACY,
        ops=("AbsBackprop",),
        section=DESCRIPTION,
        where="",
        printed="no page for Abs, to which this page refers",
        meant="Abs computes |input|, as in later editions",
        reason="the library of the edition has the op",
        action="The edition has no op Abs; Maximum of the input and its Negative gives the same.",
    ),
)
