"""Tiles that move between layouts, are repeated and packed: every dtype, bit for bit."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda.cases import DTYPES, Maker, in_registers, is_wide, numbers, poison
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import DType, f32
from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.tile.dialect import context
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.storage.register_tiles import (
    RegisterTile,
    broadcast,
    compressed,
    from_words,
    made_of,
    permuted,
    renamed,
    to_words,
    vector_bits,
)


def permutation(dtype: DType, shape: tuple[int, ...], order: tuple[int, ...], rounds: int = 1) -> Program:
    b = Maker("permutation")
    after = tuple(shape[axis] for axis in order)
    x = b.matrix("x", dtype, *shape, wide=is_wide(dtype, shape))
    out = b.matrix("out", dtype, *after, wide=is_wide(dtype, after), mutable=True)
    tile = b.load(x, [b.const(0)] * len(shape), shape)
    for _ in range(rounds):
        tile = b.transpose(tile, *order)
    b.store(out, tile, [b.const(0)] * len(shape), after)
    return b.program()


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(DTYPES), st.lists(st.integers(1, 40), min_size=2, max_size=3), st.data())
def test_transpositions(dtype: DType, extents: list[int], data: st.DataObject):
    shape = tuple(extents) if len(extents) < 3 else tuple(min(extent, 16) for extent in extents)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    arguments = [numbers(dtype, *shape), poison(dtype, *(shape[axis] for axis in order))]
    in_registers(permutation(dtype, shape, order), arguments)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype: DType):
    in_registers(permutation(dtype, (32, 32), (1, 0), 3), [numbers(dtype, 32, 32), poison(dtype, 32, 32)])


def test_a_transposition_in_place():
    """The tile is loaded once, before the array changes."""
    b = Maker("place")
    x = b.matrix("x", f32, 48, 48, wide=True, mutable=True)
    zero = [b.const(0), b.const(0)]
    b.store(x, b.transpose(b.load(x, zero, [48, 48]), 1, 0), zero, [48, 48])
    in_registers(b.program(), [numbers(f32, 48, 48)])


def test_lines_are_read_and_written_whole():
    text = ptx_of(compile_ptx(permutation(f32, (64, 64), (1, 0))))
    assert text.count("ld.global.v4.b32") == text.count("st.global.v4.b32") == 8
    assert text.count("ld.shared.v4.b32") == 8
    assert text.count("bar.sync") == 1


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(DTYPES), st.integers(1, 30), st.integers(1, 30), st.integers(0, 1), st.booleans())
def test_rows_and_columns_repeated(dtype: DType, rows: int, columns: int, axis: int, both: bool):
    b = Maker("repeated")
    length = (columns, rows)[axis]
    v, out = b.matrix("v", dtype, length), b.matrix("out", dtype, rows, columns, mutable=True)
    line = b.load(v, [b.const(0)], [length])
    tile = b.broadcast(b.reshape(line, *((1, columns) if axis == 0 else (rows, 1))), rows, columns)
    if both:
        tile = b.select(b.compare("eq", tile, tile), tile, tile)
    b.store(out, tile, [b.const(0), b.const(0)], [rows, columns])
    in_registers(b.program(), [numbers(dtype, length), poison(dtype, rows, columns)])


# -- without code ------------------------------------------------------------------------------------------------


def counted(layout: Layout) -> tuple[ir.Value, ...]:
    """The numbers from 100 on, for the values of a tile: what moves them does not look at them."""
    return cast("tuple[ir.Value, ...]", tuple(range(100, 100 + layout.count)))


def tile(layout: Layout) -> RegisterTile:
    return RegisterTile(layout, "f32", counted(layout))


def same(found: RegisterTile | None, layout: Layout, values: tuple[object, ...]) -> bool:
    return found is not None and found.layout == layout and found.values == values


def test_permuted():
    """Registers in another order cost nothing; other lanes' elements cannot be had that way."""
    before = Layout((8,), (1, 2), (4,))
    swapped = Layout((8,), (2, 1), (4,))
    assert same(permuted(tile(before), swapped), swapped, (100, 102, 101, 103))
    assert permuted(tile(before), Layout((8,), (1, 4), (2,))) is None
    assert permuted(tile(before), Layout((8,), (1, 2, 4), (0,))) is None


def test_broadcast():
    whole = Layout((2, 4), (1, 4), (2,))
    column = tile(whole.sliced([1]))
    assert broadcast(column, whole).values == (100, 100, 101, 101)
    row = tile(whole.sliced([0]))
    assert broadcast(row, whole).values == (100, 101, 100, 101)


def anew(layout: Layout) -> RegisterTile:
    """The numbers from 100 on, in any layout."""
    return RegisterTile(layout, "f32", counted(layout), anew)


def test_what_is_made_of_a_tile_is_computed_again_where_that_is():
    whole, other = Layout((2, 4), (1, 4), (2,)), Layout((2, 4), (2, 4), (1,))
    made = made_of(anew(whole.sliced([1])), whole, broadcast, lambda layout: layout.sliced([1]))
    assert made.again is not None
    again = made.again(other)
    assert same(again, other, (100, 100, 101, 101))
    assert again.again is not None
    flat = made_of(again, other.reshaped((8,)), renamed, lambda layout: layout.reshaped((2, 4)))
    assert same(flat, other.reshaped((8,)), again.values)
    assert flat.again is not None
    assert same(flat.again(whole.reshaped((8,))), whole.reshaped((8,)), made.values)
    assert made_of(tile(whole), whole, renamed, lambda layout: layout).again is None


def test_vector_bits():
    assert vector_bits(Layout((64,), (1, 2, 8), (4, 16, 32)), 4) == 2
    assert vector_bits(Layout((64,), (1, 2, 4), (8, 16, 32)), 1) == 1
    assert vector_bits(Layout((64,), (2, 1), (4,)), 4) == 0


def test_compressed():
    """Bits that no element has take no room."""
    before, after = compressed(Layout((64,), (8,), (32, 0)), Layout((64,), (32,), (8, 0)))
    assert before == Layout((4,), (1,), (2, 0))
    assert after == Layout((4,), (2,), (1, 0))


@pytest.mark.parametrize("element", ["bf16", "f16", "i8"])
def test_words_that_were_cut_up_are_words_again(element: str):
    with context():
        module = ir.Module.parse("llvm.func @f(%x: i32, %y: i32) { llvm.return }")
        block = module.body.operations[0].regions[0].blocks[0]
        build = IndexBuilder(block, ir.Location.unknown())
        build.point = ir.InsertionPoint.at_block_begin(block)
        words = list(block.arguments)
        values = from_words(build, words, element)
        assert to_words(build, values) == words
        turned = to_words(build, values[::-1])
        assert not set(turned) & set(words)
        parts = len(values) // 2
        mixed = to_words(build, [values[0], *values[parts + 1 :]])
        assert not set(mixed) & set(words)
