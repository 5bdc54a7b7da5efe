"""Programs built operation by operation: types, shortcuts, control and places; and what they compute."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, boolean, f16, f32, i32, i64
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.program.build import ProgramBuilder, dtype_of, element_of, shape_of, with_dtype
from tessera.core.program.program import Domain, Parameter, Program, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.run import run


def opcodes(build: ProgramBuilder) -> list[str]:
    return [op.opcode for op in build.finish().ops]


def computed(
    emit: Callable[[ProgramBuilder, Value], Value], x: Numbers, shape: Sequence[int], dtype: DType = f32
) -> Numbers:
    """Load all of `x`, and store what `emit` makes of it as an array of `shape`."""
    build = ProgramBuilder()
    arrays = [Value(Array(f32, x.shape, True, False), "x"), Value(Array(dtype, tuple(shape), True, False), "y")]
    zero = build.index(0)
    made = emit(build, build.load(arrays[0], [zero] * x.ndim, x.shape, ()))
    if shape_of(made):
        build.store(arrays[1], made, [zero] * len(shape), shape, ())
    else:
        build.write(arrays[1], made, [zero] * len(shape))
    parameters = tuple(Parameter(value.name, value, value.name == "y") for value in arrays)
    program = Program("f", parameters, build.finish(), (), Domain("single"), None, None, {}, Source("f", ""))
    result = np.zeros(shape, dtype.numpy)
    run(program, [x, result], symbols={})
    return result


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_types_of_values():
    tile, scalar = Value(Tile(f16, (2, 3))), Value(Scalar(i64))
    assert [dtype_of(each) for each in (tile, scalar)] == [f16, i64]
    assert [shape_of(each) for each in (tile, scalar)] == [(2, 3), ()]
    assert with_dtype(tile.type, f32) == Tile(f32, (2, 3))
    assert with_dtype(scalar.type, f32) == Scalar(f32)
    assert element_of(Value(Array(f16, (3,), True, False))) == f16
    assert element_of(Value(Shared(i32, (3,)))) == i32


def test_what_changes_nothing_makes_no_operation():
    build = ProgramBuilder()
    tile, scalar = Value(Tile(f32, (2, 3))), Value(Scalar(f32))
    assert build.cast(tile, f32) is tile
    assert build.reshape(tile, (2, 3)) is tile
    assert build.transpose(tile, (0, 1)) is tile
    assert build.broadcast(tile, (2, 3)) is tile
    assert build.full(scalar, ()) is scalar
    assert opcodes(build) == []


def test_reshapes_between_tiles_and_scalars():
    assert_equal(computed(lambda b, x: b.reshape(x, (2, 6)), X, (2, 6)), X.reshape(2, 6))
    assert_equal(computed(lambda b, x: b.reshape(b.constant(7.0, f32), (1, 1)), X, (1, 1)), np.full((1, 1), 7.0))
    total = computed(lambda b, x: b.reshape(b.reshape(b.reduce(b.reduce(x, "sum", 0), "sum", 0), (1, 1)), ()), X, (1,))
    assert_equal(total, np.array([66.0]))


def assert_equal(found: Numbers, wanted: Numbers) -> None:
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_reductions(axis: int, kind: str):
    rule = {"sum": np.sum, "max": np.max, "min": np.min}[kind]
    assert_equal(computed(lambda b, x: b.reduce(x, kind, axis), X, (X.shape[1 - axis],)), rule(X, axis=axis))


def test_transposed_and_repeated():
    assert_equal(computed(lambda b, x: b.transpose(x, (1, 0)), X, (4, 3)), X.T)
    wanted = np.broadcast_to(X.max(0), (5, 4))
    assert_equal(
        computed(lambda b, x: b.broadcast(b.reshape(b.reduce(x, "max", 0), (1, 4)), (5, 4)), X, (5, 4)), wanted
    )


def test_comparisons_and_products():
    assert_equal(
        computed(lambda b, x: b.compare("gt", x, b.full(b.constant(5.0, f32), (3, 4))), X, (3, 4), boolean), X > 5
    )
    found = computed(
        lambda b, x: b.dot(x, b.transpose(x, (1, 0)), b.full(b.constant(1.0, f32), (3, 3)), f32), X, (3, 3)
    )
    assert_equal(found, X @ X.T + 1)
    scalar = ProgramBuilder()
    assert scalar.compare("lt", scalar.index(1), scalar.index(2)).type == Scalar(boolean)


def test_products_say_how_they_are_computed():
    build = ProgramBuilder()
    a = Value(Tile(f32, (2, 2)))
    build.dot(a, a, a, f32)
    build.dot(a, a, a, f32, exact=True, compute="tf32")
    assert [dict(op.attributes) for op in build.finish().ops] == [{"exact": False}, {"exact": True, "compute": "tf32"}]


def test_tiles_without_some_axes():
    build = ProgramBuilder()
    array = Value(Array(f32, (8, 5, 4), True, False))
    tile = build.load(array, [build.index(0)] * 3, (8, 1, 4), (1,))
    assert tile.type == Tile(f32, (8, 4))


def test_loops_carry_values():
    def emit(b: ProgramBuilder, x: Value) -> Value:
        def body(index: Value, carried: Sequence[Value]) -> Sequence[Value]:
            del index
            return [b.arithmetic("add", carried[0], x)]

        start = b.full(b.constant(0.0, f32), (3, 4))
        (total,) = b.loop(b.index(0), b.index(7), b.index(2), (start,), body)
        return total

    assert_equal(computed(emit, X, (3, 4)), 4 * X)


@pytest.mark.parametrize("first", [True, False])
def test_branches_yield_values(first: bool):
    def emit(b: ProgramBuilder, x: Value) -> Value:
        (made,) = b.branch(b.constant(first, boolean), lambda: [x], lambda: [b.arithmetic("mul", x, x)])
        return made

    assert_equal(computed(emit, X, (3, 4)), X if first else X * X)


def test_operations_have_their_place():
    build, span = ProgramBuilder(), Span("cell", 3, 1, 3, 2)
    with build.at(span):
        build.index(1)
        with build.at(NOWHERE):
            build.index(2)
    build.index(3)
    assert [op.span for op in build.finish().ops] == [span, span, NOWHERE]
    assert [op.result.span for op in build.finish().ops] == [span, span, NOWHERE]


def test_elements_are_read_and_written():
    build = ProgramBuilder()
    array = Value(Array(i32, (3,), True, False), "x")
    build.write(array, build.read(array, [build.index(0)]), [build.index(2)])
    x = np.array([7, 8, 9], np.int32)
    program = Program("f", (Parameter("x", array, True),), build.finish(), (), Domain("single"), None, None, {},
                      Source("f", ""))  # fmt: skip
    run(program, [x], symbols={})
    assert_equal(x, np.array([7, 8, 7]))
