"""Sums that no lane has registers for."""

import pytest

from lowering.cuda.cases import plan_of
from support.product_programs import matrix_product
from tessera.core.errors.catalog import NotOnCuda


@pytest.mark.parametrize(("tile", "warps", "needed"), [((256, 256, 64), 8, 256), ((128, 256, 64), 4, 256)])
def test_sums_that_do_not_fit(tile: tuple[int, int, int], warps: int, needed: int):
    with pytest.raises(NotOnCuda, match=f"take {needed} registers of each lane, and there are 232") as caught:
        plan_of(matrix_product(tile, num_warps=warps))
    assert "the option `num_warps`" in caught.value.hint
    assert caught.value.span.line > 0


@pytest.mark.parametrize(("arch", "tile", "warps"), [
    ("sm_90a", (128, 256, 64), 8), ("sm_90a", (256, 256, 64), 16), ("sm_80", (256, 256, 64), 8),
])  # fmt: skip
def test_sums_that_fit_and_those_that_can_wait_in_memory(arch: str, tile: tuple[int, int, int], warps: int):
    plan, _ = plan_of(matrix_product(tile, num_warps=warps), arch)
    assert plan is not None
