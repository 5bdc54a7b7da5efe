"""Runs a grid, block after block: one instruction of some lanes of one warp after the other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.ptx_machine.instructions import INSTRUCTIONS, Execute
from support.ptx_machine.parsing import Instruction, PtxFault, parse
from support.ptx_machine.state import WARP, Block, Lanes, Memory

_MOST_STEPS = 3_000_000


def run(
    text: str, blocks: int, arguments: Sequence[Any], memory: Memory, shared_bytes: int = 0, seed: int | None = None
) -> None:
    """Run a whole grid; `arguments` are one 8-byte value each, integers or NumPy scalars."""
    kernel = parse(text)
    values = dict(zip(kernel.parameters, arguments, strict=True))
    for number in range(blocks):
        block = Block(kernel, values, memory, (number, blocks), shared_bytes)
        _run(block, None if seed is None else np.random.default_rng(seed))


def _run(block: Block, random: np.random.Generator | None) -> None:
    """Run a block to its end; `random` draws which warp goes on, and for how long."""
    steps = 0
    while not block.done.all():
        ready = np.flatnonzero(_goes_on(block))
        if not ready.size:
            raise PtxFault("deadlock: every lane waits at a barrier that never fills")
        steps += _turn(block, ready, random) if random is not None else _step(block, _behind(block, ready))
        if steps > _MOST_STEPS:
            raise PtxFault("the program does not end")


def _turn(block: Block, ready: Lanes, random: np.random.Generator) -> int:
    """Let one warp do a number of steps; gives how many."""
    warp = random.choice(np.unique(ready // WARP))
    mine = ready[ready // WARP == warp]
    most = int(random.integers(1, 200))
    for steps in range(most):
        here = mine[_goes_on(block)[mine]]
        if not here.size:
            return steps
        _step(block, _behind(block, here))
    return most


def _goes_on(block: Block) -> NDArray[np.bool_]:
    return ~block.done & (block.waiting < 0) & (block.gathered < 0)


def _behind(block: Block, lanes: Lanes) -> Lanes:
    """Those of these lanes that are furthest behind: they execute the same instruction."""
    return lanes[block.pc[lanes] == block.pc[lanes].min()]


def _step(block: Block, lanes: Lanes) -> int:
    """Execute one instruction; gives 1, the number of steps."""
    at = int(block.pc[lanes[0]])
    if at >= len(block.kernel.code):
        block.done[lanes] = True
        return 1
    op = block.kernel.code[at]
    block.pc[lanes] += 1
    if op.guard is not None:
        taken = block.registers[op.guard][lanes] != op.negated
        lanes = lanes[taken]
        if not lanes.size:
            return 1
    handler = INSTRUCTIONS.get(op.name)
    if handler is None:
        raise PtxFault(f"no such instruction here: {op.text}")
    if op.parts and op.parts[-1].endswith("x2"):
        _pairs(block, op, lanes, at, handler)
    else:
        handler(block, op, lanes, at)
    return 1


def _pairs(block: Block, op: Instruction, lanes: Lanes, at: int, handler: Execute) -> None:
    """An instruction on two 16-bit floats: that on one, twice."""
    result = np.zeros(len(lanes), np.uint32)
    names = [f"%rs_{number}" for number in range(len(op.operands))]
    single = replace(op, parts=[part.removesuffix("x2") for part in op.parts], operands=names)
    for half in range(2):
        for name, operand in zip(names[1:], op.operands[1:], strict=True):
            bits = block.raw(operand, lanes, np.uint32)
            block.put(name, lanes, (bits >> np.uint32(16 * half)).astype(np.uint16))
        handler(block, single, lanes, at)
        result |= block.registers[names[0]][lanes].astype(np.uint32) << np.uint32(16 * half)
    block.put(op.operands[0], lanes, result)
