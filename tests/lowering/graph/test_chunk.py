"""Loops over slices in the place of what is large: the same values, sums in order, and less memory."""

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits, normals, run, small_integers
from support.targets import RUNNABLE
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.graph.bodies import trips
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.peak_memory import peak_memory
from tessera.lowering.graph import chunk as chunks
from tessera.lowering.graph.chunk import chunk, slice_of
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate

ROWS, WIDE, NARROW = 24, 41, 5


def products(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
    """A product of rows, and what its gradients would be made of: sums over rows, and rows."""
    made = b.contract(x, w, ((0, 2), (1, 2)), (0, 1))
    short = b.cast(made, x.type.dtype)
    first = b.contract(short, x, ((0, 1), (0, 2)), (2, 1))
    turned = b.cast(b.transpose(first, (1, 0)), x.type.dtype)
    rows = b.cast(b.contract(short, w, ((0, 1), (1, 2)), (0, 2)), x.type.dtype)
    return turned, rows, b.reduce(made, (0,)), b.reduce(made, (1,))


def built(dtype: DType = f32, rows: int = ROWS) -> Graph:
    return simplify(graph_of(products, (dtype, (rows, NARROW)), (dtype, (WIDE, NARROW))))


def chunked(graph: Graph, monkeypatch: pytest.MonkeyPatch, rows: int = 4, *, shorter: bool = False) -> Graph:
    """Return the graph in slices of `rows` rows."""
    seed = next(node.result for node in graph.nodes if node.op == "contract")
    monkeypatch.setattr(chunks, "LARGE", 1)
    monkeypatch.setattr(chunks, "SLICES", rows * seed.type.bytes // seed.type.shape[0])
    made = chunk(graph, {seed: seed.type.bytes}, shorter=shorter)
    verify(made)
    return made


def loop(graph: Graph) -> Node:
    (found,) = (node for node in graph.nodes if node.op == "loop")
    return found


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16])
def test_sums_of_integers_are_the_same(monkeypatch: pytest.MonkeyPatch, dtype: DType):
    graph = built(dtype)
    made = chunked(graph, monkeypatch)
    assert trips(loop(made)) == 6
    arrays = small_integers([value.type for value in graph.inputs])
    for target in RUNNABLE:
        for found, wanted in zip(run(made, arrays, target), evaluate(graph, arrays), strict=True):
            if dtype in (f32, f64):
                assert_same_bits(found, wanted)
            else:  # sums may be more than the type holds exactly: rounded once, here and there
                np.testing.assert_array_equal(np.asarray(found).astype(float), wanted.astype(float))


def test_rows_keep_every_bit(monkeypatch: pytest.MonkeyPatch):
    graph = built()
    made, arrays = chunked(graph, monkeypatch), normals([value.type for value in graph.inputs])
    found, wanted = evaluate(made, arrays), evaluate(graph, arrays)
    assert_same_bits(found[1], wanted[1])
    assert_same_bits(found[3], wanted[3])
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-4)


def test_the_wide_values_are_never_whole(monkeypatch: pytest.MonkeyPatch):
    graph = built(rows=240)
    made = chunked(graph, monkeypatch, 8)
    assert all(value.type.size <= 240 * NARROW for node in made.nodes for value in node.results)
    assert peak_memory(made) < peak_memory(graph) / 2


def test_sums_are_carried_rounded_where_that_is_permitted(monkeypatch: pytest.MonkeyPatch):
    graph = built(bf16)
    assert [value.type.dtype for value in loop(chunked(graph, monkeypatch)).results[:2]] == [f32, f32]
    made = chunked(graph, monkeypatch, shorter=True)
    assert [value.type.dtype for value in loop(made).results[:2]] == [bf16, f32]
    arrays = normals([value.type for value in graph.inputs])
    found, wanted = (evaluate(each, arrays)[0].astype(np.float64) for each in (made, graph))
    np.testing.assert_allclose(found, wanted, atol=2.0**-7 * np.abs(wanted).max())


def test_sums_are_carried_in_the_order_of_what_reads_them(monkeypatch: pytest.MonkeyPatch):
    made = chunked(built(), monkeypatch)
    assert loop(made).results[0].type.shape == (WIDE, NARROW)


def test_new_nodes_name_their_rule_and_old_ones_keep_their_numbers(monkeypatch: pytest.MonkeyPatch):
    graph = built()
    node = loop(chunked(graph, monkeypatch))
    assert node.origin.rule == chunks.RULE
    assert set(node.origin.parents) <= {each.ident for each in graph.nodes}
    (body,) = node.graphs
    assert {each.ident for each in graph.nodes if each.op == "contract"} <= {each.ident for each in body.nodes}


def test_small_values_and_rows_that_are_used_twice_stay(monkeypatch: pytest.MonkeyPatch):
    graph = built()
    seed = graph.nodes[0].result
    assert chunk(graph, {seed: seed.type.bytes}) is graph
    monkeypatch.setattr(chunks, "LARGE", 1)
    assert chunk(graph, {graph.inputs[0]: 1000}) is graph


@pytest.mark.parametrize(
    ("extent", "size", "rows"),
    [
        (8192, 8192 * 64000, 1024),  # 64 MiB a slice, and no more
        (65536, 65536 * 64000, 4096),  # 16 slices
        (8192, 8192 * 2**18, 512),
        (1000, 1000 * 2**20, 50),  # no multiple of 128 divides it
        (8191, 8191 * 64000, 0),  # a prime
    ],
)
def test_slices(extent: int, size: int, rows: int):
    assert slice_of(extent, size) == rows
