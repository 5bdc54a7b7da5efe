"""What the producer warp does beside filling buffers: tiles that an epilogue reads come into the L2 cache ahead."""

import pytest

from support.gradients import graph_of
from support.graphs import compiled_for_hopper
from tessera.core.base.dtypes import DType, bf16, boolean, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.program.types import Array
from tessera.lowering.cuda.pipeline.producer_consumer import has_box

PREFETCH = "cp.async.bulk.prefetch.tensor"
X, W = (bf16, (512, 256)), (bf16, (256, 512))


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (0, 2))


def added(b: GraphBuilder, x: Value, w: Value, c: Value) -> Value:
    return b.binary("add", product(b, x, w), b.cast(c, f32))


@pytest.mark.parametrize("dtype", [bf16, f32])
def test_a_tile_that_an_epilogue_adds_is_brought_ahead(dtype: DType):
    (text,) = compiled_for_hopper(graph_of(added, X, W, (dtype, (512, 512))))
    assert text.count(PREFETCH) == 1


def test_products_alone_bring_nothing_ahead():
    (text,) = compiled_for_hopper(graph_of(product, X, W))
    assert PREFETCH not in text


def test_vectors_are_not_worth_it():
    def make(b: GraphBuilder, x: Value, w: Value, c: Value) -> Value:
        return b.binary("add", product(b, x, w), c)

    (text,) = compiled_for_hopper(graph_of(make, X, W, (f32, (512,))))
    assert PREFETCH not in text


@pytest.mark.parametrize(
    ("dtype", "shape", "dropped", "fits"),
    [
        (bf16, (128, 256), (), True), (f32, (64, 128), (), True), (boolean, (64, 128), (), False),
        (bf16, (4, 128), (), False), (bf16, (64, 12), (), False), (bf16, (64, 512), (), False),
        (bf16, (64, 64), (2,), False), (bf16, (64, 64), (0,), True),
    ],
)  # fmt: skip
def test_boxes(dtype: DType, shape: tuple[int, ...], dropped: tuple[int, ...], fits: bool):
    rank = len(shape) + len(dropped)
    assert has_box(Array(dtype, (1024,) * rank, True, True), shape, dropped) == fits
