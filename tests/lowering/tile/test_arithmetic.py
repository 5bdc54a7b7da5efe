"""Arithmetic as Tile IR: the same values as the interpreter's, and never a trap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered
from support.programs import elementwise
from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.program.program import Attribute
from tessera.core.program.types import Tile
from tessera.lowering.tile.arithmetic import wrapped
from tessera.lowering.tile.simplify import Simplify
from tessera.runtime.interpret import arithmetic as oracle

INTEGERS = [dtypes.i8, dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u16, dtypes.u64]
FLOATS = [d for d in dtypes.ALL if d.is_float and not d.is_storage]
BY_INTEGER_BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr",
                     "pow", "mulhi")  # fmt: skip
CORNERS = (0, 1, -1, 2, -2, 3, 7, 31, 32, 63, 64, 127, -128)


def integers(dtype: DType):
    info = np.iinfo(dtype.numpy)
    corners = [c for c in (*CORNERS, info.min, info.max) if info.min <= c <= info.max]
    return st.lists(st.sampled_from(corners) | st.integers(int(info.min), int(info.max)), min_size=8, max_size=8)


def compute(
    opcode: str, dtype: DType, *operands: np.ndarray, result: DType | None = None, **attributes: Attribute
) -> np.ndarray:
    """`opcode` on whole arrays, through Tile IR, once as built and once simplified; on tiles, since they are fast."""
    extent, target = len(operands[0]), result or dtype
    b = Builder(opcode)
    arrays = [b.array(f"x{n}", dtype, extent) for n in range(len(operands))]
    array, zero = b.array("out", target, extent, mutable=True), b.const(0)
    tiles = [b.load(a, [zero], [extent]) for a in arrays]
    b.store(array, b.op(opcode, tiles, Tile(target, (extent,)), "", **attributes), [zero], [extent])
    outputs: list[np.ndarray] = []
    for passes in ((), (Simplify(),)):
        out = np.zeros(extent, target.numpy)
        run(lowered(b.program(), *passes), {}, *operands, out)
        outputs.append(out)
    np.testing.assert_array_equal(outputs[0].view(np.uint8), outputs[1].view(np.uint8))
    return outputs[0]


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, NaNs included: NumPy does not know that ml_dtypes has any."""
    if got.dtype.kind == "V" or (got.dtype.itemsize == 1 and got.dtype.kind == "f"):
        got, expected = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("opcode", BY_INTEGER_BINARY)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@settings(max_examples=2)
@given(st.data())
def test_integers(opcode: str, dtype: DType, data: st.DataObject):
    a, b = (np.array(data.draw(integers(dtype)), dtype.numpy) for _ in range(2))
    with np.errstate(all="ignore"):
        expected = oracle.binary(opcode, a, b, dtype)
    np.testing.assert_array_equal(compute(opcode, dtype, a, b), expected)


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "div", "floordiv", "mod", "min", "max"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@settings(max_examples=4)
@given(st.lists(st.integers(0, 0xFFFF), min_size=16, max_size=16))
def test_floats(opcode: str, dtype: DType, patterns: list[int]):
    halves = np.array(patterns, np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        a, b = halves[:8].astype(dtype.numpy), halves[8:].astype(dtype.numpy)
        expected = oracle.binary(opcode, a, b, dtype)
    same(compute(opcode, dtype, a, b), expected)


@pytest.mark.parametrize("opcode", ["floordiv", "mod"])
def test_float_division_keeps_pythons_signs(opcode: str):
    a = np.array([7.0, -7.0, 7.0, -7.0, 1.0, -0.0, 5.0], np.float32)
    b = np.array([3.0, 3.0, -3.0, -3.0, np.inf, 2.0, 0.0], np.float32)
    with np.errstate(all="ignore"):
        expected = {"floordiv": np.floor_divide, "mod": np.mod}[opcode](a, b)
    got = compute(opcode, dtypes.f32, a, b)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[:6]), np.signbit(expected[:6]))


