"""Which graphs are made: the record graphs.json, which a change of a rule, a table or a lowering must change too.

Other tests compare what graphs compute, and many graphs compute the same: one with an op too many, with a layout that
the library takes slowly, or that is right for the sizes of the test alone. So the record has digests, by kind of op or
of change: of gradients, nodes of ONNX, ops in other editions, host ops that are examined, changed graphs, graphs as
texts, damaged files and reports. Run as a script, this file writes the record anew; with names of materials, it prints
what their digests are made of.
"""

from __future__ import annotations

import json
import sys
import warnings
from base64 import b64decode
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from random import Random
from types import FunctionType
from unittest.mock import patch
from zlib import crc32, decompress

import numpy as np
import pytest
from conftest import library
from helpers import host_cases
from helpers.gradient_cases import BASE_CASES, FLOATS, HOST_CASES
from helpers.graphs import graph_of_case
from helpers.near_graphs import CHANGES, near
from helpers.neighbours import attributes_beside, neighbours
from helpers.recorded import digest, keep, kept, lines_of, numbers_of

import onegraph as og
from onegraph import reference
from onegraph.builder.op_pages import terminal_page
from onegraph.builder.op_site import markdown_index, markdown_methods, op_pages
from onegraph.errors import OneGraphError
from onegraph.frontends.onnx.precision import narrowed
from onegraph.inference.infer import infer_op
from onegraph.ir.tensor_type import tensor_type
from onegraph.lowering.emitter import NotLowered
from onegraph.lowering.patterns import OF_KNOWN_DIMS, REWRITES, activations
from onegraph.opset import fusion_graphs, fusion_patterns
from onegraph.opset.bodies import BODIES
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import BASE, EDITIONS, FORMER, HOST, edition
from onegraph.opset.errata.catalogue import CORRECTIONS
from onegraph.opset.newer import newer_than
from onegraph.opset.schema import TensorType, holds_in
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.python_code import to_python
from onegraph.transform.batch_inputs import with_batch
from onegraph.transform.widen import widened

KEPT = Path(__file__).parents[1] / "recorded" / "graphs.json"
OPSETS = (9, 12, 13, 18, 21, 23)
PLAIN_OPSET = 18  # whose nodes have the defaults of attributes, too
MODEL_OPSET, DAMAGED = 21, 8  # damaged models of a kind of node
LARGE_DIM = 1 << 20  # of an input; a constant of this size would take the memory of the machine
DRAWS = 2  # nodes of a kind and an op set
NEAR = 60  # uses of a host op beside a case
GRAPHS = 12  # random ones
SAVED = 2  # graphs beside one that are saved
MODELS = 12  # beside a model
CHAINS = 14  # beside one
KEPT_MODELS = Path(__file__).parents[1] / "recorded" / "models.txt"  # packed bytes of those of tests, by name
# Those beside a model that reach conditions which no others of them reach, by their number.
CHOSEN = Path(__file__).parents[1] / "recorded" / "near_models.txt"
BASE_EDITION = "onednn-3.13"
DIFFERENTIATED = [*((case, BASE_EDITION) for case in BASE_CASES), *((case, HOST) for case in HOST_CASES)]
DAMAGES = 30  # places of a file
LEFT_OUT = object()
OTHERS = (None, True, 0, 1, -1, 2**70, 1.5, "", "x", "f32", "any", "1", [], [0], [-1, 2], {}, {"x": 1})
VERSIONS = (None, "3.0", "3.2", "3.5", "3.7", "3.13")


