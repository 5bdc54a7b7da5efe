"""PTX instructions of one warp, sm_80 and newer: one function each (PTX ISA, 9.7.9.25 cp.async, 9.7.14 mma, ldmatrix).

Addresses of shared memory are i32 values with a number of bytes to add.
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.inline_ptx import inline_ptx

_DEPTHS: Final = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


def load_matrices(
    build: IndexBuilder, address: ir.Value, offset: int, count: int, *, transposed: bool
) -> list[ir.Value]:
    """Load `count` (1, 2 or 4) matrices of 8 rows of 16 bytes, an i32 each; lane 8 i + r gives row r of matrix i.

    transposed: of 8 x 8 elements of 16 bits
    """
    names = ", ".join(f"${number}" for number in range(count))
    flag = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{flag}.shared.b16 {{{names}}}, [${count}+{offset}];"
    return inline_ptx(build, text, ",".join(["=r"] * count + ["r"]), [address], ["i32"] * count)


def multiply(
    build: IndexBuilder, element: str, a: Sequence[ir.Value], b: Sequence[ir.Value], c: Sequence[ir.Value]
) -> list[ir.Value]:
    """Compute `a b + c` of 16 x 8 elements, 32 bytes of K deep: a is four i32, b two, c and the result four f32.

    element: PTX's name of the type.  The instruction stays in front of the arrival at the barrier that frees the memory
    of its operands.
    """
    text = (
        f"mma.sync.aligned.m16n8k{_DEPTHS[element]}.row.col.f32.{element}.{element}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["0", "1", "2", "3"])
    return inline_ptx(build, text, constraints, [*a, *b, *c], ["f32"] * 4, memory=False)


def load_shared(build: IndexBuilder, address: ir.Value, offset: int, count: int, element: str) -> list[ir.Value]:
    """Load `count` (1, 2 or 4) f32 or i32 words of shared memory, aligned to the size of all of them."""
    names = ", ".join(f"${number}" for number in range(count))
    target, suffix = (names, "") if count == 1 else (f"{{{names}}}", f".v{count}")
    text = f"ld.shared{suffix}.{'f32' if element == 'f32' else 'b32'} {target}, [${count}+{offset}];"
    kind = "=f" if element == "f32" else "=r"
    return inline_ptx(build, text, ",".join([kind] * count + ["r"]), [address], [element] * count)


def copy_async(
    build: IndexBuilder, target: ir.Value, offset: int, source: ir.Value, size: int, amount: ir.Value | None
) -> None:
    """Start a copy of `size` (4, 8 or 16) bytes to shared memory; only `amount` (i32) are read, the rest are zeros."""
    cache = "cg" if size == 16 else "ca"  # only whole 16 bytes may pass the first cache by
    name = f"cp.async.{cache}.shared.global"
    if amount is None:
        inline_ptx(build, f"{name} [$0+{offset}], [$1], {size};", "r,l", [target, source])
        return
    inline_ptx(build, f"{name} [$0+{offset}], [$1], {size}, $2;", "r,l,r", [target, source, amount])


def copy_commit(build: IndexBuilder) -> None:
    """End a group of copies."""
    inline_ptx(build, "cp.async.commit_group;", "")


def copy_wait(build: IndexBuilder, pending: int) -> None:
    """Wait until all but the last `pending` groups of this lane's copies are done."""
    inline_ptx(build, f"cp.async.wait_group {pending};", "")


def opaque(build: IndexBuilder, value: ir.Value) -> ir.Value:
    """Hide an index from the optimizer, which then leaves what is computed from it where it stands."""
    return inline_ptx(build, "mov.b64 $0, $1;", "=l,l", [value], ["i64"])[0]
