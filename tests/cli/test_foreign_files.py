"""JSON files of other programs: of the library, of PyTorch, of older versions."""

import copy
import json
import pickle

import numpy as np
import pytest
from conftest import SHARED, draws
from helpers.json_files import (
    UNKNOWN,
    assert_agrees,
    assert_library_reads,
    assert_same,
    file,
    load,
    op,
    relu,
    tensor,
)

import onegraph as og
from onegraph.tools.harness import rewrite

# Graphs of the library ------------------------------------------------------------------------------------------------


CORPUS = SHARED / "data" / "benchdnn-3.2"


FILES = sorted(CORPUS.rglob("*.json"))


needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the graphs of oneDNN are not beside this checkout")


@needs_corpus
def test_library_graphs_round_trip():
    assert len(FILES) == 363
    for path in draws(FILES[::2], FILES):
        whole = json.loads(path.read_text())
        g = og.Graph.load(path)
        assert json.loads(g.to_json()) == whole, path
        if path.name == "biasadd_bwd.json":  # an old name, unknown to benchdnn
            with pytest.raises(og.UnsupportedError, match="BiasAddBackprop"):
                g.to_json(for_version="3.2")
            continue
        if path.name == "int8_bf16_conv_add_fusion.json":  # Netron refuses its stale shape in one use of a tensor
            assert whole["graph"][1]["outputs"] != whole["graph"][4]["inputs"][:1]
            whole["graph"][1]["outputs"] = whole["graph"][4]["inputs"][:1]
        for_version = json.loads(og.Graph.from_json(g.to_json()).to_json(for_version="3.2"))
        made = {one["id"] for op in whole["graph"] for one in op["outputs"]}
        read = {one["id"] for op in whole["graph"] for one in op["inputs"]}
        ended = {one["id"] for op in whole["graph"] for one in op["inputs"] if not op["outputs"]}
        ports = [for_version.pop(key) for key in ("input_ports", "output_ports")]
        assert {*ports[0]} == read - made, path
        assert made - (read - ended) <= {*ports[1]} <= made, path
        plain = {key: value for key, value in whole.items() if key not in ("input_ports", "output_ports")}
        for one, original in zip(for_version["graph"], plain["graph"], strict=True):  # defaults are added
            assert one["attrs"].items() >= original.get("attrs", {}).items(), path
            one["attrs"] = original["attrs"]
        assert for_version == {**plain, "version": "3.2.0"}, path
        assert_library_reads(g, for_version="3.2")


FORBIDDEN = {"attribute_range": 12, "gradient_resized": 1, "scale_count": 1}


@needs_corpus
def test_loads_and_reports_forbidden_graphs():
    found = []
    for path in FILES:
        errors = [violation for violation in og.check_graph(og.Graph.load(path)) if violation.severity == "error"]
        found += [error.rule for error in errors]
        if errors:
            with pytest.raises(og.SpecError, match=r"^graph\[\d+\]: "):
                og.Graph.load(path, strict=True)
    assert {rule: found.count(rule) for rule in set(found)} == FORBIDDEN


SAMPLE = [
    ("op/f32/add_0d", 1e-6),
    ("op/f32/biasadd_bwd", 1e-4),
    ("op/f32/interpolate", 1e-5),
    ("op/f32/deconv", 1e-5),
    ("op/bf16/interpolate_bwd_1d", 1e-2),
    ("op/f16/prelu_bwd", 1e-3),
    ("pattern/f32/avgpool_3d_chain_fusion", 1e-5),
    ("pattern/int8/int8_bnorm_relu_fusion", 1e-2),
    ("pattern/int8/int8_matmul_bias_sum_fusion", 1e-2),
]


@needs_corpus
@pytest.mark.parametrize(("name", "tolerance"), SAMPLE)
def test_library_graphs_run(name, tolerance):
    assert_agrees(og.Graph.load(CORPUS / f"{name}.json"), tolerance)


# Single properties ----------------------------------------------------------------------------------------------------


