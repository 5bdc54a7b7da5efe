"""From the LLVM dialect to an LLVM module: guard, translate, write literals the older way, parse.

MLIR's LLVM (24) prints floating point literals in forms that llvmlite's LLVM (22) refuses: `f0x3EAAAAAB`, `+inf`,
`+qnan`, decimals that are not exact.  All of them are rewritten to the hexadecimal bits every LLVM reads; nothing
else in the text differs.
"""

import re
import struct
from typing import Final

import ml_dtypes
import numpy as np
from llvmlite import binding

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import AnyOp, ir, translate_to_llvm_ir
from tessera.core.tile.location import spans

_TRANSLATABLE: Final = frozenset(("llvm", "nvvm"))
_CONTAINERS: Final = frozenset(("builtin.module", "gpu.module"))

# bits, bits of the mantissa, and the letter before hexadecimal digits ("" for float and double: bits of a double)
_FORMATS: Final = {"double": (64, 52, ""), "float": (32, 23, ""), "half": (16, 10, "H"), "bfloat": (16, 7, "R")}
_LITERAL: Final = re.compile(
    r"""
    "[^"]*"                                              # strings escape quotes as \22
    | ;.*                                                # comments
    | [%@!\#$][-\w$.]+                                   # names, metadata, attribute groups, comdats
    | \b(?P<type>double|float|half|bfloat)\b
    | (?<![\w.]) f0x (?P<bits>[0-9A-Fa-f]+)
    | (?<![\w.]) (?P<sign>[+-]) (?P<special>inf|qnan|snan|nan)\b (?:\(0x(?P<payload>[0-9A-Fa-f]+)\))?
    | (?<![\w.]) (?P<decimal>[+-]?\d+\.\d*(?:[eE][+-]?\d+)?)
    """,
    re.VERBOSE,
)
_POINT: Final = re.compile(r"\.\d")


def to_llvm_text(operation: AnyOp) -> str:
    """Translate a module (or `gpu.module`) of LLVM and NVVM operations to text that LLVM 22 parses.

    Raises `CompilerCrash`, with the user's place, when another operation is left: translating it would kill the
    process.
    """
    check_translatable(operation)
    return down_level(translate_to_llvm_ir(operation))


def parse(text: str) -> binding.ModuleRef:
    """Parse and verify LLVM IR.

    Raises:
        CompilerCrash: LLVM refuses the text.
    """
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        msg = f"LLVM refused the generated code: {str(error).strip()}"
        raise CompilerCrash(msg) from error
    return module


def check_translatable(operation: AnyOp) -> None:
    """Raise `CompilerCrash` unless every operation in `operation` has a translation to LLVM IR."""
    foreign: dict[str, ir.Location] = {}

    def visit(op: AnyOp) -> ir.WalkResult:
        name = str(op.name)
        if name.partition(".")[0] not in _TRANSLATABLE and name not in _CONTAINERS:
            foreign.setdefault(name, op.location)
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    if foreign:
        place = spans(next(iter(foreign.values())))
        msg = f"no LLVM IR for {', '.join(sorted(foreign))}"
        raise CompilerCrash(msg, place[0] if place else NOWHERE)


def down_level(text: str) -> str:
    """Rewrite every floating point literal of LLVM 24's text as hexadecimal bits."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        # A third of a megabyte is usual: what searches for letters that few lines have is quick.
        if "f0x" in line or "inf" in line or "nan" in line or _POINT.search(line):
            lines[number] = _rewrite(line)
    return "\n".join(lines)


def _rewrite(line: str) -> str:
    """Rewrite a literal of the type named last before it: LLVM writes it once for all operands of an operation."""
    current = "double"

    def replace(match: re.Match[str]) -> str:
        nonlocal current
        if match["type"]:
            current = match["type"]
        elif match["bits"]:
            return _hexadecimal(current, int(match["bits"], 16))
        elif match["special"]:
            return _hexadecimal(current, _special(current, match))
        elif match["decimal"]:
            return _hexadecimal(current, _nearest(current, float(match["decimal"])))
        return match[0]

    return _LITERAL.sub(replace, line)


def _special(kind: str, match: re.Match[str]) -> int:
    """Return the bits of an infinity or a NaN (`qnan` and `nan`: quiet bit and payload; `snan`: payload only)."""
    bits, mantissa, _ = _FORMATS[kind]
    exponent = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    sign = int(match["sign"] == "-") << (bits - 1)
    payload = int(match["payload"] or "0", 16)
    if match["special"] == "inf":
        return sign | exponent
    if match["special"] == "snan":
        return sign | exponent | (payload or 1)
    return sign | exponent | 1 << (mantissa - 1) | payload


def _nearest(kind: str, value: float) -> int:
    """Return the bits of the value of type `kind` nearest to `value`."""
    if kind == "double":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    with np.errstate(over="ignore"):
        if kind == "float":
            return int(np.float32(value).view(np.uint32))
        if kind == "half":
            return int(np.float16(value).view(np.uint16))
        return int(np.asarray(value, ml_dtypes.bfloat16).view(np.uint16))


def _hexadecimal(kind: str, bits: int) -> str:
    letter = _FORMATS[kind][2]
    if letter:
        return f"0x{letter}{bits:04X}"
    return f"0x{_widen(bits) if kind == 'float' else bits:016X}"


def _widen(bits: int) -> int:
    """Return the bits of the double equal to a float; a NaN keeps its sign, quiet bit and payload."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return (bits >> 31) << 63 | 0x7FF << 52 | mantissa << 29
    return struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]
