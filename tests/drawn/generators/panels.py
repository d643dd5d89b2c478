"""Products by weights that lie in panels of columns."""

from __future__ import annotations

import numpy as np

import onegraph as og
from onegraph.compiler.packed_weights import panels_of
from tests.helpers.drawn import Wanted, sized

from ..draw import Draw
from ..entry import draws

ULP = 2.0**-23


def wanted_product(src: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None, terms: int = 4) -> Wanted:
    """A product in float64, with what rounding of each of its sums may come to."""
    left, right = src.astype(np.float64), weights.astype(np.float64)
    result, sizes = left @ right, sized(left) @ sized(right)
    if bias is not None:
        result, sizes = result + bias, sizes + sized(bias.astype(np.float64))
    return Wanted(result, ULP * (src.shape[-1] + terms) * sizes, sizes)


@draws("panel_product")
def panel_product(draw: Draw) -> None:
    rows, depth, columns = draw.size(), draw.size(), draw.size()
    depth = 512 if draw.flag(0.1) else depth  # rows that share few sets of a cache
    src, weights = draw.dense((rows, depth)), draw.dense((depth, columns))
    bias = draw.dense((columns,)) if draw.flag() else None
    found = draw.result((rows, columns), is_dense=True)
    draw.said = f"{rows}, {depth}, {columns}, bias {bias is not None}"
    ends = [src, panels_of(weights, False), *([] if bias is None else [bias])]
    draw.run(*ends, found, bias=bias is not None)
    wanted_product(src, weights, bias).check(found, str(draw))


@draws("panel_product", graph=True)
def panel_product_in_a_graph(draw: Draw) -> None:
    rows, depth, columns = draw.size(least=4), draw.size(65), draw.size(65)
    src, weights = draw.dense((rows, depth)), draw.dense((depth, columns))
    draw.said = f"{rows}, {depth}, {columns}"
    g = og.Graph()
    x = g.input("x", "f32", (None, depth))
    g.output("y", g.matmul(g.relu(x), g.constant(weights)))
    (found,) = draw.run_graph(g, *[{"x": src[:count]} for count in (1, 2, 3)], {"x": src})
    wanted_product(np.where(src < 0, 0, src), weights).check(found, str(draw))


@draws("panel_matrices")
def panel_matrices(draw: Draw) -> None:
    rows, depth, columns = draw.size(), draw.size(), draw.size()
    depth = 512 if draw.flag(0.1) else depth
    dims = [draw.between(1, 3) for _ in range(draw.between(0, 2))] if rows * columns < 4000 else []
    turned_src, turned = draw.flag(), draw.flag()

    def operand(height: int, width: int, is_turned: bool) -> tuple[np.ndarray, np.ndarray]:
        own = [1 if draw.flag(0.3) else dim for dim in dims][draw.between(0, len(dims)) :]
        array = draw.dense((*own, *((width, height) if is_turned else (height, width))))
        return array, array.swapaxes(-1, -2) if is_turned else array

    (src, left), (weights, right) = operand(rows, depth, turned_src), operand(depth, columns, turned)
    found = draw.result((*dims, rows, columns), is_dense=True)
    draw.said = f"{src.shape} by {weights.shape}, {turned_src}, {turned}"
    draw.run(src, weights, found, turned_src=turned_src, turned=turned)
    wanted = Wanted(*(np.broadcast_to(each, found.shape) for each in wanted_product(left, right)))
    wanted.check(found, str(draw))


@draws("panel_matrices", graph=True)
def panel_matrices_in_a_graph(draw: Draw) -> None:
    g, depth = og.Graph(), draw.size(33)
    x, y = (g.input(name, "f32", (None, None, None)) for name in "xy")
    g.output("z", g.matmul(x, g.relu(y), transpose_b=True))
    sizes = [(1, 2, 3), (2, 4, 5), (1, 3, 2), (draw.between(1, 3), draw.size(33, 6), draw.size(33))]
    given = [{"x": draw.dense((n, rows, depth)), "y": draw.dense((n, columns, depth))} for n, rows, columns in sizes]
    draw.said = f"{sizes}, {depth}"
    (found,) = draw.run_graph(g, *given)
    last = given[-1]
    wanted_product(last["x"], np.where(last["y"] < 0, 0, last["y"]).swapaxes(1, 2)).check(found, str(draw))
