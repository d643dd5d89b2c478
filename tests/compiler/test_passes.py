"""The passes over a lowered graph: what the list promises, what an edit does, and what each pass leaves sound."""

import ast
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.command_line import onegraph

import onegraph as og
from onegraph.capi.settings import has_avx2
from onegraph.compiler.ir.check import broken_rules
from onegraph.compiler.ir.edit import Edit
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Values
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import NAMES, PASSES, run_passes
from onegraph.compiler.passes.attention_scores import is_without_last
from onegraph.compiler.passes.pointwise import _Groups
from onegraph.compiler.shared_constants import SharedConstants
from onegraph.compiler.slow_layouts import channels_first, channels_last
from onegraph.opset.schema import TensorType

FOLDER = Path(og.__file__).with_name("compiler") / "passes"


def chain():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.tanh(g.exp(g.abs(x))))
    return lower(g)


# The list -------------------------------------------------------------------------------------------------------------


def test_each_pass_has_a_name_and_a_reason():
    assert len(NAMES) == len(PASSES)
    for each in PASSES:
        assert each.name.isidentifier()
        assert each.reason[0].islower() or each.reason[0].isupper()
        assert not each.reason.endswith(".")


def test_debug_leaves_what_joins_ops():
    running = {each.name for each in PASSES if each.when(Options(policy="debug"))}
    assert running == {"constants", "special_values", "row_leaks"}


def test_reproducible_results_take_no_other_order_of_sums():
    names = [{each.name for each in PASSES if each.when(Options(reproducible=on))} for on in (False, True)]
    assert names[0] - names[1] == {"vector_products"}


def test_named_passes_alone_run():
    seen = []
    run_passes(chain(), Options(), ["codes", "pointwise"], lambda each, before, after: seen.append(each.name))
    assert seen == ["codes", "pointwise"]


