"""Kernels that fold contributions: bits equal to the oracle's on the CPU and as PTX, and what they are made of."""

import numpy as np
import pytest

from support.simulate import simulate
from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.placement.fold_plans import even_shares, fold_plan
from tessera.core.placement.fold_reference import fold_partial, reduce_leaves
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.ops.tiles.folds import fold_kernel, fold_text


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def contributions(dtype: DType, count: int, elements: int) -> list[np.ndarray]:
    """Arbitrary bits, a quarter of them zeros of either sign."""
    rng = np.random.default_rng(elements)
    if dtype == dtypes.boolean:
        return list(rng.integers(0, 2, (count, elements)).astype(bool))
    x = rng.integers(0, 1 << dtype.bits, (count, elements), dtype=f"u{dtype.bytes}")
    if dtype.is_float:
        sign = np.array(1 << (dtype.bits - 1), x.dtype)
        x[:, ::4] = rng.integers(0, 2, x[:, ::4].shape).astype(x.dtype) * sign
        x[:, ::8] = sign
    return list(x.view(dtype.numpy))


SUMS = [("sum", dtype) for dtype in dtypes.ALL if dtype != dtypes.boolean]
OTHERS = [
    ("mean", dtypes.bf16), ("mean", dtypes.f64), ("prod", dtypes.f16), ("max", dtypes.f32), ("min", dtypes.f32),
    ("max", dtypes.bf16), ("min", dtypes.fp8_e4m3), ("max", dtypes.i8), ("min", dtypes.u32), ("max", dtypes.boolean),
    ("and", dtypes.boolean), ("or", dtypes.i16), ("xor", dtypes.u64),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype"), [*SUMS, *OTHERS], ids=repr)
def test_every_bit_is_the_oracles(op: str, dtype: DType):
    tree, what = ReductionTree.binary(5), reduction(op, dtype)
    for elements in (1, 777, 4099):
        x, y = contributions(dtype, 5, elements), np.empty(elements, dtype.numpy)
        fold_kernel(tree.leaf_fold(), what, 5)(*x, y)
        assert np.array_equal(bits(y), bits(reduce_leaves(x, tree, what)))


def test_partial_nodes_are_of_the_accumulators_type_and_keep_what_a_root_loses():
    what = reduction("sum", dtypes.bf16)
    x, y = contributions(dtypes.bf16, 3, 100), np.empty(100, np.float32)
    fold = ReductionTree.of(3, "chain").leaf_fold()
    fold_kernel(fold, what, None)(*x, y)
    expected = fold_partial(x, fold, what)
    same = ~np.isnan(expected)
    assert np.array_equal(bits(y)[same], bits(expected)[same])
    assert np.isnan(y[~same]).all()


def test_uneven_shares_of_a_mixed_tree():
    what, tree = reduction("sum", dtypes.f32), ReductionTree(18, (2, 3, 3))
    plan = fold_plan(tree, even_shares(18, 4))
    x = contributions(dtypes.f32, 18, 333)
    partials = [
        fold_partial(x[first:stop], fold, what)
        for (first, stop), folds in zip(plan.shares, plan.local, strict=True)
        for fold in folds
    ]
    y = np.empty(333, np.float32)
    fold_kernel(plan.final, what, 18)(*partials, y)
    assert np.array_equal(bits(y), bits(reduce_leaves(x, tree, what)))


@pytest.mark.parametrize(
    ("op", "dtype"), [("sum", dtypes.f32), ("max", dtypes.f32), ("mean", dtypes.bf16), ("sum", dtypes.f16)], ids=repr
)
def test_ptx_gives_the_same_bits(op: str, dtype: DType):
    tree, what = ReductionTree.binary(3), reduction(op, dtype)
    x, y = contributions(dtype, 3, 517), np.empty(517, dtype.numpy)
    simulate(fold_kernel(tree.leaf_fold(), what, 3).program((*x, y)), (*x, y))
    assert np.array_equal(bits(y), bits(reduce_leaves(x, tree, what)))


def test_each_contribution_is_loaded_once_with_128_bits_and_nothing_spills():
    tree, what = ReductionTree.binary(8), reduction("sum", dtypes.f32)
    x = [np.zeros(1 << 16, np.float32) for _ in range(9)]
    compiled = fold_kernel(tree.leaf_fold(), what, 8).compile_quietly(*x, target="cuda:sm_90a")
    text = str(compiled.resources())
    assert "LDG.128      16" in text
    assert "spilled                   0 bytes" in text
    ptx = str(compiled.ir("ptx"))
    assert "add.rn.f32" in ptx
    assert "ftz" not in ptx
    assert "fma" not in ptx


def test_the_source_reads_a_contribution_where_it_is_used_first():
    text = fold_text(((0, 1), 2), "sum", dtypes.f32, is_root=True, scaled=True, outputs=2)
    assert text.startswith("def fold(x0: tensor, x1: tensor, x2: tensor, y0: mut[tensor], y1: mut[tensor]):\n")
    assert text.splitlines()[2:] == [
        "        v0 = tile.cast(x0[i : i + BLOCK], ACCUMULATOR)",
        "        v1 = tile.cast(x1[i : i + BLOCK], ACCUMULATOR)",
        "        v2 = v0 + v1",
        "        v3 = tile.cast(x2[i : i + BLOCK], ACCUMULATOR)",
        "        v4 = v2 + v3",
        "        v4 = v4 * SCALE",
        "        v4 = tile.where(v4 != v4, NAN, v4)",
        "        v4 = tile.cast(v4, y0.dtype)",
        "        y0[i : i + BLOCK] = v4",
        "        y1[i : i + BLOCK] = v4",
    ]


def test_one_kernel_an_order():
    what = reduction("sum", dtypes.f32)
    assert fold_kernel((0, 1), what, 2) is fold_kernel((0, 1), reduction("sum", dtypes.f32), 2)
    assert fold_kernel((0, 1), what, 2) is not fold_kernel((0, 1), what, None)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=repr)
def test_what_is_no_number_is_chosen_after_the_conversion(dtype: DType):
    """Conversions of a GPU give 0x7fff, and the oracle has another one."""
    tree, what = ReductionTree.binary(2), reduction("sum", dtype)
    compiled = fold_kernel(tree.leaf_fold(), what, 2).compile_quietly(
        *(np.zeros(1 << 12, dtype.numpy) for _ in range(3)), target="cuda:sm_90a"
    )
    text = str(compiled.ir("ptx"))
    assert f"setp.nan.{dtype}" in text[text.index(f"cvt.rn.{dtype}.f32") :]
    number = int(np.array(np.nan, dtype.numpy).view(np.uint16))
    assert any(str(word) in text for word in (number, f"0x{number:04X}"))
