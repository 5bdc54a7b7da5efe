"""Reductions and products, against the interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda_tile.compare import agree, names, normal
from support.tile_cases import Case, cases, long_sum, poison, product, reduction
from support.tile_machine import lowered
from tessera.core.base.dtypes import f16, f32, i32
from tessera.core.errors.catalog import NotOnCudaTile

SUMS = [c for c in cases() if c.name.startswith(("sum", "max", "min", "long_sum")) and "axis" in c.name]
PRODUCTS = [c for c in cases() if "product" in c.name]


@pytest.mark.parametrize("case", SUMS, ids=lambda c: c.name)
def test_reductions(case: Case):
    agree(case.program, case.fresh())


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 9000))
def test_sums_of_any_length_have_the_one_association(length: int):
    agree(long_sum(length), [normal(2, max(1, length - 3)), poison(2)])


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c.name)
def test_products(case: Case):
    """The tile machine adds up in order, as the interpreter does."""
    agree(case.program, case.fresh())


def test_a_product_in_registers_is_done_in_pieces():
    assert names(lowered(product(f32, f32, (16, 64, 16)))[1]).count("mmaf") == 4
    assert names(lowered(product(f16, f32, (16, 64, 16)))[1]).count("mmaf") == 1
    assert names(lowered(product(f32, f32, (16, 64, 16), exact=True))[1]).count("mmaf") == 0


def test_factors_are_rounded_to_tf32():
    program = lowered(product(f32, f32, (16, 64, 16), compute="tf32"))[1]
    assert [name for name in names(program) if name in ("ftof", "mmaf")] == ["ftof", "ftof", "mmaf"]


def test_what_padding_makes_impossible_is_refused():
    with pytest.raises(NotOnCudaTile, match="only its first extent"):
        lowered(reduction(f32, "sum", None, (5, 140)))
    with pytest.raises(NotOnCudaTile, match="a product of i32 matrices"):
        lowered(product(i32, i32, (8, 256, 64)))


def test_nan_and_signed_zero():
    x = np.array([[np.nan, 1, 2], [-0.0, 0.0, -0.0], [-0.0, -0.0, -0.0]], np.float32)
    for kind in ("sum", "max", "min"):
        agree(reduction(f32, kind, 1, (3, 3)), [x, np.zeros(3, np.float32)])
