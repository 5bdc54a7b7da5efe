"""Inline PTX: instructions for which LLVM has no operation."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter


def inline_ptx(
    emit: Emitter, text: str, constraints: str, operands: Sequence[Any] = (), results: Sequence[str] = (), *,
    effects: bool = True, memory: bool = True,
) -> list[Any]:  # fmt: skip
    """Emit a piece of PTX; gives its results.

    text: the instructions, `$0` the first result, or operand; constraints: a letter for each of both, as LLVM has them
    effects: it does more than give results: it is kept, and stays in order with others of this kind
    memory: it may touch memory, too: accesses are not moved across it
    """
    attributes: dict[str, Any] = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get(",".join(filter(None, (constraints, "~{memory}" if memory else "")))),
        "asm_dialect": "0 : i64",
        "tail_call_kind": "#llvm.tailcallkind<none>",
    }
    if effects:
        attributes["has_side_effects"] = "unit"
    if not results:
        emit.create("llvm.inline_asm", operands, (), attributes)
        return []
    if len(results) == 1:
        return [emit.value("llvm.inline_asm", operands, results[0], attributes)]
    # A name for the type, as every level below writes it out again for each of its 128 elements otherwise.
    name = " ".join(f"{len(list(alike))}x{kind}" for kind, alike in groupby(results))
    kind = f'!llvm.struct<"{name}", ({", ".join(results)})>'
    packed = emit.value("llvm.inline_asm", operands, kind, attributes)
    return [
        emit.value("llvm.extractvalue", [packed], result, {"position": f"array<i64: {number}>"})
        for number, result in enumerate(results)
    ]
