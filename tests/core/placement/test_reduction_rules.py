"""Rules of reductions over ranks: operators, accumulators, identifiers, and what has no meaning."""

import pytest

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import BadReduction
from tessera.core.placement.reduction_rules import RankReduction, canonical_nan, reduction
from tessera.core.placement.reduction_trees import ReductionTree


@pytest.mark.parametrize(
    ("op", "dtype", "accumulator"),
    [
        ("sum", dtypes.f64, dtypes.f64), ("sum", dtypes.f32, dtypes.f32), ("mean", dtypes.bf16, dtypes.f32),
        ("prod", dtypes.f16, dtypes.f32), ("sum", dtypes.fp8_e4m3, dtypes.f32), ("max", dtypes.fp8_e5m2, dtypes.f32),
        ("max", dtypes.bf16, dtypes.bf16), ("sum", dtypes.i8, dtypes.i8), ("xor", dtypes.u16, dtypes.u16),
        ("or", dtypes.boolean, dtypes.boolean),
    ],
)  # fmt: skip
def test_accumulators(op: str, dtype: DType, accumulator: DType):
    assert reduction(op, dtype).accumulator == accumulator


@pytest.mark.parametrize(
    ("op", "dtype", "det", "said"),
    [
        ("average", dtypes.f32, "leaf", "there is no operator 'average' over ranks"),
        ("sum", dtypes.f32, "strict", "there is no promise det='strict'"),
        ("xor", dtypes.f32, "leaf", "xor combines bits, and the elements are f32"),
        ("sum", dtypes.boolean, "leaf", "the sum of bool over ranks"),
        ("mean", dtypes.i32, "leaf", "the mean of i32 over ranks"),
        ("prod", dtypes.f32, "exact", "products of floats are not computed exactly"),
    ],
)
def test_what_has_no_meaning(op: str, dtype: DType, det: str, said: str):
    with pytest.raises(BadReduction) as mistake:
        reduction(op, dtype, det)
    assert mistake.value.message == said
    assert mistake.value.hint


def test_identifiers_name_what_decides_bits():
    tree = ReductionTree.binary(72)
    base = reduction("sum", dtypes.f32)
    assert len(base.tree_id(tree)) == 16
    others = [
        base.tree_id(ReductionTree.binary(64)),
        base.tree_id(ReductionTree(72, (2, 2, 2, 3, 3))),
        reduction("mean", dtypes.f32).tree_id(tree),
        reduction("sum", dtypes.bf16).tree_id(tree),
        reduction("sum", dtypes.f32, "exact").tree_id(tree),
    ]
    assert len({base.tree_id(tree), *others}) == 1 + len(others)
    assert reduction("sum", dtypes.f32, "exact").tree_id(tree) == reduction("sum", dtypes.f32, "exact").tree_id(
        ReductionTree.binary(9)
    )


def test_a_mean_multiplies_by_a_rounded_reciprocal():
    assert reduction("mean", dtypes.f32).scale(3) == 0.3333333432674407958984375
    assert reduction("mean", dtypes.f64).scale(3) == 1 / 3
    assert reduction("sum", dtypes.f32).scale(3) is None
    assert RankReduction("mean", dtypes.bf16, dtypes.f32).adds


def test_the_one_nan_of_each_type():
    found = {dtype.name: canonical_nan(dtype) for dtype in dtypes.ALL if dtype.is_float}
    assert found == {
        "f64": 0x7FF8000000000000, "f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "fp8_e4m3": 0x7F, "fp8_e5m2": 0x7E,
    }  # fmt: skip
