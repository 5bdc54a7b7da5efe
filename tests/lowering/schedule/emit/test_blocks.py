"""Kernels of blocks: loops over blocks of any size compute what the graph does."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of, softmax
from support.graphs import assert_same_bits, small_integers
from tessera.core.base.dtypes import bf16, f32, i32
from tessera.core.base.source import Span
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.program.program import Block, Program
from tessera.core.schedule.plan import Group
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule import fuse as grouping
from tessera.lowering.schedule.emit.to_program import to_program
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.run import run

sizes = st.sampled_from((1, 2, 4, 8, 16))


def one_group(built: Graph) -> Group:
    (group,) = plan_graph(built).groups
    return group


def ran(built: Graph, blocks: Mapping[int, int], arrays: list[Numbers] | None = None) -> tuple[list[Numbers], Program]:
    """Run the only kernel of a graph with these blocks, and compare it with the oracle."""
    group = one_group(built)
    lowered = to_program(group, blocks, {}, built.source, {})
    inputs = arrays or small_integers([value.type for value in built.inputs])
    memory = dict(zip(built.inputs, inputs, strict=True))
    memory |= {value: np.full(value.type.shape, 99, value.type.dtype.numpy) for value in group.outputs}
    run(lowered.program, [memory[argument.value].reshape(argument.shape) for argument in lowered.arguments], symbols={})
    found = [memory[value] for value in built.outputs]
    for one, other in zip(found, evaluate(built, inputs), strict=True):
        assert_same_bits(one, other)
    return found, lowered.program


def loops(block: Block) -> int:
    return sum((op.opcode == "for") + sum(map(loops, op.regions)) for op in block.ops)


def linear(b: GraphBuilder, x: Value, w: Value, bias: Value) -> Value:
    return b.binary("max", b.binary("add", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)), bias), b.full(0.0, f32, ()))


@settings(max_examples=25)
@given(st.tuples(sizes, sizes, sizes), st.tuples(*[st.integers(1, 20)] * 3))
def test_products_of_any_blocks(blocks: tuple[int, int, int], extents: tuple[int, int, int]):
    m, n, k = extents
    ran(graph_of(linear, (f32, (m, k)), (f32, (k, n)), (f32, (n,))), dict(enumerate(blocks)))


@settings(max_examples=25)
@given(st.tuples(sizes, sizes), st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_maps_of_any_blocks(blocks: tuple[int, int], extents: tuple[int, int]):
    def make(b: GraphBuilder, x: Value, row: Value) -> Value:
        return b.binary("add", b.binary("mul", x, row), b.cast(b.iota(extents[1]), f32))

    ran(graph_of(make, (f32, extents), (f32, extents[1:])), dict(enumerate(blocks)))


@settings(max_examples=25)
@given(sizes, st.integers(1, 9), st.integers(1, 40))
def test_rows_of_any_number(rows: int, count: int, length: int):
    built = graph_of(lambda b, x: b.unary("neg", b.reduce(x, (1,))), (i32, (count, length)))
    group = one_group(built)
    ran(built, {group.reduced[0]: length, 1 - group.reduced[0]: rows})


def test_rows_around_their_reductions():
    built = simplify(graph_of(softmax, (f32, (5, 37))))
    group = one_group(built)
    arrays = [np.random.default_rng(0).normal(size=(5, 37)).astype(np.float32)]
    ran(built, {group.reduced[0]: 37, 1 - group.reduced[0]: 2}, arrays)


def test_blocks_that_hold_everything_need_no_loop():
    built = graph_of(linear, (f32, (3, 4)), (f32, (4, 5)), (f32, (5,)))
    assert loops(ran(built, {0: 4, 1: 8, 2: 4})[1].body) == 0
    assert loops(ran(built, {0: 2, 1: 4, 2: 2})[1].body) == 3


def test_batches_are_loops():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.contract(x, y, ((0, 1, 2), (0, 3, 2)), (0, 1, 3))

    built = graph_of(make, (bf16, (3, 4, 5)), (bf16, (3, 6, 5)))
    assert loops(ran(built, {1: 4, 2: 8, 3: 8})[1].body) == 1


def test_several_products_share_one_loop():
    def make(b: GraphBuilder, x: Value, up: Value, gate: Value) -> Value:
        labels, result = ((0, 1), (1, 2)), (0, 2)
        return b.binary("mul", b.contract(x, up, labels, result), b.contract(x, gate, labels, result))

    built = graph_of(make, (f32, (3, 9)), (f32, (9, 5)), (f32, (9, 5)))
    groups = plan_graph(built).groups
    if len(groups) == 1:
        ran(built, {0: 4, 1: 8, 2: 4})
    assert groups[-1].kind == "product"


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_transposed_results(order: tuple[int, int]):
    built = graph_of(lambda b, x, y: b.contract(x, y, ((0, 1), (2, 1)), order), (f32, (5, 7)), (f32, (6, 7)))
    ran(built, {0: 4, 1: 2, 2: 4})


def test_operations_have_the_place_of_their_node():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        with b.within(span=Span("cell", 7, 1, 7, 2)):
            product = b.contract(x, w, ((0, 1), (1, 2)), (0, 2))
        with b.within(span=Span("cell", 8, 1, 8, 2)):
            return b.unary("neg", product)

    _, program = ran(graph_of(make, (f32, (3, 4)), (f32, (4, 5))), {0: 4, 1: 8, 2: 4})
    assert {op.opcode: op.span.line for op in program.body.ops if op.opcode in ("dot", "neg")} == {"dot": 7, "neg": 8}


def convolution(stride: int, dilation: int) -> Graph:
    """[batch, row, column, channel] with [filter, row, column, channel]; two images of 6 x 8 pixels, padded by one."""
    rows, columns = ((size + 2 - 2 * dilation - 1) // stride + 1 for size in (6, 8))
    index = IndexMap(
        (2, rows, columns, 3, 3, 16),
        (Affine(0, (Term(0),)), Affine(-1, (Term(1, stride), Term(3, dilation))),
         Affine(-1, (Term(2, stride), Term(4, dilation))), Affine(0, (Term(5),))), True,
    )  # fmt: skip

    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        return b.contract(b.view(x, index), w, ((0, 1, 2, 3, 4, 5), (6, 3, 4, 5)), (0, 1, 2, 6))

    return graph_of(make, (f32, (2, 6, 8, 16)), (f32, (4, 3, 3, 16)))


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("blocks", [{0: 2, 1: 2, 2: 4, 3: 4, 6: 8}, {1: 3, 2: 3, 3: 2, 6: 16}, {2: 8, 6: 4}])
def test_blocks_of_pixels_are_the_rows_of_a_product(blocks: dict[int, int], stride: int, dilation: int):
    """All taps and channels are one loop, whose trips say which they are."""
    _, program = ran(convolution(stride, dilation), blocks)
    inner = [op for op in program.body.walk() if op.opcode == "for" and len(op.results)]
    assert len(inner) == 1


def test_a_chain_that_is_longer_than_pythons_stack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grouping, "MOST_NODES", 2000)
    build = GraphBuilder()
    x = value = Value(Tensor(f32, (40,)), "x")
    for number in range(1500):
        value = build.binary("add", value, x) if number % 2 else build.unary("neg", value)
    built = build.finish("chain", [x], [value])
    assert len(one_group(built).members) == 1500
    ran(built, {})
