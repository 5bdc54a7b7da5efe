"""Emit cache hints on reads and writes of global memory, as PTX spells them.

LLVM cannot express them, so an access with a hint is inline PTX.  What each does (PTX ISA, "Cache Operators" and
"Cache Eviction Priority Hints"):

    streaming      used once: first to be evicted (`.cs`)
    l2, cg         kept in L2 only (`.cg`)
    all, ca        kept in every cache (`.ca`; a write stops at L2: `.wb`)
    evict_first    the first to leave L2
    evict_last     the last to leave L2: used again soon, by other groups too
    no_allocate    takes no place in L1
"""

from typing import Final

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda.base.inline_ptx import inline_ptx

_OPERATORS: Final = {
    "streaming": ("cs", "cs"), "l2": ("cg", "cg"), "cg": ("cg", "cg"), "all": ("ca", "wb"), "ca": ("ca", "wb"),
    "no_allocate": ("L1::no_allocate", "L1::no_allocate"),
}  # fmt: skip
_POLICIES: Final = frozenset(("evict_first", "evict_last"))
HINTS: Final = (*_OPERATORS, *sorted(_POLICIES))
"""What `cache=` may say."""
_WORDS: Final = {1: ("b8", "h", "i16"), 2: ("b16", "h", "i16"), 4: ("b32", "r", "i32"), 8: ("b32", "r", "i32")}
_WORD: Final = 4


def cache_of(op: AnyOp) -> str:
    """Return the hint of a `tessera.read`, `write`, `load` or `store`: "" or one of `HINTS`.

    Raises:
        NotOnCuda: there is no such hint.
    """
    hint = ir.StringAttr(op.attributes["cache"]).value if "cache" in op.attributes else ""
    if hint and hint not in HINTS:
        raise NotOnCuda(f"there is no cache hint {hint!r}", hint=f"use one of {', '.join(HINTS)}")
    return hint


def phrase(hint: str, *, store: bool = False) -> tuple[str, str, str]:
    """Return how a hint is written inside longer inline PTX: (prologue, suffix of the instruction, last operand).

    "" gives three empty texts; the policy of an eviction hint is a register of that piece, called `policy`.
    """
    if not hint:
        return "", "", ""
    if hint not in _POLICIES:
        return "", f".{_OPERATORS[hint][store]}", ""
    return f".reg .b64 policy; {_policy(hint, 'policy')} ", ".L2::cache_hint", ", policy"


def load_with_hint(emit: Emitter, pointer: ir.Value, kind: ir.Type | str, size: int, hint: str) -> ir.Value:
    """Read a value of type `kind`, of 1, 2, 4, 8 or 16 bytes (`size`), from a global address with a hint."""
    suffix, letter, word, count = _shape(size)
    names = [f"${number}" for number in range(count)]
    target = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    operator, policy, register = _modifiers(emit, hint, 0, count + 1)
    vector = f".v{count}" if count > 1 else ""
    text = f"ld.global{operator}{vector}.{suffix} {target}, [${count}]{register};"
    letters = [f"={letter}"] * count + ["l"] + ["l"] * len(policy)
    words = inline_ptx(emit, text, ",".join(letters), [pointer, *policy], [word] * count)
    return _from_words(emit, words, kind, size)


def store_with_hint(emit: Emitter, value: ir.Value, pointer: ir.Value, size: int, hint: str) -> None:
    """Write `value`, of `size` bytes, to a global address with a hint."""
    suffix, letter, word, count = _shape(size)
    words = _to_words(emit, value, count, word, size)
    names = [f"${number + 1}" for number in range(count)]
    source = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    operator, policy, register = _modifiers(emit, hint, 1, count + 1)
    vector = f".v{count}" if count > 1 else ""
    text = f"st.global{operator}{vector}.{suffix} [$0], {source}{register};"
    letters = ["l", *[letter] * count, *["l"] * len(policy)]
    inline_ptx(emit, text, ",".join(letters), [pointer, *words, *policy])


def _shape(size: int) -> tuple[str, str, str, int]:
    """Return the PTX type, constraint letter, MLIR type and number of the words that move `size` bytes."""
    if size > _WORD:
        return "b32", "r", "i32", size // _WORD
    suffix, letter, word = _WORDS[size]
    return suffix, letter, word, 1


def _modifiers(emit: Emitter, hint: str, which: int, place: int) -> tuple[str, list[ir.Value], str]:
    """Return the instruction's suffix, the value of its policy where it has one, and how that operand is written."""
    if hint not in _POLICIES:
        return f".{_OPERATORS[hint][which]}", [], ""
    policy = inline_ptx(emit, _policy(hint, "$0"), "=l", (), ["i64"], effects=False, memory=False)
    return ".L2::cache_hint", policy, f", ${place}"


def _policy(hint: str, register: str) -> str:
    """Return the instruction that makes an eviction policy for all of an access (the fraction 1.0)."""
    return f"createpolicy.fractional.L2::{hint}.b64 {register}, 0f3F800000;"


def _from_words(emit: Emitter, words: list[ir.Value], kind: ir.Type | str, size: int) -> ir.Value:
    """Convert the words of an inline load to a value of type `kind`, of `size` bytes."""
    if len(words) == 1:
        if size == 1:
            return emit.value("arith.trunci", words, kind)
        return words[0] if emit.type(kind) == words[0].type else emit.value("llvm.bitcast", words, kind)
    vector = emit.value("llvm.mlir.undef", [], f"vector<{len(words)}x{words[0].type}>")
    for number, word in enumerate(words):
        vector = emit.value("llvm.insertelement", [vector, word, emit.constant(number, "i32")], vector.type)
    return emit.value("llvm.bitcast", [vector], kind)


def _to_words(emit: Emitter, value: ir.Value, count: int, word: str, size: int) -> list[ir.Value]:
    """Convert a value of `size` bytes to words."""
    if count == 1:
        if size == 1:
            return [emit.value("arith.extui", [value], word)]
        return [value if value.type == emit.type(word) else emit.value("llvm.bitcast", [value], word)]
    vector = emit.value("llvm.bitcast", [value], f"vector<{count}x{word}>")
    return [emit.value("llvm.extractelement", [vector, emit.constant(number, "i32")], word) for number in range(count)]
