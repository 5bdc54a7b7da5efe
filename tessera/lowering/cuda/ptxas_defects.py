"""Rewrite what ptxas compiles wrongly.

ptxas 13.5, and for all it shows earlier ones, fuses the subtraction of a 32-bit number from the high half of a product
of 32 bits into `IMAD.HI.U32` with the negated number as its addend, and takes the carry of the addition for that of
the subtraction.  Subtracting 0 has a carry, adding -0 has none: the result is 2^32 too small.  Divisions by constants
are such products, so `(i * 7 + 9) / 3 - i * 7 / 3` was wrong for i = 0 (sm_80 to sm_100).

before: cvt.u64.u32 %rd30, %r20;  (of a mul.hi.u32)   sub.s64 %rd32, %rd30, %rd31;
after:  not.b64 %rd32, %rd31;   add.s64 %rd32, %rd30, %rd32;   add.s64 %rd32, %rd32, 1;
"""

import re
from typing import Final

_HIGH: Final = re.compile(r"^\s*mul\.hi\.u32\s+(%r\d+),", re.MULTILINE)
_WIDENED: Final = re.compile(r"^\s*cvt\.u64\.u32\s+(%rd\d+), (%r\d+);", re.MULTILINE)
_DIFFERENCE: Final = re.compile(r"^(\s*)sub\.[su]64\s+(%rd\d+), (%rd\d+), (%rd\d+);", re.MULTILINE)


def without_defects(ptx: str) -> str:
    """Return PTX with the same meaning, without what ptxas compiles wrongly."""
    high = set(_HIGH.findall(ptx))
    if not high:
        return ptx
    products = {wide for wide, short in _WIDENED.findall(ptx) if short in high}

    def rewritten(match: re.Match[str]) -> str:
        indent, result, minuend, subtrahend = match.groups()
        if minuend not in products:
            return match[0]
        complement = result if result != minuend else f"%rd_complement{match.start()}"
        # The complement has no negation whose carry could be taken for another one.
        lines = [
            f"not.b64 \t{complement}, {subtrahend};",
            f"add.s64 \t{result}, {minuend}, {complement};",
            f"add.s64 \t{result}, {result}, 1;",
        ]
        if complement != result:
            lines.insert(0, f".reg .b64 \t{complement};")
        return "\n".join(indent + line for line in lines)

    return _DIFFERENCE.sub(rewritten, ptx)
