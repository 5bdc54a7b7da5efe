"""Fragments of MMA instructions: which lane holds which elements of an operand (PTX ISA, "Matrix Fragments")."""

import re
from dataclasses import dataclass
from typing import Final, Self

from tessera.core.layouts import Layout, accumulator, axis_bits

OPERANDS: Final = ("A", "B", "accumulator")
_REGISTER_BITS: Final = 32
_TYPES: Final = {"f16": 16, "bf16": 16, "tf32": 32, "f8e4m3": 8, "f8e5m2": 8, "i8": 8, "u8": 8}
_BY_WIDTH: Final = {16: "bf16", 32: "tf32", 8: "f8e4m3"}
_NAME: Final = re.compile(r"(mma|mma\.sync|wgmma)\.m(\d+)n(\d+)k(\d+)")
_MMA_SHAPE: Final = (16, 8)
_WGMMA_ROWS: Final = 64
_WGMMA_COLUMNS: Final = range(8, 257, 8)
_WIDEST_K: Final = 256
"""Bits of a row of A that one instruction takes."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One operand of an MMA instruction, in registers.

    instruction: "mma.sync" or "wgmma"; shape: m, n and k; dtype: of the factors; operand: one of OPERANDS
    layout: of a tile whose columns may be more than `columns`, which are those that there are
    """

    instruction: str
    shape: tuple[int, int, int]
    operand: str
    dtype: str
    layout: Layout
    columns: int

    @property
    def title(self) -> str:
        """The operand and the instruction."""
        m, n, k = self.shape
        return f"{self.operand} of {self.instruction}.m{m}n{n}k{k}, factors {self.dtype}"

    @property
    def registers(self) -> int:
        """Elements that a lane holds."""
        return self.layout.count * self.columns // self.layout.shape[1]

    @classmethod
    def of(cls, name: str, operand: str = "accumulator", dtype: str | None = None) -> Self:
        """Return an operand of `mma.sync.m16n8k16`, `wgmma.m64n128k16` and the like.

        dtype: of the factors; None: the one for which an instruction is as wide as `k` says

        Raises ValueError for shapes that there are not, and for operands that are not in registers.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ValueError(f"{name!r} is no MMA instruction, such as mma.sync.m16n8k16 or wgmma.m64n128k16")
        if operand not in OPERANDS:
            raise ValueError(f"an operand is one of {', '.join(OPERANDS)}, not {operand!r}")
        instruction = "wgmma" if found[1] == "wgmma" else "mma.sync"
        m, n, k = (int(found[group]) for group in (2, 3, 4))
        dtype = dtype or _BY_WIDTH.get(_WIDEST_K // k if k else 0, "bf16")
        if dtype not in _TYPES:
            raise ValueError(f"factors have one of the types {', '.join(_TYPES)}, not {dtype!r}")
        _check(instruction, (m, n, k), _TYPES[dtype])
        if instruction == "wgmma" and operand == "B":
            hint = f"layout(SharedLayout(({n}, {k * 4}), {_TYPES[dtype] // 8}, swizzle=128))"
            raise ValueError(f"B of wgmma is read from shared memory, not from registers: see {hint}")
        layout, columns = _layout(m, n, k, operand, _TYPES[dtype])
        return cls(instruction, (m, n, k), operand, dtype, layout, columns)


def _check(instruction: str, shape: tuple[int, int, int], bits: int) -> None:
    m, n, k = shape
    widest = _WIDEST_K // bits
    if instruction == "wgmma":
        if m != _WGMMA_ROWS or n not in _WGMMA_COLUMNS or k != widest:
            raise ValueError(f"wgmma has m64, n a multiple of 8 up to 256, and for {bits} bits k{widest}")
    elif (m, n) != _MMA_SHAPE or k not in (widest, widest // 2):
        raise ValueError(f"mma.sync has m16n8, and for {bits} bits k{widest} or k{widest // 2}")


def _layout(m: int, n: int, k: int, operand: str, bits: int) -> tuple[Layout, int]:
    warps = (m // 16).bit_length() - 1
    if operand == "accumulator":
        wide = 1 << (n - 1).bit_length()
        return accumulator((m, wide), warps), n
    # Registers of 32 bits hold neighbours along k; four lanes side by side have the next ones, then the next register.
    inner = (_REGISTER_BITS // bits).bit_length() - 1
    shape = (m, k) if operand == "A" else (k, n)
    along, others = (axis_bits(shape, axis) for axis in ((1, 0) if operand == "A" else (0, 1)))
    lanes = (*along[inner : inner + 2], *others[:3])
    if operand == "B":
        return Layout(shape, (*along[:inner], *along[inner + 2 :]), lanes), n
    # The second register of A is 8 rows below the first.
    return Layout(shape, (*along[:inner], others[3], *along[inner + 2 :]), lanes, tuple(others[4:])), k
