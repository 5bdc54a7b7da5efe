"""What a whole warp does with matrices: `ldmatrix` and `mma.sync`."""

import numpy as np

from support.ptx_machine import waiting
from support.ptx_machine.instructions import instruction
from support.ptx_machine.numbers import FACTORS, Numbers
from support.ptx_machine.parsing import Instruction, PtxFault
from support.ptx_machine.state import WARP, Block, Lanes


@instruction("ldmatrix")
def load_matrix(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    names = [n.strip() for n in op.operands[0].strip("{}").split(",")]
    for warp in waiting.whole_warps(block, lanes, at):
        addresses = block.addresses(op.operands[1], warp)
        for number, name in enumerate(names):
            rows = range(8 * number, 8 * number + 8)
            found = [block.window("shared", int(warp[r]), int(addresses[r]), 16, op.text).view(np.uint16) for r in rows]
            matrix = np.array(found).T if "trans" in op.parts else np.array(found)
            block.put(name, warp, np.ascontiguousarray(matrix).view(np.uint32).reshape(-1))


@instruction("mma")
def multiply_matrices(block: Block, op: Instruction, lanes: Lanes, at: int) -> None:
    """m16n8 with f32 sums and 32 bytes of K, added in f64 and rounded once: the hardware's order is its own."""
    kind = op.parts[-2]
    count = {"tf32": 1, "e4m3": 4, "e5m2": 4}.get(kind, 2)
    assert f"m16n8k{8 * count}" in op.parts
    names = [[n.strip() for n in operand.strip("{}").split(",")] for operand in op.operands]
    for warp in waiting.whole_warps(block, lanes, at):
        row, pair, first = np.arange(WARP) // 4, np.arange(WARP) % 4 * 2, np.arange(WARP) % 4 * count
        a, b, c = np.zeros((16, 8 * count)), np.zeros((8 * count, 8)), np.zeros((16, 8))
        for number in range(4):
            c[row + 8 * (number // 2), pair + number % 2] = block.raw(names[3][number], warp, np.float32)
            values = _factors(block, names[1][number], warp, kind, op.text)
            for place in range(count):
                a[row + 8 * (number % 2), first + place + 4 * count * (number // 2)] = values[:, place]
        for number in range(2):
            values = _factors(block, names[2][number], warp, kind, op.text)
            for place in range(count):
                b[first + place + 4 * count * number, row] = values[:, place]
        with np.errstate(all="ignore"):
            total = (a @ b + c).astype(np.float32)
        for number in range(4):
            block.put(names[0][number], warp, total[row + 8 * (number // 2), pair + number % 2])


def _factors(block: Block, name: str, warp: Lanes, kind: str, text: str) -> Numbers:
    """The elements of a warp's words, [32, as many as there are in a word]; those of tf32 are rounded already."""
    words = block.raw(name, warp, np.uint32)
    if kind != "tf32":
        return words.view(FACTORS[kind]).reshape(WARP, -1).astype(np.float64)
    if np.any(words & 0x1FFF):
        raise PtxFault(f"{text}: the hardware cuts off bits that were not rounded away")
    return words.view(np.float32).reshape(WARP, 1).astype(np.float64)
