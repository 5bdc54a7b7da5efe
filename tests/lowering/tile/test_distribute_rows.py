"""tile-distribute-rows: whole-array statements, a block of rows a group."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import programs
from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Attribute, Program, Value
from tessera.lowering.base.attributes import RANGES, from_attribute
from tessera.lowering.base.ir_walk import kernel
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.distribute_rows import DistributeRows
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.simplify import Simplify

ROWS = DistributeRows(8)
RANDOM = np.random.default_rng(0)


def ranges(program: Program, *passes: Pass):
    function = kernel(lowered(program, *passes))
    return from_attribute(function.attributes[RANGES]) if RANGES in function.attributes else None


def whole(*shape: int) -> np.ndarray:
    return RANDOM.integers(-3, 4, shape).astype(np.float32)


def options(program: Program, **chosen: Attribute) -> Program:
    return replace(program, options=chosen)


@pytest.mark.parametrize("rows", [40, 41])
def test_fused_mlp(rows: int):
    program = options(programs.fused_mlp(rows, 6, 10, 4), rows_per_group=8)
    x, w1, b1, w2, b2 = whole(rows, 6), whole(6, 10), whole(10), whole(10, 4), whole(4)
    out = np.zeros((rows, 4), np.float32)
    module = lowered(program, Simplify(), MaskEdges(), ROWS)
    assert from_attribute(kernel(module).attributes[RANGES]) == ((rows, 8),)
    run(module, {}, x, w1, b1, w2, b2, out)
    np.testing.assert_array_equal(out, np.maximum(x @ w1 + b1, 0) @ w2 + b2)


def test_fused_mlp_text():
    text = shown(programs.fused_mlp(), Simplify(), MaskEdges(), DistributeRows())
    assert "ranges [[256, 64]]" in text
    assert "%X_1 = tessera.load %X[%0:+64, 0:+64] in_bounds [0, 1] : tile<64x64xf32>" in text
    assert "%W1_1 = tessera.load %W1[0:+64, 0:+128] in_bounds [0, 1] : tile<64x128xf32>" in text
    assert "tile<256x" not in text


def test_accumulating_over_a_loop():
    program = options(programs.accumulate(24, 8, 4), rows_per_group=8)
    a, b, c = whole(24, 20), whole(20, 4), whole(24, 4)
    expected = c + a @ b
    module = lowered(program, Simplify(), MaskEdges(), ROWS)
    assert RANGES in kernel(module).attributes
    run(module, {"K": 20}, a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_shared_buffers_hold_the_groups_rows():
    program = options(programs.pipeline(24, 8, 4), rows_per_group=8)
    a, b, c = whole(24, 20), whole(20, 4), whole(24, 4)
    expected = c + a @ b
    module = lowered(program, Simplify(), ROWS)
    assert 'memref<8x8xf32, "shared">' in str(module)
    assert 'memref<24x8xf32, "shared">' not in str(module)
    run(module, {"K": 20}, a, b, c)
    np.testing.assert_array_equal(c, expected)


def statement(body: Callable[..., Value], *shapes: tuple[int, ...], out: tuple[int, ...] = (32, 4)) -> Program:
    """Out[:] = body(builder, whole tiles of the inputs...)."""
    b = Builder("statement")
    arrays = [b.array(f"x{n}", f32, *shape) for n, shape in enumerate(shapes)]
    result = b.array("out", f32, *out, mutable=True)
    zero = b.const(0)
    tiles = [b.load(a, [zero] * len(s), s) for a, s in zip(arrays, shapes, strict=True)]
    b.store(result, body(b, *tiles), [zero] * len(out), out)
    return b.program(rows_per_group=8)


def with_itself(b: Builder, x: Value):
    return b.dot(x, b.transpose(x, 1, 0))


def with_itself_again(b: Builder, x: Value):
    return b.dot(x, x, b.value("add", x, x))


def normalised(b: Builder, x: Value):
    total = b.broadcast(b.reshape(b.reduce(x, "sum", 1), 32, 1), 32, 4)
    return b.value("div", b.softmax(x, -1), b.value("max", total, b.full(b.const(1.0, f32), 32, 4)))


def turned(b: Builder, x: Value):
    return b.transpose(b.value("mul", x, x), 1, 0)


def numbered(b: Builder, x: Value):
    rows = b.cast(b.arange(b.const(5), 32), f32)
    return b.value("add", x, b.broadcast(b.reshape(rows, 32, 1), 32, 4))


def exponentials(b: Builder, x: Value):
    return b.value("exp", x)


Shapes = list[tuple[int, ...]]
ROW_BY_ROW: dict[
    str, tuple[Callable[..., Value], Shapes, tuple[int, ...], Callable[[np.ndarray], np.ndarray] | None]
] = {
    "X X^T": (with_itself, [(32, 4)], (32, 32), lambda x: x @ x.T),
    "X X + 2 X": (with_itself_again, [(32, 32)], (32, 32), lambda x: x @ x + x + x),
    "softmax and sum of rows": (normalised, [(32, 4)], (32, 4), None),
    "transposed": (turned, [(4, 32)], (32, 4), lambda x: (x * x).T),
    "arange": (numbered, [(32, 4)], (32, 4), lambda x: x + np.arange(5, 37)[:, None]),
    "rank 1": (exponentials, [(32,)], (32,), None),
}


@pytest.mark.parametrize(("body", "shapes", "out", "expected"), ROW_BY_ROW.values(), ids=ROW_BY_ROW)
def test_row_by_row(
    body: Callable[..., Value],
    shapes: Shapes,
    out: tuple[int, ...],
    expected: Callable[[np.ndarray], np.ndarray] | None,
):
    program = statement(body, *shapes, out=out)
    assert ranges(program, ROWS) == ((32, 8),)
    inputs = [whole(*shape) for shape in shapes]
    before, after = np.zeros(out, np.float32), np.zeros(out, np.float32)
    run(lowered(program), {}, *inputs, before)
    run(lowered(program, ROWS), {}, *inputs, after)
    np.testing.assert_array_equal(after, before)
    if expected is not None:
        np.testing.assert_array_equal(after, expected(*inputs))


def column_sums(b: Builder, x: Value):
    return b.value("sub", x, b.broadcast(b.reshape(b.reduce(x, "sum", 0), 1, 4), 32, 4))


def whole_product(b: Builder, x: Value, w: Value):
    h = b.dot(x, w)
    return b.dot(h, b.reshape(b.reduce(b.transpose(h, 1, 0), "sum", 1), 4, 1))


def second_product_whole(b: Builder, x: Value, w: Value):
    weights = b.dot(w, w)
    return b.dot(x, weights)


def softmax_of_columns(b: Builder, x: Value):
    return b.softmax(x, 0)


def reshaped_rows(b: Builder, x: Value):
    return b.reshape(x, 32, 4)


@pytest.mark.parametrize(
    ("body", "shapes", "out"),
    [
        (column_sums, [(32, 4)], (32, 4)),
        (whole_product, [(32, 4), (4, 4)], (32, 1)),
        (second_product_whole, [(32, 16), (16, 16)], (32, 16)),
        (softmax_of_columns, [(32, 4)], (32, 4)),
        (reshaped_rows, [(16, 8)], (32, 4)),
    ],
    ids=[
        "columns are summed",
        "sums of a product",
        "a product every group needs",
        "softmax of columns",
        "reshaped rows",
    ],
)
def test_rows_that_depend_on_other_rows_stay_together(
    body: Callable[..., Value], shapes: list[tuple[int, int]], out: tuple[int, int]
):
    program = statement(body, *shapes, out=out)
    assert shown(program, ROWS) == shown(program)


def test_a_written_array_is_read_in_the_same_rows_only():
    def program(first: int) -> Program:
        b = Builder("shifted")
        y = b.array("y", f32, 40, 4, mutable=True)
        zero = b.const(0)
        old = b.load(y, [b.const(first), zero], [32, 4])
        b.store(y, b.value("add", old, old), [zero, zero], [32, 4])
        return b.program(rows_per_group=8)

    assert ranges(program(0), ROWS) == ((32, 8),)
    assert ranges(program(1), ROWS) is None


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from("ldtbrsw"), st.integers(0, 7)), min_size=1, max_size=7), st.sampled_from([5, 8])
)
def test_random_statements_do_not_depend_on_the_order_of_groups(steps: list[tuple[str, int]], rows: int):
    b = Builder("random")
    x, y = b.array("x", f32, 16, 16), b.array("y", f32, 16, 16, mutable=True)
    zero, shape = b.const(0), (16, 16)
    values = [b.load(x, [zero, zero], shape)]
    for kind, number in steps:
        value = values[number % len(values)]
        if kind == "l":
            values.append(b.load(y, [zero, zero], shape))
        elif kind == "d":
            values.append(b.value("min", b.dot(values[-1], value), b.full(b.const(9.0, f32), *shape)))
        elif kind == "t":
            values.append(b.transpose(value, 1, 0))
        elif kind == "b":
            values.append(b.value("sub", values[-1], value))
        elif kind == "r":
            total = b.reduce(value, "max", number % 2)
            kept = b.reshape(total, 1, 16) if number % 2 == 0 else b.reshape(total, 16, 1)
            values.append(b.broadcast(kept, *shape))
        elif kind == "s":
            values.append(b.select(b.compare("lt", value, values[-1]), value, values[-1]))
        else:
            b.store(y, value, [zero, zero], shape)
    b.store(y, values[-1], [zero, zero], shape)
    program = b.program(rows_per_group=rows)
    first, before = whole(*shape), whole(*shape)
    after = before.copy()
    run(lowered(program), {}, first, before)
    run(lowered(program, Simplify(), DistributeRows()), {}, first, after)
    np.testing.assert_array_equal(after, before)


def test_rows_past_the_end_must_be_masked():
    b = Builder("part")
    x, y = b.array("x", f32, 40), b.array("y", f32, 40, mutable=True)
    zero = b.const(0)
    b.store(y, b.load(x, [zero], [30]), [zero], [30])
    assert ranges(b.program(rows_per_group=8), ROWS) is None
    assert ranges(b.program(rows_per_group=10), ROWS) == ((30, 10),)


@pytest.mark.parametrize("extra", ["id", "write", "group_sync"])
def test_kernels_with_lanes_are_left_alone(extra: str):
    b = Builder("lanes")
    x, y = b.array("x", f32, 32), b.array("y", i64, 4, mutable=True)
    out = b.array("out", f32, 32, mutable=True)
    zero = b.const(0)
    if extra == "id":
        b.write(y, b.id("group"), zero)
    elif extra == "write":
        b.write(y, zero, zero)
    else:
        b.op("group_sync", size=32)
    b.store(out, b.load(x, [zero], [32]), [zero], [32])
    assert ranges(b.program(rows_per_group=8), ROWS) is None


def negated(b: Builder, x: Value):
    return b.value("neg", x)


@pytest.mark.parametrize(
    ("rows", "columns", "height"), [(4096, 64, 64), (256, 64, 64), (128, 64, 32), (64, 64, 16), (1 << 20, 1, 4096)]
)
def test_blocks_are_high_enough_and_there_are_enough_of_them(rows: int, columns: int, height: int):
    program = statement(negated, (rows, columns), out=(rows, columns))
    assert ranges(options(program), DistributeRows()) == ((rows, height),)
