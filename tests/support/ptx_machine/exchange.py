"""Control flow, barriers, and what lanes of a warp tell each other."""

import numpy as np

from support.ptx_machine import waiting
from support.ptx_machine.instructions import instruction
from support.ptx_machine.parsing import Instruction, PtxFault
from support.ptx_machine.state import WARP, Block, Lanes


@instruction("bra")
def branch(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    block.pc[lanes] = block.kernel.labels[op.operands[0]]


@instruction("ret")
def finish(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    block.done[lanes] = True
    waiting.release(block)


@instruction("griddepcontrol")
def grid_dependency(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    """Launches follow each other here: what is in front of this one has ended."""


@instruction("bar", "barrier")
def barrier(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    if "warp" in op.parts:
        waiting.gather(block, lanes, block.raw(op.operands[0], lanes, np.uint32), at)
        return
    number = block.raw(op.operands[0], lanes, np.uint32)
    count = block.raw(op.operands[1], lanes, np.uint32) if len(op.operands) > 1 else np.zeros(len(lanes), np.uint32)
    block.origin[lanes] = at if op.name == "bar" else -1
    block.waiting[lanes] = number
    block.needed[lanes] = count
    waiting.release(block)


@instruction("mbarrier")
def barrier_object(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    """Barriers in shared memory: a phase ends with the last arrival; the state of an arrival is its phase."""
    if op.parts[0] == "init":
        places, counts = block.addresses(op.operands[0], lanes), block.raw(op.operands[1], lanes, np.uint32)
        for place, count in zip(places, counts, strict=True):
            block.objects[int(place)] = [int(count), 0, 0]
        return
    states = np.zeros(len(lanes), np.uint64)
    for row, place in enumerate(block.addresses(op.operands[1], lanes)):
        found = block.objects[int(place)]
        states[row] = found[2]
        if op.parts[0] == "arrive":
            found[1] += 1
            if found[1] == found[0]:
                found[1:] = [0, found[2] + 1]
    if op.parts[0] == "test_wait":
        block.put(op.operands[0], lanes, states > block.raw(op.operands[2], lanes, np.uint64))
    else:
        block.put(op.operands[0], lanes, states)


@instruction("shfl")
def shuffle(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    target, value, amount, clamp, mask = op.operands
    target = target.split("|")[0]
    lanes = waiting.gather(block, lanes, block.raw(mask, lanes, np.uint32), at)
    if not lanes.size:
        return
    bits = block.raw(value, lanes, np.uint32)
    b, c = block.raw(amount, lanes, np.uint32) & 31, block.raw(clamp, lanes, np.uint32)
    masks = block.raw(mask, lanes, np.uint32)
    mine = lanes % WARP
    segment, limit = (c >> 8) & 31, c & 31
    top = (mine & segment) | (limit & ~segment & 31)
    low = mine & segment
    mode = next(p for p in op.parts if p in ("up", "down", "bfly", "idx"))
    if mode == "up":
        source, valid = mine - b.astype(np.int64), mine.astype(np.int64) - b >= top
    elif mode == "down":
        source, valid = mine + b, mine + b <= top
    elif mode == "bfly":
        source, valid = mine ^ b, (mine ^ b) <= top
    else:
        source, valid = low | (b & ~segment & 31), (low | (b & ~segment & 31)) <= top
    result = bits.copy()
    for row, lane in enumerate(lanes):
        if valid[row]:
            other = int(lane) // WARP * WARP + int(source[row])
            if int(masks[row]) >> int(source[row]) & 1 == 0:
                raise PtxFault(f"{op.text}: lane {lane} reads lane {other}, which does not take part")
            result[row] = bits[np.flatnonzero(lanes == other)[0]]
    block.put(target, lanes, result)


@instruction("vote")
def vote(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    lanes = waiting.gather(block, lanes, block.raw(op.operands[2], lanes, np.uint32), at)
    value = block.predicate(op.operands[1], lanes)
    result = np.zeros(len(lanes), np.uint32)
    for row, lane in enumerate(lanes):
        same = lanes // WARP == lane // WARP
        result[row] = sum(1 << int(x % WARP) for x in lanes[same & value])
    block.put(op.operands[0], lanes, result)


@instruction("activemask")
def active_mask(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    result = [sum(1 << int(x % WARP) for x in lanes[lanes // WARP == lane // WARP]) for lane in lanes]
    block.put(op.operands[0], lanes, np.array(result, np.uint32))
