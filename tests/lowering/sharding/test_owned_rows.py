"""Gathers and sums by index of rows that a mesh cuts: the bits of one device, on meshes of 1 to 72."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import assert_same_bits
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.owned_rows import index_of_owned
from tessera.lowering.sharding.padding import place_along
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import dims_of, placed
from tessera.lowering.sharding.propagate import propagate
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import evaluate_on_mesh, part_of, whole_of
from tessera.runtime.interpret.rounding import Numbers

MESHES = [(1,), (2,), (3,), (4,), (6,), (2, 4), (9,), (3, 4), (18,), (24,), (36,), (4, 9, 2), (72,)]


def compared(
    graph: Graph, mesh: Mesh, parts: dict[Value, Placement], arrays: list[Numbers], wanted: Placement | None = None
) -> Graph:
    """Return the graph of one device, having compared the bits of the only output with those of the whole graph."""
    sharded = propagate(graph, mesh, parts, [wanted])
    local = partition(sharded)
    verify(local)
    places = [dims_of(sharded.placements[value]) for value in graph.inputs]
    inputs = [
        [part_of(x, dims, mesh, rank) for x, dims in zip(arrays, places, strict=True)] for rank in range(mesh.size())
    ]
    made = [outputs[0] for outputs in evaluate_on_mesh(local, mesh, inputs)]
    found = whole_of(made, graph.outputs[0].type, dims_of(sharded.outputs[0]), mesh)
    assert_same_bits(found, evaluate(graph, arrays)[0])
    return local


def tables(dtype: DType, rows: int, width: int) -> Numbers:
    """Return numbers with -0 and NaNs of several bits among them."""
    found = np.random.default_rng(0).normal(size=(rows, width)).astype(dtype.numpy)
    found[::3] = -0.0 if dtype.is_float else -1
    if dtype.is_float:
        bits = found.view(f"u{dtype.bytes}")
        bits[1::5] = np.full(1, np.nan).astype(dtype.numpy).view(bits.dtype) | 5
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MESHES), st.sampled_from([f64, f32, f16, bf16, i32]), st.integers(1, 5), st.integers(1, 4),
    st.booleans(), st.data(),
)  # fmt: skip
def test_takes_the_bits_that_one_device_takes(
    shape: tuple[int, ...], dtype: DType, each: int, width: int, small: bool, data: st.DataObject
):
    mesh = Mesh.of(tuple("abc"[: len(shape)]), range(int(np.prod(shape))), shape)
    axes = tuple(data.draw(st.permutations(mesh.axes)))[: data.draw(st.integers(1, len(shape)))]
    rows, kind = each * mesh.size(axes), i32 if small else i64
    index = np.array(data.draw(st.lists(st.integers(-3, rows + 3), min_size=1, max_size=7)), kind.numpy)
    graph = graph_of(lambda b, t, i: b.gather(t, i), (dtype, (rows, width)), (kind, index.shape))
    table, _ = graph.inputs
    compared(graph, mesh, {table: placed([axes, ()])}, [tables(dtype, rows, width), index])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MESHES), st.sampled_from([f64, f32, i32]), st.integers(1, 5), st.data())
def test_adds_to_the_rows_of_each_device(shape: tuple[int, ...], dtype: DType, each: int, data: st.DataObject):
    mesh = Mesh.of(tuple("abc"[: len(shape)]), range(int(np.prod(shape))), shape)
    axes = tuple(data.draw(st.permutations(mesh.axes)))[: data.draw(st.integers(1, len(shape)))]
    rows = each * mesh.size(axes)
    index = np.array(data.draw(st.lists(st.integers(-3, rows + 3), min_size=1, max_size=9)), np.int64)
    values = np.random.default_rng(1).normal(size=(len(index), 2)).astype(dtype.numpy)
    graph = graph_of(lambda b, i, x: b.scatter_add(i, x, rows), (i64, index.shape), (dtype, values.shape))
    compared(graph, mesh, {}, [index, values], placed([axes, ()]))


@pytest.mark.parametrize("end", [0, 28])
@pytest.mark.parametrize("rank", range(3))
def test_numbers_rows_from_the_first_of_a_device(rank: int, end: int):
    def shifted(b: GraphBuilder, index: Value) -> Value:
        return index_of_owned(b, index, place_along(b, ("tp",), 3), 10, end)

    graph = graph_of(shifted, (i32, (4,)))
    index = np.array([0, 9, 10, 29], np.int32)
    made = evaluate_on_mesh(graph, Mesh.of("tp", range(3)), [[index]] * 3)
    wanted = index - 10 * rank
    np.testing.assert_array_equal(made[rank][0], [*wanted[:3], -1] if end else wanted)


def test_no_row_moves_but_those_that_are_taken():
    mesh = Mesh.of(("dp", "tp"), range(4), (2, 2))
    graph = graph_of(lambda b, t, i: b.gather(t, i), (f32, (1000, 8)), (i64, (6,)))
    table, index = graph.inputs
    arrays = [tables(f32, 1000, 8), np.array([3, -1, 999, 1000, 500, 499])]
    local = compared(graph, mesh, {table: placed([("tp",), ()]), index: placed([("dp",)])}, arrays)
    moved = [node for node in local.nodes if node.op == "collective" and node.attributes["kind"] != "slice"]
    assert [(each.attributes["reduction"], each.operands[0].type.shape) for each in moved] == [("choose", (3, 8))]