def outcome(make, *arguments, also=(), **options):
    """The lines of a graph or a text, or why there is none: an error of the package, or another one that is meant."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make(*arguments, **options)
    except (OneGraphError, *also) as error:
        return [f"{type(error).__name__}: {error}"]
    return [*lines_of(made)] if isinstance(made, og.Graph) else [str(made)]


def gradients():
    """The gradients of cases of an op, with known sizes and with open ones, and some of their gradients."""
    for number, (case, name) in enumerate(DIFFERENTIATED):
        for is_open in (False, True)[: 1 + number % 2]:
            yield case.kind, outcome(differentiated, case, name, is_open, times=1 + (number % 4 == 0))


def differentiated(case, name, is_open, times):
    """A graph of an op and its gradients by all inputs of floating-point numbers."""
    graph, ends, options = og.Graph(strict=False), [], {"dtype": case.dtype, "outputs": getattr(case, "outputs", None)}
    for place, array in enumerate(case.inputs):
        dtype = None if array is None else OF_NUMPY[array.dtype]
        if dtype in FLOATS:
            ends.append(graph.input(f"x{place}", dtype, [None] * array.ndim if is_open else array.shape))
        else:
            ends.append(None if array is None else graph.constant(array, dtype=dtype))
    made = graph.op(case.kind, ends, case.attrs, edition=name, **{key: one for key, one in options.items() if one})
    results = [one for one in (made if isinstance(made, tuple) else (made,)) if one is not None and one.dtype in FLOATS]
    for _ in range(times):
        results = graph.gradient(results, [*graph.inputs.values()])
    for place, one in enumerate(results):
        graph.output(f"d{place}", one)
    return graph


def nodes():
    """Nodes of ONNX in some op sets, with known sizes, with open ones and without a rank."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    from helpers.onnx_nodes import CASES, Draw, model_of

    since = oldest(onnx.defs.get_all_schemas_with_history())
    for kind in sorted(CASES):
        for opset in (number for number in OPSETS if number >= since["", kind]):
            if onnx.defs.get_schema(kind, opset).deprecated:
                continue
            for seed in range(DRAWS):
                case = CASES[kind](Draw(np.random.default_rng([seed, opset]), kind, opset))
                for form in ({}, {"is_open": True} if seed % 2 else {"has_ranks": False}):
                    model = model_of(case, opset, **form)[0]
                    if opset == PLAIN_OPSET and "has_ranks" not in form:
                        model = plain(model, onnx.defs)
                    yield kind, outcome(loaded_and_saved, model)


def plain(model, defs):
    """The model with the defaults of all attributes that have some."""
    for one in model.graph.node:
        known = defs.get_schema(one.op_type, model.opset_import[0].version).attributes
        kept_ones = [given for given in one.attribute if known[given.name].required]
        del one.attribute[:]
        one.attribute.extend(kept_ones)
    return model


def loaded_and_saved(model):
    """The lines of the graph of a model, and the nodes that are written for it if the package onnx runs some."""
    import onegraph.onnx

    return "\n".join(with_nodes(onegraph.onnx.load(model)))


def with_nodes(graph):
    lines = [*lines_of(graph)]
    if any(op.kind == "OnnxNode" for op in graph.ops) or crc32(lines[0].encode()) % 8 == 0:
        lines += outcome(nodes_of, graph)
    return lines


def nodes_of(graph):
    """The nodes that are written for a graph, with the digests of its constants."""
    import onnx

    from onegraph.frontends.onnx.save import Exporter

    model, constants = Exporter(graph).model()
    lines = [f"{name} {numbers_of(array)}" for name, array in constants.items()]
    for part in (model.graph, *model.functions):
        for node in part.node:
            attrs = [(one.name, str(onnx.helper.get_attribute_value(one))) for one in node.attribute]
            lines.append(f"{node.domain} {node.op_type} {attrs} {[*node.input]} {[*node.output]}")
    return "\n".join(lines)


