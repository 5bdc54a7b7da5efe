"""The blocks of a group's kernel."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import drawn
from tessera import fp8_e4m3, graph, op, scale
from tessera.core.schedule.plan import PRODUCT, Group
from tessera.core.settings import overridden
from tessera.core.targets import GENERATIONS
from tessera.graphs.function import GraphFunction
from tessera.graphs.scaled import Scaled
from tessera.graphs.steps import steps_of
from tessera.graphs.tracer import Tracer
from tessera.performance.machine_kind import MachineKind

CPU = MachineKind(None, None, 1 << 16)


def only_group(function: object, *arrays: NDArray[Any] | Scaled) -> Group:
    made = graph.module(function)  # type: ignore[arg-type]
    assert isinstance(made, GraphFunction)
    with overridden(target="interpret"):
        made(*arrays)
    (group,) = made.executable.plan.groups
    return group


@pytest.mark.parametrize(("shape", "blocks"), [((5000,), {0: 1024}), ((3, 4), {0: 16}), ((0,), {0: 1})])
def test_maps_have_about_4096_elements(shape: tuple[int, ...], blocks: dict[int, int]):
    group = only_group(lambda x: x + 1, drawn(shape, np.float32))
    assert steps_of(group, CPU).blocks == blocks


def test_rows_read_with_steps_are_taken_one_by_one():
    group = only_group(lambda x: x[::2], drawn((4, 5, 6), np.float32))
    assert steps_of(group, CPU).blocks == {1: 32}


def test_rows_of_a_reduction_are_whole():
    group = only_group(op.softmax.function, drawn((100, 33), np.float32))
    assert 33 in steps_of(group, CPU).blocks.values()


def test_the_blocks_that_the_user_asked_for():
    a, b = drawn((200, 300), np.float32, 1), drawn((300, 250), np.float32, 2)
    group = only_group(lambda a, b: op.matmul(a, b, tile_shape=(64, 32, 16)), a, b)
    assert steps_of(group, CPU).blocks == {0: 64, 1: 32, 2: 16}


def test_blocks_of_a_convolution_are_boxes_of_pixels():
    x, w = drawn((16, 28, 28, 32), np.float16, 1), drawn((64, 3, 3, 32), np.float16, 2)
    group = only_group(lambda x, w: op.conv2d(x, w, padding=1, layout="NHWC"), x, w)
    assert group.extents == (16, 28, 28, 64, 3, 3, 32)
    assert steps_of(group, MachineKind(GENERATIONS["sm_90"])).blocks == {0: 8, 1: 4, 2: 4, 3: 64, 6: 64}
    rows = steps_of(group, CPU).blocks
    assert rows[0] * rows[1] > 1
    assert rows[2] == 28


def test_boxes_go_along_axes_that_lie_side_by_side_in_all_arrays():
    """With channels first, images do not in the result: its channels lie between these and the pixels."""
    x, w = drawn((16, 32, 28, 28), np.float16, 1), drawn((64, 32, 3, 3), np.float16, 2)

    def convolved(x: NDArray[Any], w: NDArray[Any]) -> object:
        return op.conv2d(x, w, padding=1)

    made = cast("GraphFunction[..., object]", graph.module("convolved")(convolved))
    *_, group = made.executable_for(x, w).plan.groups
    blocks = steps_of(group, MachineKind(GENERATIONS["sm_90"])).blocks
    assert [group.extents[axis] for axis in blocks] == [32, 64, 28, 28]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_blocks_of_a_transposed_convolution_lie_along_pixels_and_filters(layout: str):
    """Its phases, two per axis, come last in memory, and blocks of them would be almost empty."""
    last = layout == "NHWC"
    x = drawn((16, 28, 28, 64) if last else (16, 64, 28, 28), np.float16, 1)
    w = drawn((64, 4, 4, 32) if last else (64, 32, 4, 4), np.float16, 2)

    def transposed(x: NDArray[Any], w: NDArray[Any]) -> object:
        return op.conv_transpose2d(x, w, stride=2, padding=1, layout=layout)

    made = cast("GraphFunction[..., object]", graph.module("transposed")(transposed))
    (group,) = (group for group in made.executable_for(x, w).plan.groups if group.kind == PRODUCT)
    blocks = steps_of(group, MachineKind(GENERATIONS["sm_90"])).blocks
    assert sorted(group.extents) == sorted((16, 29, 29, 2, 2, 32, 2, 2, 64))
    pixels = [block for axis, block in blocks.items() if group.extents[axis] in (16, 29)]
    (filters,) = (block for axis, block in blocks.items() if group.extents[axis] == 32)
    assert np.prod(pixels) >= 32
    assert filters >= 32


H200 = MachineKind(GENERATIONS["sm_90"])


def scaled_product(turned: bool) -> Group:
    """A product of codes with a scale a row of both; turned: the second one lies along K."""
    rows = fp8_e4m3 @ scale(block=(1, 0) if turned else (0, 1))
    x = op.quantize(drawn((256, 512), np.float32), fp8_e4m3 @ scale(block=(1, 0)))
    w = op.quantize(drawn((384, 512) if turned else (512, 384), np.float32), rows)

    def product(x: Any, w: Any) -> Any:  # noqa: ANN401
        return op.gemm(x, w.T if turned else w)

    return only_group(product, x, w)


def test_codes_along_k_are_multiplied_as_bytes():
    """Sums of 128 products are added in f32, and what follows leaves registers for two sets of them."""
    along = scaled_product(turned=True)
    steps = steps_of(along, H200)
    assert steps.options["promotion_interval"] == 128
    assert steps.blocks[along.reduced[0]] == 128
    across = scaled_product(turned=False)
    steps = steps_of(across, H200)
    assert "promotion_interval" not in steps.options
    assert steps.blocks[across.reduced[0]] == 64


def test_long_columns_are_taken_in_slabs():
    group = only_group(lambda x: op.sum(x, axis=0), drawn((300, 50), np.float32))
    assert sorted(steps_of(group, H200).blocks.values()) == [32, 128]
    assert sorted(steps_of(group, CPU).blocks.values()) == [16, 300]
    group = only_group(lambda x: op.sum(x, axis=0), drawn((3000, 5), np.float32))
    assert sorted(steps_of(group, H200).blocks.values()) == [8, 128]
    assert sorted(steps_of(group, CPU).blocks.values()) == [8, 128]
    group = only_group(lambda x: op.sum(x, axis=0), drawn((256, 50), np.float32))
    assert sorted(steps_of(group, H200).blocks.values()) == [16, 256]


def test_sums_down_columns_take_a_cache_line_on_the_cpu():
    group = only_group(lambda x: op.sum(x, axis=0), drawn((1024, 1024), np.float32))
    assert sorted(steps_of(group, CPU).blocks.values()) == [16, 1024]
    assert sorted(steps_of(group, MachineKind(GENERATIONS["sm_90"])).blocks.values()) == [32, 128]
    along = only_group(lambda x: op.sum(x, axis=1), drawn((1024, 1024), np.float32))
    assert sorted(steps_of(along, CPU).blocks.values()) == [4, 1024]


def test_blocks_of_a_product_are_even_on_the_cpu():
    a, b = drawn((480, 40), np.float32, 1), drawn((40, 352), np.float32, 2)
    group = only_group(op.matmul.function, a, b)
    found: dict[int, dict[int, int]] = {}
    for threads in (1, 3):
        with overridden(threads=threads):
            found[threads] = dict(steps_of(group, CPU).blocks)
    assert 480 % found[1][0] == 0
    assert (found[1][1], found[1][2]) == (352, 40)
    assert -(-480 // found[3][0]) * -(-352 // found[3][1]) % 3 == 0


def _gated(g: Tracer, u: Tracer, w: Tracer, y: Tracer) -> Tracer:
    return op.sum(op.gemm(op.silu(g) * u, w).astype("f32") * y.astype("f32"))


def _smooth(g: Tracer, w: Tracer, y: Tracer) -> Tracer:
    return op.sum(op.gemm(op.gelu(g), w).astype("f32") * y.astype("f32"))


@pytest.mark.parametrize(("loss", "argnums", "count"), [(_gated, (0, 1), 4), (_smooth, (0,), 3)])
def test_epilogues_that_keep_several_arrays_in_registers_have_narrow_blocks(
    loss: Callable[..., Tracer], argnums: tuple[int, ...], count: int
):
    given = [np.zeros((4096, 4096), np.float16)] * count
    plan = tessera.grad(loss, argnums=argnums).executable_for(*given).plan
    (product,) = (each for each in plan.groups if each.kind == PRODUCT)
    assert sorted(steps_of(product, MachineKind(GENERATIONS["sm_90"])).blocks.values()) == [64, 128, 128]