def test_names_follow_the_ports():
    ops = [
        op(7, "Add", [tensor(9, "f32", [2]), tensor(4, "f32", [2])], [tensor(30, "f32", [2])]),
        op(3, "Multiply", [tensor(4, "f32", [2]), tensor(5, "f32", [2])], [tensor(2**64 - 1, "f32", [2])]),
    ]
    g = load(file(*ops))
    assert (list(g.inputs), list(g.outputs)) == (["t9", "t4", "t5"], ["t30", f"t{2**64 - 1}"])
    g = load(file(*ops, input_ports=[5, 4], output_ports=[2**64 - 1]))
    assert (list(g.inputs), list(g.outputs)) == (["t5", "t4", "t9"], [f"t{2**64 - 1}"])
    g.output("last", g.relu(g.outputs[f"t{2**64 - 1}"]))
    whole = json.loads(g.to_json())
    assert [one["id"] for one in whole["graph"]] == [7, 3, 8]
    assert whole["graph"][2]["inputs"][0]["id"] == 2**64 - 1
    assert whole["graph"][2]["outputs"][0]["id"] == 0
    assert_same(g, og.Graph.from_json(g.to_json()))


def test_stale_and_repeated_ports():
    whole = file(relu(0, 1, 0), relu(1, 2, 1), input_ports=[0, 0, 9, 1], output_ports=[9, 0, 2, 2])
    g = load(whole)
    assert (list(g.inputs), list(g.outputs)) == (["t0"], ["t0_out", "t2"])
    assert json.loads(g.to_json()) == whole
    assert list(load(file(relu(), output_ports=[7])).outputs) == ["t1"]
    whole["onegraph"] = {"inputs": [{"id": 0, "name": "t0"}]}
    assert list(load(whole).outputs) == ["t0_out", "t2"]
    two = [{"id": 0, "name": "t2"}, {"id": 1, "name": "t2_out"}]
    add = op(0, "Add", [tensor(0, "f32", [2]), tensor(1, "f32", [2])], [tensor(2, "f32", [2])])
    assert list(load(file(add, onegraph={"inputs": two})).outputs) == ["t2_out_out"]


def test_reads_ops_in_any_order():
    g = load(file(relu(1, 2, 5), relu(2, 3, 1), relu(0, 1, 9)))
    assert [one.inputs[0].name for one in g.ops] == ["t0", "relu_0.dst", "relu_1.dst"]
    assert (list(g.inputs), list(g.outputs)) == (["t0"], ["t3"])
    assert [one["id"] for one in json.loads(g.to_json())["graph"]] == [5, 1, 9]


@pytest.mark.parametrize("flag", ["true", "false", 0, 1])
def test_files_say_as_words_or_numbers_whether_integers_follow(flag):
    whole = file(relu(4, 6, 11), fpmath_mode_apply_to_int=flag)
    assert json.loads(load(whole).to_json())["fpmath_mode_apply_to_int"] == flag


def test_extended_graph_keeps_facts_of_the_file():
    whole = file(relu(4, 6, 11), fpmath_mode_apply_to_int="true", extra=[1], input_ports=[4])
    whole["graph"][0]["colour"] = {"red": 1}
    g = load(whole)
    g.output("more", g.exp(g.outputs["t6"], name="exp"))
    for graph in (g, g.copy()):
        found = json.loads(graph.to_json())
        assert found["graph"][0] == whole["graph"][0]
        assert found["graph"][1] == op(12, "Exp", [tensor(6, "f32", [2, 3])], [tensor(7, "f32", [2, 3])], name="exp")
        assert (found["extra"], found["fpmath_mode_apply_to_int"]) == ([1], "true")
        assert (found["input_ports"], found["output_ports"]) == ([4], [6, 7])
        assert_same(graph, og.Graph.from_json(graph.to_json()))


def test_keeps_unknown_keys():
    whole = file(relu())
    whole["graph"][0]["colour"] = "red"
    whole["graph"][0]["inputs"][0]["weight"] = {"a": [None, True]}
    whole["graph"][0]["attrs"] = {"partition_id": {"value": "3", "type": "string"}}
    whole = {"first": 1, "fpmath_mode_apply_to_int": "false", **whole}
    g = load(whole)
    assert json.loads(g.to_json()) == whole
    assert list(json.loads(g.to_json()))[-2:] == ["fpmath_mode_apply_to_int", "first"]
    assert list(json.loads(g.to_json())["graph"][0])[-1] == "colour"
    assert g.ops[0].attrs == {}
    # In ops and tensors the library's reader stops at an unknown key; after the graph it needs no more keys.
    with pytest.raises(AssertionError):
        assert_library_reads(g)
    assert_library_reads(g, for_version="3.2")
    ports = {"input_ports": [0], "output_ports": [1]}
    assert json.loads(g.to_json(for_version="3.2")) == {**whole, **ports, "version": "3.2.0", "graph": [relu()]}


