"""Which function executes which instruction."""

from collections.abc import Callable
from typing import TypeAlias

from support.ptx_machine.parsing import Instruction
from support.ptx_machine.state import Block, Lanes

Execute: TypeAlias = Callable[[Block, Instruction, Lanes, int], None]
"""Executes an instruction for some lanes of a block; the last argument is its place in the code."""

INSTRUCTIONS: dict[str, Execute] = {}
"""By the instruction's name, filled by the modules that import `instruction`."""


def instruction(*names: str) -> Callable[[Execute], Execute]:
    """The decorator of a function that executes the instructions with these names."""

    def register(function: Execute) -> Execute:
        INSTRUCTIONS.update(dict.fromkeys(names, function))
        return function

    return register