def models():
    """Damaged models of one node, also of the domain ai.onnx.ml: which are read, and why others are not."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    from helpers import onnx_ml_nodes
    from helpers.onnx_nodes import CASES, Draw, model_of

    since = oldest(onnx.defs.get_all_schemas_with_history())
    makers = {**onnx_ml_nodes.CASES, **CASES}
    for kind in sorted(makers):
        domain = "" if ("", kind) in since else onnx_ml_nodes.ML
        opset = max(since[domain, kind], 3 if domain else MODEL_OPSET)
        if onnx.defs.get_schema(kind, opset, domain).deprecated:
            continue
        for seed in range(DAMAGED * (4 if domain else 1)):
            drawn = Random(f"{kind} {seed}")
            form = ({}, {"is_open": True}, {"has_ranks": False})[seed % 3]
            case = makers[kind](Draw(np.random.default_rng([seed, 5]), kind, opset, domain))
            proto = model_of(case, opset, **form)[0]
            yield kind, damaged(proto, drawn)
    for place, proto in enumerate(packed_models()):
        for seed in range(DAMAGED * 3):
            yield "packed", damaged(proto, Random(f"{place} {seed}"))


def damaged(proto, drawn):
    """What is said of a model with one or two fields that are others."""
    import onegraph.onnx
    from tests.fuzz.onnx_models import change

    changed = type(proto)()
    changed.CopyFrom(proto)
    for _ in range(drawn.choice((1, 1, 2))):
        change(changed.graph if drawn.random() < 0.9 else changed, drawn)
    dims = [dim.dim_value for end in changed.graph.input for dim in end.type.tensor_type.shape.dim]
    return outcome(onegraph.onnx.load, changed) if max(dims, default=0) < LARGE_DIM else []


def packed_models():
    """Nodes of ONNX Runtime: experts, packed weights, fused nodes."""
    from tests.from_onnx.test_onnx_experts import ALONE, BOTH, Layer
    from tests.from_onnx.test_onnx_fused import CASES as FUSED

    yield from (Layer(**form).model() for form in (*BOTH[4:8], *BOTH[12:18:2], *ALONE))
    yield from (make(np.random.default_rng(7))[0] for make in FUSED.values())


def kept_models():
    """Small models that tests of the front end load, by the forms of nodes that they have; and damaged ones."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    import onegraph.onnx

    for line in KEPT_MODELS.read_text().splitlines():
        name, _, packed = line.rpartition(": ")
        proto = onnx.ModelProto.FromString(decompress(b64decode(packed)))
        yield name, outcome(onegraph.onnx.load, proto)
        for seed in range(2 * DAMAGED):
            yield name, damaged(proto, Random(f"{name} {seed}"))


def forms():
    """Nodes of ONNX in rare forms, and in wrong ones."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from helpers.onnx_forms import lines, model_of

    for line in lines():
        kind = line.split()[line[0] == "@"]
        yield "graphs" if kind[0] == "(" else kind, outcome(loaded_and_computed, model_of(line))


def loaded_and_computed(model):
    """The lines of a model, and the results of the reference if a node runs by numpy or the package onnx."""
    import onegraph.onnx

    graph = onegraph.onnx.load(model)
    lines = [*with_nodes(graph)]
    is_known = all(one.shape is not None and None not in one.shape for one in graph.inputs.values())
    if is_known and any(op.kind == "OnnxNode" for op in graph.ops):
        lines += outcome(lambda: [*map(numbers_of, reference.run(graph, random_inputs(graph, seed=1)).values())])
    return "\n".join([*lines, *outcome(narrowed, graph)])


def oldest(schemas):
    """By domain and kind, the op set that a kind of node is in since."""
    since = {}
    for schema in schemas:
        key = schema.domain, schema.name
        since[key] = min(since.get(key, 99), schema.since_version)
    return since


def patterns():
    """Models with forms that become one op, and models beside them."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from helpers.onnx_patterns import HEADS, PATTERNS, heads, model, near_models

    import onegraph.onnx

    lines = (line.rpartition(": ") for line in CHOSEN.read_text().splitlines())
    chosen = {name: map(int, numbers.split()) for name, _, numbers in lines}
    for name, proto in {
        **{key: model(one) for key, one in PATTERNS.items()},
        **{key: heads(key) for key in HEADS},
    }.items():
        beside = [*near_models(proto)]
        drawn = Random(name).sample(range(len(beside)), min(MODELS, len(beside)))
        for one in [proto, *[beside[number] for number in sorted({*drawn, *chosen.get(name, ())})]]:
            yield name, outcome(onegraph.onnx.load, one)


def rewritten():
    """Chains of ops that patterns may replace, and chains beside them."""
    from tests.lowering import test_drawn_chains as chains
    from tests.lowering import test_near_patterns as cases

    for name in cases.CASES:
        plain = cases.built(name, with_patterns=False)
        for graph in (plain, *near(plain, Random(name), CHAINS)):
            yield name, outcome(cases.rewritten, graph)
    for name in cases.BESIDE:
        yield name.split()[0], outcome(cases.rewritten, cases.built(name, with_patterns=False))
    for number in chains.CHAINS:
        yield "drawn chains", outcome(chains.chain, number, with_patterns=True)


