"""Run a Program compiled for this machine and by the interpreter, and compare."""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from support import cpu
from support.builder import Builder
from tessera.core.base.dtypes import DType, f32
from tessera.core.program.program import Program, Value
from tessera.core.program.types import Array, Tile
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.interpret.run import run
from tessera.runtime.launch.cpu import CpuLauncher

host = cache(host_target)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in arguments]


def compiled(program: Program, *arguments: object, features: str = "") -> list[Any]:
    """Run `program` compiled, in the form for `features` if given, on copies of `arguments`; gives them back."""
    fresh = _copies(arguments)
    form = cpu.compiled(program, features=features) if features else None
    CpuLauncher(form or compile_program(program, host(), observe=False).artifact)(*fresh)
    return fresh


def interpreted(program: Program, *arguments: object) -> list[Any]:
    """Run `program` by the interpreter, on copies of `arguments`; gives them back."""
    fresh = _copies(arguments)
    symbols = {s.name: fresh[s.parameter].shape[s.axis] * s.scale for s in program.symbols}
    with np.errstate(all="ignore"):
        run(program, fresh, symbols=symbols)
    return fresh


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    width = f"u{a.itemsize}"
    return bool(np.all(nan | (np.ascontiguousarray(a).view(width) == np.ascontiguousarray(b).view(width))))


def check(program: Program, *arguments: object, features: str = "") -> list[Any]:
    """Both agree on every bit of every array; gives the compiled kernel's arguments."""
    actual, expected = compiled(program, *arguments, features=features), interpreted(program, *arguments)
    for parameter, a, b in zip(program.parameters, actual, expected, strict=True):
        if isinstance(a, np.ndarray):
            assert same_bits(a, b), f"{parameter.name}: compiled {a.ravel()[:8]}, interpreter {b.ravel()[:8]}"
    return actual


def numbers(shape: tuple[int, ...], dtype: DType = f32, seed: int = 0) -> np.ndarray:
    """Random numbers: normal for floats, small for integers, either for booleans."""
    random = np.random.default_rng(seed)
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    return random.integers(0 if dtype.kind == "uint" else -50, 50, shape).astype(dtype.numpy)


class Kernel(Builder):
    """A Builder whose arrays are whole tiles: `take` loads one, `put` stores one into an array of its own."""

    def take(self, name: str, *shape: int, dtype: DType = f32, **options: bool) -> Value:
        """A new array of that shape, loaded as one tile."""
        array = self.array(name, dtype, *shape, **options)
        return self.load(array, [self.const(0)] * len(shape), shape, name=name)

    def put(self, name: str, value: Value) -> None:
        """Store a tile or a scalar to a new array."""
        kind = value.type
        shape = kind.shape if isinstance(kind, Tile) else (1,)
        array = self.array(name, kind.dtype, *shape, mutable=True)
        start = [self.const(0)] * len(shape)
        if isinstance(kind, Tile):
            self.store(array, value, start, shape)
        else:
            self.write(array, value, *start)


def outputs(program: Program) -> list[np.ndarray]:
    """Zeros for every array that the kernel writes."""
    kinds = [kind for p in program.parameters if p.mutable and isinstance(kind := p.value.type, Array)]
    return [np.zeros(cast("tuple[int, ...]", kind.shape), kind.dtype.numpy) for kind in kinds]
