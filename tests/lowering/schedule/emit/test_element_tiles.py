"""Kernels of elements as tiles, for targets without lanes: the bits that lanes give, at every edge."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import DTYPES, check, only, planned, windows
from tessera.core.base.dtypes import DType, f32, i32, i64
from tessera.core.base.source import Source
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import window
from tessera.core.targets import TARGETS
from tessera.lowering.schedule.emit.to_program import to_program

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


@pytest.fixture(autouse=True, scope="module")
def without_lanes() -> Iterator[None]:
    """Compile for the CPU and the interpreter as for a machine without lanes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("interpret", "cpu"):
            patch.setitem(TARGETS, name, replace(TARGETS[name], lanes=False))
        yield


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=8)
@given(shape=shapes, data=st.data())
def test_windows_of_concatenations(dtype: DType, shape: tuple[int, ...], data: st.DataObject):
    """Outside of what is computed there is 0, not what lies beside it."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    other = (*shape[:axis], data.draw(st.integers(0, 4)), *shape[axis + 1 :])
    whole = (*shape[:axis], 2 * shape[axis] + other[axis], *shape[axis + 1 :])
    part = data.draw(windows(whole))

    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.copy(b.view(b.concat((x, y, x), axis), part))

    check(graph_of(make, (dtype, shape), (dtype, other)), targets=("interpret",))


@pytest.mark.parametrize("dtype", [i32, i64])
@settings(max_examples=10)
@given(table=shapes, index=st.lists(st.integers(0, 4), max_size=2).map(tuple), data=st.data())
def test_gathers(dtype: DType, table: tuple[int, ...], index: tuple[int, ...], data: st.DataObject):
    """Indices are -3 to 3: some of them lie outside, where the elements of other rows are."""
    axis = data.draw(st.integers(0, len(table) - 1))
    check(graph_of(lambda b, x, i: b.gather(x, i, axis), (f32, table), (dtype, index)), targets=("interpret",))


def test_gathers_from_what_is_computed():
    def make(b: GraphBuilder, x: Value, y: Value, i: Value) -> Value:
        return b.gather(b.concat((b.scaled(x, 2.0), y), 0), i)

    check(graph_of(make, (f32, (3, 2)), (f32, (1, 2)), (i64, (20,))))


def test_views_of_views_that_do_not_compose():
    def make(b: GraphBuilder, x: Value) -> Value:
        inner = b.view(x, window((8,), (2,), (1,), (4,)))
        return b.unary("neg", b.view(inner, window((4,), (-1,), (1,), (6,))))

    check(graph_of(make, (f32, (8,))))


def test_several_outputs_of_many_tiles():
    def make(b: GraphBuilder, x: Value, i: Value) -> tuple[Value, Value]:
        rows = b.gather(x, i)
        return rows, b.unary("neg", rows)

    check(graph_of(make, (f32, (5, 41)), (i64, (57,))))


def test_one_element_is_gathered_once():
    def make(b: GraphBuilder, x: Value) -> Value:
        flipped = b.view(x, window((9,), (8,), (-1,), (9,)))
        return b.map(apply("add", Argument(0, f32), Argument(1, f32)), [flipped, flipped], [(0,), (0,)], (9,))

    plan = planned(make, (f32, (9,)))
    program = to_program(only(plan), {}, {}, Source("", ""), {}, lanes=False).program
    opcodes = [op.opcode for op in program.body.walk()]
    assert opcodes.count("gather") == 1
    assert "id" not in opcodes
    assert program.domain.kind == "single"
    check(graph_of(make, (f32, (9,))))


def test_what_lies_inside_is_not_tested():
    """A transposition reads every element once; a window that hangs over asks where it is."""

    def opcodes(starts: tuple[int, int]) -> list[str]:
        plan = planned(lambda b, x: b.copy(b.view(x, window((4, 6), starts, (1, 2), (3, 2)))), (f32, (4, 6)))
        return [op.opcode for op in to_program(only(plan), {}, {}, Source("", ""), {}, lanes=False).program.body.walk()]

    assert "cmp" not in opcodes((1, 1))
    assert "cmp" in opcodes((2, 1))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_no_elements(shape: tuple[int, ...]):
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.concat((x, x), 0)

    built = graph_of(make, (f32, shape))
    check(built, [np.zeros(shape, np.float32)])
