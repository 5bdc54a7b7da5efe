"""Proves of PTX that no bulk copy can begin where the hardware faults, whatever the arguments.

The copy engine moves boxes whose first element lies at a multiple of 16 bytes along the contiguous axis, from and to
shared memory at multiples of 128.  Where an address is not one, GPUs report an illegal instruction, and the process
loses its context.  This knows nothing of how the compiler decides: it follows the low bits of every register through
the code that LLVM has written.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from support.ptx_machine.parsing import Instruction, Kernel, parse
from tessera.core.artifact import Artifact
from tessera.core.program.types import Array

_MOST: Final = 12
_UNIT: Final = 16
_LINE: Final = 128
_SHARED_BITS: Final = 10
"""The block's shared memory begins at a multiple of 1024 bytes."""
_SHARED: Final = "shared_memory"
_PARAMETER: Final = re.compile(r"_param_(\d+)$")
_TENSOR: Final = re.compile(r"\[([^,\]]+),\s*\{([^}]*)\}\]")


@dataclass(frozen=True)
class Low:
    """What is known of a number: its lowest `bits` bits, which are those of `value`."""

    bits: int
    value: int

    @staticmethod
    def of(bits: int, value: int) -> "Low":
        bits = max(0, min(bits, _MOST))
        return Low(bits, value & ((1 << bits) - 1))

    @property
    def zeros(self) -> int:
        """How many of the lowest bits are certainly 0."""
        return min(self.bits, (self.value & -self.value).bit_length() - 1) if self.value else self.bits

    def joined(self, other: "Low") -> "Low":
        """What is known of a number that is either."""
        common = min(self.bits, other.bits)
        return Low.of(Low.of(common, self.value ^ other.value).zeros, self.value)


UNKNOWN: Final = Low(0, 0)


def _sum(a: Low, b: Low) -> Low:
    return Low.of(min(a.bits, b.bits), a.value + b.value)


def _product(a: Low, b: Low) -> Low:
    return Low.of(min(a.bits + b.zeros, b.bits + a.zeros), a.value * b.value)


def _bitwise(combine: Callable[[int, int], int], absorbs: int | None) -> Callable[[Low, Low], Low]:
    """An operation bit by bit; `absorbs`: a bit that decides the result, whatever the other one is."""

    def apply(a: Low, b: Low) -> Low:
        value = 0
        for bit in range(_MOST):
            known = [x.value >> bit & 1 if bit < x.bits else None for x in (a, b)]
            if absorbs is not None and absorbs in known:
                value |= absorbs << bit
            elif None in known:
                return Low.of(bit, value)
            else:
                value |= combine(known[0] or 0, known[1] or 0) << bit
        return Low.of(_MOST, value)

    return apply


_TWO: Final[dict[str, Callable[[Low, Low], Low]]] = {
    "add": _sum,
    "sub": lambda a, b: Low.of(min(a.bits, b.bits), a.value - b.value),
    "mul": _product,
    "and": _bitwise(lambda a, b: a & b, 0),
    "or": _bitwise(lambda a, b: a | b, 1),
    "xor": _bitwise(lambda a, b: a ^ b, None),
    "min": Low.joined,
    "max": Low.joined,
    "selp": Low.joined,
}


