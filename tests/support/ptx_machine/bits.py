"""Logic, shifts and other work on bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from support.ptx_machine.instructions import instruction
from support.ptx_machine.numbers import Numbers, kind_of
from support.ptx_machine.parsing import Instruction
from support.ptx_machine.state import Block, Lanes

_LOGIC: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
}  # fmt: skip


@instruction(*_LOGIC)
def logic(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    if op.parts[-1] == "pred":
        values = [block.predicate(o, lanes) for o in op.operands[1:]]
    else:
        values = [block.raw(o, lanes, kind_of(op.parts)) for o in op.operands[1:]]
    block.put(op.operands[0], lanes, _LOGIC[op.name](*values))


def _shift(block: Block, op: Instruction, lanes: Lanes, function: Callable[..., Any]) -> None:
    dtype = kind_of(op.parts)
    a, count = block.raw(op.operands[1], lanes, dtype), block.raw(op.operands[2], lanes, np.uint32)
    limit = 8 * dtype.itemsize
    block.put(op.operands[0], lanes, function(a, count, limit).astype(dtype))


@instruction("shl")
def shift_left(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    def shift(a: Numbers, count: Numbers, limit: int) -> Numbers:
        return np.where(count < limit, a << np.minimum(count, limit - 1).astype(a.dtype), a.dtype.type(0))

    _shift(block, op, lanes, shift)


@instruction("shr")
def shift_right(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    def shift(a: Numbers, count: Numbers, limit: int) -> Numbers:
        moved = a >> np.minimum(count, limit - 1).astype(a.dtype)
        return np.where((count < limit) | (a.dtype.kind == "i"), moved, a.dtype.type(0))

    _shift(block, op, lanes, shift)


@instruction("shf")
def funnel_shift(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    low, high, count = (block.raw(o, lanes, np.uint32).astype(np.uint64) for o in op.operands[1:4])
    count = np.minimum(count, 32) if "clamp" in op.parts else count & np.uint64(31)
    both = high << np.uint64(32) | low
    value = both << count >> np.uint64(32) if "l" in op.parts else both >> count
    block.put(op.operands[0], lanes, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32))


@instruction("bfe")
def extract_field(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a = block.raw(op.operands[1], lanes, dtype)
    start, count = (int(o) for o in op.operands[2:4])
    bits = 8 * dtype.itemsize
    left = dtype.type(bits - start - count)
    block.put(op.operands[0], lanes, (a << left) >> dtype.type(bits - count))


@instruction("bfi")
def insert_field(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    start, count = int(op.operands[3]), int(op.operands[4])
    mask = dtype.type(((1 << count) - 1) << start)
    block.put(op.operands[0], lanes, (b & ~mask) | ((a << dtype.type(start)) & mask))


@instruction("prmt")
def permute_bytes(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    a, b, select = (block.raw(o, lanes, np.uint32) for o in op.operands[1:4])
    both = np.stack([a, b], axis=-1).view(np.uint8).reshape(len(lanes), 8)
    modes = [part for part in op.parts if part != "b32"]
    if modes:  # of those that choose bytes by a number, the one that takes four neighbours
        assert modes == ["f4e"], op.text
        first = select & np.uint32(3)
        select = sum(((first + np.uint32(i)) << np.uint32(4 * i) for i in range(4)), np.zeros_like(select))
    result = np.zeros((len(lanes), 4), np.uint8)
    for i in range(4):
        nibble = (select >> np.uint32(4 * i)) & np.uint32(15)
        byte = both[np.arange(len(lanes)), nibble & 7]
        result[:, i] = np.where(nibble & 8, np.where(byte & 0x80, 255, 0), byte)
    block.put(op.operands[0], lanes, result.view(np.uint32).reshape(-1))


@instruction("clz")
def leading_zeros(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a = block.raw(op.operands[1], lanes, dtype)
    count = np.array([8 * dtype.itemsize - int(x).bit_length() for x in a], np.uint32)
    block.put(op.operands[0], lanes, count)
