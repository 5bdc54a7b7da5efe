"""Tile kernels with arguments: what the `cuda_tile` target is tested on, here by the tile machine and on GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from support import programs
from support.interpret_programs import Writer
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i32, i64, u8
from tessera.core.program.program import Attribute, Domain, Program, Value
from tessera.core.program.types import Tile


@dataclass(frozen=True)
class Case:
    """A kernel and its arguments.

    tolerance: of the largest value, where the order inside a product of matrices is the machine's, or NumPy has a
               function of its own; 0: the same bits
    """

    name: str
    program: Program
    arguments: tuple[Any, ...]
    tolerance: float = 0.0
    groups: int | None = None

    def fresh(self) -> list[Any]:
        """Copies of the arguments."""
        return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in self.arguments]


def normal(*shape: int, dtype: DTypeLike = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def poison(*shape: int, dtype: DTypeLike = np.float32) -> np.ndarray:
    return np.full(shape, np.nan, np.float32).astype(dtype)


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    if dtype.is_float:
        return normal(*shape, dtype=dtype.numpy)
    random = np.random.default_rng(1)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    return random.integers(0 if dtype.kind == "uint" else -100, 100, shape).astype(dtype.numpy)


def product(a: DType, result: DType, shape: tuple[int, int, int], *, exact: bool = False, compute: str = "") -> Program:
    """out = a @ b of one tile each; `compute`: what factors are rounded to."""
    rows, inner, columns = shape
    b = Writer("product")
    left, right = b.array("a", a, rows, inner), b.array("b", a, inner, columns)
    out = b.array("out", result, rows, columns, mutable=True)
    zero = b.const(0)
    tiles = (b.load(left, [zero, zero], [rows, inner]), b.load(right, [zero, zero], [inner, columns]))
    rounding = {"compute": compute} if compute else {}
    tile = b.op("dot", tiles, Tile(result, (rows, columns)), "product", exact=exact, **rounding)
    b.store(out, tile, [zero, zero], [rows, columns])
    return b.program()


def reduction(dtype: DType, kind: str, axis: int | None, shape: tuple[int, int]) -> Program:
    """out = x.kind(axis)"""
    b = Writer("reduction")
    x = b.array("x", dtype, *shape)
    left = {0: (shape[1],), 1: (shape[0],), None: (1,)}[axis]
    out = b.array("out", dtype, *left, mutable=True)
    zero = b.const(0)
    result = b.reduce(b.load(x, [zero, zero], list(shape)), kind, axis)
    if axis is None:
        b.write(out, result, zero)
    else:
        b.store(out, result, [zero], list(left))
    return b.program()


def long_sum(length: int) -> Program:
    """out[:2] = x[:2, 0:length].sum(axis=1), of an array with fewer columns"""
    b = Writer("long")
    x, out = b.array("x", f32, 2, "n"), b.array("out", f32, 2, mutable=True)
    zero = b.const(0)
    b.store(out, b.reduce(b.load(x, [zero, zero], [2, length]), "sum", 1), [zero], [2])
    return b.program()


def shapes() -> Program:
    """Rows less their maxima, transposed, reshaped, and a ramp added."""
    b = Writer("shapes")
    x, out = b.array("x", f32, 8, 10), b.array("out", f32, 5, 16, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero, zero], [8, 10])
    row = b.reshape(b.reduce(tile, "max", 1), 8, 1)
    tile = b.value("sub", tile, b.broadcast(row, 8, 10))
    tile = b.reshape(b.transpose(tile, 1, 0), 5, 16)
    offsets = b.broadcast(b.reshape(b.cast(b.arange(b.const(3), 16), f32), 1, 16), 5, 16)
    b.store(out, b.value("add", tile, offsets), [zero, zero], [5, 16])
    return b.program()


def shift() -> Program:
    """Tiles of one array are loaded, and overlapping ones stored: the order counts, and so do the edges."""
    b = Writer("shift")
    y = b.array("y", f32, "n", mutable=True)
    zero = b.const(0)
    for distance in (1, 2, -3):
        tile = b.load(y, [b.const(distance)], [300])
        b.store(y, b.value("add", tile, tile), [zero], [300])
    return b.program()


def control() -> Program:
    """A branch with results, then a `while` that stores and loads again."""
    b = Writer("control")
    x, out, k = b.array("x", f32, 70), b.array("out", f32, 70, mutable=True), b.scalar("k", i64)
    zero, one = b.const(0), b.const(1)
    tile = b.load(x, [zero], [70])
    (tile,) = b.branch(
        b.compare("gt", k, one), lambda: (b.value("add", tile, tile),), lambda: (b.value("mul", tile, tile),)
    )

    def step(carried: tuple[Value, ...]) -> tuple[Value, ...]:
        b.store(out, carried[1], [zero], [70])
        again = b.load(out, [zero], [70])
        return (b.value("sub", carried[0], one), b.value("mul", again, again))

    _, tile = b.repeat((k, tile), lambda v: b.compare("gt", v[0], zero), step)
    b.store(out, tile, [zero], [70])
    return b.program()


def swap() -> Program:
    """Two tiles change places in a loop."""
    b = Writer("swap")
    x, out = b.array("x", f32, 8, 8), b.array("out", f32, 8, 8, mutable=True)
    zero = b.const(0)
    first = b.load(x, [zero, zero], [8, 8])
    with b.loop(zero, b.const(3), b.const(1), [first, b.value("add", first, first)], names=("i", "a", "b")) as loop:
        one, two = loop.carried
        loop.yields = (two, b.value("add", b.transpose(one, 1, 0), two))
    b.store(out, b.value("mul", *loop.results), [zero, zero], [8, 8])
    return b.program()


def strided() -> Program:
    """out[g * 16 : ..., 3:11] = x[...] * alpha, x and out with strides of their own."""
    b = Writer("strided")
    x = b.array("x", f32, "m", "n", contiguous=False)
    out = b.array("out", f32, "m", "n", mutable=True, contiguous=False)
    alpha = b.scalar("alpha", f32)
    at = b.value("mul", b.id("group"), b.const(16))
    three = b.const(3)
    tile = b.load(x, [at, three], [16, 8])
    b.store(out, b.value("mul", tile, b.full(alpha, 16, 8)), [at, three], [16, 8])
    return b.program(domain=Domain("groups", ("m",)), group=(32,))


def row_of(dtype: DType) -> Program:
    """out[g, :] = x[g, :] + x[g, :], one row a group, an axis dropped."""
    b = Writer("row_of")
    x, out = b.array("x", dtype, "m", 24), b.array("out", dtype, "m", 24, mutable=True)
    group, zero = b.id("group"), b.const(0)
    row = b.load(x, [group, zero], [1, 24], dropped=(0,))
    b.store(out, b.value("add", row, row), [group, zero], [1, 24], dropped=(0,))
    return b.program(domain=Domain("groups", ("m",)), group=(32,))


def element_wise(
    opcode: str, dtype: DType, operands: int = 2, result: DType | None = None, **attributes: Attribute
) -> Program:
    """out[:] = opcode(a[:], b[:], ...), blocks of 64."""
    b = Writer(f"tile_{opcode}")
    arrays = [b.array("abc"[n], dtype, "n") for n in range(operands)]
    out = b.array("out", result or dtype, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(64), kind="tile", names=("t",)) as loop:
        values = [b.load(array, [loop.index], [64]) for array in arrays]
        b.store(out, b.op(opcode, values, Tile(result or dtype, (64,)), "v", **attributes), [loop.index], [64])
    return b.program()


def attention(
    rows: int, columns: int, step: int, dtype: DType = f16, *, aligned: bool = False, **options: Attribute
) -> Program:
    """Attention of `rows` queries over all keys, `step` at a time, with a running maximum and sum."""
    b = Writer("attention")
    q, k, v = (b.array(name, dtype, "s", columns, aligned=aligned) for name in "qkv")
    o = b.array("o", f32, "s", columns, mutable=True, aligned=aligned)
    zero = b.const(0)
    with b.loop(zero, b.dim("s"), b.const(rows), kind="tile", names=("m",)) as blocks:
        queries = b.load(q, [blocks.index, zero], [rows, columns])
        top = b.full(b.const(float("-inf"), f32), rows, 1)
        total = b.full(b.const(0.0, f32), rows, 1)
        acc = b.full(b.const(0.0, f32), rows, columns)
        with b.loop(zero, b.dim("s"), b.const(step), [top, total, acc], names=("n", "top", "total", "acc")) as keys:
            old, sums, out = keys.carried
            block = b.transpose(b.load(k, [keys.index, zero], [step, columns]), 1, 0)
            scores = b.dot(queries, block, dtype=f32)
            new = b.value("max", old, b.reshape(b.reduce(scores, "max", 1), rows, 1))
            weights = b.value("exp", b.value("sub", scores, b.broadcast(new, rows, step)))
            scale = b.value("exp", b.value("sub", old, new))
            sums = b.value("add", b.value("mul", sums, scale), b.reshape(b.reduce(weights, "sum", 1), rows, 1))
            values = b.load(v, [keys.index, zero], [step, columns])
            out = b.dot(b.cast(weights, dtype), values, b.value("mul", out, b.broadcast(scale, rows, columns)))
            keys.yields = (new, sums, out)
        _, sums, out = keys.results
        b.store(o, b.value("div", out, b.broadcast(sums, rows, columns)), [blocks.index, zero], [rows, columns])
    return replace(b.program(), options=options)


_PRODUCT = 2e-6  # f32 sums of a few hundred products in another order
_FUNCTION = 1e-6


def cases() -> Iterator[Case]:
    """Every case."""
    yield Case("tile_copy", programs.tile_copy(), (normal(300), poison(300)))
    yield Case(
        "tile_copy f64", programs.tile_copy(100, f64), (normal(301, dtype=np.float64), poison(301, dtype=np.float64))
    )
    yield Case("matmul", programs.matmul(16, 16, 8), (normal(20, 10), normal(10, 33), poison(20, 33)), _PRODUCT)
    yield Case("matmul of 12", programs.matmul(12, 16, 6), (normal(20, 10), normal(10, 33), poison(20, 33)), _PRODUCT)
    for dtype in (f16, bf16):
        left, right = normal(150, 70, dtype=dtype.numpy), normal(70, 200, dtype=dtype.numpy)
        yield Case(f"matmul {dtype}", programs.matmul(64, 64, 32, dtype), (left, right, poison(150, 200)), _PRODUCT)
    yield Case("softmax_rows", programs.softmax_rows(40, 3), (normal(10, 40), poison(10, 40)), _FUNCTION)
    yield Case("softmax_rows 256", programs.softmax_rows(256, 4), (normal(10, 256), poison(10, 256)), _FUNCTION)
    layers = [normal(*shape) for shape in ((10, 4), (4, 8), (8,), (8, 4), (4,))]
    yield Case("fused_mlp", programs.fused_mlp(10, 4, 8, 4), (*layers, poison(10, 4)), _PRODUCT)
    yield Case("accumulate", programs.accumulate(16, 8, 16), (normal(16, 20), normal(20, 16), normal(16, 16)), _PRODUCT)
    yield Case("countdown", programs.countdown(), (np.zeros(9, np.int64),))
    yield from _products()
    yield from _reductions()
    yield Case("shapes", shapes(), (normal(8, 10), poison(5, 16)))
    yield Case("shift", shift(), (normal(310),))
    for number in (0, 1, 3):
        yield Case(f"control {number}", control(), (normal(70), poison(70), number))
    yield Case("swap", swap(), (normal(8, 8), poison(8, 8)))
    wide = [np.asfortranarray(normal(40, 20, seed=n)) for n in range(2)]
    yield Case("strided", strided(), (*wide, 1.5), groups=3)
    for dtype in (i64, u8, bf16):
        yield Case(f"row_of {dtype}", row_of(dtype), (numbers(dtype, 5, 24), np.zeros((5, 24), dtype.numpy)), groups=6)
    yield from _element_wise()
    for dtype in (f16, bf16):
        inputs = [normal(50, 16, dtype=dtype.numpy, seed=n) for n in range(3)]
        yield Case(f"attention {dtype}", attention(16, 16, 32, dtype), (*inputs, poison(50, 16)), 1e-2)


def _products() -> Iterator[Case]:
    for dtype, result in ((f16, f32), (bf16, f32), (f32, f32), (f64, f64), (i8, i32), (u8, i32), (i32, i32)):
        out = np.zeros((16, 16), result.numpy)
        tolerance = 0.0 if dtype.is_integer else _PRODUCT
        program = product(dtype, result, (16, 16, 16))
        yield Case(f"product {dtype}", program, (numbers(dtype, 16, 16), numbers(dtype, 16, 16), out), tolerance)
    for dtype, result in ((f16, f32), (f32, f32), (f64, f64)):
        out = np.zeros((12, 8), result.numpy)
        program = product(dtype, result, (12, 9, 8), exact=True)
        yield Case(f"exact product {dtype}", program, (numbers(dtype, 12, 9), numbers(dtype, 9, 8), out))
    for dtype in (fp8_e4m3, fp8_e5m2):
        factors = (numbers(dtype, 16, 32), numbers(dtype, 32, 16))
        yield Case(
            f"product {dtype}", product(dtype, f32, (16, 32, 16)), (*factors, np.zeros((16, 16), np.float32)), _PRODUCT
        )
        program = product(dtype, f32, (16, 32, 16), exact=True)
        yield Case(f"exact product {dtype}", program, (*factors, np.zeros((16, 16), np.float32)))
    for shape in ((16, 32, 16), (12, 9, 8)):
        rows, inner, columns = shape
        factors = (numbers(f32, rows, inner), numbers(f32, inner, columns), poison(rows, columns))
        yield Case(f"product tf32 {rows}", product(f32, f32, shape, compute="tf32"), factors, _PRODUCT)
    out = np.zeros((12, 8), np.int32)
    yield Case("product of 12", product(u8, i32, (12, 9, 8)), (numbers(u8, 12, 9), numbers(u8, 9, 8), out))


def _reductions() -> Iterator[Case]:
    rows = [
        *((f32, kind, axis, (5, 140)) for kind in ("sum", "max", "min") for axis in (0, 1)),
        (f32, "max", None, (5, 140)), (f32, "sum", None, (5, 128)), (f32, "sum", 0, (300, 4)), (f16, "sum", 1, (5, 140)),
        (bf16, "max", None, (5, 140)), (i64, "sum", 1, (5, 140)), (i64, "min", 0, (5, 140)), (u8, "max", 1, (5, 140)),
        (u8, "min", None, (5, 140)), (f64, "sum", 1, (3, 700)),
    ]  # fmt: skip
    for dtype, kind, axis, shape in rows:
        left = {0: (shape[1],), 1: (shape[0],), None: (1,)}[axis]
        arguments = (numbers(dtype, *shape), np.zeros(left, dtype.numpy))
        yield Case(f"{kind} {dtype} {shape} axis {axis}", reduction(dtype, kind, axis, shape), arguments)
    for length in (100, 128, 129, 4096, 4097, 12300):
        yield Case(f"long_sum {length}", long_sum(length), (normal(2, length - 3), poison(2)))


def _element_wise() -> Iterator[Case]:
    def of(opcode: str, dtype: DType, operands: int = 2, tolerance: float = 0.0, result: DType | None = None) -> Case:
        values = [numbers(dtype, 200) for _ in range(operands)]
        for number, value in enumerate(values):
            np.random.default_rng(number).shuffle(value)
        out = np.zeros(200, (result or dtype).numpy)
        program = element_wise(opcode, dtype, operands, result)
        return Case(f"{opcode} {dtype}{f' to {result}' if result else ''}", program, (*values, out), tolerance)

    for dtype in (f16, bf16, f32, f64):
        for opcode in ("add", "mul", "div", "min", "max", "mod", "floordiv"):
            yield of(opcode, dtype)
        yield of("fma", dtype, 3)
    for opcode in ("exp", "exp2", "tanh", "erf", "sin", "cos", "floor", "ceil", "abs", "neg"):
        yield of(opcode, f32, 1, _FUNCTION)
    for opcode in ("exp", "tanh", "sin"):
        yield of(opcode, f64, 1, 1e-15)
        yield of(opcode, bf16, 1, 1e-2)
    for dtype in (i8, i32, i64, u8):
        for opcode in ("add", "mul", "floordiv", "mod", "max", "shl", "shr", "xor", "pow"):
            yield of(opcode, dtype)
    large = numbers(f32, 200) * np.float32(1e7)
    yield Case("sin of large numbers", element_wise("sin", f32, 1), (large, np.zeros(200, np.float32)), _FUNCTION)
    pairs: list[tuple[DType, DType]] = [
        (f32, f16), (f32, bf16), (f64, f16), (f64, bf16), (f16, bf16), (f32, i8), (f32, u8), (f64, i64), (i64, f32), (u8, f16),
        (f32, fp8_e4m3), (fp8_e5m2, f32),
    ]  # fmt: skip
    for source, target in pairs:
        yield of("cast", source, 1, 0.0, target)