def test_reads_values_as_programs_write_them():
    attrs = {"alpha": {"value": 1, "type": "f32"}}
    whole = file({**relu(), "kind": "Elu", "attrs": attrs}, fpmath_mode="any")
    g = load(whole)
    assert type(g.ops[0].attrs["alpha"]) is float
    assert json.loads(g.to_json()) == whole
    assert_library_reads(g)
    clamp = {**relu(), "kind": "Clamp", "attrs": {"min": {"type": "f32", "value": 0}, "max": attrs["alpha"]}}
    text = json.dumps(file(clamp)).replace('"value": 0', '"value": -inf')
    endless = og.Graph.from_json(text)
    assert endless.ops[0].attrs["min"] == -np.inf
    assert_library_reads(endless)  # the library cannot read its own dump of an infinity
    assert og.Graph.from_json(endless.to_json()).ops[0].attrs == {"min": -np.inf, "max": 1.0}
    matmul = op(0, "MatMul", [tensor(0, "f32", [3, 2]), tensor(1, "f32", [3, 4])], [tensor(2, "f32", [2, 4])])
    matmul["attrs"] = {"transpose_a": {"type": "bool", "value": True}, "transpose_b": {"type": "bool", "value": 0}}
    g = load(file(matmul))
    assert g.ops[0].attrs == {"transpose_a": True, "transpose_b": False}
    assert_library_reads(g)


def test_replaces_names_that_the_library_cannot_read():
    g = load(file({**relu(), "name": "a\x01b"}))
    assert json.loads(g.to_json())["graph"][0]["name"] == "a b"
    assert og.Graph.from_json(g.to_json()).ops[0].name == "a\x01b"
    assert_library_reads(g)


def test_reads_files_with_omitted_keys():
    whole = {"graph": [{"id": 0, "kind": "ReLU", "inputs": [{"id": 0, "dtype": "f32"}]}]}
    whole["graph"][0]["outputs"] = [{"id": 1, "dtype": "f32", "shape": [2]}]
    g = load(whole)
    assert (g.inputs["t0"].shape, g.outputs["t1"].shape) == (None, (2,))
    assert json.loads(g.to_json())["graph"] == whole["graph"]
    whole = file(op(0, "ReLU", [tensor(0, "f32", [UNKNOWN])], [tensor(1, "f32", [2])]))
    ports = {"input_ports": [0], "output_ports": [1]}
    assert json.loads(g.to_json(for_version="3.2")) == {**whole, **ports, "version": "3.2.0"}
    assert_library_reads(g, for_version="3.2")


@pytest.mark.library
def test_reads_a_dump_of_pytorch():
    unknown = {"shape": [UNKNOWN], "stride": [UNKNOWN], "layout_type": "undef"}
    wild = {"id": 5, "dtype": "undef", **unknown, "property_type": "variable"}
    scalar = {**tensor(8, "f32", []), "property_type": "host_scalar"}
    ops = [
        op(1, "Wildcard", [tensor(0, "f32", [2, 3])], [wild]),
        op(2, "ReLU", [tensor(0, "f32", [2, 3])], [{**tensor(6, "f32", [2, 3]), **unknown}]),
        op(3, "End", [{**tensor(6, "f32", [2, 3]), **unknown}], []),
        op(4, "Divide", [tensor(6, "f32", [2, 3]), scalar], [tensor(7, "f32", [2, 3])]),
    ]
    g = load(file(*ops))
    assert json.loads(g.to_json()) == file(*ops)
    agreed = copy.deepcopy(ops)
    for one in (agreed[1]["outputs"], agreed[2]["inputs"]):  # if the uses of a tensor differ, the known shape counts
        one[0] = tensor(6, "f32", [2, 3])
    agreed[3]["attrs"] = {"auto_broadcast": {"type": "string", "value": "numpy"}}
    ports = {"input_ports": [0, 8], "output_ports": [5, 6, 7]}
    assert json.loads(g.to_json(for_version="3.13")) == {**file(*agreed), **ports, "version": "3.13.0"}
    assert_library_reads(g, for_version="3.13")
    assert (list(g.inputs), list(g.outputs)) == (["t0", "t8"], ["t5", "t6", "t7"])
    assert (g.outputs["t6"].shape, g.outputs["t7"].shape, g.inputs["t8"].shape) == ((2, 3), (2, 3), ())
    assert_agrees(load(file(*ops[1:])), 1e-6)


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "attrs", "expected"),
    [
        ("BiasAddBackprop", {"data_format": "NCX"}, ("BiasAddBackprop", "legacy-1")),
        ("BiasAddBackward", {"data_format": "NCX"}, ("BiasAddBackward", "onednn-3.13")),
    ],
)
def test_reads_old_op_names(kind, attrs, expected):
    whole = file(op(0, kind, [tensor(0, "f32", [2, 3, 4])], [tensor(1, "f32", [3])], attrs))
    g = load(whole)
    assert (g.ops[0].kind, g.ops[0].edition) == expected
    assert json.loads(g.to_json()) == whole
    assert_agrees(g, 1e-6)


