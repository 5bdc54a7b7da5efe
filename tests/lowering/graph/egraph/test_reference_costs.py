"""Prices: what is a kernel, what it reads and writes, and which time that takes; written out by hand."""

from support.gradients import Make, graph_of
from tessera.core.base.dtypes import DType, bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import window
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.extraction import Extractor
from tessera.lowering.graph.egraph.reference_costs import (
    BYTES_PER_SECOND,
    LAUNCH,
    PICO,
    Price,
    moving_time,
    node_price,
    product_rate,
)


def priced(make: Make, *types: tuple[DType, tuple[int, ...]]) -> Price:
    return Extractor(EGraph(graph_of(make, *types))).original.price


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (0, 2))


def test_the_figures_of_the_reference_machine():
    assert moving_time(BYTES_PER_SECOND) == PICO
    assert product_rate("bf16") == 700e12
    assert product_rate("i32") == product_rate("f32") == 50e12


def test_a_product_computes_or_moves():
    small = priced(product, (f32, (64, 64)), (f32, (64, 64)))
    assert small == Price(LAUNCH + moving_time(3 * 64 * 64 * 4), 1, 2 * 64**3, 3 * 64 * 64 * 4)
    large = priced(product, (bf16, (4096, 4096)), (bf16, (4096, 4096)))
    assert large.picoseconds == LAUNCH + 2 * 4096**3 * PICO // 700_000_000_000_000


def test_maps_of_a_product_are_its_epilogue():
    def make(b: GraphBuilder, x: Value, w: Value, s: Value) -> Value:
        rows = [(0, 1), (0,)]
        return b.unary(
            "exp", b.map(apply("mul", Argument(0, f32), Argument(1, f32)), [product(b, x, w), s], rows, (64, 64))
        )

    found = priced(make, (f32, (64, 64)), (f32, (64, 64)), (f32, (64,)))
    assert found.kernels == 1
    assert found.bytes == (3 * 64 * 64 + 64) * 4


def test_reductions_and_maps_of_one_row_are_one_kernel():
    def make(b: GraphBuilder, x: Value) -> Value:
        total = b.reduce(b.binary("mul", x, x), (1,))
        return b.map(apply("mul", Argument(0, f32), Argument(1, f32)), [x, total], [(0, 1), (0,)], x.type.shape)

    found = priced(make, (f32, (64, 32)))
    assert (found.kernels, found.bytes) == (1, 2 * 64 * 32 * 4)


def test_operands_of_products_are_written_and_read():
    found = priced(lambda b, x, w: product(b, b.unary("exp", x), w), (f32, (64, 64)), (f32, (64, 64)))
    assert (found.kernels, found.bytes) == (2, 5 * 64 * 64 * 4)


def test_views_are_read_as_they_lie_and_copied_as_outputs():
    def part(b: GraphBuilder, x: Value) -> Value:
        return b.view(x, window(x.type.shape, (0, 32), (1, 1), (64, 32)))

    read = priced(lambda b, x, w: product(b, part(b, x), w), (f32, (64, 64)), (f32, (32, 64)))
    assert (read.kernels, read.bytes) == (1, (2 * 64 * 32 + 64 * 64) * 4)
    copied = priced(part, (f32, (64, 64)))
    assert (copied.kernels, copied.bytes) == (1, 2 * 64 * 32 * 4)


def test_shared_values_count_once():
    def make(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
        made = product(b, x, w)
        return product(b, made, w), product(b, w, made)

    assert priced(make, (f32, (64, 64)), (f32, (64, 64))).kernels == 3


def test_numbers_cost_nothing():
    found = priced(lambda b, x: b.binary("add", x, b.full(1.0, f32, (64,))), (f32, (64,)))
    assert (found.kernels, found.bytes) == (1, 2 * 64 * 4)


def test_an_estimate_of_one_node():
    egraph = EGraph(graph_of(lambda b, x, w: b.unary("exp", product(b, x, w)), (f32, (64, 64)), (f32, (64, 64))))
    prices = {node.op: node_price(egraph, node, number) for number in egraph.classes for node in egraph.members[number]}
    assert prices["input"] == 0
    assert prices["map"] < LAUNCH < prices["contract"]


def test_a_price_as_text():
    assert str(Price(2_500_000, 1, 4096, 1024)) == "2.50 us, 1 kernels, 4,096 FLOPs, 1,024 bytes"
