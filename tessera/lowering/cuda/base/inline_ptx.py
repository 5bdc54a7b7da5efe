"""Emit inline PTX: instructions for which LLVM has no operation."""

from collections.abc import Sequence
from itertools import groupby

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter


def inline_ptx(
    emit: Emitter, text: str, constraints: str, operands: Sequence[ir.Value] = (), results: Sequence[str] = (), *,
    effects: bool = True, memory: bool = True,
) -> list[ir.Value]:  # fmt: skip
    """Emit a piece of PTX and return its results.

    text: the instructions; `$0` is the first result, or else the first operand
    constraints: one letter for each result and operand, as LLVM defines them
    effects: it has side effects: it is kept even if unused, in order with others of this kind
    memory: it may access memory: accesses are not moved across it
    """
    attributes: dict[str, ir.Attribute | str] = {
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
