"""Run a kernel on every target, without a GPU: the interpreter, the CPU, the PTX machine and the tile machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from support import tile_machine
from support.simulate import same_bits, simulate
from support.tile_kernels import compiled
from tessera import compile_source
from tessera.core.program.program import Program
from tessera.runtime.interpret.run import run

TARGETS = ("interpret", "cpu", "cuda", "cuda_tile")


def everywhere(
    text: str, arguments: Sequence[Any], expected: Sequence[Any], targets: Sequence[str] = TARGETS, name: str = "k"
) -> Program:
    """Kernel `name` of `text` must leave the bits of `expected` in its arguments, on each target; gives its Program."""
    program = getattr(compile_source(text), name).program(tuple(arguments))
    for target in targets:
        got = results(program, [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in arguments], target)
        for parameter, g, w in zip(program.parameters, got, expected, strict=True):
            if isinstance(g, np.ndarray):
                assert same_bits(g, w), f"{parameter.name} differs on {target}:\n{g}\n{w}"
    return program


def results(program: Program, arguments: list[Any], target: str) -> Sequence[Any]:
    """Return the arguments after a run of a program on one target."""
    if target == "cpu":
        return compiled(program, *arguments)
    if target == "cuda":
        simulate(program, arguments, None, "sm_90a", 1)
    elif target == "cuda_tile":
        tile_machine.simulate(program, arguments, None)
    else:
        symbols: dict[str, int] = {}
        for symbol in program.symbols:
            symbols.setdefault(symbol.name, arguments[symbol.parameter].shape[symbol.axis] * symbol.scale)
        with np.errstate(all="ignore"):
            run(program, arguments, symbols=symbols)
    return arguments
