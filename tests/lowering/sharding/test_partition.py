"""Graphs cut over meshes compute what they do on one device: random graphs, random shardings."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of, reals
from support.graphs import assert_same_bits, graphs, small_integers
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import AmbiguousSharding
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import dims_of, divides, placed
from tessera.lowering.sharding.propagate import propagate
from tessera.lowering.sharding.sharded_graph import ShardedGraph
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import evaluate_on_mesh, padded_part_of, part_of, whole_of
from tessera.runtime.interpret.rounding import Numbers

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))
MESHES = (MESH, *(Mesh.of(("dp", "tp"), range(a * b), (a, b)) for a, b in ((1, 8), (3, 1), (3, 2), (1, 9))))


def checked(sharded: ShardedGraph, arrays: list[Numbers], *, exact: bool = True) -> Graph:
    """Return the graph of one device, having compared what the devices make with the oracle of one."""
    local, mesh = partition(sharded), sharded.mesh
    verify(local)
    inputs = [
        [
            padded_part_of(x, dims_of(sharded.placements[value]), mesh, rank, poison(x))
            for x, value in zip(arrays, sharded.graph.inputs, strict=True)
        ]
        for rank in range(mesh.size())
    ]
    made = evaluate_on_mesh(local, mesh, inputs)
    wanted = evaluate(sharded.graph, arrays)
    for place, (value, sharding, each) in enumerate(zip(sharded.graph.outputs, sharded.outputs, wanted, strict=True)):
        found = whole_of([outputs[place] for outputs in made], value.type, dims_of(sharding), mesh)
        if exact:
            assert_same_bits(found, each)
        else:
            np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12)
        for rank, outputs in enumerate(made):
            mine = part_of(found, dims_of(sharding), mesh, rank)
            assert_same_bits(outputs[place][tuple(map(slice, mine.shape))], mine)
    return local


def poison(array: Numbers) -> object:
    """Return what shards are padded by here: nothing of it may reach a result."""
    return np.nan if array.dtype.kind not in "biu" else True if array.dtype.kind == "b" else 99


def collectives(graph: Graph) -> list[str]:
    found = [node.attributes for node in graph.nodes if node.op == "collective"]
    return [f"{each['kind']} {'*'.join(cast('tuple[str, ...]', each['axes']))}" for each in found]


def dims(*axes: str) -> Placement:
    return placed(tuple(tuple(each.split()) for each in axes))


@st.composite
def shardings(draw: st.DrawFn, value: Value, mesh: Mesh, *, even: bool = False) -> Placement:
    found: list[list[str]] = [[] for _ in value.type.shape]
    for axis in draw(st.permutations(mesh.axes)):
        place = draw(st.integers(-1, len(found) - 1))
        if place >= 0:
            found[place].append(axis)
            if even and not divides(value.type.shape, placed(tuple(each) for each in found), mesh):
                found[place].pop()
    return placed(tuple(tuple(each) for each in found))


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from(MESHES), st.data())
def test_random_graphs(graph: Graph, mesh: Mesh, data: st.DataObject):
    """Extents that the mesh divides and others; what shards are padded by is poison."""
    given_ = {value: data.draw(shardings(value, mesh)) for value in graph.inputs}
    for value in graph.producers:
        if data.draw(st.integers(0, 4)) == 0:
            given_[value] = data.draw(shardings(value, mesh))
    try:
        sharded = propagate(graph, mesh, given_)
        checked(sharded, list(small_integers([value.type for value in graph.inputs])))
    except AmbiguousSharding:
        return


def mlp(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    return b.contract(b.unary("tanh", b.contract(x, w, ((0, 1), (1, 2)), (0, 2))), v, ((0, 1), (1, 2)), (0, 2))


def test_tensor_parallel_layers_need_one_sum():
    graph = graph_of(mlp, reals(8, 16), reals(16, 32), reals(32, 16))
    x, w, v = graph.inputs
    sharded = propagate(graph, MESH, {x: dims("dp", ""), w: dims("", "tp"), v: dims("tp", "")})
    local = checked(
        sharded, [np.random.default_rng(0).normal(size=each.type.shape) for each in graph.inputs], exact=False
    )
    assert collectives(local) == ["all_reduce tp"]
    products = [node for node in local.nodes if node.op == "contract"]
    assert [node.result.type.shape for node in products] == [(4, 16), (4, 4, 16)], "the second one, in four leaves"


def test_gradients_of_tensor_and_data_parallel_layers():
    graph = simplify(vjp(graph_of(mlp, reals(8, 16), reals(16, 32), reals(32, 16)), (0, 1, 2)))
    x, w, v, _ = graph.inputs
    parts = {x: dims("dp", ""), w: dims("", "tp"), v: dims("tp", "")}
    wanted = [dims("dp", ""), dims("dp", ""), dims("", "tp"), dims("tp", "")]
    sharded = propagate(graph, MESH, {**parts, graph.inputs[3]: dims("dp", "")}, wanted)
    local = checked(
        sharded, [np.random.default_rng(0).normal(size=each.type.shape) for each in graph.inputs], exact=False
    )
    assert sorted(collectives(local)) == ["all_reduce dp", "all_reduce dp", "all_reduce tp", "all_reduce tp"]


def test_weights_that_are_cut_over_the_batch_axis_are_gathered():
    """Fully sharded data parallelism: gathering weights moves less than gathering what is multiplied with them."""
    graph = graph_of(mlp, reals(4096, 16), reals(16, 32), reals(32, 16))
    x, w, v = graph.inputs
    local = partition(propagate(graph, MESH, {x: dims("dp tp", ""), w: dims("dp tp", ""), v: dims("dp tp", "")}))
    assert collectives(local) == ["all_gather dp*tp", "all_gather dp*tp"]


def test_heads_stay_apart_through_reshapes():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        y = b.contract(x, w, ((0, 1, 2), (2, 3)), (0, 1, 3))
        heads = b.transpose(b.reshape(y, (2, 6, 4, 8)), (0, 2, 1, 3))
        scores = b.contract(heads, heads, ((0, 1, 2, 3), (0, 1, 4, 3)), (0, 1, 2, 4))
        out = b.contract(scores, heads, ((0, 1, 2, 3), (0, 1, 3, 4)), (0, 1, 2, 4))
        return b.reshape(b.transpose(out, (0, 2, 1, 3)), (2, 6, 32))

    graph = graph_of(make, reals(2, 6, 16), reals(16, 32))
    x, w = graph.inputs
    sharded = propagate(graph, MESH, {x: dims("dp", "", ""), w: dims("", "tp")})
    local = checked(
        sharded, [np.random.default_rng(0).normal(size=each.type.shape) for each in graph.inputs], exact=False
    )
    assert collectives(local) == []
    assert sharded.outputs == (dims("dp", "", "tp"),)


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_sums_have_the_same_bits_on_every_mesh(devices: int):
    """Products, sums of rows and of columns whose summed axis is cut: eight leaves, wherever they are."""

    def make(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
        y = b.contract(x, w, ((0, 1), (1, 2)), (0, 2))
        return y, b.reduce(x, (1,)), b.reduce(x, (0, 1)), b.contract(w, x, ((1, 2), (0, 1)), (2, 0))

    graph = graph_of(make, (f32, (6, 80)), (f32, (80, 7)))
    x, w = graph.inputs
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=each.type.shape).astype(np.float32) for each in graph.inputs]
    made: list[list[Numbers]] = []
    for count in (1, devices):
        mesh = Mesh.of("tp", range(count))
        sharded = propagate(graph, mesh, {x: dims("", "tp"), w: dims("tp", "")})
        local = partition(sharded)
        verify(local)
        parts = [
            [
                part_of(each, dims_of(sharded.placements[v]), mesh, rank)
                for each, v in zip(arrays, graph.inputs, strict=True)
            ]
            for rank in range(count)
        ]
        made.append(list(evaluate_on_mesh(local, mesh, parts)[-1]))
    for one, several in zip(*made, strict=True):
        assert_same_bits(several, one)


def test_one_rank_has_the_collectives_of_several():
    """Nothing is fused across them: kernels that were would add in another order than those of more ranks."""
    graph = simplify(vjp(graph_of(mlp, reals(8, 16), reals(16, 32), reals(32, 16)), (0, 1, 2)))
    x, w, v, _ = graph.inputs
    parts = {x: dims("dp", ""), w: dims("", "tp"), v: dims("tp", ""), graph.inputs[3]: dims("dp", "")}
    one, four = (partition(propagate(graph, Mesh.of(("dp", "tp"), range(n * n), (n, n)), parts)) for n in (1, 2))
    assert collectives(one) == collectives(four)
    assert len(collectives(one)) > 2
