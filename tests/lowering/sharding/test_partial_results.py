"""Reductions of rows that a mesh does not divide: what pads shards shows in no bit, and sums are those of one device."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.sharding.test_partition import collectives, dims, poison
from support.gradients import graph_of, matmul, softmax
from support.graphs import assert_same_bits
from tessera.core.base.dtypes import DType, bf16, f32, f64, i32, i64
from tessera.core.graph.build import GraphBuilder, accumulator
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.sharding.factors import factors_of
from tessera.lowering.sharding.partial_results import cut_rows, leaves_of
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import dims_of
from tessera.lowering.sharding.propagate import propagate
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.mesh import evaluate_on_mesh, padded_part_of, whole_of
from tessera.runtime.interpret.rounding import Numbers

SIZES = (1, 2, 3, 4, 6, 8, 9)
PROMISED = (1, 2, 4, 8)
"""Meshes that have the same bits: they divide the eight leaves of a sum."""


def on_mesh(graph: Graph, parts: Sequence[Placement], arrays: Sequence[Numbers], mesh: Mesh) -> list[Numbers]:
    """Return the outputs on a mesh, put together; shards are padded by poison."""
    sharded = propagate(graph, mesh, dict(zip(graph.inputs, parts, strict=True)))
    local = simplify(partition(sharded))
    verify(local)
    held = [
        [padded_part_of(x, dims_of(each), mesh, rank, poison(x)) for x, each in zip(arrays, parts, strict=True)]
        for rank in range(mesh.size())
    ]
    made = evaluate_on_mesh(local, mesh, held)
    return [
        whole_of([mine[place] for mine in made], value.type, dims_of(end), mesh)
        for place, (value, end) in enumerate(zip(graph.outputs, sharded.outputs, strict=True))
    ]


def drawn(graph: Graph, *, exact: bool, special: bool, seed: int) -> list[Numbers]:
    """Return numbers whose sums are exact, or not; special: among them -0, infinities and NaNs."""
    rng = np.random.default_rng(seed)
    found: list[Numbers] = []
    for value in graph.inputs:
        whole = exact or not value.type.dtype.is_float
        array = rng.integers(-3, 4, value.type.shape) if whole else rng.normal(size=value.type.shape)
        made = array.astype(value.type.dtype.numpy)
        if special and value.type.dtype.is_float:
            made[rng.random(made.shape) < 0.1] = -0.0
            made[rng.random(made.shape) < 0.03] = np.inf
            made[rng.random(made.shape) < 0.03] = np.nan
        found.append(made)
    return found


def reductions(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
    """Sums, products, maxima and minima of rows that are cut, and what comes of padding that is divided by itself."""
    wide = accumulator(x.type.dtype)
    y = b.cast(x, wide)
    ratio = b.binary("div", y, y) if wide.is_float else b.binary("mul", y, y)
    return (
        b.contract(x, w, ((0, 1), (1, 2)), (0, 2)), b.reduce(y, (1,)), b.reduce(y, (0, 1)), b.reduce(y, (1,), "max"),
        b.reduce(y, (1,), "min"), b.reduce(b.binary("max", ratio, y), (1,), "max"), b.unary("neg", y),
        b.contract(w, x, ((1, 2), (0, 1)), (2, 0)), b.binary("add", b.reduce(b.cast(w, wide), (1,)), b.reduce(y, (0,))),
    )  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 40), st.sampled_from(SIZES), st.sampled_from((f32, bf16, f64, i32)), st.booleans(), st.booleans(),
    st.integers(0, 9),
)  # fmt: skip
def test_bits_of_one_device(extent: int, size: int, dtype: DType, exact: bool, special: bool, seed: int):
    exact = exact or size not in PROMISED
    graph = graph_of(reductions, (dtype, (3, extent)), (dtype, (extent, 5)))
    arrays, parts = drawn(graph, exact=exact, special=special, seed=seed), (dims("", "tp"), dims("tp", ""))
    alone = on_mesh(graph, parts, arrays, Mesh.of("tp", range(1)))
    for found, one, plain in zip(
        on_mesh(graph, parts, arrays, Mesh.of("tp", range(size))), alone, evaluate(graph, arrays), strict=True
    ):
        assert_same_bits(found, one)
        if exact or not special:
            np.testing.assert_allclose(found.astype(float), plain.astype(float), rtol=1e-4, atol=1e-4)
        if exact:
            assert_same_bits(found, plain)


def network(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    """Two layers with a softmax between them, along an axis that is cut: its padding overflows, or is 0 / 0."""
    return matmul(b, softmax(b, b.unary("log", b.unary("exp", matmul(b, x, w)))), v)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(SIZES), st.sampled_from((f32, f64)), st.booleans())
def test_gradients_have_bits_of_one_device(batch: int, hidden: int, size: int, dtype: DType, special: bool):
    graph = simplify(vjp(graph_of(network, (dtype, (batch, 6)), (dtype, (6, hidden)), (dtype, (hidden, 3))), (0, 1, 2)))
    parts = (dims("dp", ""), dims("", "tp"), dims("tp", ""), dims("dp", ""))
    arrays = drawn(graph, exact=False, special=special, seed=batch)
    sides = 2 if size in (4, 6, 8) else 1
    mesh = Mesh.of(("dp", "tp"), range(size), (sides, size // sides))
    alone = on_mesh(graph, parts, arrays, Mesh.of(("dp", "tp"), range(1), (1, 1)))
    for found, one in zip(on_mesh(graph, parts, arrays, mesh), alone, strict=True):
        if size in PROMISED:
            assert_same_bits(found, one)
        else:
            np.testing.assert_allclose(found, one, rtol=1e-3, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 20), st.integers(1, 20), st.sampled_from(((1, 2), (2, 1), (2, 2), (1, 8), (8, 1), (2, 4), (4, 2))),
    st.sampled_from((f32, bf16, f64)), st.booleans(),
)  # fmt: skip
def test_sums_over_two_axes_have_bits_of_one_device(
    batch: int, heads: int, sides: tuple[int, int], dtype: DType, special: bool
):
    def sums(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        y = b.cast(x, accumulator(dtype))
        return b.reduce(y, (0, 2)), b.reduce(y, (0, 1, 2)), b.reduce(y, (0, 2), "max")

    graph = graph_of(sums, (dtype, (batch, 3, heads)))
    arrays, parts = drawn(graph, exact=False, special=special, seed=batch), [dims("dp", "", "tp")]
    alone = on_mesh(graph, parts, arrays, Mesh.of(("dp", "tp"), range(1), (1, 1)))
    for actual, expected in zip(
        on_mesh(graph, parts, arrays, Mesh.of(("dp", "tp"), range(sides[0] * sides[1]), sides)), alone, strict=True
    ):
        assert_same_bits(actual, expected)


def test_a_sum_over_two_axes_is_added_along_the_last_one_first():
    """Eight sums of eight leaves each, on all meshes; one that both axes of a product cut has one part a device."""
    graph = graph_of(lambda b, x: (b.reduce(x, (0, 1)), b.contract(x, x, ((0, 1), (0, 1)), ())), (f32, (16, 24)))
    sharded = propagate(graph, Mesh.of(("dp", "tp"), range(8), (2, 4)), {graph.inputs[0]: dims("dp", "tp")})
    cuts = [cut_rows(factors_of(node), sharded.choices[node].assignment, sharded.mesh) for node in graph.nodes]
    assert [leaves_of(node, cut, 8) for node, cut in zip(graph.nodes, cuts, strict=True)] == [(4, 2), ()]
    local = partition(sharded)
    assert collectives(local) == ["all_reduce tp", "slice tp", "all_reduce dp*tp", "all_reduce dp*tp"]
    inner = next(node for node in local.nodes if node.op == "collective")
    assert inner.result.type.shape == (4,)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("extent", [1, 3, 5, 13, 40])
def test_all_bits_of_sums_of_normal_numbers(extent: int, size: int):
    """Where there are fewer rows than devices some own nothing, and a sum of -0 alone stays -0."""
    graph = graph_of(lambda b, x: (b.reduce(x, (0,)), b.contract(x, x, ((0, 1), (0, 1)), (1,))), (f32, (extent, 4)))
    arrays = drawn(graph, exact=size not in PROMISED, special=False, seed=0)
    arrays[0][:, 2] = -0.0
    arrays[0][:, 3] = 0
    arrays[0][0, 3] = -1e-30  # its square is 0
    found, alone = (on_mesh(graph, [dims("tp", "")], arrays, Mesh.of("tp", range(n))) for n in (size, 1))
    for one, other in zip(found, alone, strict=True):
        assert_same_bits(one, other)
    assert np.signbit(found[0][2])


def test_a_product_that_underflows_stays_negative():
    """A leaf without rows is absent, and no 0 that a -0 is added to."""
    graph = graph_of(lambda b, x, y: b.contract(x, y, ((0,), (0,)), ()), (f32, (3,)), (f32, (3,)))
    arrays: list[Numbers] = [np.full(3, -1e-30, np.float32), np.full(3, 1e-30, np.float32)]
    for size in SIZES:
        (found,) = on_mesh(graph, [dims("tp"), dims("tp")], arrays, Mesh.of("tp", range(size)))
        assert_same_bits(found, evaluate(graph, arrays)[0])
        assert np.signbit(found)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 5, 11])
def test_sums_by_index_do_not_take_padding(rows: int, size: int):
    graph = graph_of(lambda b, i, x: b.scatter_add(i, x, 7), (i32, (rows,)), (f32, (rows, 3)))
    rng = np.random.default_rng(rows)
    arrays: list[Numbers] = [
        rng.integers(-1, 8, rows).astype(np.int32),
        rng.integers(-3, 4, (rows, 3)).astype(np.float32),
    ]
    (found,) = on_mesh(graph, [dims("tp"), dims("tp", "")], arrays, Mesh.of("tp", range(size)))
    assert_same_bits(found, evaluate(graph, arrays)[0])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [f32, bf16, i64])
def test_indices_past_the_end_of_a_table_find_no_padding(dtype: DType, size: int):
    graph = graph_of(lambda b, t, i: b.gather(t, i), (dtype, (10, 3)), (i64, (5,)))
    arrays: list[Numbers] = [np.arange(30).reshape(10, 3).astype(dtype.numpy), np.array([9, 10, 11, -1, 3])]
    for parts in ([dims("tp", ""), dims("")], [dims("", "tp"), dims("")], [dims("", ""), dims("tp")]):
        (found,) = on_mesh(graph, parts, arrays, Mesh.of("tp", range(size)))
        assert_same_bits(found, evaluate(graph, arrays)[0])


def test_only_rows_that_are_reduced_are_masked():
    graph = graph_of(lambda b, x: (b.unary("exp", x), b.reduce(x, (1,))), (f32, (5, 4)))
    (x,) = graph.inputs
    local = partition(propagate(graph, Mesh.of("tp", range(4)), {x: dims("tp", "")}))
    assert [node.op for node in local.nodes] == ["map", "reduce"]


def test_rows_that_are_cut():
    graph = graph_of(lambda b, x, w: b.contract(x, w, ((0, 1), (2, 1)), (0, 2)), (f32, (4, 10)), (f32, (6, 10)))
    x, w = graph.inputs
    mesh = Mesh.of("tp", range(4))
    sharded = propagate(graph, mesh, {x: dims("", "tp"), w: dims("", "tp")})
    (node,) = graph.nodes
    (cut,) = cut_rows(factors_of(node), sharded.choices[node].assignment, mesh)
    assert (cut.kind, cut.axes, cut.parts, cut.extent, cut.rows, cut.dims) == ("sum", ("tp",), 4, 10, 3, (1, 1))
    assert cut.shards == ((0, 3), (3, 6), (6, 9), (9, 10))
    assert not cut.even
    assert collectives(partition(sharded)).count("all_reduce tp") == 1
