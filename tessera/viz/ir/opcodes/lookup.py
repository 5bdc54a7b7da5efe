"""Find the text on the operation of a line: by its name, and by the words that its modifiers add."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from tessera.viz.ir.opcodes import mlir, ptx, sass, x86

Entry = tuple[str, str]
"""A name as it stands in the text, and what it does."""

_MLIR_NAME: Final = re.compile(r'^\s*(?:%[^=]*=\s*)?"?([a-z]\w*(?:\.\w+)+)')
_LLVM_NAME: Final = re.compile(r"^\s*(?:%\S+ = )?(?:(?:tail|musttail|notail) )?([a-z]\w*)(?=\s|$)")
_INTRINSIC: Final = re.compile(r"@llvm\.([a-z]\w*)")
_PTX_NAME: Final = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*(?:[.:]+\w+)*)(?=[\s;]|$)")
_SASS_NAME: Final = re.compile(r"^\s*/\*[0-9a-f]+\*/\s*(?:@!?U?P\w+\s+)?([A-Z]\w*(?:\.\w+)*)")
_X86_NAME: Final = re.compile(r"^\s+(?:(?:rep|lock)\s+)?([a-z]\w*)(?=\s|$)")
_ASM_LEVEL: Final = "asm"
_CONDITIONAL: Final = ("cmov", "set", "j")


def document(level: str, line: str) -> Entry | None:
    """Return the name and the documentation of the operation on a line; None where there is none, or none is known."""
    name = _name(level, line)
    if name is None:
        return None
    text = _text(level, name)
    return (name, text) if text else None


def _name(level: str, line: str) -> str | None:
    pattern = _PATTERNS.get(level)
    found = pattern.match(line) if pattern is not None else None
    if found is not None and level == "llvm" and found[1] == "call":
        intrinsic = _INTRINSIC.search(line)
        return f"call llvm.{intrinsic[1]}" if intrinsic is not None else "call"
    return found[1] if found is not None else None


_PATTERNS: Final = {
    "tile": _MLIR_NAME, "target": _MLIR_NAME, "llvm": _LLVM_NAME, "ptx": _PTX_NAME, "sass": _SASS_NAME,
    _ASM_LEVEL: _X86_NAME,
}  # fmt: skip


@lru_cache(maxsize=4096)
def _text(level: str, name: str) -> str:
    if level in {"tile", "target"}:
        return _mlir(name)
    if level == "llvm":
        return _llvm(name)
    if level == _ASM_LEVEL:
        return _x86(name)
    if level == "ptx":
        parts = tuple(part for part in re.split(r"(?<!:)\.(?!:)", name) if part)
        return _dotted(parts, ptx.OPCODES, ptx.MODIFIERS)
    return _sass(name.split("."))


def _mlir(name: str) -> str:
    dialect, _, rest = name.partition(".")
    tables: Mapping[str, Mapping[str, str]] = {"tessera": mlir.TILE, "arith": mlir.ARITH, "math": mlir.MATH}
    if dialect in tables:
        return tables[dialect].get(rest, "")
    if name.startswith("llvm.intr."):
        return mlir.OTHERS.get(name) or _intrinsic(name.split(".")[2])
    return mlir.OTHERS.get(name, "")


def _llvm(name: str) -> str:
    intrinsic = name.removeprefix("call llvm.")
    if intrinsic == name:
        return mlir.LLVM.get(name, "")
    return _intrinsic(intrinsic)


def _intrinsic(name: str) -> str:
    known = {**mlir.MATH, **mlir.INTRINSICS}.get(name, "LLVM knows what it does")
    return f"an intrinsic: {known}"


def _dotted(parts: Sequence[str], opcodes: Mapping[str, str], modifiers: Mapping[str, str]) -> str:
    """Return the text of the longest known beginning, and of the modifiers behind it."""
    for size in range(len(parts), 0, -1):
        text = opcodes.get(".".join(parts[:size]))
        if text is not None:
            return _joined(text, _modified(parts[size:], modifiers))
    return ""


def _sass(parts: Sequence[str]) -> str:
    name = parts[0]
    uniform = name not in sass.OPCODES and name.startswith("U") and name[1:] in sass.OPCODES
    text = sass.OPCODES.get(name[1:] if uniform else name, "")
    if not text:
        return ""
    shape = (f"{part.replace('x', ' x ')} (M x N x K)" for part in parts[1:] if re.fullmatch(r"\d+x\d+x\d+", part))
    uniform_text = ("once a warp, on uniform registers",) if uniform else ()
    return _joined(text, (*uniform_text, *shape, *_modified(parts[1:], sass.MODIFIERS)))


def _modified(parts: Sequence[str], modifiers: Mapping[str, str]) -> Iterator[str]:
    for part in parts:
        shape = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", part)
        if shape is not None:
            yield f"M x N x K = {' x '.join(shape.groups())}"
        elif part in modifiers:
            yield f".{part}: {modifiers[part]}"


def _joined(text: str, more: Iterator[str] | Sequence[str]) -> str:
    return "; ".join(dict.fromkeys((text, *more)))


def _x86(name: str) -> str:
    for prefix in _CONDITIONAL:
        condition = name.removeprefix(prefix)
        if condition != name and (known := x86.CONDITIONS.get(condition) or x86.CONDITIONS.get(condition[:-1])):
            return f"{x86.OPCODES[prefix]}: {known}"
    for size in range(len(name), 1, -1):
        text = x86.OPCODES.get(name[:size])
        if text is not None:
            width = x86.WIDTHS.get(name[-2:]) if name.startswith("v") else None
            return f"{text}, {width}" if width else text
    return ""
