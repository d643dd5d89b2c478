"""JSON files of graphs: their parts, and readers like those of the library and of Netron."""

import json

import numpy as np
import pytest

import onegraph as og

UNKNOWN = -(2**63)


class Reader:
    """Reads like the test program of oneDNN 3.2, and raises where that program stops, throws or misreads."""

    TOP = ("graph", "version", "engine_kind", "fpmath_mode", "input_ports", "output_ports")
    OP = ("id", "name", "kind", "attrs", "inputs", "outputs")
    TENSOR = ("id", "dtype", "shape", "stride", "layout_type", "property_type")

    def __init__(self, text):
        self.text, self.at = text, 0

    def skip(self):
        while self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at]

    def take(self, char):
        assert self.skip() == char, (char, self.text[self.at : self.at + 40])
        self.at += 1

    def word(self):
        self.take('"')
        start = self.at
        while self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self.at += 1
                assert self.text[self.at] in 'rn\\t"', "unknown escape"
            assert self.text[self.at] not in "\r\n"
            self.at += 1
        self.at += 1
        return json.loads(self.text[start - 1 : self.at])

    def number(self, kind):
        self.skip()
        start = self.at
        while self.text[self.at] in "+-.eE0123456789":
            self.at += 1
        value = kind(self.text[start : self.at])
        assert -(2**63) <= value < 2**64 if kind is int else abs(value) < 3.4028235677973366e38
        return value

    def items(self, read):
        self.take("[")
        found = []
        while self.skip() != "]":
            if found:
                self.take(",")
            found.append(read())
        self.at += 1
        return found

    def fields(self, read, known=None):
        self.take("{")
        found = {}
        while self.skip() != "}":
            if found:
                self.take(",")
            key = self.word()
            self.take(":")
            if known is not None and key not in known:
                assert known is self.TOP, f"everything behind {key} is lost"
                return found
            found[key] = read(key)
        self.at += 1
        return found

    def attr(self, _):
        self.take("{")
        assert self.word() == "type"
        self.take(":")
        kind = self.word()
        self.take(",")
        assert self.word() == "value"
        self.take(":")
        scalar = float if kind.startswith("f32") else int
        if kind == "string":
            value = self.word()
        elif kind.endswith("[]"):
            value = self.items(lambda: self.number(scalar))
        else:
            value = self.number(scalar)
            assert kind != "bool" or value in (0, 1)
        self.take("}")
        return kind, value

    def tensor(self):
        readers = {"id": lambda: self.number(int), "shape": self.dims, "stride": self.dims}
        found = self.fields(lambda key: readers.get(key, self.word)(), self.TENSOR)
        assert set(found) == set(self.TENSOR)
        return found

    def dims(self):
        return self.items(lambda: self.number(int))

    def op(self):
        readers = {
            "id": lambda: self.number(int),
            "attrs": lambda: self.fields(self.attr),
            "inputs": lambda: self.items(self.tensor),
            "outputs": lambda: self.items(self.tensor),
        }
        found = self.fields(lambda key: readers.get(key, self.word)(), self.OP)
        assert set(found) == set(self.OP)
        return found

    def graph(self):
        readers = {"graph": lambda: self.items(self.op), "input_ports": self.dims, "output_ports": self.dims}
        found = self.fields(lambda key: readers.get(key, self.word)(), self.TOP)
        assert {"graph", "version", "engine_kind", "fpmath_mode"} <= set(found)
        return found


def assert_library_reads(graph, **options):
    """The reader of the library finds every op complete, before it meets a key that it does not know."""
    text = graph.to_json(**options)
    seen, whole = Reader(text).graph(), json.loads(text)
    assert seen["graph"] == [
        {**op, "attrs": {name: (attr["type"], attr["value"]) for name, attr in op["attrs"].items()}}
        for op in whole["graph"]
    ]
    for key in ("version", "engine_kind", "fpmath_mode"):
        assert seen[key] == whole[key]
    assert_netron_reads(text)


