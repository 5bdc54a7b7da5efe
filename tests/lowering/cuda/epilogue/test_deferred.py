"""Results that are stored in the next group, beside its first products."""

import re
from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import TILE, code, places
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.base.dtypes import bf16, f16, f32
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.lowering.base.cuda_toolkit import disassemble
from tessera.ops.tiles import matrix

STORE = r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta"
BLOCKS = 4  # of 64 columns, in 256


def narrow(**options: int) -> Program:
    """A product whose result is bf16."""
    return replace(matrix_product(TILE, result=bf16), options=options)


@pytest.mark.parametrize(
    ("program", "delayed"),
    [
        (matrix_product(TILE, result=bf16), True),
        (matrix_product((128, 128, 64), result=f16), True),
        (matrix_product(TILE, result=bf16, defer_epilogue=False), False),
        (matrix_product(TILE, result=f32), False),  # twice the registers
        (matrix_product((64, 256, 64), result=bf16), False),  # warp groups share rows
    ],
)
def test_which_results_wait(program: Program, delayed: bool):
    plan, _ = plan_of(program)
    assert plan is not None
    assert (plan.deferred is not None) == delayed
    assert plan.deferred is None or not plan.deferred.rows


@pytest.mark.parametrize(("activation", "delayed"), [(matrix.RELU, True), (matrix.SILU, False)])
def test_exponentials_and_divisions_need_registers_of_their_own(activation: int, delayed: bool):
    a = np.zeros((512, 512), bfloat16)
    kernel = matrix.matrix_product.variant(BM=128, BN=256, BK=64, ACTIVATION=activation)
    plan, _ = plan_of(kernel.compile(a, a, np.empty_like(a), target=str(Target("cuda", "sm_90a"))).program)
    assert plan is not None
    assert (plan.deferred is not None) == delayed


def test_blocks_are_stored_behind_the_products_of_the_first_rounds():
    text = code(narrow())
    (committed,) = places(text, r"wgmma\.commit_group")
    beside, behind = (
        places(text, r"wgmma\.wait_group\.sync\.aligned 1"),
        places(text, r"wgmma\.wait_group\.sync\.aligned 0"),
    )
    stores = places(text, STORE)
    assert len(stores) == 2 * BLOCKS
    assert all(committed < place < beside[0] for place in stores[:BLOCKS])
    assert all(place > behind[0] for place in stores[BLOCKS:])  # of the last group, and where loops are short


def test_nothing_of_it_is_left_where_results_are_stored_at_once():
    assert len(places(code(narrow(defer_epilogue=False)), STORE)) == BLOCKS


def test_no_store_stands_between_a_groups_last_product_and_the_next_ones_first():
    """The machine code: behind the wait for all products only roundings, up to the branch around the store at once."""
    artifact = compile_cuda(narrow()).artifact
    assert (artifact.resources.spill_bytes, artifact.resources.notes) == (0, ())
    sass = disassemble(artifact.code)
    behind = str(sass).split("WARPGROUP.DEPBAR.LE gsb0, 0x0")[1]
    until = behind[: re.search(r"\bBRA\b", behind).start()]
    assert len(re.findall(r"F2FP\.BF16", until)) == 64
    assert not re.search(r"\bSTS|BAR\.SYNC|UTMASTG|MEMBAR", until)
