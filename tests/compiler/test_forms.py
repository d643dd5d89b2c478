"""Forms of ops: when a form is the op itself, what its parts read, and the parts that a builder adds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.ir.part import Part
from onegraph.compiler.rewrites.form import Form, FormBuilder, Rewrite, filled, form_of, result_types, scalar
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

TYPE, OTHER, NARROW = TensorType(og.f32, (2, 3)), TensorType(og.f32, (3, 2)), TensorType(og.bf16, (2, 3))
SOFTMAX = Call(BASE["SoftMax"], {"axis": 1}, [TYPE], 1, [og.f32])
SUM = Call(BASE["Add"], {}, [TYPE, TYPE], 1, [og.f32])
PART = Part("SoftMax", {"axis": 1}, (0,), (TYPE,), (TYPE,))
CONSTANT = np.ones((2, 3), np.float32)

# What differs from the op, and whether the form still is the op.
FORMS = {
    "the op": ({}, True),
    "another kind": ({"kind": "LogSoftmax"}, False),
    "other attributes": ({"attrs": {"axis": 0}}, False),
    "other types": ({"types": (OTHER,)}, False),
    "other kind and types": ({"kind": "LogSoftmax", "types": (OTHER,)}, False),
    "other attributes and types": ({"attrs": {"axis": 0}, "types": (OTHER,)}, False),
    "other kind and attributes": ({"kind": "LogSoftmax", "attrs": {"axis": 0}}, False),
    "a constant": ({"inputs": (CONSTANT,)}, False),
    "a further result": ({"outputs": (TYPE, TYPE)}, False),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_the_op_if_its_one_part_differs_in_nothing(name):
    other, is_op = FORMS[name]
    form = Form((replace(PART, **other),), (1,), 1)
    assert form.is_op(SOFTMAX) is is_op
    assert form.direct == (None if name in ("a constant", "a further result") else (0,))
    assert [*form.constants] == [one for one in other.get("inputs", ()) if not isinstance(one, int)]
    assert not Form((PART, PART), (2,), 1).is_op(SOFTMAX)


@pytest.mark.parametrize("result", ["part", "again", "input", "constant", "narrow"])
def test_results_of_a_form_are_made_by_parts_of_their_own(result):
    both = Call(BASE["Add"], {}, [TYPE, NARROW], 2, [og.f32, og.f32])
    parts = FormBuilder(both)
    first = parts.add("ReLU", 0)
    second = {"part": parts.add("Tanh", 0), "again": first, "input": 0, "constant": CONSTANT, "narrow": 1}[result]
    form = parts.form(first, second, note="why")
    added = {"part": [], "narrow": ["TypeCast"]}.get(result, ["Reorder"])
    assert [part.kind for part in form.parts] == ["ReLU", "Tanh", *added]
    assert form.results == (first, first + 1 if result == "part" else first + 2)
    assert (form.n_inputs, form.note, form.slow) == (2, "why", "")
    assert parts.form(first, note="").results == (first,)


def test_parts_get_the_type_of_their_first_input():
    parts = FormBuilder(Call(BASE["Add"], {}, [NARROW, None, TYPE], 1, [og.bf16]))
    number = parts.add("ReduceSum", 0, axes=(1,), keep_dims=True)
    assert (number, parts.type(number)) == (3, TensorType(og.bf16, (2, 1)))
    assert parts.add("Add", 2, number, outputs=(TYPE, OTHER)) == 4
    assert parts.add("ReLU", 5) == 6
    assert (parts.type(4), parts.type(6), parts.shape(CONSTANT)) == (TYPE, OTHER, (2, 3))
    assert parts.cast(2, og.f32) == 2
    assert (parts.cast(0, og.f32), parts.cast(0, og.f32), parts.cast(0, og.f16), len(parts.parts)) == (7, 7, 8, 5)
    assert parts.cast(CONSTANT, og.f16).dtype == np.float16
    assert parts.wide() == [7, 2]
    assert (parts.reshape(0, [2, 3]), parts.reshape(0, (3, 2)), parts.reshape(CONSTANT, (6,)).shape) == (0, 9, (6,))
    assert parts.parts[-1].attrs == {"shape": (3, 2), "special_zero": False}
    assert parts.shape(parts.along(parts.reshape(0, (6,)), 4, 2)) == (1, 1, 6, 1)


def test_constants_of_forms():
    assert scalar(2.5, 3).tolist() == [[[2.5]]]
    assert filled(SUM, (2, 1), 3).tolist() == [[3], [3]]
    assert filled(SUM, (1,), 3, og.s32).dtype == np.int32
    with pytest.raises(og.OutOfMemoryError, match=r"Add: a constant f32 \[4611686018427387904, 4\]"):
        filled(SUM, (2**62, 4), 1)


def test_rewrites_become_forms():
    assert result_types(replace_types(SOFTMAX, [og.bf16])) == (NARROW,)
    assert result_types(replace_types(SOFTMAX, [og.bf16, og.f32])) == (NARROW, TensorType(og.f32, (2, 1)))
    form = form_of(Rewrite("Add", {"auto_broadcast": "none"}, (0, CONSTANT), "why", (OTHER,)), SUM)
    (part,) = form.parts
    assert (part.kind, part.attrs, part.types) == ("Add", {"auto_broadcast": "none"}, (TYPE, TYPE))
    assert (part.outputs, form.results, form.n_inputs, form.note) == ((TYPE, OTHER), (2,), 2, "why")


def replace_types(call, types):
    """The same use with other data types of results."""
    return Call(call.schema, call.given, call.inputs, call.n_outputs, types)