@pytest.mark.parametrize("opcode", ["neg", "not", "abs", "floor", "ceil"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_functions(opcode: str, dtype: DType):
    info = np.iinfo(dtype.numpy)
    a = np.array([info.min, info.max, 0, 1], dtype.numpy)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compute(opcode, dtype, a), oracle.unary(opcode, a, dtype))


@pytest.mark.parametrize("opcode", ["and", "or", "xor", "min", "max"])
def test_bools(opcode: str):
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    np.testing.assert_array_equal(compute(opcode, dtypes.boolean, a, b), oracle.binary(opcode, a, b, dtypes.boolean))


def test_not_of_bools():
    np.testing.assert_array_equal(compute("not", dtypes.boolean, np.array([True, False])), [False, True])


@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16, dtypes.i8, dtypes.u8, dtypes.boolean], ids=str)
def test_comparisons(predicate: str, dtype: DType):
    numbers = [0, 1, 255, 128] if dtype.kind in ("uint", "bool") else [0, 1, -1, 127]
    a, b = (grid.ravel().astype(dtype.numpy) for grid in np.meshgrid(numbers, numbers))
    if dtype.is_float:
        a[0], b[3], a[5] = np.nan, np.nan, np.inf
    got = compute("cmp", dtype, a, b, result=dtypes.boolean, predicate=predicate)
    np.testing.assert_array_equal(got, oracle.compare(predicate, a, b))


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
@pytest.mark.parametrize("target", dtypes.ALL, ids=str)
def test_casts(source: DType, target: DType):
    if source.is_float:
        a = np.array([0.0, -0.0, 1.5, -1.5, 2.5, 1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan, 127.9, 65504.0])
        a = a.astype(source.numpy) if source.bits > 16 else np.clip(a, -6e4, 6e4).astype(source.numpy)
    elif source.is_integer:
        info = np.iinfo(source.numpy)
        a = np.array([info.min, info.max, 0, 1, 100], source.numpy)
    else:
        a = np.array([False, True])
    with np.errstate(all="ignore"):
        expected = oracle.cast(a, target)
        got = compute("cast", source, a, result=target)
    same(got, expected)


@pytest.mark.parametrize(("divisor", "dividends"), [(32, "nonnegative"), (-3, "any"), (5, "any")])
@pytest.mark.parametrize("opcode", ["floordiv", "mod"])
def test_division_by_constants_needs_fewer_guards(opcode: str, divisor: int, dividends: str):
    b = Builder("divide")
    x, out = b.array("x", dtypes.i64, "n"), b.array("out", dtypes.i64, "n", mutable=True)
    i = b.id("thread")
    dividend = i if dividends == "nonnegative" else b.read(x, i)
    b.write(out, b.value(opcode, dividend, b.const(divisor)), i)
    module = lowered(b.program())
    values = np.array([0, 1, -1, 17, -17, 96, -(2**63), 2**63 - 1])
    result = np.zeros_like(values)
    run(module, {"n": len(values)}, values, result, lanes=len(values))
    taken = np.arange(len(values)) if dividends == "nonnegative" else values
    expected = taken // divisor if opcode == "floordiv" else taken % divisor
    np.testing.assert_array_equal(result, expected)
    guards = [op.name for op in module.body.operations[0].regions[0].blocks[0].operations if "cmpi" in op.name]
    assert len(guards) == {"nonnegative": 0, "any": 1 if divisor > 0 else 4}[dividends]


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 13])
def test_known_powers_of_integers_are_products(exponent: int):
    b = Builder("power")
    x, out = b.array("x", dtypes.i32, "n"), b.array("out", dtypes.i32, "n", mutable=True)
    i = b.id("thread")
    b.write(out, b.value("pow", b.read(x, i), b.const(exponent, dtypes.i32)), i)
    module = lowered(b.program())
    assert "scf.for" not in str(module)
    values = np.array([0, 1, -1, 3, -3, 7], np.int32)
    result = np.zeros_like(values)
    run(module, {"n": 6}, values, result, lanes=6)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, values**exponent)


@pytest.mark.parametrize("opcode", ["floordiv", "shr", "pow", "mod", "div"])
def test_scalars_as_tiles(opcode: str):
    x = np.array([5, -5, 100, -100, 0, 1, -32768, 32767], np.int16)
    y = np.array([3, -3, 0, 20, 5, -1, -1, 2], np.int16)
    result = np.zeros_like(x)
    run(lowered(elementwise(opcode, dtypes.i16)), {"n": 8}, x, y, result, lanes=8)
    np.testing.assert_array_equal(result, compute(opcode, dtypes.i16, x, y))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (255, dtypes.u8, -1),
        (2**64 - 1, dtypes.u64, -1),
        (True, dtypes.boolean, 1),
        (1, dtypes.f16, 1.0),
        (-7, dtypes.i8, -7),
    ],
)
def test_constants_as_mlir_wants_them(value: int, dtype: DType, expected: float):
    assert wrapped(value, dtype) == expected
