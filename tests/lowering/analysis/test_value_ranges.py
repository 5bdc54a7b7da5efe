"""`exp` of what is known to be at most 0: fewer instructions, the CPU's bits."""

import numpy as np
import pytest

from lowering.cuda.cases import Maker
from support.simulate import compile_ptx, launch, ptx_of, same_bits
from support.tile_kernels import compiled
from tessera.core.base.dtypes import DType, f16, f32, f64
from tessera.core.program.program import Program

ROWS, COLUMNS = 4, 256


def exponentials(dtype: DType, *, above: bool = True) -> Program:
    """out = exp(x - max(x)), or of x less another tile's maximum, of which nothing is known"""
    b = Maker("exponentials")
    x = b.matrix("x", dtype, ROWS, COLUMNS)
    other = b.matrix("other", dtype, ROWS, COLUMNS)
    out = b.matrix("out", dtype, ROWS, COLUMNS, mutable=True)
    zero = [b.const(0), b.const(0)]
    tile, second = (b.load(array, zero, [ROWS, COLUMNS]) for array in (x, other))
    top = b.reshape(b.reduce(tile if above else second, "max", 1), ROWS, 1)
    bound = b.value("max", top, b.reshape(b.reduce(second, "max", 1), ROWS, 1)) if above else top
    b.store(out, b.value("exp", b.value("sub", tile, b.broadcast(bound, ROWS, COLUMNS))), zero, [ROWS, COLUMNS])
    return b.program()


def arguments(dtype: DType) -> list[np.ndarray]:
    """Distances of all sizes below the largest: to where results are denormal, and to where they vanish."""
    random = np.random.default_rng(3)
    x = random.uniform(-120, 0, (ROWS, COLUMNS))
    x[1] = random.uniform(-1, 0, COLUMNS)
    x[2] = np.linspace(-104, -86, COLUMNS) if dtype != f64 else np.linspace(-746, -706, COLUMNS)
    x[:, 0] = 0
    x[3, 5], x[3, 6] = -np.inf, -1e30 if dtype != f16 else -6e4
    with np.errstate(over="ignore"):
        x = x.astype(dtype.numpy)
    return [x, np.full_like(x, -1), np.zeros_like(x)]


@pytest.mark.parametrize("dtype", [f32, f64, f16], ids=str)
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
def test_the_bits_of_the_cpu(dtype: DType, special: float | None):
    values = arguments(dtype)
    if special is not None:
        values[0][0, 7] = special
        values[0][2, :] = special
    got = [value.copy() for value in values]
    program = exponentials(dtype)
    launch(compile_ptx(program), got, seed=1)
    assert same_bits(got[2], compiled(program, *values)[2])


@pytest.mark.parametrize("above", [True, False])
def test_only_where_it_is_known(above: bool):
    """Two clamps and two factors, or one of each."""
    text = ptx_of(compile_ptx(exponentials(f32, above=above)))
    count = ROWS * COLUMNS // 32 // int(text.split(".reqntid ")[1].split(",")[0]) * 32
    assert text.count("shl.b32") // count == (1 if above else 2)


def test_a_lower_bound_says_nothing():
    """x - min(x) is not negative."""
    b = Maker("lower")
    x, out = b.matrix("x", f32, ROWS, COLUMNS), b.matrix("out", f32, ROWS, COLUMNS, mutable=True)
    zero = [b.const(0), b.const(0)]
    tile = b.load(x, zero, [ROWS, COLUMNS])
    low = b.broadcast(b.reshape(b.reduce(tile, "min", 1), ROWS, 1), ROWS, COLUMNS)
    b.store(out, b.value("exp", b.value("sub", tile, low)), zero, [ROWS, COLUMNS])
    values = [arguments(f32)[0], np.zeros((ROWS, COLUMNS), np.float32)]
    got = [value.copy() for value in values]
    launch(compile_ptx(b.program()), got, seed=1)
    assert same_bits(got[1], compiled(b.program(), *values)[1])
