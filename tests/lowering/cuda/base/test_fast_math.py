"""`fast=True`: the hardware's approximations, fused arithmetic, and nothing of it elsewhere."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.compare import normal
from support import programs
from support.interpret_programs import Writer
from support.simulate import compile_cuda, compile_ptx, ptx_of, simulate
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.program.program import Domain, Program
from tessera.lowering.cuda.resources import resource_report

ON_HARDWARE = True

FUNCTIONS = ("exp", "exp2", "log", "log2", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos", "div")


def function(name: str, dtype: DType = f32, fast: bool = True, **options: int) -> Program:
    b = Writer(name)
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n", mutable=True)
    i = b.id("thread")
    value = b.read(x, i)
    more = (b.const(3.0, dtype),) if name == "div" else ()
    b.write(y, b.value(name, value, *more), i)
    return replace(b.program(group=(64,), domain=Domain("lanes", ("n",))), options={"fast": fast, **options})


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_approximation_is_of_the_function(name: str, dtype: DType):
    """The machine here is exact where the hardware is not: what is checked is which function is asked for."""
    x = (np.abs(normal(300)) + 0.01).astype(dtype.numpy)
    y = np.zeros(300, dtype.numpy)
    simulate(function(name, dtype), [x, y])
    exact = x.astype(np.float64)
    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "div": lambda v: v / 3,
        "erf": np.vectorize(math.erf),
    }
    want = (functions[name] if name in functions else getattr(np, name))(exact)
    tolerance = {"f32": 1e-5, "f16": 2e-3, "bf16": 8e-3}[dtype.name]
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("exp", ("ex2.approx.ftz.f32",)), ("exp2", ("ex2.approx.ftz.f32",)), ("log", ("lg2.approx.ftz.f32",)),
        ("log2", ("lg2.approx.ftz.f32",)), ("tanh", ("ex2.approx.ftz.f32", "rcp.approx.ftz.f32")),
        ("sqrt", ("sqrt.approx.ftz.f32",)), ("rsqrt", ("rsqrt.approx.ftz.f32",)), ("sin", ("sin.approx.ftz.f32",)),
        ("cos", ("cos.approx.ftz.f32",)), ("erf", ("ex2.approx.ftz.f32",)), ("div", ("div.full.f32",)),
    ],
)  # fmt: skip
def test_instructions_of_the_hardware_only_where_asked_for(name: str, instructions: tuple[str, ...]):
    fast, full = (ptx_of(compile_ptx(function(name, fast=choice))) for choice in (True, False))
    for instruction in instructions:
        assert instruction in fast
    assert ".approx" not in full
    assert ".full" not in full


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_stays_as_it_is(name: str):
    fast, full = (ptx_of(compile_ptx(function(name, f64, fast=choice))) for choice in (True, False))
    assert fast == full


def test_an_exponential_is_a_multiplication_and_one_special_function():
    """What the docstring of `fast` says it costs, counted in SASS; the default form has 20 instructions."""
    exp, exp2, full = (
        resource_report(compile_cuda(program).artifact)
        for program in (
            function("exp", elements_per_thread=1),
            function("exp2", elements_per_thread=1),
            function("exp", fast=False, elements_per_thread=1),
        )
    )
    assert (exp.count("MUFU"), exp.count("FMUL"), exp.total - exp2.total) == (1, 1, 1)
    assert full.count("MUFU") == 0
    assert full.total - exp.total <= 20 - 2


def test_infinities_and_the_ends_of_the_range():
    x = np.array([-np.inf, np.inf, np.nan, 0, -200, 200], np.float32)
    y = np.zeros(6, np.float32)
    with np.errstate(all="ignore"):
        simulate(function("exp"), [x, y])
        np.testing.assert_array_equal(y, np.array([0, np.inf, np.nan, 1, 0, np.inf], np.float32))
        simulate(function("tanh"), [x, y])
        np.testing.assert_array_equal(y, np.array([-1, 1, np.nan, 0, -1, 1], np.float32))


def test_products_are_fused_only_where_asked_for():
    fast = ptx_of(compile_ptx(replace(programs.saxpy(), options={"fast": True})))
    assert "fma.rn.f32" in fast
    assert "fma" not in ptx_of(compile_ptx(programs.saxpy()))


def test_erf_everywhere():
    """Both branches, where they meet, both tails, zeros and what is no number."""
    x = np.concatenate([np.linspace(-6, 6, 4001), [-0.0, 1.0, -1.0, 4.0, 1e-30, np.inf, -np.inf, np.nan]]).astype(
        np.float32
    )
    y = np.zeros_like(x)
    simulate(function("erf"), [x, y])
    want = np.vectorize(math.erf)(x.astype(np.float64))
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-22)
    near = np.abs(x) < 1
    np.testing.assert_allclose(y[near], want[near], rtol=2.0**-22)
    assert np.signbit(y[x == 0]).tolist() == np.signbit(x[x == 0]).tolist()
