"""Lanes that wait for each other: at barriers of the block, and at instructions that several lanes execute at once."""

import numpy as np

from support.ptx_machine.numbers import Numbers
from support.ptx_machine.parsing import PtxFault
from support.ptx_machine.state import WARP, Block, Lanes


def release(block: Block) -> None:
    """Let the lanes of every barrier that is complete go on."""
    for number in np.unique(block.waiting[block.waiting >= 0]):
        here = block.waiting == number
        needed = int(block.needed[here].max())
        missing = np.unique(block.tid[~here & ~block.done] // WARP)
        warps = [w for w in np.unique(block.tid[here] // WARP) if w not in missing]
        if (len(warps) * WARP < needed) if needed else len(missing):
            continue
        for warp in warps:
            if len(np.unique(block.origin[here & (block.tid // WARP == warp)])) > 1:
                raise PtxFault(f"the lanes of warp {warp} wait at different barriers")
        block.waiting[here] = -1


def gather(block: Block, lanes: Lanes, masks: Numbers, at: int) -> Lanes:
    """A lane waits at a `.sync` instruction for all lanes its mask names; gives those that wait no longer."""
    block.gathered[lanes] = at
    block.masks[lanes] = masks
    ready: list[int] = []
    for lane in np.flatnonzero(block.gathered == at).tolist():
        wanted = named(block, lane, block.masks[lane])
        if lane not in wanted:
            raise PtxFault(f"{block.kernel.code[at].text}: lane {lane} is not in its own mask")
        if (block.gathered[wanted] == at).all():
            ready.append(lane)
    block.gathered[ready] = -1
    return np.array(ready, np.int64)


def named(block: Block, lane: int, mask: int) -> Lanes:
    """The lanes that a mask names, in the warp of `lane`."""
    first = lane // WARP * WARP
    wanted = first + np.flatnonzero(int(mask) >> np.arange(WARP) & 1)
    if (wanted >= block.n).any():
        raise PtxFault("a mask names lanes that do not exist")
    return wanted


def whole_warps(block: Block, lanes: Lanes, at: int) -> Lanes:
    """Lanes of the warps that have all arrived at an instruction that a whole warp executes, [warps, 32]."""
    lanes = gather(block, lanes, np.full(len(lanes), 0xFFFFFFFF, np.uint32), at)
    return lanes.reshape(-1, WARP)
