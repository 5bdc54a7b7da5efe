"""Nodes as equations between elements."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import pytest

from support.gradients import Make, graph_of
from support.operators import Array
from tessera import dist
from tessera.api.graph import module
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Origin, Value
from tessera.core.graph.index_maps import window
from tessera.core.placement.mesh import Mesh
from tessera.viz.operators.index_notation import axis_name, node_text, operator_of, signature
from tessera.viz.operators.names import value_names


def batched(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1, 2), (0, 2, 3)), (0, 1, 3))


CASES: dict[str, tuple[Make, tuple[tuple[DType, tuple[int, ...]], ...], str]] = {
    "contract": (batched, ((f32, (2, 3, 4)), (f32, (2, 4, 5))), "%result[i, j, k] = sum_l %x0[i, j, l] * %x1[i, l, k]"),
    "outer": (lambda b, x, y: b.contract(x, y, ((0,), (1,)), (0, 1)), ((f32, (3,)), (f32, (4,))),
              "%result[i, j] = %x0[i] * %x1[j]"),
    "reduce": (lambda b, x: b.reduce(x, (0, 2), "max"), ((f32, (2, 3, 4)),), "%result[i] = max_jk %x0[j, i, k]"),
    "transpose": (lambda b, x: b.transpose(x, (1, 0)), ((f32, (2, 3)),), "%result[i, j] = %x0[j, i]"),
    "reshape": (lambda b, x: b.reshape(x, (6,)), ((f32, (2, 3)),), "%result[i] = %x0[i // 3, i % 3]"),
    "iota": (lambda b, x: b.iota(4), ((f32, ()),), "%result[i] = i"),
    "gather": (lambda b, x, i: b.gather(x, i), ((f32, (9, 4)), (i64, (8,))),
               "%result[i, j] = gather(%x0[i, j], %x1[i], axis 0)"),
    "number": (lambda b, x: b.unary("exp", x), ((f32, ()),), "%result = exp(%x0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equations(name: str):
    make, inputs, wanted = CASES[name]
    graph = graph_of(make, *inputs)
    assert node_text(graph.nodes[-1], value_names(graph)) == wanted


def test_padding_is_said():
    graph = graph_of(lambda b, x: b.view(x, window((8, 4), (0, 1), (1, 1), (8, 2))), (f32, (8, 4)))
    text = node_text(graph.nodes[0], value_names(graph))
    assert text.startswith("%result[i, j] = %x0[")
    assert text.endswith("or 0") == graph.nodes[0].index_map.padded


def test_operators_are_those_that_the_user_called():
    graph = graph_of(lambda b, x: b.unary("exp", x), (f32, (3,)))
    node = graph.nodes[0]

    def of(*path: str) -> str:
        return operator_of(type(node)(node.op, node.operands, node.results, origin=Origin(composite=path)))

    assert of("attention", "softmax.1") == "softmax"
    assert of("adjoint", "loss", "mse") == "adjoint of mse"
    assert of("attention") == of() == ""


def test_letters_and_heads():
    assert "".join(map(axis_name, range(4))) + axis_name(20) == "ijkla20"
    graph = graph_of(lambda b, x: b.unary("exp", x), (f32, (3,)))
    assert signature(graph, value_names(graph)) == "g(%x0: f32[3])"


def product(x: Array, w: Array) -> Array:
    return x @ w


@pytest.mark.parametrize(
    ("layouts", "lines"),
    [
        ((dist.Block((None, "tp")), dist.Block("tp")), ["all_reduce(%g6[i, j], sum over tp)"]),
        ((dist.Block("dp"), dist.Block("tp")), ["slice(%x[i, j], over tp, cut j)", "sum over tp)"]),
        ((dist.Block(("dp", "tp")), dist.Block((None, "tp"))), ["all_gather(%x[i, j], over tp, join j)"]),
    ],
    ids=["sums", "slices", "gathers"],
)
def test_collectives_say_what_they_combine_and_over_which_axes(
    layouts: tuple[dist.ShardSpec, dist.ShardSpec], lines: list[str]
):
    mesh = Mesh.of(("dp", "tp"), range(8), (2, 4))
    x, w = (dist.tensor((16, 16), layout, mesh) for layout in layouts)
    executable = module("product")(product).executable_for(x, w)
    graph = executable.simplified
    text = "\n".join(node_text(node, value_names(graph)) for node in graph.nodes)
    for line in lines:
        assert line in text, text