class LowBits:
    """The low bits of every register of a kernel, at whatever time."""

    def __init__(self, kernel: Kernel) -> None:
        self._known: dict[str, Low] = {}
        self._written = {name for one in kernel.code for name in _targets(one)}
        code = [one for one in kernel.code if one.operands and one.name not in ("st", "bra", "red", "cp")]
        changed = True
        while changed:
            changed = False
            for one in code:
                changed |= self._follow(one)

    def of(self, operand: str) -> Low:
        """What is known of an operand."""
        found = self._find(operand)
        return UNKNOWN if found is None else found

    def _find(self, operand: str) -> Low | None:
        operand = operand.strip()
        if operand.startswith("%"):
            return self._known.get(operand) if operand in self._written else UNKNOWN
        if operand == _SHARED:
            return Low.of(_SHARED_BITS, 0)
        try:
            return Low.of(_MOST, int(operand, 0))
        except ValueError:
            return UNKNOWN

    def _follow(self, one: Instruction) -> bool:
        changed = False
        targets = _targets(one)
        value = self._result(one) if len(targets) == 1 and not one.operands[0].startswith("{") else UNKNOWN
        if value is None:
            return False
        for target in targets:
            before = self._known.get(target)
            after = value if before is None else before.joined(value)
            self._known[target] = after
            changed |= after != before
        return changed

    def _result(self, one: Instruction) -> Low | None:
        """What an instruction gives; None as long as an operand has no value."""
        if one.operands[-1].startswith("{"):  # two halves make a number
            return self._find(one.operands[-1][1:].split(",")[0])
        if any(self._find(operand) is None for operand in one.operands[1:]):
            return None
        a, *rest = (self.of(operand) for operand in one.operands[1:]) if len(one.operands) > 1 else (UNKNOWN,)
        if one.name in ("mul", "mad") and "hi" in one.parts:
            return UNKNOWN
        if one.name in ("mov", "cvta") or (one.name == "cvt" and all(part[0] in "us" for part in one.parts)):
            return a
        if one.name in _TWO and rest:
            return _TWO[one.name](a, rest[0])
        if one.name == "mad":
            return _sum(_product(a, rest[0]), rest[1])
        if one.name == "shl" and rest[0].bits == _MOST:
            return Low.of(a.bits + rest[0].value, a.value << min(rest[0].value, _MOST))
        return UNKNOWN


def _targets(one: Instruction) -> list[str]:
    """The registers that an instruction may write."""
    return re.findall(r"%\w+", one.operands[0]) if one.operands else []


def bulk_copies(kernel: Kernel) -> Iterator[Instruction]:
    """The instructions that move bytes by the copy engine."""
    for one in kernel.code:
        if (
            one.name == "cp"
            and one.parts[:2] == ["async", "bulk"]
            and not {"commit_group", "wait_group"} & set(one.parts)
        ):
            yield one


def unproven(artifact: Artifact) -> list[str]:
    """The bulk copies of a kernel whose code is PTX that may begin where hardware faults; each says why."""
    kernel = parse(artifact.code.rstrip(b"\0").decode())
    known = LowBits(kernel)
    found: list[str] = []
    places = {one.operands[0]: one.operands[1] for one in kernel.code if one.name in ("mov", "cvta")}
    for one in bulk_copies(kernel):
        assert "tensor" in one.parts, f"of other bulk copies nothing is known here: {one.text}"
        window = _TENSOR.search(one.text)
        assert window is not None, one.text
        size = _element_bytes(artifact, window[1], places)
        inner = known.of(window[2].split(",")[0])
        if (inner.value * size) % _UNIT or (size << inner.bits) % _UNIT:
            found.append(f"begins at {inner} elements of {size} bytes: {one.text}")
        if "prefetch" in one.parts:  # into the L2 cache: there is no other side
            continue
        stored = one.operands[0].startswith(f"[{window[1]}")
        shared = known.of((one.operands[1] if stored else one.operands[0]).strip("[]"))
        if shared.zeros < _LINE.bit_length() - 1:
            found.append(f"shared memory at {shared}: {one.text}")
    return found


def _element_bytes(artifact: Artifact, pointer: str, places: dict[str, str]) -> int:
    """Bytes of an element of the array that a tensor map, whose address is in a register, is a window on."""
    name = pointer.strip()
    while name in places:
        name = places[name]
    number = _PARAMETER.search(name)
    assert number is not None, f"{pointer} is no parameter but {name}"
    slot = artifact.slots[int(number[1])]
    kind = artifact.bindings[slot.parameter].type
    assert slot.kind == "tensor_map"
    assert isinstance(kind, Array)
    return kind.dtype.bytes