def assert_netron_reads(text):
    """The keys that Netron 9 needs exist, and the uses of a tensor do not contradict each other."""
    whole = json.loads(text, parse_constant=pytest.fail)
    assert all(whole[key] for key in ("version", "engine_kind", "fpmath_mode", "graph"))
    types = {}
    for one in whole["graph"]:
        for use in (*one["inputs"], *one["outputs"]):
            assert types.setdefault(use["id"], (use["dtype"], use["shape"])) == (use["dtype"], use["shape"])
        for attr in one["attrs"].values():
            assert attr["type"] != "bool" or type(attr["value"]) is int


def small():
    g = og.Graph()
    src = g.input("src", og.f32, (None, 4))
    weights = g.constant(np.arange(12, dtype=np.float32).reshape(4, 3), name="weights")
    g.output("dst", g.clamp(g.matmul(src, weights, name="product"), min=0, max=float("inf")))
    return g


def tensor(number, dtype, shape, stride=None):
    known = UNKNOWN not in shape
    if stride is None:
        stride = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))] if known else [UNKNOWN] * len(shape)
    return {
        "id": number,
        "dtype": dtype,
        "shape": shape,
        "stride": stride,
        "layout_type": "strided" if known else "undef",
        "property_type": "undef",
    }


def op(number, kind, inputs, outputs, attrs=None, name=""):
    types = {bool: "bool", int: "s64", float: "f32", str: "string"}
    form = {}
    for key, value in (attrs or {}).items():
        kind_of = types[type(value[0] if isinstance(value, list) else value)] + "[]" * isinstance(value, list)
        form[key] = {"type": kind_of, "value": int(value) if isinstance(value, bool) else value}
    return {"id": number, "name": name, "kind": kind, "attrs": form, "inputs": inputs, "outputs": outputs}


def file(*ops, **more):
    return {"version": "3.2.0", "engine_kind": "cpu", "fpmath_mode": "strict", **more, "graph": list(ops)}


def load(whole, **options):
    return og.Graph.from_json(json.dumps(whole), **options)


def relu(first=0, second=1, number=0, shape=(2, 3)):
    return op(number, "ReLU", [tensor(first, "f32", [*shape])], [tensor(second, "f32", [*shape])])


def assert_same(first, second):
    assert (first.edition, list(first.inputs), list(first.outputs)) == (
        second.edition,
        list(second.inputs),
        list(second.outputs),
    )
    for one, other in zip(first.ops, second.ops, strict=True):
        assert (one.kind, one.name, one.edition) == (other.kind, other.name, other.edition)
        assert dict(one.attrs) == dict(other.attrs)
        ours, theirs = (*one.inputs, *one.outputs), (*other.inputs, *other.outputs)
        for a, b in zip(ours, theirs, strict=True):
            assert (a.dtype, a.shape, a.strides, a.name) == (b.dtype, b.shape, b.strides, b.name)
            assert a.constant == b.constant
            if a.constant:
                assert a.value.tobytes() == b.value.tobytes()


def plausible(graph):
    rng = np.random.default_rng(7)
    for name, one in graph.inputs.items():
        if one.dtype.value in ("s8", "u8", "s32"):
            yield name, rng.integers(0, 9, one.shape).astype(one.dtype.numpy)
        else:
            yield name, rng.uniform(0.5, 2, one.shape).astype(one.dtype.numpy)


def assert_agrees(graph, tolerance):
    inputs = dict(plausible(graph))
    found = graph.compile()(**inputs)
    expected = og.reference.run(graph, inputs)
    for array, name in zip([found] if len(expected) == 1 else found, expected, strict=True):
        wide = np.asarray(expected[name]).astype(np.float64)
        assert np.abs(np.asarray(array).astype(np.float64) - wide).max() <= tolerance * max(np.abs(wide).max(), 1)