def makes_index(node):
    """Whether a loop or comprehension over steps files them by the values that they read or make."""
    text = ast.unparse(node)
    loops = isinstance(node, ast.For | ast.DictComp | ast.SetComp) and "steps" in text
    return loops and (".setdefault(" in text or (isinstance(node, ast.DictComp) and ".outputs}" in text + "}"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_no_pass_builds_an_index(path):
    tree = ast.parse(path.read_text())
    assert not [ast.unparse(node) for node in ast.walk(tree) if makes_index(node)]
    text = path.read_text()
    assert "len(self._values)" not in text
    assert "_replace(id=" not in text


# Edits ----------------------------------------------------------------------------------------------------------------


def test_indices_tell_makers_and_consumers():
    graph = chain()
    first, second, last = graph.steps
    assert graph.maker(first.outputs[0]) is first
    assert graph.maker(first.inputs[0]) is None
    assert graph.consumers(first.outputs[0]) == [second]
    assert graph.only_consumer(first.outputs[0]) is second
    assert graph.only_consumer(last.outputs[0]) is None  # the graph returns it
    assert graph.returned == {*last.outputs}


def test_step_that_reads_twice_is_one_consumer():
    g = og.Graph()
    x = g.abs(g.input("x", og.f32, (2,)))
    g.output("y", g.multiply(x, x))
    graph = lower(g)
    assert graph.consumers(graph.steps[0].outputs[0]) == [graph.steps[1]]


def test_edit_without_changes_returns_the_graph():
    graph = chain()
    assert Edit(graph).done() is graph


def test_edit_numbers_steps_and_values():
    graph = chain()
    edit = Edit(graph)
    first, second, _ = graph.steps
    between = edit.values.like(first.outputs[0], "copy")
    edit.replace(
        second,
        edit.library_step(second, "Reorder", first.outputs, (between,)),
        edit.library_step(second, "Exp", (between,), second.outputs),
    )
    changed = edit.done()
    assert [step.id for step in changed.steps] == [0, 1, 2, 3]
    assert [step.kind for step in changed.steps] == ["Abs", "Reorder", "Exp", "Tanh"]
    assert changed.values[between].name.endswith("(copy)")
    assert between not in graph.values
    assert not [*broken_rules(changed)]


def test_spare_step_goes_when_nobody_reads_it():
    graph = chain()
    first, second, _ = graph.steps
    for reads, kinds in ((first.outputs, ["Abs", "Exp", "Tanh"]), (first.inputs, ["Exp", "Tanh"])):
        edit = Edit(graph)
        edit.spare([first])
        edit.replace(second, edit.library_step(second, "Exp", reads, second.outputs))
        assert [step.kind for step in edit.done().steps] == kinds


def test_reset_forgets_all_changes():
    graph = chain()
    edit = Edit(graph)
    edit.constant(np.zeros(2, np.float32), "zeros")
    edit.replace(graph.steps[0])
    edit.reset()
    assert edit.done() is graph
    assert len(edit.values) == len(graph.values)


def test_constant_with_other_strides_keeps_them():
    edit = Edit(chain())
    number = edit.constant(np.zeros((2, 3), np.float32).T, "turned")
    assert edit.values[number].strides == (1, 3)


def test_parts_are_equal_by_value():
    edit = Edit(chain())
    (step, *_), read = edit.graph.steps, edit.graph.steps[0].inputs
    one, other = (edit.part("Clamp", {"min": 0.0, "max": 1.0}, read, step.outputs) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    for changed in ({"min": -0.0, "max": 1.0}, {"min": 0.0, "max": 2.0}):
        assert edit.part("Clamp", changed, read, step.outputs) != one
    assert replace(one, outputs=(TensorType(og.bf16, (2, 3)),)) != one


# Sound graphs ---------------------------------------------------------------------------------------------------------


def test_checks_find_unsound_graphs():
    graph = chain()
    first, second, last = graph.steps
    values = Values(graph.values)
    values[first.outputs[0]] = values[first.outputs[0]]._replace(shape=(3, 2))
    wrong = {
        "the id": [first, second, second],
        "a later step makes": [second._replace(id=0), first._replace(id=1), last],
        "an earlier step makes": [first, second._replace(outputs=first.outputs), last],
        "which the graph returns": [first, second],
        "which there is not": [first._replace(inputs=(99,)), second, last],
    }
    for text, steps in wrong.items():
        assert any(text in rule for rule in broken_rules(replace(graph, steps=tuple(steps)))), text
    assert any("takes value" in rule for rule in broken_rules(replace(graph, values=values)))
    assert not [*broken_rules(graph)]


def test_equal_layers_are_compiled_once():
    """Four convolutions of few windows become products, which are equal."""
    g = og.Graph()
    x = g.input("x", og.f32, (1, 4, 4, 256))
    for layer in range(4):
        w = g.input(f"w{layer}", og.f32, (256, 256, 1, 1))
        attrs = {name: (value, value) for name, value in (("strides", 1), ("dilations", 1), ("pads_begin", 0))}
        x = g.convolution(x, w, **attrs, pads_end=(0, 0), data_format="NXC", weights_format="OIX")
    g.output("y", x)
    graph = run_passes(lower(g), Options())
    products = [step.part for step in graph.steps if step.kind == "MatMul"]
    assert len(products) == 4
    assert len({*products}) == 1


# The command ----------------------------------------------------------------------------------------------------------


def saved(tmp_path):
    g = og.Graph()
    x = g.input("x", og.f32, (64, 1024))
    g.output("y", g.sigmoid(x) * x + g.exp(g.constant(np.ones(1024, np.float32))))
    g.save(tmp_path / "g.json")
    return tmp_path / "g.json"


def test_show_prints_what_each_pass_changes(tmp_path):
    text = onegraph("show", saved(tmp_path), "--passes").stdout
    assert [line.partition(":")[0] for line in text.splitlines() if ": " in line and line[0] != " "] == [
        each.name for each in PASSES
    ]
    assert "\nconstants: ops on constants alone are computed once\n  - Exp 'exp_2'\n" in text
    assert "  + Add 'add_3' by pointwise\n" in text or not has_avx2()


def test_show_says_which_passes_do_not_run(tmp_path):
    facts = json.loads(onegraph("show", saved(tmp_path), "--passes", "--json", "--policy", "debug").stdout)["passes"]
    assert {each["name"] for each in facts if each["runs"]} == {"constants", "special_values", "row_leaks"}
    (folding,) = [each for each in facts if each["name"] == "constants"]
    assert folding["removed"] == ["Exp 'exp_2'"]
    assert folding["n_steps"] == 3


# Parts of passes on both sides of their conditions --------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "read"), [(True, {1, 2, 5}), (False, {1, 5})])
def test_numpy_reads_all_inputs_of_a_whole_op(whole, read):
    op = SimpleNamespace(inputs=[SimpleNamespace(id=1), None, SimpleNamespace(id=2)])
    assert Step(0, "library", "Add", (1, 5), (3,), op, whole=whole).reads == read


# Starts, ends, axes and steps of a Slice of (2, 3, 4, 5), and whether it takes all but the last number of each row.
SLICES = [
    ([0], [4], [3], [1], True),
    ([0], [-1], [-1], [1], True),
    ([0], [4], [3], None, True),
    ([0], [4], [-1], None, True),
    ([1], [5], [3], [1], False),
    ([0], [3], [3], [1], False),
    ([0], [3], [2], [1], False),
    ([0, 0], [3, 4], [2, 3], None, False),
    (None, [4], [3], [1], False),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "found"), SLICES)
def test_slices_without_the_last_number_of_each_row(starts, ends, axes, steps, found):
    g = og.Graph()
    x, other = g.input("x", og.f32, (2, 3, 4, 5)), g.input("z", og.f32, (2, 3, 4, 5))
    given = [
        g.input("starts", og.s64, (1,)) if one is None else g.constant(np.array(one), dtype=og.s64)
        for one in (starts, ends, axes, *([steps] if steps else []))
    ]
    g.output("y", g.op("Slice", [x, *given], {}, edition="host") if starts else g.relu(x))
    lowered = lower(g)
    step = next(step for step in lowered.steps if step.op.inputs[0] is x)
    assert is_without_last(lowered, step, x.id) is found
    assert not is_without_last(lowered, step, other.id)


def test_strides_of_channels_by_hand():
    assert channels_last((2, 5, 3, 4)) == (60, 1, 20, 5)
    assert channels_first((2, 3, 4, 5)) == (60, 4, 1, 12)
    assert channels_first((2, 3, 5)) == (15, 1, 3)


def drawn_chain(drawn):
    """Elementwise ops, and SoftMax, which reads what they make and which they read."""
    graph = og.Graph()
    tensors = [graph.input("x", "f32", (64, 256))]
    for _ in range(10):
        kind, (first, second) = drawn.random(), [drawn.choice(tensors[-4:]) for _ in range(2)]
        one = graph.softmax(first, axis=1) if kind < 0.25 else graph.exp(first) if kind < 0.5 else None
        tensors.append(graph.add(first, second) if one is None else one)
    for number, tensor in enumerate(tensors[-3:]):
        graph.output(f"y{number}", tensor)
    return graph


def test_no_path_leaves_joined_ops_and_comes_back():
    joined = 0
    for seed in range(60):
        graph = drawn_chain(Random(seed))
        lowered = lower(graph, finite_math=False, opens=False, shared=SharedConstants.of(graph))
        before = []
        for step in lowered.steps:
            makers = {maker.id for number in step.inputs if (maker := lowered.maker(number)) is not None}
            before.append(makers.union(*(before[maker] for maker in makers)))
        for group in _Groups(lowered, frozenset(), opens=False).found():
            inside = {step.id for step in group}
            behind = {step.id for step in lowered.steps if before[step.id] & inside} - inside
            assert not any(before[number] & behind for number in inside), seed
            joined += len(group) > 1
    assert joined > 50
