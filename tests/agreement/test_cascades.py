"""Losses, norms and statistics as people write them: as few kernels as reductions allow, with NumPy's values."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from support.row_cascades import CASCADES
from tessera import graph
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.schedule.explain import explain_fusion
from tessera.session.session import resolve_target

EVERY_TARGET = ("interpret", "cpu", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cuda", "cuda_tile")))
COMPILED = ("cross_entropy", "cross_entropy_of_a_product", "contrastive", "divergence", "groupnorm", "nearest_distance",
            "mean_and_variance_under_softmax", "router", "product_of_rmsnorm")  # fmt: skip
"""Functions that are compiled for GPUs without one: those whose kernels are least alike."""


@lru_cache
def module(name: str) -> GraphFunction[..., Any]:
    """Capture a function once for all tests."""
    return graph.module(name)(CASCADES[name].function)


def outputs(made: object) -> Sequence[Any]:
    return made if isinstance(made, tuple) else (made,)


def test_there_are_many():
    assert len(CASCADES) >= 35


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("name", CASCADES)
def test_values(name: str, target: str):
    """The error of a sum of n terms is n roundings, relative to the greatest result; 64 are for everything around it.

    Where terms cancel, it is as many times more as the case says.
    """
    if (name, target) == ("batchnorm", "cuda_tile"):
        pytest.skip("CUDA Tile reshapes powers of two only: it cannot reduce two axes that are apart")
    case = CASCADES[name]
    arrays = case.arrays()
    wide = [each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays]
    length = max(max(each.shape) for each in arrays)
    tolerance = case.condition * (length + 64) * np.finfo(np.float32).eps / 2
    with overridden(target=target):
        found = outputs(module(name)(*arrays))
    for made, wanted in zip(found, outputs(case.reference(*wide)), strict=True):
        assert made.shape == wanted.shape
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(np.asarray(made, np.float64), wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASCADES)
def test_plan(name: str):
    """As few kernels as there can be, and why they are not fewer."""
    case = CASCADES[name]
    plan = module(name).executable_for(*case.arrays()).plan
    assert tuple(group.kind for group in plan.groups) == case.kernels
    assert {each.refusal.rule for each in explain_fusion(plan).boundaries} == case.refusals


def assert_compiles(name: str, target: str) -> None:
    for kernel in module(name).executable_for(*CASCADES[name].arrays()).kernels(resolve_target(target)):
        assert kernel.compiled is not None
        assert all(artifact.code for artifact in kernel.compiled.artifacts)


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_for_hopper(name: str):
    assert_compiles(name, "cuda:sm_90a")


@pytest.mark.skipif(find_tool("tileiras") is None, reason="no tileiras")
@pytest.mark.parametrize("name", ["contrastive", "cosine_similarity"])
def test_compiles_for_cuda_tile(name: str):
    assert_compiles(name, "cuda_tile:sm_90")
