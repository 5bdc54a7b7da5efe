"""Programs opened for many lengths: what changes in them, what must not, and that they compute the same bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.builder import Builder, extents_of
from tessera import compile_source
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program, Symbol, Value
from tessera.core.program.text import to_text
from tessera.core.program.types import Array
from tessera.lowering.program.open_extents import LONGEST, bucket, open_extents
from tessera.runtime.interpret.run import run

ROWS = 4


def rows(width: int, body: Callable[[Builder, Value], Value], *, out: tuple[int, ...] = ()) -> Program:
    """A kernel that loads 4 x width elements, and stores what `body` makes of them."""
    b = Builder("k")
    shape = out or (ROWS, width)
    x, y = b.array("x", f32, ROWS, width), b.array("y", f32, *shape, mutable=True)
    zero = b.const(0)
    made = body(b, b.load(x, [zero, zero], [ROWS, width]))
    b.store(y, made, [zero] * len(shape), shape)
    return b.program()


def softmax(b: Builder, x: Value) -> Value:
    top = b.broadcast(b.reshape(b.reduce(x, "max", 1), ROWS, 1), *extents_of(x))
    powers = b.value("exp", b.value("sub", x, top))
    return b.value("div", powers, b.broadcast(b.reshape(b.reduce(powers, "sum", 1), ROWS, 1), *extents_of(x)))


def values(program: Program, x: np.ndarray) -> np.ndarray:
    """Return what the second parameter holds after a run by the oracle."""
    kind = program.parameters[1].value.type
    symbols = {symbol.name: x.shape[symbol.axis] for symbol in program.symbols if symbol.parameter == 0}
    assert isinstance(kind, Array)
    y = np.full([symbols[size] if isinstance(size, str) else size for size in kind.shape], 7, np.float32)
    with np.errstate(all="ignore"):
        run(program, [x, y], symbols=symbols)
    return y


@pytest.mark.parametrize(
    ("extent", "size"), [(2, 2), (3, 4), (4, 4), (5, 8), (61, 64), (64, 64), (65, 128), (129, 256)]
)
def test_buckets(extent: int, size: int):
    assert bucket(extent) == size


def test_arrays_get_a_symbol_and_tiles_a_bucket():
    opened = open_extents(rows(61, softmax), [(0, 1)])
    assert opened is not None
    text = to_text(opened.program)
    assert "61" not in text
    assert text.startswith("kernel k(%x: array<4xx.shape[1]xf32>, %y: mut array<4xx.shape[1]xf32>)")
    assert "[extents=4x64] : tile<4x64xf32>" in text
    assert opened.program.symbols == (Symbol("x.shape[1]", 0, 1), Symbol("x.shape[1]", 1, 1))
    assert opened.closed.symbols == opened.program.symbols
    assert opened.closed.parameters == rows_of(opened.closed)


def rows_of(program: Program) -> tuple[Any, ...]:
    """The parameters, all of whose extents are numbers."""
    kinds = [parameter.value.type for parameter in program.parameters]
    assert all(isinstance(kind, Array) and all(isinstance(size, int) for size in kind.shape) for kind in kinds)
    return program.parameters


def test_lengths_of_a_bucket_are_one_program():
    texts = {to_text(opened.program) for n in (33, 50, 61, 64) if (opened := open_extents(rows(n, softmax), [(0, 1)]))}
    assert len(texts) == 1


@pytest.mark.parametrize("width", [2, 3, 17, 61, 64, 100])
def test_the_same_bits(width: int):
    x = np.random.default_rng(width).standard_normal((ROWS, width)).astype(np.float32)
    x[1, width // 2] = np.inf
    x[2] = -0.0
    program = rows(width, softmax)
    opened = open_extents(program, [(0, 1)])
    assert opened is not None
    assert values(opened.program, x).tobytes() == values(program, x).tobytes()


def test_symbols_of_the_kernel_are_kept():
    module = compile_source(
        "@kernel\ndef k(x: f32[r, n], y: mut f32[r, n]):\n"
        "    for i in tile.range(r):\n        y[i, :] = tile.exp(x[i, :])\n"
    )
    x = np.ones((3, 20), np.float32)
    opened = open_extents(module.k.program((x, x.copy())), [(0, 1)])
    assert opened is not None
    assert "array<rxnxf32>" in to_text(opened.program)
    assert opened.program.symbols == opened.closed.symbols


def test_bounds_of_loops_are_read_at_launch_and_steps_stay():
    b = Builder("k")
    x, y = b.array("x", f32, 64), b.array("y", f32, 64, mutable=True)
    with b.loop(b.const(0), b.const(64), b.const(64), kind="tile") as loop:
        b.store(y, b.load(x, [loop.index], [64]), [loop.index], [64])
    opened = open_extents(b.program(), [(0, 0)])
    assert opened is not None
    text = to_text(opened.program)
    assert "dim [symbol=x.shape[0]]" in text
    assert text.count("const [value=64]") == 1
    assert "tile<64xf32>" in text  # a part of the axis is as long as it was


def summed(b: Builder, x: Value) -> Value:
    return b.reduce(b.value("mul", x, x), "sum", 1)


def signed(b: Builder, x: Value) -> Value:
    return b.reduce(x, "sum", 1)  # of -0.0 alone it is -0.0, and 0.0 as soon as something is absent


def underflowing(b: Builder, x: Value) -> Value:
    tiny = b.full(b.const(-1e-30, f32), *extents_of(x))
    return b.reduce(b.value("mul", b.value("exp", x), tiny), "sum", 1)


def counted(b: Builder, x: Value) -> Value:
    return b.reduce(b.full(b.const(1.0, f32), *extents_of(x)), "sum", 1)


def filled(b: Builder, x: Value) -> Value:
    return b.reduce(b.op("fill", (x, b.const(1.0, f32)), x.type), "sum", 1)


def chosen(b: Builder, x: Value) -> Value:
    ones = b.full(b.const(1.0, f32), *extents_of(x))
    return b.reduce(b.select(b.compare("lt", ones, ones), x, ones), "sum", 1)


def multiplied(b: Builder, x: Value) -> Value:
    return b.reduce(b.dot(x, b.transpose(x, 1, 0)), "sum", 1)


def flattened(b: Builder, x: Value) -> Value:
    return b.full(b.reduce(x, "sum"), ROWS)


def reshaped(b: Builder, x: Value) -> Value:
    return b.reduce(b.reshape(x, ROWS, 2, extents_of(x)[1] // 2), "sum", 2)


def flags(b: Builder, x: Value) -> Value:
    return b.reduce(b.cast(b.op("valid", (x,), x.type), f32), "sum", 1)


@pytest.mark.parametrize("body", [filled, chosen, multiplied, flattened, flags, signed, underflowing])
def test_what_depends_on_the_length_of_a_tile_keeps_it(body: Callable[[Builder, Value], Value]):
    assert open_extents(rows(61, body, out=(ROWS,)), [(0, 1)]) is None


def test_a_reshape_that_cuts_an_axis_keeps_it():
    assert open_extents(rows(60, reshaped, out=(ROWS, 2)), [(0, 1)]) is None


def test_a_tile_that_meets_none_of_the_array_keeps_its_extent():
    opened = open_extents(rows(61, counted, out=(ROWS,)), [(0, 1)])
    assert opened is not None
    assert values(opened.program, np.zeros((ROWS, 61), np.float32)).tolist() == [61.0] * ROWS


def test_sums_of_what_is_loaded_are_opened():
    program = rows(61, summed, out=(ROWS,))
    opened = open_extents(program, [(0, 1)])
    assert opened is not None
    x = np.random.default_rng(0).standard_normal((ROWS, 61)).astype(np.float32)
    assert values(opened.program, x).tobytes() == values(program, x).tobytes()


def test_one_choice_that_ends_is_not_enough_and_a_condition_is():
    def by_condition(b: Builder, x: Value) -> Value:
        ones = b.full(b.const(1.0, f32), *extents_of(x))
        return b.reduce(b.value("abs", b.select(b.compare("lt", x, ones), ones, ones)), "sum", 1)

    program = rows(61, by_condition, out=(ROWS,))
    opened = open_extents(program, [(0, 1)])
    assert opened is not None
    x = np.random.default_rng(0).standard_normal((ROWS, 61)).astype(np.float32)
    assert values(opened.program, x).tolist() == values(program, x).tolist() == [61.0] * ROWS


def test_carried_tiles_keep_their_extents():
    b = Builder("k")
    x, y = b.array("x", f32, 61), b.array("y", f32, 61, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero], [61])
    with b.loop(zero, b.const(4), b.const(1), carried=(tile,)) as loop:
        loop.yields = (b.value("add", loop.carried[0], tile),)
    b.store(y, loop.results[0], [zero], [61])
    assert open_extents(b.program(), [(0, 0)]) is None


def test_axes_that_were_not_asked_for_stay():
    program = rows(61, softmax)
    assert open_extents(program, []) is None
    opened = open_extents(program, [(0, 0)])
    assert opened is not None
    assert "array<x.shape[0]x61xf32>" in to_text(opened.program)


def test_longer_tiles_than_may_fit_stay():
    assert open_extents(rows(LONGEST, summed, out=(ROWS,)), [(0, 1)]) is not None
    assert open_extents(rows(LONGEST + 1, summed, out=(ROWS,)), [(0, 1)]) is None


def test_two_axes_of_one_extent_are_told_apart():
    b = Builder("k")
    x, y = b.array("x", f32, 61), b.array("y", f32, 61, mutable=True)
    other = b.array("other", f32, 61, mutable=True)
    zero = b.const(0)
    b.store(y, b.load(x, [zero], [61]), [zero], [61])
    with b.loop(zero, b.const(61), b.const(16), kind="tile") as loop:
        b.store(other, b.full(b.const(0.0, f32), 16), [loop.index], [16])
    opened = open_extents(b.program(), [(0, 0), (2, 0)])
    assert opened is not None
    text = to_text(opened.program)
    assert "%other: mut array<other.shape[0]xf32>" in text
    assert "const [value=61]" in text  # it may be either's
