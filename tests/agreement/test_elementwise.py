"""Every element-wise operation of every dtype, on the values where implementations differ: both CPU targets agree.

Exact operations agree on every bit; functions of the math library to a few units in the last place.
"""

import itertools
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from support.interpret_programs import Writer
from tessera.core.dtypes import ALL, DType, boolean
from tessera.core.program.program import Domain, Program
from tessera.core.program.spec import BINARY, PREDICATES, UNARY
from tessera.lowering.compile import compile_program
from tessera.lowering.service import host_target
from tessera.runtime.interpret.run import run
from tessera.runtime.launch import Launcher

FLOAT_ONLY = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil")
BITWISE = ("and", "or", "xor", "shl", "shr", "not")
LIBRARY = {"exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tanh", "erf", "pow"}
NUMBERS = tuple(d for d in ALL if d != boolean)
host = cache(host_target)


def operations(dtype: DType) -> list[str]:
    """The operations that exist for numbers of that type."""
    wrong = (*BITWISE, "div") if dtype.is_float else (*FLOAT_ONLY, "div")
    if dtype.is_float:
        wrong = BITWISE
    return [name for name in (*BINARY, *UNARY) if name not in wrong]


def values(dtype: DType) -> np.ndarray:
    """Edges first: zeros, ones, limits, halves, infinities and NaN; then some ordinary numbers."""
    random = np.random.default_rng(5)
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.numpy)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, float(info.max), float(info.tiny)]
        return np.array([*edges, *random.normal(size=12) * 4]).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    edges = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, int(info.max), int(info.max) - 1, int(info.min)]
    edges += [-1, -2, -3, -7, int(info.min) + 1] if dtype.kind == "int" else []
    return np.array([*edges, *random.integers(info.min, info.max, 9, dtype.numpy)], dtype.numpy)


def table(dtype: DType) -> Program:
    """One kernel that writes every operation's result to an output of its own."""
    b = Writer(f"table_{dtype}")
    names = operations(dtype)
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n")
    outputs = {name: b.array(f"out_{name}", dtype, "n", mutable=True) for name in names}
    tests = {name: b.array(f"out_{name}", boolean, "n", mutable=True) for name in PREDICATES}
    casts = {to: b.array(f"out_to_{to}", to, "n", mutable=True) for to in ALL if to != dtype}
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        one, two = b.read(x, i), b.read(y, i)
        for name, out in outputs.items():
            b.write(out, b.value(name, one, two) if name in BINARY else b.value(name, one), i)
        for name, out in tests.items():
            b.write(out, b.compare(name, one, two), i)
        for to, out in casts.items():
            b.write(out, b.cast(one, to), i)
    return b.program(domain=Domain("lanes", ("n",)))


def agree(name: str, expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Where two results are the same, or, for the math library's functions, close."""
    if expected.dtype.kind in "iub":
        return expected == actual
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if name not in LIBRARY:
        return same
    with np.errstate(all="ignore"):
        limit = 8 * float(ml_dtypes.finfo(expected.dtype).eps)
        tiny = float(ml_dtypes.finfo(expected.dtype).tiny)
        return same | (np.abs(a - b) <= limit * np.abs(a) + tiny)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_operation(dtype: DType) -> None:
    program = table(dtype)
    pairs = np.array(list(itertools.product(values(dtype), repeat=2)), dtype.numpy)
    x, y = (np.ascontiguousarray(pairs[:, k]) for k in range(2))
    results = [[np.zeros(len(x), p.value.type.dtype.numpy) for p in program.parameters[2:]] for _ in range(2)]
    run(program, [x, y, *results[0]], symbols={"n": len(x)})
    launcher = Launcher(compile_program(program, host(), observe=False).artifact)
    assert launcher.run([x, y, *results[1]])
    wrong: list[str] = []
    for parameter, expected, actual in zip(program.parameters[2:], *results, strict=True):
        name = parameter.name.removeprefix("out_")
        for k in np.flatnonzero(~agree(name, expected, actual))[:3]:
            wrong.append(f"{name}({x[k]}, {y[k]}): interpreter {expected[k]}, compiled {actual[k]}")
    assert not wrong, "\n".join(wrong)
