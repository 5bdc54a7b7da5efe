"""One block while it runs: its registers, its memory, and where each lane stands."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from support.ptx_machine.numbers import DType, Numbers
from support.ptx_machine.parsing import LOCAL_BASE, Kernel, PtxFault

WARP = 32
BASE, GAP = 1 << 32, 1 << 16
PROCESSORS = 2
POISON = 0xA5

Lanes: TypeAlias = NDArray[np.int64]
"""Numbers of lanes, ascending."""
Copy: TypeAlias = tuple[int, NDArray[np.uint8], str]
"""A copy under way: where it goes, its bytes, and the instruction that began it."""


@dataclass
class Memory:
    """Global memory: byte arrays at addresses with gaps between them."""

    buffers: list[tuple[int, NDArray[np.uint8]]] = field(default_factory=list[tuple[int, NDArray[np.uint8]]])
    next: int = BASE
    ticks: int = 0

    def place(self, array: NDArray[Any]) -> int:
        """Give `array` (contiguous) an address; it is changed in place."""
        view = array.reshape(-1).view(np.uint8)
        address, self.next = self.next, self.next + -(-view.size // 256) * 256 + GAP
        self.buffers.append((address, view))
        return address

    def find(self, address: int, size: int, text: str) -> NDArray[np.uint8]:
        """The bytes at an address, which one buffer must hold."""
        for base, view in self.buffers:
            if base <= address and address + size <= base + view.size:
                return view[address - base : address - base + size]
        raise PtxFault(f"{text}: no buffer holds {size} bytes at {address:#x}")


class Block:
    """The lanes of one block.  Registers are arrays of bits, one entry a lane."""

    def __init__(
        self, kernel: Kernel, values: Mapping[str, Any], memory: Memory, place: tuple[int, int], shared_bytes: int
    ) -> None:
        """`place`: the block's number, and how many there are."""
        self.kernel, self.values, self.memory = kernel, values, memory
        n = self.n = kernel.lanes
        self.block, self.blocks = place
        self.registers: dict[str, Numbers] = {}
        self.pc = np.zeros(n, np.int64)
        self.done = np.zeros(n, bool)
        self.waiting = np.full(n, -1)
        self.needed = np.zeros(n, np.int64)
        self.origin = np.zeros(n, np.int64)
        self.gathered = np.full(n, -1)
        self.masks = np.zeros(n, np.uint32)
        self.objects: dict[int, list[int]] = {}
        size = max([shared_bytes, *(s + c for s, c in kernel.shared.values() if s < LOCAL_BASE)])
        self.shared = np.full(size, POISON, np.uint8)
        self.local = np.full((n, kernel.depot), POISON, np.uint8)
        self.copies: list[list[list[Copy]]] = [[[]] for _ in range(n)]
        self.tid = np.arange(n)

    def raw(self, operand: str, lanes: Lanes, dtype: DTypeLike) -> Numbers:
        """The operand's bits, read as `dtype`."""
        dtype = np.dtype(dtype)
        bits = np.dtype(f"u{dtype.itemsize}")
        if operand in self.registers:
            value = self.registers[operand][lanes]
            if value.dtype == bool:
                return value
            if value.dtype.itemsize != dtype.itemsize:
                value = value.astype(bits)
            return np.ascontiguousarray(value).view(dtype)
        return np.full(len(lanes), self.constant(operand, dtype), bits).view(dtype)

    def constant(self, text: str, dtype: DType) -> int:
        """The bits of an operand that is no register."""
        mask = (1 << (8 * dtype.itemsize)) - 1
        if text[:2] in ("0f", "0d"):
            return int.from_bytes(bytes.fromhex(text[2:]), "big")
        if text in self.kernel.shared:
            return self.kernel.shared[text][0]
        special = {
            "%ctaid.x": self.block,
            "%nctaid.x": self.blocks,
            "%ntid.x": self.n,
            "%smid": self.block % PROCESSORS,
        }
        if text in special:
            return special[text]
        if (match := re.match(r"^([\w$]+)\+(\d+)$", text)) and match[1] in self.kernel.shared:
            return self.kernel.shared[match[1]][0] + int(match[2])
        if re.match(r"^-?\d", text):
            return int(text.removesuffix("U"), 0) & mask
        raise PtxFault(f"an operand that has no value: {text}")

    def predicate(self, operand: str, lanes: Lanes) -> Numbers:
        """A predicate register, or a constant in its place."""
        if operand in self.registers:
            return self.registers[operand][lanes]
        return np.full(len(lanes), int(operand) != 0)

    def put(self, name: str, lanes: Lanes, value: Numbers) -> None:
        """Write a register of these lanes; signed numbers fill registers wider than they are with their sign."""
        if name in ("_", "%_"):
            return
        if value.dtype != bool:
            value = np.ascontiguousarray(value).view(np.dtype(f"u{value.dtype.itemsize}"))
            size = {"%rs": 2, "%rd": 8, "%SP": 8}.get(name[:3], 4)
            value = value.astype(np.dtype(f"u{size}"))
        kept = self.registers.get(name)
        if kept is None or kept.dtype != value.dtype:
            kept = self.registers[name] = np.zeros(self.n, value.dtype)
        kept[lanes] = value

    def addresses(self, operand: str, lanes: Lanes) -> Lanes:
        """What `[register+offset]` means for each lane."""
        inner = operand.strip("[]").replace(" ", "")
        name, _, offset = inner.partition("+")
        base = self.raw(name, lanes, np.uint64).astype(np.int64)
        return base + (int(offset, 0) if offset else 0)

    def window(self, space: str, lane: int, address: int, size: int, text: str) -> NDArray[np.uint8]:
        """The bytes that a lane reads or writes.  Raises PtxFault where there are none, or they are not aligned."""
        if address % size if size in (1, 2, 4, 8, 16) else 0:
            raise PtxFault(f"{text}: address {address:#x} is not aligned to {size}")
        if space == "shared":
            if not 0 <= address <= self.shared.size - size:
                raise PtxFault(f"{text}: shared address {address} of {self.shared.size}")
            return self.shared[address : address + size]
        if address >= LOCAL_BASE:
            start = address - LOCAL_BASE
            if start + size > self.local.shape[1]:
                raise PtxFault(f"{text}: local address {start}")
            return self.local[lane, start : start + size]
        return self.memory.find(address, size, text)
