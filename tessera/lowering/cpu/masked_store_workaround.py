"""Masked stores of constant masks, kept away from a mistake of LLVM's code generator.

LLVM 22 makes a scalar store of a masked store with one lane, and of a truncation it then stores the whole number before
it was truncated: three bytes too many of an i32 stored as i8 (https://github.com/llvm/llvm-project/issues/179489).
Vectors that are too long for a register are divided first, so a lane may also be the only one of its part.
"""

import re
from typing import Final

_STORE: Final = re.compile(
    r"(?P<start> *(?:tail )?call void @llvm\.masked\.store\.[\w.]+\(<(?P<lanes>\d+) x (?P<element>i8|i16|i32)> "
    r"(?P<value>%[-\w.$\"]+), ptr (?:[a-z]\w* )*?align (?P<align>\d+) (?P<pointer>%[-\w.$\"]+), <\d+ x i1> )"
    r"<(?P<mask>i1 [^>]*)>(?P<end>\).*)"
)
_SMALLEST_PART: Final = 4
"""Lanes of the shortest vector that a longer one is divided into: 64 bits each, in registers of 256."""


def store_lone_lanes(text: str) -> str:
    """Store by themselves the lanes that are the only active ones of a vector, or of a part of it.

    before: `masked.store(<16 x i8> %v, ptr %p, <true, false, ...>)`
    after:  `%e = extractelement <16 x i8> %v, 0`, `store i8 %e, ptr %p`
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "@llvm.masked.store." in line and (store := _STORE.match(line)) is not None:
            lines[number] = _divided(store, f"lone.{number}")
    return "\n".join(lines)


def _divided(store: re.Match[str], name: str) -> str:
    active = {lane for lane, flag in enumerate(store["mask"].split(", ")) if flag == "i1 true"}
    alone = _alone(active, int(store["lanes"]))
    lines = [_one_lane(store, f"%{name}.{lane}", lane) for lane in sorted(alone)]
    if rest := active - alone:
        mask = ", ".join(f"i1 {'true' if lane in rest else 'false'}" for lane in range(int(store["lanes"])))
        lines.append(f"{store['start']}<{mask}>{store['end']}")
    return "\n".join(lines)


def _alone(active: set[int], lanes: int) -> set[int]:
    """Return the active lanes that have no other one in some part of the vector that they are in."""
    alone: set[int] = set()
    size = lanes
    while size >= min(_SMALLEST_PART, lanes):
        left = active - alone
        for first in range(0, lanes, size):
            part = {lane for lane in left if first <= lane < first + size}
            alone |= part if len(part) == 1 else set()
        size //= 2
    return alone


def _one_lane(store: re.Match[str], name: str, lane: int) -> str:
    """Return code that takes an element out of the vector and stores it."""
    element, value, pointer = store["element"], store["value"], store["pointer"]
    size = int(element[1:]) // 8
    align = min(int(store["align"]), size)
    place = re.search(r", !dbg !\d+", store["end"])
    where = place[0] if place else ""
    return "\n".join(
        (
            f"  {name}.value = extractelement <{store['lanes']} x {element}> {value}, i64 {lane}{where}",
            f"  {name}.place = getelementptr {element}, ptr {pointer}, i64 {lane}{where}",
            f"  store {element} {name}.value, ptr {name}.place, align {align}{where}",
        )
    )
