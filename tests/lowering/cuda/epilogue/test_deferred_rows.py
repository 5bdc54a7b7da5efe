"""Rows that begin anywhere, stored in the next group, beside its first products."""

from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import code, places
from support.builder import Builder
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.program.program import Program

TILE = (256, 128, 64)


def unaligned(tile: tuple[int, int, int] = TILE, dtype: DType = bf16, **options: int) -> Program:
    """A product of matrices whose rows begin anywhere, with such a result."""
    return replace(matrix_product(tile, dtype, result=dtype, aligned=False), options=options)


def waits(program: Program) -> bool:
    """Whether a result waits for the next group, in rows."""
    plan, _ = plan_of(program)
    assert plan is not None
    return plan.deferred is not None and plan.deferred.rows


def sums(*, read: bool) -> Program:
    """C[m] = A[m] B with aligned factors; with `read`, a first group's C is added, which a store must not pass."""
    b = Builder("product")
    a, w = (b.array(name, bf16, *shape, aligned=True) for name, shape in (("A", ("M", "K")), ("B", ("K", "N"))))
    c = b.array("C", bf16, "M", "N", mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m,
        b.loop(zero, b.dim("N"), b.const(128), kind="tile", names=("n",)) as n,
    ):
        with b.loop(zero, b.dim("K"), b.const(64), [b.full(b.const(0.0, f32), 128, 128)], names=("k", "acc")) as k:
            left, right = b.load(a, [m.index, k.index], [128, 64]), b.load(w, [k.index, n.index], [64, 128])
            k.yields = (b.dot(left, right, k.carried[0]),)
        total = k.results[0]
        if read:
            total = b.value("add", total, b.cast(b.load(c, [m.index, n.index], [128, 128]), f32))
        b.store(c, b.cast(total, bf16), [m.index, n.index], [128, 128])
    return b.program()


@pytest.mark.parametrize(
    ("program", "delayed"),
    [
        (unaligned(), True),
        (unaligned((128, 256, 64), f16), True),
        (unaligned((64, 256, 64)), True),
        (sums(read=False), True),
        (sums(read=True), False),
        (unaligned(defer_epilogue=False), False),
        (matrix_product(TILE, result=f32, aligned=False), False),
        (matrix_product(TILE, result=bf16), False),  # the copy engine stores it
    ],
)
def test_which_rows_wait(program: Program, delayed: bool):
    assert waits(program) == delayed


@pytest.mark.parametrize(("program", "eights"), [(unaligned(), 4), (unaligned((128, 256, 64)), 2)])
def test_two_rows_are_stored_in_a_round(program: Program, eights: int):
    """Behind the round's products, and eight at a time behind the loop: in the last group, and where loops are short."""
    text = code(program)
    (committed,) = places(text, r"wgmma\.commit_group")
    (ended,) = places(text, r"wgmma\.wait_group\.sync\.aligned 0")
    stores, gathered = places(text, r"st\.global\.b16"), places(text, r"st\.shared\.b32")
    assert (len(stores), len(gathered)) == (2 + 2 * eights, 2 * 64)
    assert all(committed < place < ended for place in (*stores[:2], *gathered[:64]))
    assert all(place > ended for place in (*stores[2:], *gathered[64:]))
    resources = compile_cuda(program).artifact.resources
    assert (resources.spill_bytes, resources.notes) == (0, ())


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"defer_epilogue": False}], ids=str)
@pytest.mark.parametrize("tile", [TILE, (128, 256, 64), (128, 128, 64)], ids=str)
@pytest.mark.parametrize("depth", [130, 514, 1030])
def test_more_groups_than_blocks_on_a_gpu(depth: int, tile: tuple[int, int, int], options: dict[str, int]):
    """Loops of too few rounds, of as many as it takes, and of more."""
    from support.hardware import simulate  # noqa: PLC0415 - needs a GPU

    random = np.random.default_rng(depth)
    left, right = (random.standard_normal(s).astype(bf16.numpy) for s in ((3331, depth), (depth, 4099)))
    out = np.full((3331, 4099), np.nan, bf16.numpy)
    simulate(replace(unaligned(tile), options=options), [left, right, out])
    want = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_allclose(out.astype(np.float32), want, rtol=0, atol=4e-3 * np.abs(want).max())
