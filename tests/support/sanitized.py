"""A kernel to be written statement by statement, and what the sanitizer says of it."""

import numpy as np
import pytest

from support.interpret_programs import Writer
from tessera.core.base.dtypes import f32
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Domain, Program, Value
from tessera.runtime.interpret.run import run

LANES = 64


class Kernel(Writer):
    """x: f32[n], y: mut f32[n], smem of 64 f32, i = tile.linear_id()."""

    def __init__(self) -> None:
        super().__init__("kernel")
        self.x = self.array("x", f32, "n")
        self.y = self.array("y", f32, "n", mutable=True)
        self.say("    smem = tshared.alloc[f32](64)")
        self.smem = self.alloc(f32, LANES, name="smem")
        self.say("    i = tile.linear_id()")
        self.i = self.id("lane", name="i")

    def plus(self, value: Value, number: int) -> Value:
        return self.value("add", value, self.const(number))

    def fill(self) -> None:
        self.say("    smem[i] = x[i]")
        self.write(self.smem, self.read(self.x, self.i), self.i)

    def sync(self) -> None:
        self.say("    tbarrier()")
        self.barrier()

    def done(self) -> Program:
        return self.program(domain=Domain("lanes", ("n",)), group=(LANES,))


def finding(program: Program, groups: int = 1, n: int = LANES) -> TesseraError:
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    with pytest.raises(TesseraError) as caught:
        run(program, [x, y], symbols={"n": n}, grid=(groups,), sanitize=True)
    assert not y.any(), "a finding must leave the output as it was"
    return caught.value


def text(program: Program, groups: int = 1, n: int = LANES) -> str:
    return str(finding(program, groups, n))
