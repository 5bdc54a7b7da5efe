"""Run a Program compiled for this machine and by the interpreter, and compare."""

from functools import cache
from typing import Any

import numpy as np

from tessera.core.program.program import Program
from tessera.lowering.compile import compile_program
from tessera.lowering.service import host_target
from tessera.runtime.grid import Grid
from tessera.runtime.interpret.run import run
from tessera.runtime.launch import Launcher

host = cache(host_target)


def compiled(program: Program, *arguments: Any) -> list[Any]:
    """Run `program` compiled on copies of `arguments` (one group, or as many as its ranges ask for); gives them back."""
    fresh = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launcher = Launcher(compile_program(program, host(), observe=False).artifact)
    assert launcher.run(fresh, Grid()), "the launcher refused the arguments"
    return fresh


def interpreted(program: Program, *arguments: Any) -> list[Any]:
    """Run `program` by the interpreter on copies of `arguments`; gives them back."""
    fresh = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    symbols = {s.name: fresh[s.parameter].shape[s.axis] * s.scale for s in program.symbols}
    run(program, fresh, symbols=symbols)
    return fresh


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))))


def check(program: Program, *arguments: Any) -> list[Any]:
    """Both agree on every bit of every array; gives the compiled kernel's arguments."""
    actual, expected = compiled(program, *arguments), interpreted(program, *arguments)
    for parameter, a, b in zip(program.parameters, actual, expected, strict=True):
        if isinstance(a, np.ndarray):
            assert same_bits(a, b), f"{parameter.name}: compiled {a.ravel()[:8]}, interpreter {b.ravel()[:8]}"
    return actual
