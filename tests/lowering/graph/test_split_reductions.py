"""Reductions of long rows become reductions of blocks, and keep every bit."""

from collections.abc import Sequence

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits, check, close, normals, only, run
from tessera.core.base.dtypes import DType, boolean, f32, f64, i32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.infer import numbers
from tessera.core.graph.verify import verify
from tessera.core.schedule.plan import ROW_LIMIT
from tessera.lowering.graph.split_reductions import SPLIT, split_reductions
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.runtime.interpret.graph import evaluate


def reduction(shape: Sequence[int], axes: Sequence[int], kind: str = "sum", dtype: DType = f32) -> Graph:
    return graph_of(lambda b, x: b.reduce(x, axes, kind), (dtype, tuple(shape)))


def lengths(built: Graph) -> list[int]:
    """The elements that each reduction of a graph adds."""
    return [
        int(np.prod([node.operands[0].type.shape[axis] for axis in numbers(node.attributes["axes"])]))
        for node in built.nodes if node.op == "reduce"
    ]  # fmt: skip


def agree(built: Graph) -> Graph:
    split = split_reductions(built)
    verify(split)
    arrays = normals([value.type for value in built.inputs])
    for found, wanted in zip(evaluate(split, arrays), evaluate(built, arrays), strict=True):
        assert_same_bits(found, wanted)
    return split


def test_short_rows_stay():
    built = reduction((3, ROW_LIMIT), (1,))
    assert split_reductions(built) is built


@pytest.mark.parametrize(
    "length", [ROW_LIMIT + 1, 2 * SPLIT + 4097, 3 * SPLIT, 5 * SPLIT + 1, 64 * SPLIT, 128 * SPLIT, 131 * SPLIT + 77]
)
def test_sums_keep_their_association(length: int):
    """131 blocks are more than one level of 128 adds."""
    split = agree(reduction((length,), (0,)))
    first, *rest = lengths(split)
    assert first == SPLIT
    assert all(each in (length % SPLIT, *(1 << bits for bits in range(1, 8))) for each in rest)


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64, boolean])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_every_dtype_and_kind(dtype: DType, kind: str):
    if (dtype, kind) != (boolean, "sum"):
        agree(reduction((2, 3 * SPLIT - 5), (1,), kind, dtype))


def test_maxima_of_very_many_elements_are_split_again():
    built = reduction((ROW_LIMIT * SPLIT + SPLIT,), (0,), "max", i32)
    assert lengths(split_reductions(built)) == [SPLIT, SPLIT, 1, 3]


def test_minus_zero_is_a_sum_of_minus_zeros():
    built = reduction((3 * SPLIT,), (0,))
    (total,) = evaluate(split_reductions(built), [np.full(3 * SPLIT, -0.0, np.float32)])
    assert np.signbit(total)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((150, 2, 130), (0, 2)), ((150, 3, 130), (0,)), ((20000, 2), (0,)), ((3, 150, 130), (1, 2)),
     ((2, 30, 3, 30, 20), (1, 3, 4)), ((130, 150), (0, 1))],
)  # fmt: skip
def test_axes_that_are_not_neighbours(shape: tuple[int, ...], axes: tuple[int, ...]):
    agree(reduction(shape, axes))


def test_an_empty_tensor_has_no_long_rows():
    built = reduction((0, 20000), (1,))
    assert split_reductions(built) is built


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, ROW_LIMIT + 1), (1,)), ((40000,), (0,)), ((150, 2, 130), (0, 2)), ((20000, 3), (0,)),
     ((2, 3 * SPLIT), (1,))],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_kernels_of_long_rows(shape: tuple[int, ...], axes: tuple[int, ...], kind: str):
    built = reduction(shape, axes, kind)
    check(built)
    arrays = normals([value.type for value in built.inputs])
    (found,) = run(built, arrays, "interpret")
    assert_same_bits(found, evaluate(built, arrays)[0])


def test_the_blocks_of_a_row_are_read_in_place():
    """No copy of the array is made: the first kernels read it through views."""
    built = split_reductions(reduction((2, 2 * SPLIT + 100), (1,)))
    first, second, *_ = plan_graph(built).groups
    assert [(each.kind, each.inputs) for each in (first, second)] == [("rows", built.inputs)] * 2


def test_a_softmax_of_a_long_row():
    def make(b: GraphBuilder, x: Value) -> Value:
        wide = b.binary("sub", x, b.reshape(b.reduce(x, (1,), "max"), (2, 1)))
        e = b.unary("exp", wide)
        return b.binary("div", e, b.reshape(b.reduce(e, (1,)), (2, 1)))

    built = graph_of(make, (f32, (2, 20001)))
    close(built, normals([value.type for value in built.inputs]), 1e-6)


def test_a_row_at_the_limit_is_one_kernel():
    assert only(plan_graph(reduction((2, ROW_LIMIT), (1,)))).kind == "rows"
