"""Which variant of a kernel runs where."""

from collections.abc import Callable

import numpy as np
import pytest

from support.library import normal
from tessera import graph, stream
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.settings import overridden
from tessera.core.targets import GENERATIONS
from tessera.ops import (
    flash_attention,
    flash_attention_backward,
    gemm,
    layernorm,
    reduce_sum,
    rmsnorm,
    softmax,
    transpose,
)
from tessera.ops.recipes import launch_recipe
from tessera.ops.recipes.launch_recipe import (
    Launch,
    LaunchRecipe,
    MatmulArguments,
    ScheduleArguments,
    machine_of,
    require_known,
    variant,
)
from tessera.ops.tiles.transposition import transpose_matrices
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.launch import on_gpu
from tessera.runtime.memory.operands import operand

CPU = MachineKind()


class OnDevice:
    """An array in a GPU's memory, as far as anybody looks."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {"data": (1 << 20, False), "shape": (2, 4), "typestr": "<f4", "version": 3}


def test_the_setting_says_where_arrays_of_the_host_are_used():
    x = operand(normal(3), "x")
    assert machine_of(x) == CPU
    with overridden(target="interpret"):
        assert machine_of(x) == CPU
    with overridden(target="cuda:sm_90a"):
        assert machine_of(x) == MachineKind(GENERATIONS["sm_90"])
    with overridden(target="cuda:sm_80"):
        assert machine_of(x) == MachineKind(GENERATIONS["sm_80"])


def test_arrays_of_a_gpu_are_used_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch_recipe, "device_of", lambda values: 1)
    monkeypatch.setattr(on_gpu, "device_architecture", lambda device, target: {(1, "cuda"): "sm_100a"}[device, target])
    x = operand(OnDevice(), "x")
    assert machine_of(x) == MachineKind(GENERATIONS["sm_100"], "cuda")
    with overridden(target="cuda"):
        assert machine_of(x) == MachineKind(GENERATIONS["sm_100"])
    with overridden(target="cuda:sm_80"):
        assert machine_of(x) == MachineKind(GENERATIONS["sm_80"])


def test_constants_come_from_the_operands_the_caller_and_the_schedule_in_this_order():
    made = variant(transpose_matrices, CPU, {"BLOCK": 64, "OTHER": 1}, {}, {"schedule": {"BLOCK": 32}}, KIND=2)
    assert made.options.constants == {"BLOCK": 32, "OTHER": 1, "KIND": 2}
    assert made.options.space is None


@pytest.mark.parametrize(
    ("how", "words", "remedy"),
    [
        ({"activaton": "relu"}, "there is no argument 'activaton'", "it takes schedule, tune, stream, compute"),
        (
            {"schedule": {"BMM": 64}},
            "there is no tuning parameter 'BMM'",
            "choose from BM, threads_per_block, elements_per_thread",
        ),
        ({"schedule": {"stages": 0}}, "stages=0 is not one of 1, 2", "iterations of K that are loaded ahead"),
        ({"schedule": {"num_warps": 3}}, "num_warps=3 is not one of 1, 2, 4", "warps that share the work of a group"),
    ],
)
def test_what_a_function_does_not_know_is_a_mistake(how: ScheduleArguments, words: str, remedy: str):
    with pytest.raises(BadKernelOption, match=words) as caught:
        require_known(how, ("BM",), MatmulArguments)
    assert remedy in caught.value.hint


def test_what_a_function_knows():
    require_known({"schedule": {"BM": 3, "num_warps": 4, "overlap": False}, "tune": True, "stream": None}, ("BM",))
    require_known({"schedule": None}, ())


def test_every_function_looks_at_its_arguments():
    x, heads = normal(4, 4), normal(1, 1, 4, 4)
    calls: list[Callable[..., object]] = [  # a keyword of theirs, or a mistake
        lambda **how: gemm(x, x, **how), lambda **how: softmax(x, **how), lambda **how: rmsnorm(x, x[0], **how),
        lambda **how: layernorm(x, x[0], x[0], **how), lambda **how: reduce_sum(x, **how),
        lambda **how: transpose(x, **how), lambda **how: flash_attention(heads, heads, heads, **how),
        lambda **how: flash_attention_backward(heads, heads, heads, heads, heads, heads[..., 0], **how),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(BadKernelOption, match="there is no argument 'streem'"):
            call(streem=None)
        with pytest.raises(BadKernelOption, match="there is no tuning parameter 'BMM'"):
            call(schedule={"BMM": 64})


def test_tuning_searches_what_the_caller_left_open():
    space = {"BLOCK": (32, 64), "OTHER": (1, 2)}
    made = variant(transpose_matrices, CPU, {"BLOCK": 64, "OTHER": 1}, space, {"tune": True, "schedule": {"OTHER": 2}})
    assert made.options.space == {"BLOCK": (32, 64)}
    assert made.options.constants == {"BLOCK": 64, "OTHER": 2}  # the library's own, which the search begins with


def test_one_kernel_for_equal_constants_and_two_for_zeros_of_either_sign():
    kernels = [variant(transpose_matrices, CPU, {}, {}, {}, LOWEST=value) for value in (0, 0, 0.0, -0.0, False)]
    assert kernels[0] is kernels[1]
    assert len(set(kernels)) == 4


def test_the_target_of_the_arrays_goes_into_the_kernel():
    assert variant(transpose_matrices, MachineKind(GENERATIONS["sm_90"], "cuda"), {}, {}, {}).options.target == "cuda"
    assert variant(transpose_matrices, CPU, {}, {}, {}).options.target is None


def test_what_is_prepared_runs_again_and_again():
    x, y = normal(1, 3, 4), np.zeros((1, 4, 3), np.float32)
    prepared = LaunchRecipe((Launch(transpose_matrices, (x, y)),), lambda: y)
    for factor in (1.0, 2.0):
        x *= np.float32(factor)
        np.testing.assert_array_equal(prepared.run(), x.transpose(0, 2, 1))


def test_a_stream_takes_the_launches_in_order():
    queue = stream.new()
    x = normal(300, 300)
    y = transpose(x, stream=queue)
    z = transpose(y, stream=queue)
    queue.synchronize()
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_array_equal(z, x)


def test_launches_can_be_captured():
    x, y = normal(5, 70), np.zeros((70, 5), np.float32)
    with graph.capture() as captured:
        transpose(x, y)
    assert not y.any()
    x *= np.float32(2)
    graph.launch(captured)
    np.testing.assert_array_equal(y, x.T)