def lowered():
    """Drawn lowerings, of known dims and of unknown ones."""
    from tests.lowering import test_drawn_lowerings as cases

    for name in cases.CASES:
        for number in cases.numbers_of(name):
            for form in ("known", "open"):
                yield name, outcome(cases.lowered, name, number, form, also=[NotLowered])


def translations():
    """Cases of an op in the words of every edition."""
    for case in CASES[::4]:
        types = [tensor_type(array) for array in case.inputs if array.dtype in OF_NUMPY]
        if len(types) == len(case.inputs):
            less = [replace(given, shape=None) for given in types]
            for place, name in enumerate(EDITIONS):
                for given in (types, less)[: 1 + (place % 3 == 0)]:
                    yield (
                        case.kind,
                        outcome(og.translate, case.kind, case.attrs, given, source=BASE_EDITION, target=name),
                    )


def examined():
    """What is said of cases of a host op and of uses beside them."""
    chosen = edition(HOST)
    for case in host_cases.cases():
        drawn = Random(crc32(f"{case.kind} {case.attrs}".encode()))
        types = [None if array is None else type_of(array) for array in case.inputs]
        others = [(case.attrs, given) for given in neighbours(types, (2, 3))]
        others += [(given, types) for given in attributes_beside(chosen.schema(case.kind), case.attrs, (2, 3))]
        others = [(case.attrs, types), *drawn.sample(others, min(NEAR, len(others)))]
        for attrs, given in [*others, *((case.attrs, given) for given in less_known(types))]:
            found = infer_op(case.kind, attrs, given, edition=chosen)
            told = [(one.rule, one.where, one.message) for one in found.violations]
            yield case.kind, [f"{found.shapes} {found.dtypes} {told}"]


def type_of(array):
    """The type of an array, whose contents are known if they may decide a shape."""
    return TensorType(OF_NUMPY[array.dtype], array.shape, array if array.dtype.kind == "i" else None)


def less_known(types):
    """Types of inputs of which one has an unknown rank, unknown dims or other known numbers."""
    for place, known in enumerate(types):
        if known is not None and known.rank is not None:
            shapes = None, (None,) * known.rank, (*known.shape[:-1], None)[-known.rank :]
            others = [TensorType(known.dtype, shape) for shape in dict.fromkeys(shapes)]
            if known.value is not None and known.value.dtype.kind == "i":
                others += [replace(known, value=known.value + step) for step in (-3, -1, 1, 2)]
            yield from ([*types[:place], other, *types[place + 1 :]] for other in others)


def random_graphs():
    for seed in range(GRAPHS):
        yield seed, random_graph(seed, 8, dtypes=("f32", ("f16", "bf16")[seed % 2]))


def changed():
    """Random graphs with other contents, sizes, types or editions."""
    for seed, graph in random_graphs():
        fixed = dict([*random_inputs(graph, seed=seed).items()][1:])
        yield "constants", outcome(graph.with_constants, fixed)
        yield "variables", outcome(trained, graph, fixed)
        yield "inference", outcome(learned, graph, fixed)
        yield "shapes", outcome(graph.specialise, {name: one.shape for name, one in graph.inputs.items()})
        yield "f32", outcome(widened, graph, [og.f16, og.bf16])
        yield "batch", batches(graph, seed)
        for name in (*EDITIONS,)[seed % 2 :: 2]:
            yield name, outcome(og.translate_graph, graph, name)

    cases = (graph_of_case(case) for case in CASES[::3] if BASE[case.kind].outputs)
    for axes in ((1, 2), (2, 3), (1, 2, 3), (-3, -2), (2, 1), (0, 1)):
        graph = og.Graph()
        graph.output("y", graph.reduce_mean(graph.relu(graph.input("x", "f32", (2, 4, 4, 3))), axes=axes))
        yield "narrow", outcome(narrowed, graph)
    for graph in (*(host_cases.graph_of(case)[0] for case in host_cases.cases()), *cases):
        yield "narrow", outcome(narrowed, graph)


def batches(graph, seed):
    """The inputs of some graphs whose first dim is a batch."""
    beside = near(graph, Random(seed), 7)
    others = (graph_of_case(case) for case in CASES[seed :: 4 * GRAPHS])
    return [str([tensor.name for tensor in with_batch(one)]) for one in (graph, *beside, *others)]


def trained(graph, arrays):
    return graph.with_constants(arrays).with_variables()


