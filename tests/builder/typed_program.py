"""A program in which mypy accepts each line, and refuses those that say so: ``make test`` runs mypy on it.

Nothing runs the program. A line that mypy refuses states the code of the error, and mypy refuses a line that states an
error which it does not have.
"""

# ruff: noqa: B018

import numpy as np

import onegraph as og

og.check_op("ReLU")
og.chek_op("ReLU")  # type: ignore[attr-defined]
og.Grph()  # type: ignore[attr-defined]
og.CollectorPause  # type: ignore[attr-defined]
og.onnx.laod("m.onnx")  # type: ignore[attr-defined]
og.training.SDG(0.1)  # type: ignore[attr-defined]
og.Executable
g = og.Graph()
x = g.input("x", og.f32, (2, 3))
g.output("y", g.matmul(x, np.ones((3, 4), np.float32)))
g.compile(policy="fast")  # type: ignore[arg-type]
g.compile(fpmath_mode="f64")  # type: ignore[arg-type]
g.partitions("fusoin")  # type: ignore[arg-type]
model = g.compile(policy="debug", fpmath_mode="bf16")
result = model(np.ones((2, 3), np.float32))
text: str = result  # type: ignore[assignment]
total: float = float((result + 1).sum()) + result.shape[0]
first, second = result
other: int = result.y  # type: ignore[assignment]
count: str = g.rewrite(lambda g, op: None)  # type: ignore[assignment]
g.replace(g.ops[0], g.relu(x))
g.remove(3)  # type: ignore[arg-type]
model.explain().ops[0].multiply_ads  # type: ignore[attr-defined]
bound: str = model.bind(x=result).run()  # type: ignore[assignment]
three: tuple[og.LogicalTensor, og.LogicalTensor, og.LogicalTensor] = g.layer_norm(x)
norm: og.LogicalTensor = g.layer_norm(x, keep_stats=False)
dst, mean = g.layer_norm(x, outputs=["dst", "mean"])
g.layer_norm(x).varience  # type: ignore[attr-defined]
g.layer_norm(x, outputs=["dts"])  # type: ignore[list-item]
g.softmax(x, outputs=["dst", "stats"]).stats
g.softmax(x).stats  # type: ignore[attr-defined]
name: int = g.op("Relu", x)
shape: str = g.op("ReLU", x)  # type: ignore[assignment]
difference: og.LogicalTensor = g.op("Subtract", [x, np.ones(3, np.float32)])
parts: tuple[og.LogicalTensor, og.LogicalTensor] = g.op("TopK", [x], edition="host")


def product(g: og.Graph) -> og.LogicalTensor:
    return g.op("MatMul", [x, x])


again = og.load("folder", og.Executable)(result)
other_graph: og.Graph = og.load("graph.json", og.Graph)
og.load("folder")(result)  # type: ignore[operator]
og.load("folder", int)  # type: ignore[type-var]