@pytest.mark.library
def test_reads_old_names_with_new_attributes():
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "data_format": "NCX"}
    ins = [tensor(0, "f32", [1, 3, 4, 4]), tensor(1, "f32", [5, 3, 2, 2])]
    for words, edition in (({"filter_format": "OIX"}, "legacy-1"), ({"weights_format": "OIX"}, "onednn-3.13")):
        g = load(file(op(0, "Convolution", ins, [tensor(2, "f32", [1, 5, 3, 3])], {**window, **words})))
        assert g.ops[0].edition == edition
        assert_agrees(g, 1e-6)
    back = [tensor(0, "f32", [1, 5, 3, 3]), ins[1]]
    attrs = {**window, "weights_format": "OIX", "dst_shape": [1, 3, 4, 4]}
    g = load(file(op(0, "ConvolutionBackpropData", back, [tensor(2, "f32", [1, 3, 4, 4])], attrs)))
    assert (g.ops[0].kind, g.ops[0].edition) == ("ConvolutionBackwardData", "onednn-3.13")


def test_omits_defaults_of_the_library():
    window = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
    attrs = {**window, "weights_format": "IOX", "output_padding": [0] * 12}
    ins = [tensor(0, "f32", [1, 2, 3]), tensor(1, "f32", [2, 4, 2])]
    whole = file(op(0, "ConvTranspose", ins, [tensor(2, "f32", [1, 4, 4])], attrs))
    g = load(whole, strict=True)
    assert "output_padding" not in g.ops[0].attrs
    assert json.loads(g.to_json()) == whole
    assert json.loads(g.to_json(for_version="3.2"))["graph"][0]["attrs"].keys() >= {"output_padding"}
    attrs["output_padding"] = [0] * 11 + [1]
    with pytest.raises(og.SpecError, match="output_padding"):
        load(file(op(0, "ConvTranspose", ins, [tensor(2, "f32", [1, 4, 4])], attrs)))


@pytest.mark.parametrize("padding", [[], [0], [0, 0, 0]])
def test_rejects_output_padding_of_another_length(padding):
    attrs = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "auto_pad": "same_upper"}
    attrs |= {"data_format": "NCX", "weights_format": "OIX", "dst_shape": [1, 3, 4, 4]}
    for strict in (True, False):
        g = og.Graph(strict=strict)
        dy, w = g.input("dy", og.f32, (1, 5, 4, 4)), g.input("w", og.f32, (5, 3, 3, 3))
        with pytest.raises(og.SpecError, match=r"output_padding: \[.*\]; expected 2 elements"):
            g.op("ConvolutionBackwardData", [dy, w], {**attrs, "output_padding": padding})


