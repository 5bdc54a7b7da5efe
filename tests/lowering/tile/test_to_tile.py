"""A Program becomes Tile IR one to one: form, facts, identities, and what it computes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from support import programs
from support.builder import Builder
from support.evaluate import run
from support.mlir import shown
from tessera.core.base.dtypes import boolean, f32, i64, u8
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Scalar
from tessera.core.tile.location import identities, spans
from tessera.core.tile.spec import check_tile_ir
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.tile.to_tile import function_name, to_tile


@pytest.mark.parametrize("make", programs.ALL, ids=lambda make: make.__name__)
def test_every_example_is_valid(make: Callable[[], Program]):
    module = to_tile(make())
    assert module.operation.verify()
    check_tile_ir(module, "to-tile")


@pytest.mark.parametrize("make", programs.ALL, ids=lambda make: make.__name__)
def test_every_operation_keeps_its_number_and_span(make: Callable[[], Program]):
    program = make()
    numbered = dict(enumerate(program.body.walk()))
    seen: set[int] = set()
    module = to_tile(program)
    for op in operations(kernel(module))[1:-1]:
        (number,) = identities(op.location)
        assert spans(op.location) == (numbered[number].span,)
        seen.add(number)
    # All are there but the yields of branches that do nothing.
    assert {numbered[n].opcode for n in numbered.keys() - seen} <= {"yield"}


def test_facts_of_the_function():
    module = to_tile(programs.group_sum())
    text = str(module)
    assert 'tessera.dtype = "f32", tessera.mutable = false, tessera.name = "x", tessera.shape = ["n"]' in text
    assert "tessera.group = array<i64: 128>" in text
    assert 'tessera.domain = {extents = ["n"], kind = "lanes"}' in text
    assert "tessera.options = {}" in text
    tuned = replace(programs.saxpy(), options={"lanes": 256, "fast": True})
    assert "tessera.options = {fast = true, lanes = 256 : i64}" in str(to_tile(tuned))


@pytest.mark.parametrize(
    ("name", "symbol"), [("saxpy", "saxpy"), ("größe 2", "gr__e_2"), ("a.b<c>", "a_b_c_"), ("", "kernel")]
)
def test_function_names_are_symbols(name: str, symbol: str):
    b = Builder(name)
    b.barrier()
    assert function_name(b.program()) == symbol


def test_memory_types():
    module = str(to_tile(programs.saxpy(contiguous=False)))
    assert "%arg0: memref<?xf32, strided<[?]>>" in module
    assert "%arg1: memref<?xf32>" in module


def test_saxpy_computes():
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    run(to_tile(programs.saxpy()), {"n": 5}, x, y, 2.0, lanes=8)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_matmul_computes_with_masked_edges():
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 4, shape).astype(np.float32) for shape in ((10, 7), (7, 9)))
    c = np.zeros((10, 9), np.float32)
    run(to_tile(programs.matmul(4, 4, 4)), {"M": 10, "N": 9, "K": 7}, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_softmax_computes():
    x = np.random.default_rng(1).normal(size=(11, 32)).astype(np.float32)
    y = np.zeros_like(x)
    run(to_tile(programs.softmax_rows(32, 4)), {"R": 11}, x, y)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-6)


def test_pipeline_swaps_its_buffers():
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 4, shape).astype(np.float32) for shape in ((8, 20), (20, 4)))
    c = np.ones((8, 4), np.float32)
    run(to_tile(programs.pipeline(8, 8, 4)), {"K": 20}, a, b, c)
    np.testing.assert_array_equal(c, 1 + a @ b)


@pytest.mark.parametrize(
    ("lower", "upper", "step"), [(9, -1, -1), (9, 0, -4), (0, 9, 4), (3, 3, 1), (5, 2, 1), (0, 5, -1)]
)
@pytest.mark.parametrize("known", [True, False])
def test_loops_count_as_pythons_range(lower: int, upper: int, step: int, known: bool):
    b = Builder("counting")
    out = b.array("out", i64, 16, mutable=True)
    arguments: list[int] = []
    if known:
        first, end, by = (b.const(v) for v in (lower, upper, step))
    else:
        first, end, by = (b.scalar(name, i64) for name in ("lower", "upper", "step"))
        arguments = [lower, upper, step]
    with b.loop(first, end, by, [b.const(0)], names=("i", "at")) as loop:
        b.write(out, loop.index, loop.carried[0])
        loop.yields = (b.value("add", loop.carried[0], b.const(1)),)
    result = np.full(16, -99)
    run(to_tile(b.program()), {}, result, *arguments)
    expected = list(range(lower, upper, step))
    assert list(result) == expected + [-99] * (16 - len(expected))


def test_a_running_step_of_zero_ends_at_once():
    b = Builder("still")
    out = b.array("out", i64, 4, mutable=True)
    with b.loop(b.const(0), b.const(4), b.scalar("step", i64)) as loop:
        b.write(out, b.const(1), loop.index)
    result = np.zeros(4, np.int64)
    run(to_tile(b.program()), {}, result, 0)
    assert not result.any()


def test_a_loop_over_lanes_needs_no_count():
    assert "scf.for %k = %i to %n step %group_lanes" in shown(programs.group_sum())


def test_bools_are_bytes_in_memory():
    b = Builder("flip")
    x, y = b.array("x", boolean, "n"), b.array("y", boolean, "n", mutable=True)
    i = b.id("thread")
    b.write(y, b.value("not", b.read(x, i)), i)
    flags = np.array([True, False, True])
    result = np.zeros(3, bool)
    run(to_tile(b.program()), {"n": 3}, flags, result, lanes=3)
    assert list(result) == [False, True, False]


def test_unsigned_bytes_compare_as_such():
    b = Builder("less")
    x, y = b.array("x", u8, "n"), b.array("y", u8, "n", mutable=True)
    i = b.id("thread")
    v = b.read(x, i)
    b.write(y, b.select(b.compare("gt", v, b.const(127, u8)), b.const(255, u8), b.value("min", v, b.const(200, u8))), i)
    result = np.zeros(3, np.uint8)
    run(to_tile(b.program()), {"n": 3}, np.array([0, 127, 128], np.uint8), result, lanes=3)
    assert list(result) == [0, 127, 255]


def test_axes_count_from_the_front():
    b = Builder("axes")
    x, y = b.array("x", f32, 4, 8), b.array("y", f32, 4, mutable=True)
    zero = b.const(0)
    b.store(y, b.reduce(b.load(x, [zero, zero], [4, 8]), "sum", -1), [zero], [4])
    assert "tessera.reduce sum %0 axis 1" in shown(b.program())


@pytest.mark.parametrize("opcode", ["frobnicate", "and"])
def test_what_has_no_form_is_our_fault(opcode: str):
    b = Builder("unknown")
    v = b.const(1.0, f32)
    b.value(opcode, v, v)
    with pytest.raises(CompilerCrash, match=f"no Tile IR for '{opcode}' of \\(f32, f32\\)") as caught:
        to_tile(b.program())
    assert caught.value.span.line == 3


def test_empty_else_branches_stay_empty_and_full_ones_do_not():
    b = Builder("branch")
    out = b.array("out", i64, 4, mutable=True)
    span = b.span()
    writer = Builder("then")
    one = writer.const(1)
    writer.write(out, one, one)
    full = Block((), (*writer.blocks[0], Op("yield", span=span)))
    empty = Block((), (Op("yield", span=span),))
    condition = Value(Scalar(boolean), "", span)
    b.blocks[0].append(Op("const", (), (condition,), {"value": False}, (), span))
    b.blocks[0] += [
        Op("if", (condition,), (), {}, regions, span) for regions in ((full, empty), (empty, full), (full,))
    ]
    text = shown(b.program())
    assert text.count("else") == 1
    result = np.zeros(4, np.int64)
    run(to_tile(b.program()), {}, result)
    assert list(result) == [0, 1, 0, 0]
