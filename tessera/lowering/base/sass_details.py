"""Decode the encoding of SASS: control codes of each instruction, and how many registers are live.

Since Volta an instruction has 128 bits, of which 21 tell the hardware's scheduler what it does not find out itself: how
long to wait, which of six scoreboards ("barriers") to set and to wait for, and which operands to keep for the next
instruction.  The numbers of live registers are nvdisasm's own.
"""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base.cuda_toolkit import tool

_CONTROL: Final = 105
"""The first bit of the control code."""
_NONE: Final = 7
"""In place of a scoreboard's number."""
_SECTION: Final = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_INSTRUCTION: Final = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/")
_ENCODING: Final = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_LIVE: Final = re.compile(r"//\s*\|(.*)\|\s*$")


@dataclass(frozen=True, slots=True)
class ControlCode:
    """Control code of an instruction: its orders to the scheduler.

    stall: cycles until the warp's next instruction may issue
    yields: whether the scheduler had better switch to another warp
    write, read: the scoreboard that is released when the result is written, or when the operands were read; None: none
    waits: the scoreboards that must be released before
    reuse: source operands (0 to 3) that stay in the cache of operands for the next instruction
    """

    stall: int
    yields: bool
    write: int | None
    read: int | None
    waits: tuple[int, ...]
    reuse: tuple[int, ...]

    @property
    def text(self) -> str:
        """Return it as tools for SASS write it: `B01----:R-:W2:Y:S04`."""
        waits = "".join(str(n) if n in self.waits else "-" for n in range(6))
        read, write = ("-" if n is None else str(n) for n in (self.read, self.write))
        return f"B{waits}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall:02}"

    @property
    def words(self) -> str:
        """Return it in words."""
        parts = [f"next instruction after {self.stall} cycle{'' if self.stall == 1 else 's'}"]
        if self.waits:
            parts.insert(0, f"waits for scoreboard {', '.join(map(str, self.waits))}")
        if self.write is not None:
            parts.append(f"its result is ready when scoreboard {self.write} is released")
        if self.read is not None:
            parts.append(f"its operands were read when scoreboard {self.read} is released")
        if self.yields:
            parts.append("another warp may go first")
        if self.reuse:
            parts.append(f"operand {', '.join(map(str, self.reuse))} stays in the reuse cache")
        return "; ".join(parts)


def control_code(encoding: int) -> ControlCode:
    """Decode the control code of an instruction of 128 bits (sm_70 and later)."""
    bits = encoding >> _CONTROL
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return ControlCode(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write=None if write == _NONE else write,
        read=None if read == _NONE else read,
        waits=tuple(n for n in range(6) if bits >> 11 + n & 1),
        reuse=tuple(n for n in range(4) if bits >> 17 + n & 1),
    )


@dataclass(frozen=True, slots=True)
class InstructionDetails:
    """An instruction of the machine code: its encoding, and the live registers of each file ("GPR", "PRED", ...)."""

    encoding: int
    live: Mapping[str, int]


Address = tuple[str, int]
"""The function an instruction is in, and its byte there."""


@lru_cache(maxsize=16)
def instruction_details(cubin: bytes) -> Mapping[Address, InstructionDetails]:
    """Ask nvdisasm for the encoding and the live registers of each instruction.

    Raises:
        ToolMissing: no nvdisasm.
        CompilerCrash: nvdisasm refuses the cubin.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        source = Path(folder, "kernel.cubin")
        source.write_bytes(cubin)
        command = [str(tool("nvdisasm")), "-c", "-hex", "-plr", "-lrm", "count", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        message = f"nvdisasm refuses its input: {done.stderr.strip()}"
        raise CompilerCrash(message)
    return read_details(done.stdout)


def read_details(text: str) -> dict[Address, InstructionDetails]:
    """Read what nvdisasm prints with `-hex -plr -lrm count`: two rows an instruction, each with half its encoding."""
    found: dict[Address, InstructionDetails] = {}
    section, address, low = "", -1, 0
    files: list[str] = []
    for row in text.splitlines():
        if match := _SECTION.match(row):
            section = match[1]
            continue
        cells = [cell.strip() for cell in match[1].split("|")] if (match := _LIVE.search(row)) else []
        if cells and cells[0] == "GPR":
            files = cells
        encoding = _ENCODING.search(row)
        if encoding is None:
            continue
        if match := _INSTRUCTION.match(row):
            address, low = int(match[1], 16), int(encoding[1], 16)
        elif address >= 0:
            live = {name: int(cell) for name, cell in zip(files, cells, strict=False) if cell.isdecimal()}
            found[section, address] = InstructionDetails(int(encoding[1], 16) << 64 | low, live)
            address = -1
    return found