def test_reads_negative_pads():
    window = {"strides": [2], "pads_begin": [0], "pads_end": [-1], "dilations": [1], "data_format": "NCX"}
    ins = [tensor(0, "f32", [1, 2, 8]), tensor(1, "f32", [4, 2, 2])]
    ins[1]["property_type"] = "constant"
    whole = file(op(0, "Convolution", ins, [tensor(2, "f32", [1, 4, 3])], {**window, "weights_format": "OIX"}))
    g = load(whole)
    assert [one.rule for one in og.check_graph(g) if one.severity == "error"] == ["attribute_range"]
    assert g.outputs["t2"].shape == (1, 4, 3)
    x, w = np.ones((1, 2, 8), np.float32), np.ones((4, 2, 2), np.float32)
    assert np.array_equal(og.reference.run(g, {"t0": x, "t1": w})["t2"], np.full((1, 4, 3), 4))
    with pytest.raises(og.SpecError, match=r"^graph\[0\]: .*pads_end"):
        load(whole, strict=True)
    for name, pads, dims, said in (
        ("pads_end", -9, [1, 4, 3], "8 elements .*; expected at least 11"),
        ("pads_end", -9, [UNKNOWN], "8 elements .*; expected at least 11"),
        ("pads_end", -(2**63), [UNKNOWN], "pads_end: .*within 64 bits"),
        ("pads_begin", -1, [UNKNOWN], r"pads_begin: \[-1\]"),
    ):
        other = copy.deepcopy(whole)
        other["graph"][0]["attrs"][name]["value"] = [pads]
        other["graph"][0]["outputs"] = [tensor(2, "f32", dims)]
        with pytest.raises(og.SpecError, match=rf"^graph\[0\]: Convolution .*{said}"):
            load(other)
    for rule, changes in (("channels", {1: [4, 3, 2]}), ("bias", {3: [5]})):
        other = copy.deepcopy(whole)
        inputs = {0: [1, 2, 8], 1: [4, 2, 2], **changes}
        other["graph"][0]["inputs"] = [tensor(number, "f32", dims) for number, dims in inputs.items()]
        with pytest.raises(og.SpecError, match=rule):  # the other rules still apply
            load(other)


def test_reads_types_that_the_library_accepts():
    def divided(dtype):
        types = {0: "f32", 1: dtype, 2: "f16"}
        ins, out = [tensor(n, types[n], [2]) for n in (0, 1)], [tensor(2, types[2], [2])]
        return file(op(0, "Divide", ins, out))

    g = load(divided("bf16"))
    assert [one.rule for one in og.check_graph(g) if one.severity == "error"] == ["data_type"]
    assert g.outputs["t2"].shape == (2,)
    with pytest.raises(og.SpecError, match="Divide"):
        load(divided("bf16"), strict=True)
    with pytest.raises(og.SpecError, match="Divide"):
        load(divided("s8"))


@pytest.mark.parametrize(
    ("op", "port", "where"),
    [(0, "outputs", "graph[0]"), (1, "inputs", "graph[1].inputs[0]"), (1, "outputs", "graph[1]")],
)
def test_corrects_stale_shapes(op, port, where):
    whole = file(relu(0, 1, 0, (8,)), relu(1, 2, 1, (8,)))
    assert og.check_graph(load(whole)) == []
    whole["graph"][op][port][0].update(shape=[16, 4], stride=[4, 1])
    assert [t.shape for op in load(whole).ops for t in op.outputs] == [(8,), (8,)]
    for g in (load(whole), load(whole).copy()):
        (note,) = og.check_graph(g)
        assert (note.rule, note.severity, note.where, note.given) == ("output_shape", "note", "dst", "[16, 4]")
        name = "relu_1" if (op, port) == (1, "outputs") else "relu_0"
        assert note.message == (
            f"{where}: ReLU {name!r}: dst: [16, 4]; expected [8], which follows from the inputs and is taken"
        )
    assert rewrite(load(whole), op_kind="1:Abs").ops[1].kind == "Abs"
    assert json.loads(load(whole).to_json()) == whole
    put_right = file(relu(0, 1, 0, (8,)), relu(1, 2, 1, (8,)))
    ports = {"input_ports": [0], "output_ports": [2]}
    assert json.loads(load(whole).to_json(for_version="3.2")) == {**put_right, **ports, "version": "3.2.0"}
    refusal = (og.SpecError, og.FormatError)
    with pytest.raises(refusal, match=r"\[16, 4\]; expected \[8\]"):
        load(whole, strict=True)


def test_uses_of_an_input_must_agree():
    whole = file(relu(0, 1, 0, (8,)), relu(0, 2, 1, (8,)))
    whole["graph"][1]["inputs"][0].update(shape=[16], stride=[1])
    with pytest.raises(og.FormatError, match=r"graph\[1\].inputs\[0\].shape: \[16\]; expected \[8\]"):
        load(whole)


def test_loaded_graph_can_be_pickled():
    g = pickle.loads(pickle.dumps(load(file(relu(4, 6, 11)))))
    assert json.loads(g.to_json()) == file(relu(4, 6, 11))


def test_huge_shape_takes_no_memory():
    g = load(file(relu(shape=(2**30, 2**29))))
    assert g.outputs["t1"].shape == (2**30, 2**29)
    assert json.loads(g.to_json()) == file(relu(shape=(2**30, 2**29)))