def learned(graph, arrays):
    return trained(graph, arrays).for_inference()


def texts():
    """Random graphs as texts, and what is newer than a version."""
    for _, graph in random_graphs():
        for version in VERSIONS:
            yield f"JSON for {version}", outcome(graph.to_json, for_version=version)
        yield "Python", outcome(to_python, graph)
        yield "dot", outcome(graph.to_dot)
    for minor in range(14):
        yield "newer than a version", [*map(str, newer_than((3, minor)))]


def read():
    """Files of random graphs with one value that is left out or another one, by the place of the value."""
    for seed, graph in random_graphs():
        form, drawn = json.loads(graph.to_json()), Random(seed)
        places = [*places_in(form)]
        for place in drawn.sample(places, min(DAMAGES, len(places))):
            for other in (LEFT_OUT, *drawn.sample(OTHERS, 2)):
                text = json.dumps(with_other(form, place, other))
                yield " ".join(key for key in place if type(key) is str), outcome(og.Graph.from_json, text)


def places_in(form, place=()):
    """The paths of the values of a JSON form."""
    for key, part in form.items() if type(form) is dict else enumerate(form) if type(form) is list else ():
        yield (*place, key)
        yield from places_in(part, (*place, key))


def with_other(form, place, other):
    """The form with another value at a path."""
    first, *rest = place
    changed = dict(form) if type(form) is dict else [*form]
    if rest or other is not LEFT_OUT:
        changed[first] = with_other(changed[first], rest, other) if rest else other
    else:
        del changed[first]
    return changed


