"""Reductions of long columns by slabs: the bits of `tree_sum`, for every length, and what needs several passes."""

# Operators take arrays of any library.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.graphs import assert_same_bits
from support.operators import drawn
from support.targets import RUNNABLE
from tessera import fp8_e4m3, graph, op, scale
from tessera.core.base.reductions import tree_sum
from tessera.core.schedule.plan import Group
from tessera.core.settings import overridden
from tessera.graphs import steps
from tessera.graphs.function import GraphFunction
from tessera.graphs.steps import steps_of
from tessera.lowering.schedule.emit.columns import SLAB, in_slabs
from tessera.performance.machine_kind import MachineKind

TARGETS = pytest.mark.parametrize("target", RUNNABLE)
LENGTHS = (257, 300, 512, 1000, 4096, 4097, 5000, 9000, 12801, 16384)
CPU = MachineKind(None, None, 1 << 16)


@pytest.fixture(autouse=True)
def slabs_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take columns in slabs on the CPU from the length on from which GPUs do."""
    monkeypatch.setattr(steps, "LONG_ON_CPU", steps.LONG_COLUMN)


def slabs_of(module: GraphFunction[..., Any]) -> list[Group]:
    """Return the groups of the last call that go slab by slab."""
    groups = module.executable.plan.groups
    return [group for group in groups if group.kind == "rows" and in_slabs(group, steps_of(group, CPU).blocks)]


@TARGETS
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_have_the_bits_of_whole_columns(length: int, target: str):
    x = drawn((length, 9), np.float32, length)
    x[length // 2, 3], x[:, 5] = np.nan, -0.0
    module = graph.module("sums")(lambda x: (op.sum(x, axis=0), op.max(x, axis=0), op.min(x, axis=0)))
    with overridden(target=target):
        total, most, least = (np.asarray(each) for each in module(x))
    assert slabs_of(module)
    assert_same_bits(total, tree_sum(x, 0))  # a NaN has other bits on a GPU
    np.testing.assert_array_equal(most, x.max(0))
    np.testing.assert_array_equal(least, x.min(0))


@TARGETS
@pytest.mark.parametrize("length", [300, 1024])
def test_integers_and_batches(length: int, target: str):
    x = np.random.default_rng(0).integers(-99, 99, (3, length, 33)).astype(np.int32)
    module = graph.module("integers")(lambda x: op.sum(x, axis=1))
    with overridden(target=target):
        np.testing.assert_array_equal(module(x), x.sum(1))
    assert slabs_of(module)


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    weights = np.exp(x - x.max(0))
    return weights / weights.sum(0)


@TARGETS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(300, 33), (640, 70), (4500, 5)])
def test_passes_follow_each_other(shape: tuple[int, int], dtype: type, target: str):
    """The maximum, the sum of what is relative to it, and the quotients: three loops over each column."""
    x = drawn(shape, dtype, 1)
    module = graph.module("softmax")(lambda x: op.softmax(x, axis=0))
    with overridden(target=target):
        got = module(x)
    assert len(slabs_of(module)) == len(module.executable.plan.groups) == 1
    np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=1e-5 if dtype == np.float32 else 1e-13)


@TARGETS
@pytest.mark.parametrize("shape", [(300, 33), (1100, 70)])
def test_codes_with_a_scale_for_each_column(shape: tuple[int, int], target: str):
    x = drawn(shape, np.float16, 2)
    columns, rows = (fp8_e4m3 @ scale(block=block) for block in ((0, 1), (1, 0)))

    def coded(x: Any) -> Any:  # noqa: ANN401
        made = op.quantize(x, columns)
        return made.codes, made.scales

    module = graph.module("codes")(coded)
    with overridden(target=target):
        codes, scales = (np.asarray(each) for each in module(x))
        turned = op.quantize(np.ascontiguousarray(x.T), rows)
    assert slabs_of(module)
    np.testing.assert_array_equal(codes.view(np.uint8), np.asarray(turned.codes).T.view(np.uint8))
    np.testing.assert_array_equal(scales, np.asarray(turned.scales).T)


@TARGETS
def test_what_is_stored_along_a_column_is_stored_in_the_loop(target: str):
    w, g = drawn((700, 40), np.float16, 3), drawn((700,), np.float16, 4)

    def prepared(w: Any, g: Any) -> Any:  # noqa: ANN401
        made = (w.astype("f32") * g.astype("f32")[:, None]).astype("f16")
        return made, op.sum(made.astype("f32"), axis=0)

    module = graph.module("prepared")(prepared)
    with overridden(target=target):
        made, total = (np.asarray(each) for each in module(w, g))
    assert len(slabs_of(module)) == len(module.executable.plan.groups) == 1
    wanted = (w.astype(np.float32) * g.astype(np.float32)[:, None]).astype(np.float16)
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(total.view(np.uint32), tree_sum(wanted.astype(np.float32), 0).view(np.uint32))


def test_on_a_gpu_they_stay_in_registers():
    module = graph.module("columns")(lambda x: op.softmax(x.astype("f32"), axis=0))
    with overridden(target="interpret"):
        module(np.zeros((300, 40), np.float16))
    (kernel,) = module.kernels("cuda:sm_90a")
    assert kernel.compiled is not None
    text = str(kernel.compiled.resources())
    assert "spilled                   0 bytes" in text
    assert "kept in memory" not in text


def test_short_columns_and_rows_are_whole():
    module = graph.module("rows")(lambda x: (op.sum(x, axis=1), op.max(x[:SLAB], axis=0)))
    with overridden(target="interpret"):
        module(drawn((300, 400), np.float32))
    assert slabs_of(module) == []
