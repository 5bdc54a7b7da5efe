"""Tiles with named axes: aligned, combined, reduced and moved by their axes."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.graphs import assert_same_bits
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Source
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.index_maps import Affine, Term
from tessera.core.program.build import ProgramBuilder, shape_of
from tessera.core.program.program import Domain, Parameter, Program, Value
from tessera.core.program.types import Array
from tessera.core.schedule.plan import Access
from tessera.lowering.schedule.emit.tiles import Held, Tiles, unravelled
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.run import run

EXTENTS = {0: 2, 1: 3, 2: 4}


def access(axes: Sequence[int]) -> Access:
    return Access(tuple(EXTENTS[axis] for axis in axes), tuple(Affine(0, (Term(axis),)) for axis in axes))


def ran(
    inputs: Sequence[tuple[int, ...]], made: Sequence[int], emit: Callable[[Tiles, list[Held]], Held]
) -> tuple[list[Numbers], Numbers]:
    """Load arrays along their axes, emit, store along the axes `made`; return the arrays and the result."""
    build = ProgramBuilder()
    tiles = Tiles(build, EXTENTS)
    tiles.index = {axis: build.index(0) for axis in EXTENTS}
    shapes = [tuple(EXTENTS[axis] for axis in axes) or (1,) for axes in (*inputs, made)]
    values = [Value(Array(f32, shape, True, False), f"x{n}") for n, shape in enumerate(shapes)]
    number = Access((1,), (Affine(),))
    held = [tiles.load(value, access(axes) if axes else number) for value, axes in zip(values, inputs, strict=False)]
    tiles.store(values[-1], access(made) if made else number, emit(tiles, held))
    parameters = tuple(Parameter(value.name, value, number == len(inputs)) for number, value in enumerate(values))
    program = Program("f", parameters, build.finish(), (), Domain("single"), None, None, {}, Source("f", ""))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    run(program, arrays, symbols={})
    return arrays[:-1], arrays[-1]


orders = st.permutations(range(3)).flatmap(lambda order: st.integers(0, 3).map(lambda n: tuple(order[:n])))


@settings(max_examples=25)
@given(orders, st.permutations(range(3)))
def test_aligned_to_all_axes(mine: tuple[int, ...], wanted: list[int]):
    (x,), found = ran([mine], wanted, lambda tiles, held: Held(tiles.align(held[0], wanted), tuple(wanted)))
    shape = [EXTENTS[axis] if axis in mine else 1 for axis in wanted]
    turned = x.reshape([EXTENTS[axis] for axis in mine]).transpose(
        sorted(range(len(mine)), key=lambda place: wanted.index(mine[place]))
    )
    assert_same_bits(found, np.broadcast_to(turned.reshape(shape), found.shape))


@settings(max_examples=25)
@given(orders, orders)
def test_expressions_broadcast_by_axes(one: tuple[int, ...], other: tuple[int, ...]):
    made = tuple(sorted({*one, *other}))
    a, b = Argument(0, f32), Argument(1, f32)
    test = apply("cmp", a, Literal(0.0, f32), predicate="lt")
    body = apply("sub", apply("select", test, b, apply("mul", a, b)), b)
    (x, y), found = ran([one, other], made, lambda tiles, held: tiles.expression(body, held, made))

    def aligned(values: Numbers, axes: tuple[int, ...]) -> Numbers:
        letters = "".join("abc"[axis] for axis in axes)
        result = "".join("abc"[axis] for axis in sorted(axes))
        turned = np.einsum(f"{letters}->{result}", values.reshape([EXTENTS[axis] for axis in axes]))
        return turned.reshape([EXTENTS[axis] if axis in axes else 1 for axis in made])

    first, second = aligned(x, one), aligned(y, other)
    wanted = np.where(first < 0, second, first * second) - second
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape) if made else wanted.reshape(1))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@settings(max_examples=15)
@given(st.permutations(range(3)), st.sets(st.integers(0, 2)))
def test_reductions_of_any_axes(kind: str, mine: list[int], removed: set[int]):
    kept = tuple(axis for axis in range(3) if axis not in removed)
    (x,), found = ran([tuple(mine)], kept, lambda tiles, held: tiles.reduce(held[0], kept, sorted(removed), kind))
    turned = x.transpose([mine.index(axis) for axis in range(3)])
    rule = {"sum": np.sum, "max": np.max, "min": np.min}[kind]
    np.testing.assert_array_equal(found, rule(turned, axis=tuple(removed)).reshape(found.shape))


def test_axes_of_one_element_have_no_place_in_tiles():
    build = ProgramBuilder()
    tiles = Tiles(build, {0: 8, 1: 1, 2: 4})
    tiles.index = {axis: build.index(0) for axis in range(3)}
    assert tiles.visible((0, 1, 2)) == (0, 2)
    assert tiles.shape((2, 0)) == (4, 8)
    array = Value(Array(f32, (8, 5, 4), True, False))
    held = tiles.load(array, Access((8, 5, 4), tuple(Affine(0, (Term(axis),)) for axis in range(3))))
    assert held.axes == (0, 2)
    assert shape_of(held.value) == (8, 4)


@pytest.mark.parametrize(
    ("affine", "opcodes"),
    [
        (Affine(5), ["const"]),
        (Affine(0, (Term(0),)), []),
        (Affine(3, (Term(0),)), ["const", "add"]),
        (Affine(0, (Term(0, 2, 3, 4),)), ["const", "floordiv", "const", "mod", "const", "mul"]),
        (Affine(0, (Term(0), Term(1))), ["add"]),
    ],
)
def test_where_a_tile_begins(affine: Affine, opcodes: list[str]):
    build = ProgramBuilder()
    tiles = Tiles(build, {})
    tiles.index = {0: build.index(7), 1: build.index(9)}
    tiles.start(affine)
    assert [op.opcode for op in build.finish().ops[2:]] == opcodes


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple))
def test_unravelled_indices(shape: tuple[int, ...]):
    build = ProgramBuilder()
    index = unravelled(build, build.index(3), shape)
    assert len(index) == len(shape)
    divisions = sum(op.opcode == "floordiv" for op in build.finish().ops)
    assert divisions == max(0, len(shape) - 1)


@pytest.mark.parametrize(
    ("channels", "block", "shape", "extents"),
    [(8, 4, (6, 4, 16), (2, 1, 4)), (6, 4, (6, 4, 2, 6), (2, 1, 1, 4)), (8, 1, (6, 4, 16), (2, 1, 1))],
)
def test_every_second_element_is_one_of_a_pair(
    channels: int, block: int, shape: tuple[int, ...], extents: tuple[int, ...]
):
    """The last of a pair and the channels are one axis, unless a block of these would reach into the next pixel."""
    build = ProgramBuilder()
    tiles = Tiles(build, {0: 2, 2: block})
    tiles.index = {axis: build.index(0) for axis in range(3)}
    index = (Affine(0, (Term(0),)), Affine(-1, (Term(1, 2),)), Affine(0, (Term(2),)))
    access = Access((6, 8, channels), index, True, (1, 2, 1))
    assert tiles.memory(access) == shape
    starts, found, dropped, axes = tiles.box(access)
    assert (len(starts), found) == (len(shape), extents)
    assert axes == ((0, 2) if block > 1 else (0,))
    assert len(dropped) == len(shape) - len(axes)
