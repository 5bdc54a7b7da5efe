"""Every kernel of the library and of the documents on every target: right everywhere, the same bits where promised.

`exact` calls (reductions, transposes, element-wise kernels) have one answer, bit for bit, on all targets; the others
are compared with f64.  Every call gives the same bits in every run.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

from support import document_calls, library
from support.library import Call, judge
from tessera.core.errors.catalog import NotOnCudaTile, TuningFailed
from tessera.core.settings import overridden
from tessera.core.targets import TARGETS
from tessera.lowering.base.cuda_toolkit import find_tool

CALLS = (*library.CALLS, *document_calls.CALLS)
EVERY_TARGET = ("interpret", "cpu", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cuda", "cuda_tile")))
ON_GPU = EVERY_TARGET[2:]
_LANE_KERNELS = (
    "scale", "saxpy", "saxpy_launch", "group_sum", "warp_reduce_sum", "axpy_tiled", "tp_axpy", "coop_example",
)  # fmt: skip
# Kernels of lanes, and one that places its tiles in shared memory by itself.
NOT_ON_CUDA_TILE = {f"document-{name}" for name in (*_LANE_KERNELS, "pipeline")}


@cache
def expected(call: Call) -> tuple[np.ndarray, ...]:
    """The call's answer in f64."""
    return call.expected(*call.arguments())


def pairs(calls: Iterable[Call], targets: Iterable[Any]) -> list[Any]:
    """Parameters for every call on every target that holds it."""
    found: list[Any] = []
    for call in calls:
        for target in targets:
            name, marks = (target, ()) if isinstance(target, str) else (target.values[0], target.marks)
            if name != "cuda_tile" or call.name not in NOT_ON_CUDA_TILE:
                found.append(pytest.param(call, name, marks=marks, id=f"{call.name}-{name}"))
    return found


def results(call: Call, target: str) -> tuple[np.ndarray, ...]:
    """What the call gives on `target`, from fresh arrays."""
    if target not in TARGETS:
        pytest.skip(f"this build has no target {target}")
    if target == "cuda_tile" and find_tool("tileiras") is None:
        pytest.skip("no tileiras: pip install nvidia-cuda-tileiras")
    with overridden(target=target):
        return tuple(np.asarray(result) for result in call.results(*call.arguments()))


def digest(arrays: tuple[Any, ...]) -> str:
    """One hash of all bits."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def test_names_are_unique():
    every = (*CALLS, *library.LARGE)
    assert len({call.name for call in every}) == len(every)


@pytest.mark.parametrize(("call", "target"), pairs(CALLS, EVERY_TARGET))
def test_right_on_every_target(call: Call, target: str):
    judge(call, results(call, target), expected(call))


@pytest.mark.parametrize(("call", "target"), pairs(library.LARGE, ON_GPU))
def test_right_at_sizes_that_fill_the_card(call: Call, target: str):
    judge(call, results(call, target), call.expected(*call.arguments()))


@pytest.mark.parametrize(("call", "target"), pairs([call for call in CALLS if call.exact], EVERY_TARGET[1:]))
def test_the_same_bits_as_the_interpreter(call: Call, target: str):
    assert digest(results(call, target)) == digest(results(call, "interpret"))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_same_bits_in_every_run(call: Call):
    assert len({digest(results(call, "cpu")) for _ in range(2)}) == 1


@pytest.mark.parametrize(("call", "target"), pairs(CALLS, ON_GPU))
def test_the_same_bits_in_a_hundred_runs(call: Call, target: str):
    assert len({digest(results(call, target)) for _ in range(100)}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("call", [call for call in CALLS if call.name in NOT_ON_CUDA_TILE], ids=lambda call: call.name)
def test_what_cuda_tile_refuses(call: Call):
    with pytest.raises((NotOnCudaTile, TuningFailed), match="cannot be a CUDA Tile kernel"):
        results(call, "cuda_tile")
