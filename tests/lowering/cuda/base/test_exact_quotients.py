"""Quotients and roots in range: rounded once, without the tests and branches of those of any numbers."""

import numpy as np
import pytest

from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of, same_bits, simulate
from tessera.core.base.dtypes import f32, f64
from tessera.core.program.program import Domain, Program
from tessera.core.program.spec import IN_RANGE

ON_HARDWARE = True
COUNT = 2000


def function(name: str, predicate: str = IN_RANGE, wide: bool = False) -> Program:
    b = Writer(name)
    dtype = f64 if wide else f32
    x, y, z = b.array("x", dtype, "n"), b.array("y", dtype, "n"), b.array("z", dtype, "n", mutable=True)
    i = b.id("thread")
    operands = (b.read(x, i), *((b.read(y, i),) if name == "div" else ()))
    b.write(z, b.value(name, *operands, predicate=predicate), i)
    return b.program(group=(64,), domain=Domain("lanes", ("n",)))


def spread(seed: int) -> np.ndarray:
    """Numbers with any bits behind the point, of any size in range, and of any sign."""
    rng = np.random.default_rng(seed)
    numbers = np.ldexp(1 + rng.random(COUNT), rng.integers(-48, 48, COUNT)).astype(np.float32)
    numbers[:4] = 1, 2, np.nextafter(np.float32(2), np.float32(0)), np.nextafter(np.float32(1), np.float32(2))
    return numbers * rng.choice(np.array([-1, 1], np.float32), COUNT)


def test_quotients_are_rounded_once():
    x, y, z = spread(0), spread(1), np.zeros(COUNT, np.float32)
    x[10:20], x[20:30], x[30:40] = 0, y[20:30], -0.0
    simulate(function("div"), [x, y, z])
    assert same_bits(z, x / y)


def test_roots_are_rounded_once():
    x, z = np.abs(spread(2)), np.zeros(COUNT, np.float32)
    simulate(function("sqrt"), [x, x, z])
    assert same_bits(z, np.sqrt(x))


@pytest.mark.parametrize(("name", "slow"), [("div", "div.rn.f32"), ("sqrt", "sqrt.rn.f32")])
def test_what_they_take_the_place_of(name: str, slow: str):
    near, any_number = (ptx_of(compile_ptx(function(name, predicate))) for predicate in (IN_RANGE, ""))
    assert slow in any_number
    assert slow not in near
    assert "approx" in near
    assert "div.rn.f64" in ptx_of(compile_ptx(function("div", wide=True)))
