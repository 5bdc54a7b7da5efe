"""Every element-wise operation of every dtype, on the values where implementations differ: both CPU targets agree.

Exact operations agree on every bit; functions of the math library to a few units in the last place.
"""

import itertools
from functools import cache
from typing import cast

import ml_dtypes
import numpy as np
import pytest

from support.interpret_programs import Writer
from tessera import compile_source
from tessera.core.base.dtypes import ALL, DType, boolean
from tessera.core.program.program import Domain, Program
from tessera.core.program.spec import BINARY, PREDICATES, UNARY
from tessera.core.settings import overridden
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.interpret.run import run
from tessera.runtime.launch.cpu import CpuLauncher

LIBRARY = ("exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tanh", "erf", "pow")
FLOAT_ONLY = (*LIBRARY[:-1], "sqrt", "floor", "ceil", "div")
BITWISE = ("and", "or", "xor", "shl", "shr", "not", "mulhi")
NUMBERS = tuple(d for d in ALL if d != boolean and not d.is_storage)
FLOATS = tuple(d for d in ALL if d.is_float and not d.is_storage)
host = cache(host_target)


def exact_operations(dtype: DType) -> list[str]:
    """The operations on numbers of that type of which every bit is defined."""
    wrong = (*BITWISE, *LIBRARY) if dtype.is_float else FLOAT_ONLY
    return [name for name in (*BINARY, *UNARY) if name not in wrong]


def values(dtype: DType) -> np.ndarray:
    """Edges first: zeros, ones, limits, halves, infinities and NaN; then some ordinary numbers."""
    random = np.random.default_rng(5)
    if dtype.is_float:
        info = cast("np.finfo[np.floating]", ml_dtypes.finfo(dtype.numpy))
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, float(info.max), float(info.tiny)]
        return np.array([*edges, *random.normal(size=12) * 4]).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    edges = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, int(limits.max), int(limits.max) - 1, int(limits.min)]
    edges += [-1, -2, -3, -7, int(limits.min) + 1] if dtype.kind == "int" else []
    return np.array([*edges, *random.integers(limits.min, limits.max, 9, dtype.numpy)], dtype.numpy)


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Every value beside every other."""
    both = np.array(list(itertools.product(values(dtype), repeat=2)), dtype.numpy)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays are equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind in "iub":
        return a == b
    return (np.isnan(a) & np.isnan(b)) | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))


def exact_table(dtype: DType) -> Program:
    """One kernel that writes every operation's result to an output of its own."""
    b = Writer(f"table_{dtype}")
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n")
    outputs = {name: b.array(f"{name}_out", dtype, "n", mutable=True) for name in exact_operations(dtype)}
    tests = {name: b.array(f"{name}_out", boolean, "n", mutable=True) for name in PREDICATES}
    casts = {to: b.array(f"to_{to}_out", to, "n", mutable=True) for to in ALL if to != dtype}
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


def library_table(name: str) -> Program:
    """One kernel that applies a function to x and y of each float type."""
    b = Writer(f"table_{name}")
    arrays = [(b.array(f"x_{d}", d, "n"), b.array(f"y_{d}", d, "n")) for d in FLOATS]
    outputs = [b.array(f"{d}_out", d, "n", mutable=True) for d in FLOATS]
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        for (x, y), out in zip(arrays, outputs, strict=True):
            operands = (b.read(x, i), b.read(y, i))[: 2 if name in BINARY else 1]
            b.write(out, b.value(name, *operands), i)
    return b.program(domain=Domain("lanes", ("n",)))


def on_both(program: Program, inputs: list[np.ndarray]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Each output's name, as interpreted and as compiled."""
    n = len(inputs[0])
    formal = program.parameters[len(inputs) :]
    results = [[np.zeros(n, p.value.type.dtype.numpy) for p in formal] for _ in range(2)]
    run(program, [*inputs, *results[0]], symbols={"n": n})
    launcher = CpuLauncher(compile_program(program, host(), observe=False).artifact)
    assert launcher.run([*inputs, *results[1]])
    names = [p.name.removesuffix("_out") for p in formal]
    return list(zip(names, *results, strict=True))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_exact_operations(dtype: DType) -> None:
    x, y = pairs(dtype)
    wrong: list[str] = []
    for name, expected, actual in on_both(exact_table(dtype), [x, y]):
        same = same_bits(expected, actual)
        wrong += [f"{name}({x[k]}, {y[k]}) = {expected[k]}, not {actual[k]}" for k in np.flatnonzero(~same)[:3]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", LIBRARY)
def test_library_functions(name: str) -> None:
    inputs = [array for dtype in FLOATS for array in pairs(dtype)]
    wrong: list[str] = []
    for k, (dtype, expected, actual) in enumerate(on_both(library_table(name), inputs)):
        a, b = expected.astype(np.float64), actual.astype(np.float64)
        info = cast("np.finfo[np.floating]", ml_dtypes.finfo(expected.dtype))
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= 8 * float(info.eps) * np.abs(a) + float(info.tiny)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
        x, y = inputs[2 * k : 2 * k + 2]
        wrong += [f"{dtype}: {name}({x[j]}, {y[j]}) = {a[j]}, not {b[j]}" for j in np.flatnonzero(~same)[:3]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("step", [1, 2, 16])
@pytest.mark.parametrize("integers", ["i16", "u8", "i64"])
@pytest.mark.parametrize(
    "call", ["maximum(x{0}, b{0})", "maximum(b{0}, x{0})", "minimum(x{0}, b{0})", "minimum(b{0}, x{0})"]
)
def test_a_signalling_nan_wins_over_a_number(call: str, integers: str, step: int) -> None:
    """Where one operand is known to be a number, LLVM's scalar code for AVX-512 let it win."""
    x = np.array([0x7F800001, 0x7FC00000, 0xFF800001, 0x3F800000], np.uint32).view(np.float32)
    b, y = np.full(4, 5, {"i16": np.int16, "u8": np.uint8, "i64": np.int64}[integers]), np.zeros(4, np.float32)
    block = call.format(f"[t:t+{step}]")
    text = f"@kernel\ndef k(x: f32[n], b: {integers}[n], y: mut f32[n]):\n    for t in tile.range(n, step={step}):\n"
    compile_source(f"{text}        y[t:t+{step}] = tile.{block}\n").k(x, b, y)
    assert np.isnan(y[:3]).all()
    assert y[3] == (5 if "maximum" in call else 1)


@pytest.mark.parametrize("kind", ["u16", "i32", "i64"])
@pytest.mark.parametrize("expression", ["7 // (v // 3)", "v % (v // (v // 2))", "(v - 7) % (v // 3)"])
def test_lanes_past_the_end_of_a_row_do_not_trap(expression: str, kind: str) -> None:
    """The guard of a division and its divisor are kept apart, and read with lanes that mean nothing."""
    x = np.arange(10).reshape(2, 5).astype({"u16": np.uint16, "i32": np.int32, "i64": np.int64}[kind])
    results = {}
    for target in ("interpret", "cpu"):
        out = np.zeros((5, 2), np.float32)
        with overridden(target=target):
            compile_source(f"""
@kernel
def k(x: {kind}[m, n], y: mut f32[n, m]):
    for r in tile.range(m, step=5):
        v = x[r:r+5, :]
        a = tile.cast({expression}, f32)
        y[:, r:r+5] = a.T
""").k(x, out)
        results[target] = out
    np.testing.assert_array_equal(results["cpu"], results["interpret"])
