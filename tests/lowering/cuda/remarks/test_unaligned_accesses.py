"""What may begin at no multiple of 16 bytes: lanes move it, and the levels and remarks say so."""

import pytest

from support.bulk_copies import bulk_copies, unproven
from support.ptx_machine import parse
from support.shifted_products import BEFORE, Case, Shifts, shifted
from support.simulate import compile_cuda, compile_ptx
from tessera.core.artifact import Artifact
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.lowering.cuda.resources import resource_report, warnings_of


def copies(artifact: Artifact) -> tuple[int, int]:
    """How many instructions of the copy engine load, and how many store."""
    found = list(bulk_copies(parse(artifact.code.rstrip(b"\0").decode())))
    stores = sum("global" in one.parts[:5] and "bulk_group" in one.parts for one in found)
    return len(found) - stores, stores


CASES: list[tuple[Shifts, str]] = [
    (Shifts(), ""), (Shifts(left=8, right=-8, result=16), ""), (Shifts(left=1), "A"), (Shifts(left="s"), "A"),
    (Shifts(right=4), "B"), (Shifts(right="s"), "B"), (Shifts(left=3, right=5), "AB"), (Shifts(result=2), "C"),
    (Shifts(result="s"), "C"), (Shifts("s", "s", "s"), "AB"), (Shifts(right=-1), "B"), (Shifts(first=1), "BC"),
    (Shifts(rows=(1, 3, 5)), ""), (Shifts(first=8), ""), (Shifts(1, 8, turned=(True, True)), "A"),
]  # fmt: skip


@pytest.mark.parametrize(("shifts", "moved"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_the_copy_engine_moves_what_certainly_begins_at_16_bytes(dtype: DType, shifts: Shifts, moved: str):
    """The team copies both factors where one begins anywhere, and stores the result."""
    artifact = compile_ptx(shifted(shifts, dtype, dtype))
    assert unproven(artifact) == []
    assert "wgmma.mma_async" in artifact.code.decode()
    loads, stores = copies(artifact)
    warp_set = bool({"A", "B"} & set(moved))
    assert (loads > 0, stores > 0) == (not warp_set, not moved)
    said = [text.partition("this part of ")[2][0] for text in warnings_of(artifact)]
    assert said == [name for name in moved if name != "C" or not warp_set]


@pytest.mark.parametrize("case", BEFORE, ids=str)
def test_the_copy_engine_stores_nothing_that_begins_before_its_array(case: Case):
    """It may load that: what is not there is 0."""
    artifact = compile_ptx(case.program())
    assert unproven(artifact) == []
    assert copies(artifact)[1] == 0


@pytest.mark.parametrize(
    ("shifts", "stored"),
    [
        (Shifts(), True), (Shifts(result=8, rows=(-1, -1, 2)), True), (Shifts(left=-8, right=-8), True),
        (Shifts(result=-8, first=8), True), (Shifts(result=-16, first=8), False), (Shifts(result=-8), False),
        (Shifts(rows=(0, 0, -1)), False), (Shifts(result=8, rows=(0, 0, -128)), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [bf16, f32], ids=str)
def test_the_copy_engine_stores_what_certainly_begins_inside(dtype: DType, shifts: Shifts, stored: bool):
    artifact = compile_ptx(shifted(shifts, bf16, dtype))
    loads, stores = copies(artifact)
    assert (loads > 0, stores > 0) == (True, stored)


@pytest.mark.parametrize("compute", ["", "tf32"])
@pytest.mark.parametrize(("shift", "whole"), [(0, True), (4, True), (1, False), (2, False), ("s", False)])
def test_four_elements_of_f32_are_16_bytes(shift: int | str, whole: bool, compute: str):
    """Tensor cores read tf32 that the copy engine has rounded: single warps multiply the rest."""
    artifact = compile_ptx(shifted(Shifts(right=shift), f32, f32, compute, (128, 128, 16)))
    assert unproven(artifact) == []
    assert (copies(artifact)[0] > 0, warnings_of(artifact) == ()) == (whole, whole)
    if compute:
        assert ("wgmma.mma_async" if whole else "mma.sync") in artifact.code.decode()


@pytest.mark.parametrize(("shift", "said"), [(8, 0), (1, 1)])
def test_copies_to_aligned_rows_do_not_align_what_begins_between_them(shift: int, said: int):
    artifact = compile_ptx(shifted(Shifts(right=shift), aligned=(False, False, True)))
    assert unproven(artifact) == []
    padded_rows = [slot for slot in artifact.slots if slot.tensor_map is not None and slot.tensor_map.padded_rows]
    assert (len(padded_rows), len(warnings_of(artifact))) == (0 if said else 2, said)


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
    for shifts, stage, mark in (
        (Shifts(right=1), "cuda-pipeline-loads", "begins anywhere copied by the consumer warps"),
        (Shifts(result=1), "cuda-split-epilogue", "begins anywhere stored by the consumer warps"),
    ):
        levels = {listing.stage: listing.text for listing in compile_cuda(shifted(shifts)).listings}
        assert mark in levels[stage]


@pytest.mark.parametrize(("columns", "blocks"), [(128, 2), (256, 1)])
def test_two_blocks_share_a_multiprocessor_where_registers_suffice(columns: int, blocks: int):
    code = compile_ptx(shifted(Shifts(right=1), tile=(128, columns, 64))).code.decode()
    assert f".minnctapersm {blocks}\n" in code


def test_products_run_while_the_next_rounds_copies_are_started():
    """Between the product and the branch to those copies, nothing waits for the tensor cores."""
    code = compile_ptx(shifted(Shifts(right=1))).code.decode()
    behind = code[code.index("wgmma.commit_group") :]
    assert "wgmma.wait_group" in code
    assert "wgmma.wait_group" not in behind[: behind.index("bra")]