def saved():
    """Cases of an op as nodes of ONNX, and rare forms."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from helpers import saved_forms

    for kind, line in saved_forms.lines():
        yield f"form of {kind}", outcome(lambda text: nodes_of(saved_forms.graph_of(text)), line)
    every = [(case.kind, host_cases.graph_of(case)[0]) for case in host_cases.cases()]
    every += [(case.kind, graph_of_case(case)) for case in CASES[::3]]
    for number, (kind, graph) in enumerate(every):
        beside = near(graph, Random(f"{kind} {number}"), SAVED, SAVED * number, ("opened", *CHANGES))
        for one in (graph, *beside):
            yield kind, outcome(nodes_of, one)
    for seed, graph in random_graphs():
        for one in (graph, *near(graph, Random(seed), len(CHANGES))):
            yield "random", outcome(nodes_of, one)


def checked():
    """Cases of an op checked against other editions, with outputs that nobody reads."""
    ended = og.Graph()
    ended.op("End", [ended.relu(ended.input("x", "f32", (2,)))])
    chosen = (case for place, case in enumerate(CASES) if place % 7 == 0 or case.outputs)
    graphs = [("End", ended), *((case.kind, graph_of_case(case, results=1)) for case in chosen)]
    for number, (kind, graph) in enumerate(graphs):
        for name in (*EDITIONS,)[number % 4 :: 4]:
            told = og.check_graph(graph, edition=name, library="3.2@avx2")
            yield kind, [told._repr_html_(), *(f"{one.rule} {one.message}" for one in told)]


def specified():
    """The ops of every edition, the host ops, the mistakes of pages, and the fusions, as they are specified."""
    for name in (*EDITIONS, HOST):
        chosen = edition(name)
        ops = [described(schema) for _, schema in sorted(chosen.schemas.items())]
        yield f"ops of {name}", [chosen.title, chosen.pages, str(chosen.titles), *ops]
    yield "ops that change", [*map(described, BASE.values()), described(FORMER)]
    rules = {rule for schema in BASE.values() for rule in (*schema.rules, *schema.shape_rules)}
    versions = [(3, minor) for minor in range(16)]
    yield "rules", sorted(f"{described(rule)} {[holds_in(rule, one) for one in versions]}" for rule in rules)
    yield "mistakes", map(described, CORRECTIONS)
    example = "{0.name} {1.kind}".format
    pages = [*op_pages(example).items(), markdown_methods(), *(markdown_index(edition(name)) for name in EDITIONS)]
    yield "pages", pages
    yield "pages in a terminal", [terminal_page(edition(HOST), one) for one in edition(HOST).schemas.values()]
    yield "fusions", map(described, (*fusion_graphs.GRAPHS, *fusion_patterns.EVERY_PATTERN))
    tables = [
        (place, kind, each) for place, one in enumerate((*REWRITES, *OF_KNOWN_DIMS)) for kind, each in one.items()
    ]
    yield "patterns", [*sorted(map(described, tables)), numbers_of(activations.SAMPLES)]
    yield "bodies", [f"{kind}: {described(body)}" for kind, body in sorted(BODIES.items())]


def suggested():
    """What is suggested for names and values that an edition does not have."""
    from onegraph.inference import suggestions as said

    every = {name: edition(name) for name in (*EDITIONS, HOST)}
    schemas = [schema for one in every.values() for schema in one.schemas.values()]
    kinds = sorted({schema.kind for schema in schemas})
    begun = sorted({kind[:count] for kind in kinds for count in (2, 3, 4, 6)} | {f"{kind}s" for kind in kinds})
    attributes = [attribute for schema in schemas for attribute in schema.attributes]
    names = [*sorted({attribute.name for attribute in attributes}), "stride", "pad", "axis_", "alphas", "zzz"]
    values = {attribute.name: set() for attribute in attributes}
    for attribute in attributes:
        values[attribute.name] |= {*attribute.values, *attribute.aliases, *map(str.lower, attribute.values), "none"}
    for number, name in enumerate((*(*EDITIONS,)[::5], HOST)):
        texts = (*kinds[number::4], *begun[number::8], *(kind.lower() for kind in kinds[number::8]))
        yield f"ops of {name}", [said.unknown_op(every[name], text) for text in texts]
        for place, schema in enumerate(every[name].schemas.values()):
            told = [said.other_attribute(schema, one) for one in names[place % 6 :: 6] if not schema.has_attribute(one)]
            for attribute in schema.attributes:
                given = sorted(values[attribute.name])
                told += [said.other_value(schema, attribute.name, value) for value in (*given, 1)]
            yield f"attributes in {name}", [*told, said.port_names(schema.inputs), said.port_names(schema.outputs)]
    yield "calls", [said._host_call(schema) for schema in every[HOST].schemas.values()]


def described(one):
    """A record of data as a text; of a function its name, and what it was made with."""
    if is_dataclass(one):
        parts = (f"{each.name}={described(getattr(one, each.name))}" for each in fields(one))
        return f"{type(one).__name__}({', '.join(parts)})"
    if isinstance(one, Mapping):
        return f"{{{', '.join(f'{described(key)}: {described(each)}' for key, each in one.items())}}}"
    if isinstance(one, (set, frozenset)):
        return f"{{{', '.join(sorted(map(described, one)))}}}"
    if isinstance(one, (tuple, list)):
        return f"[{', '.join(map(described, one))}]"
    if isinstance(one, FunctionType):
        made_with = [*(cell.cell_contents for cell in one.__closure__ or ()), *(one.__defaults__ or ())]
        return f"{one.__qualname__}{described(made_with) if made_with else ''}"
    return repr(one) if isinstance(one, str) else str(one)


MATERIAL = {
    make.__name__: make
    for make in (
        *(gradients, suggested, nodes, models, kept_models, forms, patterns, rewritten, lowered, specified),
        *(translations, examined, changed, texts, read, saved, checked),
    )
}
OF_MODELS = ("nodes", "models", "kept_models", "forms", "patterns")  # which the library must be there for


def made(name):
    """The lines of a material, by kind; of models those of a CPU whose blocks have 16 channels."""
    lines = {}
    with patch("onegraph.frontends.onnx.tables.blocked._block", lambda: 16) if name in OF_MODELS else nullcontext():
        for kind, parts in MATERIAL[name]():
            lines.setdefault(kind, []).extend(parts)
    return lines


def recorded(name):
    return {kind: digest(lines) for kind, lines in made(name).items()}


@pytest.mark.parametrize(
    "name",
    [library(name) if name in OF_MODELS else name for name in MATERIAL],
)
def test_graphs_are_made_as_recorded(name):
    assert recorded(name) == kept(KEPT)[name]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(*(f"{kind}: {line}" for kind, lines in made(name).items() for line in lines), sep="\n")
    if not sys.argv[1:]:
        keep(KEPT, {name: recorded(name) for name in MATERIAL})
