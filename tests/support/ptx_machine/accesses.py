"""Reads and writes of every memory, and the copies of `cp.async`, which arrive only when they are waited for."""

import numpy as np

from support.ptx_machine.instructions import instruction
from support.ptx_machine.numbers import DType, kind_of
from support.ptx_machine.parsing import Instruction, PtxFault
from support.ptx_machine.state import Block, Lanes


def _access(op: Instruction) -> tuple[str, DType]:
    """The state space that an instruction names, and what it moves, as bits."""
    space = next((p for p in op.parts if p in ("global", "shared", "local", "param")), "generic")
    return space, np.dtype(f"u{kind_of(op.parts).itemsize}")


@instruction("ld")
def load(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    space, dtype = _access(op)
    target, source = op.operands[:2]
    names = [n.strip() for n in target.strip("{}").split(",")]
    if space == "param":
        value = np.asarray(block.values[source.strip("[]")])
        bits = int.from_bytes(value.tobytes()[: dtype.itemsize], "little")
        block.put(names[0], lanes, np.full(len(lanes), bits, dtype))
        return
    size = dtype.itemsize * len(names)
    found = np.empty((len(lanes), size), np.uint8)
    for row, (lane, address) in enumerate(zip(lanes, block.addresses(source, lanes), strict=True)):
        found[row] = block.window(space, int(lane), int(address), size, op.text)
    values = found.view(dtype)
    signed = op.parts[-1][0] == "s"
    for index, name in enumerate(names):
        column = np.ascontiguousarray(values[:, index])
        if signed:
            column = column.view(f"i{dtype.itemsize}").astype("i8" if name[:3] == "%rd" else "i4")
        block.put(name, lanes, column)


@instruction("st")
def store(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    space, dtype = _access(op)
    target, source = op.operands[:2]
    names = [n.strip() for n in source.strip("{}").split(",")]
    rows = np.stack([block.raw(n, lanes, dtype) for n in names], axis=-1).view(np.uint8)
    for row, (lane, address) in enumerate(zip(lanes, block.addresses(target, lanes), strict=True)):
        block.window(space, int(lane), int(address), rows.shape[1], op.text)[:] = rows[row]


@instruction("red")
def reduce(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    """Only what is added to global memory without a result."""
    assert "add" in op.parts
    target, source = op.operands
    values = block.raw(source, lanes, np.uint64)
    for value, address in zip(values, block.addresses(target, lanes), strict=True):
        word = block.window("global", 0, int(address), 8, op.text).view(np.uint64)
        word += value


@instruction("createpolicy")
def create_policy(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    """How long a cache keeps something changes no value."""
    block.put(op.operands[0], lanes, np.zeros(len(lanes), np.uint64))


@instruction("cp")
def copy(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    if "commit_group" in op.parts:
        for lane in map(int, lanes):
            block.copies[lane].append([])
        return
    if "wait_group" in op.parts or "wait_all" in op.parts:
        # The last list holds what is not committed yet, which only `wait_all` waits for.
        left = int(op.operands[0]) if "wait_group" in op.parts else -1
        for lane in map(int, lanes):
            _arrive(block, lane, len(block.copies[lane]) - 1 - left)
        return
    size = int(op.operands[2])
    amounts = block.raw(op.operands[3], lanes, np.uint32) if len(op.operands) > 3 else np.full(len(lanes), size)
    targets, sources = (block.addresses(o, lanes).tolist() for o in op.operands[:2])
    for lane, target, source, amount in zip(map(int, lanes), targets, sources, amounts.tolist(), strict=True):
        data = np.zeros(size, np.uint8)
        if source % size:
            raise PtxFault(f"{op.text}: source {source:#x} is not aligned")
        if amount:
            data[:amount] = block.memory.find(source, amount, op.text)
        block.copies[lane][-1].append((target, data, op.text))


def _arrive(block: Block, lane: int, count: int) -> None:
    """The first `count` groups of a lane's copies arrive."""
    for group in block.copies[lane][: max(0, count)]:
        for target, data, text in group:
            block.window("shared", lane, target, len(data), text)[:] = data
    block.copies[lane] = block.copies[lane][max(0, count) :] or [[]]
