"""What the tests of CUDA Tile programs share: run a Program in the tile machine, and compare."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from support import tile_machine
from support.tile_kernels import compiled, same_bits
from tessera.core.program.program import Program
from tessera.lowering.cuda_tile.instructions import Entry, instructions_of
from tessera.runtime.binding.grid import Grid
from tessera.runtime.interpret.run import run


def interpreted(program: Program, arguments: list[Any], groups: int | None = None) -> list[Any]:
    """What the interpreter leaves in `arguments`."""
    symbols: dict[str, int] = {}
    for symbol in program.symbols:
        symbols.setdefault(symbol.name, arguments[symbol.parameter].shape[symbol.axis] * symbol.scale)
    with np.errstate(all="ignore"):
        run(program, arguments, symbols=symbols, grid=None if groups is None else (groups,))
    return arguments


def agree(program: Program, arguments: Sequence[Any], groups: int | None = None) -> Entry:
    """It must leave the interpreter's bits in every array; gives the CUDA Tile program."""
    return _agree(program, arguments, groups, lambda values: interpreted(program, values, groups))


def agree_with_cpu(program: Program, arguments: Sequence[Any]) -> Entry:
    """It must leave the bits that the CPU target leaves: for functions such as `exp`, which NumPy has its own of."""

    def other(values: list[Any]) -> None:
        for value, result in zip(values, compiled(program, *values), strict=True):
            if isinstance(value, np.ndarray):
                value[...] = result

    return _agree(program, arguments, None, other)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in arguments]


def _agree(
    program: Program, arguments: Sequence[Any], groups: int | None, other: Callable[[list[Any]], object]
) -> Entry:
    got, want = _copies(arguments), _copies(arguments)
    entry = tile_machine.simulate(program, got, None if groups is None else Grid((groups,)))
    other(want)
    for parameter, g, w in zip(program.parameters, got, want, strict=True):
        if isinstance(g, np.ndarray):
            assert same_bits(g, w), f"{parameter.name} differs:\n{g}\n{w}"
    return entry


def names(entry: Entry) -> list[str]:
    """The names of all instructions, outer before inner."""
    return [op.name for op in instructions_of(entry.body)]


def normal(*shape: int, dtype: DTypeLike = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def poison(*shape: int, dtype: DTypeLike = np.float32) -> np.ndarray:
    return np.full(shape, np.nan, np.float32).astype(dtype)
