"""What may begin at no multiple of 16 bytes: lanes move it, and the levels and remarks say so."""

from dataclasses import dataclass

import pytest

from support.builder import Builder
from support.bulk_copies import bulk_copies, unproven
from support.ptx_machine import parse
from support.simulate import compile_cuda, compile_ptx
from tessera.core.artifact import Artifact
from tessera.core.dtypes import DType, bf16, f16, f32, i64
from tessera.core.program.program import Program
from tessera.lowering.target.cuda.report import resource_report, warnings_of


@dataclass(frozen=True)
class Shifts:
    """Where the parts of a product begin beside where its blocks do: numbers, or "s" for a parameter.

    left, right, result: columns of the arrays; step: of K
    """

    left: int | str = 0
    right: int | str = 0
    result: int | str = 0
    step: int = 64


def shifted(shifts: Shifts, dtype: DType = bf16, result: DType = f32, compute: str = "") -> Program:
    """C[m, n + result] = A[m, k + left] B[k, n + right] in blocks of 128 x 128, all arrays aligned."""
    b = Builder("shifted")
    a, w = b.array("A", dtype, "M", "K", aligned=True), b.array("B", dtype, "K", "N", aligned=True)
    c = b.array("C", result, "M", "P", aligned=True, mutable=True)
    unknown = b.scalar("s", i64)
    zero = b.const(0)

    def moved(index: object, shift: int | str) -> object:
        return index if not shift else b.value("add", index, unknown if shift == "s" else b.const(shift))

    with (
        b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m,
        b.loop(zero, b.dim("N"), b.const(128), kind="tile", names=("n",)) as n,
    ):
        start = b.full(b.const(0.0, f32), 128, 128)
        with b.loop(zero, b.dim("K"), b.const(shifts.step), [start], names=("k", "acc")) as k:
            left = b.load(a, [m.index, moved(k.index, shifts.left)], [128, shifts.step])
            right = b.load(w, [k.index, moved(n.index, shifts.right)], [shifts.step, 128])
            k.yields = (b.dot(left, right, k.carried[0], compute=compute),)
        total = k.results[0] if result == f32 else b.cast(k.results[0], result)
        b.store(c, total, [m.index, moved(n.index, shifts.result)], [128, 128])
    return b.program()


def copies(artifact: Artifact) -> tuple[int, int]:
    """How many instructions of the copy engine load, and how many store."""
    found = list(bulk_copies(parse(artifact.code.rstrip(b"\0").decode())))
    stores = sum("global" in one.parts[:5] and "bulk_group" in one.parts for one in found)
    return len(found) - stores, stores


CASES: list[tuple[Shifts, str]] = [
    (Shifts(), ""), (Shifts(left=8, right=-8, result=16), ""), (Shifts(left=1), "A"), (Shifts(left="s"), "A"),
    (Shifts(right=4), "B"), (Shifts(right="s"), "B"), (Shifts(left=3, right=5), "AB"), (Shifts(result=2), "C"),
    (Shifts(result="s"), "C"), (Shifts("s", "s", "s"), "ABC"), (Shifts(right=-1), "B"),
]  # fmt: skip


@pytest.mark.parametrize(("shifts", "moved"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_the_copy_engine_moves_what_certainly_begins_at_16_bytes(dtype: DType, shifts: Shifts, moved: str):
    """Nothing is said of stores where no factor is copied ahead: then lanes store what is aligned as well."""
    artifact = compile_ptx(shifted(shifts, dtype, dtype))
    assert unproven(artifact) == []
    assert "wgmma.mma_async" in artifact.code.decode()
    loads, stores = copies(artifact)
    assert (loads > 0) == (not {"A", "B"} <= set(moved))
    assert (stores > 0) == ("C" not in moved and loads > 0)
    said = warnings_of(artifact)
    expected = [name for name in moved if name != "C" or loads]
    assert [text.partition("this part of ")[2][0] for text in said] == expected


@pytest.mark.parametrize("compute", ["", "tf32"])
@pytest.mark.parametrize(("shift", "whole"), [(0, True), (4, True), (1, False), (2, False), ("s", False)])
def test_four_elements_of_f32_are_16_bytes(shift: int | str, whole: bool, compute: str):
    artifact = compile_ptx(shifted(Shifts(right=shift, step=16), f32, f32, compute))
    assert unproven(artifact) == []
    if not whole:  # tensor cores read tf32 that the copy engine has rounded: single warps multiply the rest
        assert copies(artifact)[0] == (0 if compute else 1)
    assert (warnings_of(artifact) == ()) == whole
    if compute:
        assert ("wgmma.mma_async" if whole else "mma.sync") in artifact.code.decode()


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_nothing_is_said_where_there_is_no_copy_engine(arch: str):
    assert warnings_of(compile_ptx(shifted(Shifts(1, "s", 3)), arch)) == ()


def test_the_remark_names_the_line_the_reason_and_a_remedy():
    program = shifted(Shifts(right=1))
    artifact = compile_ptx(program)
    line = [op.span.line for op in program.body.walk() if op.opcode == "load"][1]
    text = (
        f"shifted (cell.py, line {line}): this part of B may begin at no multiple of 16 bytes, so it cannot be read by "
        "the copy engine of sm_90a, but lanes copy it, which takes longer: try offsets along its last axis that are "
        "multiples of 8, or another axis last"
    )
    assert warnings_of(artifact) == (text,)
    assert text in resource_report(artifact).notes


def test_the_levels_say_so():
    levels = {listing.stage: listing.text for listing in compile_cuda(shifted(Shifts(right=1, result=1))).listings}
    assert "begins anywhere copied by the team" in levels["cuda-copy-ahead"]
    assert "begins anywhere stored by the team" in levels["cuda-divide-stores"]
