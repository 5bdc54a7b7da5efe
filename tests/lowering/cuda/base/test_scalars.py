"""Scalar code: which form each operation takes, and, on a GPU, the CPU's bits for very many operands."""

import numpy as np
import pytest

from support import hardware
from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of, same_bits
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.program.program import Domain, Program
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.launch.cpu import CpuLauncher

FUNCTIONS = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt", "sqrt", "pow", "div", "mod")
BINARY = ("pow", "div", "mod")


def function(name: str, dtype: DType) -> Program:
    b = Writer(name)
    x, y, z = b.array("x", dtype, "n"), b.array("y", dtype, "n"), b.array("z", dtype, "n", mutable=True)
    i = b.id("thread")
    b.write(z, b.value(name, b.read(x, i), *((b.read(y, i),) if name in BINARY else ())), i)
    return b.program(domain=Domain("lanes", ("n",)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gpu_has_the_cpus_bits(name: str, dtype: DType):
    """Any bits at all: NaNs, infinities and denormals among them."""
    random = np.random.default_rng(7)
    bits = np.dtype(f"u{dtype.numpy.itemsize}")
    count = 1 << 18
    x, y = random.integers(0, np.iinfo(bits).max, (2, count), bits, endpoint=True).view(dtype.numpy)
    usual = random.standard_normal((2, count)) * 4
    x[::2], y[::2] = usual[0, ::2].astype(dtype.numpy), usual[1, ::2].astype(dtype.numpy)
    if name == "mod":  # a quotient of a thousand bits takes a thousand steps
        x, y = usual.astype(dtype.numpy)
        x[:8], y[4:12] = [np.nan, np.inf, -np.inf, 0, 1, -1, -0.0, 2], [0, -0.0, np.inf, -np.inf, np.nan, 1, 2, 3]
    got, want = (np.zeros(count, dtype.numpy) for _ in range(2))
    program = function(name, dtype)
    with np.errstate(all="ignore"):
        hardware.simulate(program, [x, y, got])
        CpuLauncher(compile_program(program, host_target(), observe=False).artifact)(x, y, want)
        assert same_bits(got, want)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_a_fused_multiply_add_of_16_bits_stays_there(dtype: DType):
    b = Writer("fused")
    x, z = b.array("x", dtype, "n"), b.array("z", dtype, "n", mutable=True)
    i = b.id("lane")
    value = b.read(x, i)
    b.write(z, b.value("fma", value, value, value), i)
    text = ptx_of(compile_ptx(b.program(group=(32,), domain=Domain("lanes", ("n",)))))
    assert f"fma.rn.{dtype.name}" in text
    assert "cvt" not in text.replace("cvt.u64.u32", "")
