"""LLVM's passes as stages of a kernel: named once each, from the text that they begin with."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, PassDump, pass_dumps

BEGIN: Final = "mlir-translate"
"""Name of the stage before LLVM's first pass: LLVM IR as MLIR translated it."""


def traced(text: str, machine: Machine, pipeline: LlvmPipeline) -> tuple[PassDump, ...]:
    """Return LLVM IR as it begins, and after each pass of LLVM that changes it.

    Passes have LLVM's names without `Pass`.  One that goes from loop to loop is one stage; one that runs again later
    gets a number: `InstCombine`, `InstCombine-2`.

    Raises CompilerCrash where LLVM refuses the text.
    """
    try:
        dumps = pass_dumps(text, machine, pipeline)
    except RuntimeError as error:
        message = f"LLVM's passes could not be printed: {error}"
        raise CompilerCrash(message) from error
    return PassDump(BEGIN, text), *_numbered(dumps)


def _numbered(dumps: tuple[PassDump, ...]) -> Iterator[PassDump]:
    runs: Counter[str] = Counter()
    for name, together in groupby(dumps, lambda dump: dump.name.removesuffix("Pass")):
        *_, last = together
        runs[name] += 1
        yield PassDump(name if runs[name] == 1 else f"{name}-{runs[name]}", last.text)
