"""What the tests of generated GPU code share: run a Program in the PTX machine and in the interpreter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from support.simulate import same_bits, simulate
from tessera.core.artifact import Artifact
from tessera.core.program.program import Program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.interpret.run import run


def agree(
    program: Program, arguments: Sequence[Any], groups: int | None = None, arch: str = "sm_90a", seed: int | None = 1
) -> tuple[Artifact, list[Any]]:
    """Both must leave the same bits in every array; gives the artifact and what they left."""
    got, want = _copies(arguments), _copies(arguments)
    symbols: dict[str, int] = {}
    for symbol in program.symbols:
        symbols.setdefault(symbol.name, arguments[symbol.parameter].shape[symbol.axis] * symbol.scale)
    artifact = simulate(program, got, None if groups is None else Grid((groups,)), arch, seed)
    run(program, want, symbols=symbols, grid=None if groups is None else (groups,))
    for parameter, g, w in zip(program.parameters, got, want, strict=True):
        if isinstance(g, np.ndarray):
            assert same_bits(g, w), f"{parameter.name} differs:\n{g}\n{w}"
    return artifact, got


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def normal(*shape: int, dtype: DTypeLike = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def poison(*shape: int, dtype: DTypeLike = np.float32) -> np.ndarray:
    return np.full(shape, np.nan, np.float32).astype(dtype)
