"""Attention as people's models write it: one kernel wherever the algebra allows, and NumPy's values on every target."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support import attention_weights as entered
from support.attention_variants import VARIANTS, attend, hidden, normal, t
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.schedule.explain import explain_fusion
from tessera.session.session import resolve_target

Array = Any  # of NumPy, or a value of the graph that is being captured
EVERY_TARGET = ("interpret", "cpu", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cuda", "cuda_tile")))
FLOATS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
COMPILED = (
    "divided_at_the_end", "window_and_global", "documents", "alibi_causal_soft_cap", "relative_keys", "forgetting",
    "repeated_keys", "latent_keys", "sink", "fourth_power", "differential", "entropy", "dropped_out",
)  # fmt: skip
"""Variants that are compiled for GPUs without one: those whose kernels are least alike."""


@lru_cache
def module(name: str) -> GraphFunction[..., Any]:
    """Capture a variant once for all tests."""
    return graph.module(name)(VARIANTS[name].function)


def outputs(made: object) -> Sequence[Any]:
    return made if isinstance(made, tuple) else (made,)


def bound(queries: np.ndarray, keys: np.ndarray) -> float:
    """Return the greatest error of attention, relative to its greatest value.

    A score is a sum of `width` products of at most |q| |k|, its error so many roundings of that; exp makes it relative,
    in weights and in their sum.  Weighted sums add a rounding a key.  Arrays of 16 bits are also rounded themselves:
    scores, weights, results.  Everything else (scales, biases, functions) is a few roundings more: sixteen.
    """
    wide = np.finfo(np.float64 if queries.dtype == np.float64 else np.float32).eps / 2
    short = {np.dtype(np.float16): 2.0**-11, np.dtype(ml_dtypes.bfloat16): 2.0**-8}.get(queries.dtype, 0.0)
    longest = [np.linalg.norm(each.astype(np.float64), axis=-1).max() for each in (queries, keys)]
    reach = 1 + longest[0] * longest[1]
    count = max(queries.shape[-2], keys.shape[-2])
    return float(wide * (count + 2 * (queries.shape[-1] + 8) * reach + 16) + short * (2 * reach + 3))


def assert_close(found: object, wanted: np.ndarray, tolerance: float) -> None:
    made = np.asarray(found).astype(np.float64)
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


def test_there_are_many():
    assert {"causal", entered.sink.__name__} <= set(VARIANTS)
    assert len(VARIANTS) >= 55


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("name", VARIANTS)
def test_values(name: str, target: str):
    arrays = VARIANTS[name].arrays()
    wide = [each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays]
    wanted = outputs(VARIANTS[name].reference(*wide))
    with overridden(target=target):
        found = outputs(module(name)(*arrays))
    for made, each in zip(found, wanted, strict=True):
        assert_close(made, each, bound(arrays[0], arrays[1]))


@pytest.mark.parametrize("name", VARIANTS)
def test_plan(name: str):
    """The kernels that there are, why there are more than one, and no scores in memory but where that is the reason."""
    variant = VARIANTS[name]
    arrays = variant.arrays()
    plan = module(name).executable_for(*arrays).plan
    assert tuple(group.kind for group in plan.groups) == variant.kernels
    assert {each.refusal.rule for each in explain_fusion(plan).boundaries} == variant.refusals
    lengths = sorted(array.shape[-2] for array in arrays[:2])
    inside = [value for group in plan.groups for value in group.outputs if value not in plan.graph.outputs]
    stored = [value for value in inside if sorted(each for each in value.type.shape if each in lengths) == lengths]
    assert bool(stored) == variant.quadratic


def assert_compiles(name: str, target: str) -> None:
    for kernel in module(name).executable_for(*VARIANTS[name].arrays()).kernels(resolve_target(target)):
        assert kernel.compiled is not None
        assert all(artifact.code for artifact in kernel.compiled.artifacts)


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_for_hopper(name: str):
    assert_compiles(name, "cuda:sm_90a")


@pytest.mark.skipif(find_tool("tileiras") is None, reason="no tileiras")
@pytest.mark.parametrize("name", ["repeated_keys", "differential", "fourth_power"])
def test_compiles_for_cuda_tile(name: str):
    assert_compiles(name, "cuda_tile:sm_90")


def behind(q: Array, k: Array, v: Array) -> Array:
    """The last query sees all keys, of which there are more than queries."""
    i, j = op.arange(37)[:, None], op.arange(53)[None, :]
    return op.softmax(op.where(i + 16 >= j, q @ k.T / 24**0.5, -np.inf)) @ v


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float(dtype: str, target: str):
    shapes = [(3, 37, 24), (3, 53, 24), (3, 53, 17)]
    q, k, v = (normal(shape, seed).astype(FLOATS[dtype]) for seed, shape in enumerate(shapes))
    function = graph.module("behind")(behind)
    with overridden(target=target):
        found = function(q, k, v)
    assert found.dtype == q.dtype
    assert [group.kind for group in function.executable_for(q, k, v).plan.groups] == ["cascade"]
    wide = [each.astype(np.float64) for each in (q, k, v)]
    seen = np.arange(37)[:, None] + 16 >= np.arange(53)
    assert_close(found, attend(hidden(seen, wide[0] @ t(wide[1]) / 24**0.5), wide[2]), bound(q, k))
