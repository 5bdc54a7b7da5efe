"""Options are tested with kernels; here what merging does."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import math
from collections.abc import Callable

import numpy as np
import pytest

from tessera import kernel, mut, tensor, tile
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.program.program import Attribute
from tessera.kernels.options import Options, no_tuner, own_names, read_options, with_space

FACTOR = 2.0


def doubled(x: np.ndarray):
    return FACTOR * inner(x)


def inner(x: np.ndarray):
    return OFFSET + x


@kernel
def changed(x: tensor, y: mut[tensor]):
    for t in tile.range(x.shape[0], step=STEP):
        y[t : t + STEP] = doubled(x[t : t + STEP]) * math.pi


@kernel
def unfinished(x: tensor):
    x[0] = later(x[1])


@kernel
def stages_of_its_own(y: mut[tensor]):
    y[0] = stages


def test_spaces_merge_and_scalars_stand_alone():
    options = with_space(Options(tile=(32,)), {"BM": range(2)}, {"stages": 3, "mode": "fast"})
    assert options.space == {"BM": (0, 1), "stages": (3,), "mode": ("fast",)}
    assert options.tile == (32,)


def test_fast_is_a_flag():
    assert read_options({"fast": True}).fast
    assert not read_options({}).fast
    with pytest.raises(BadKernelOption, match="fast is True or False"):
        read_options({"fast": "yes"})


def test_a_variant_has_names_of_the_kernel_of_what_it_calls_and_schedule_options():
    y = np.zeros(8, np.float32)
    changed.variant(STEP=4, FACTOR=3.0, OFFSET=1.0, rows_per_group=2)(np.ones(8, np.float32), y)
    np.testing.assert_allclose(y, 6 * math.pi, rtol=1e-6)


@pytest.mark.parametrize(
    ("constants", "words", "remedy"),
    [
        ({"STEPS": 4}, "changed has no tuning parameter 'STEPS'", "did you mean STEP?"),
        ({"stagess": 4}, "changed has no tuning parameter 'stagess'", "did you mean stages?"),
        (
            {"nonsense": 4},
            "changed has no tuning parameter 'nonsense'",
            "the schedule options are threads_per_block, elements_per_thread",
        ),
        ({"stages": 0}, "stages=0 is not one of 1, 2", "iterations of K that are loaded ahead"),
        ({"num_warps": 3}, "num_warps=3 is not one of 1, 2, 4", "warps that share"),
        ({"defer_epilogue": 2}, "defer_epilogue=2 is not one of True, False", "results are stored"),
    ],
)
def test_what_a_variant_cannot_have(constants: dict[str, Attribute], words: str, remedy: str):
    with pytest.raises(BadKernelOption, match=words) as caught:
        changed.variant(**constants)
    assert remedy in caught.value.hint


def test_a_name_may_belong_to_what_is_not_defined_yet():
    assert unfinished.variant(BLOCK=3).options.constants == {"BLOCK": 3}


def test_an_option_of_the_kernels_own_has_any_value():
    assert "stages" in own_names(stages_of_its_own.source.function)
    y = np.zeros(1, np.float32)
    stages_of_its_own.variant(stages=0.5)(y)
    assert y[0] == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constants": 3}, "constants gives values by name, got 3"),
        ({"constants": {"BM": len}}, "BM is <built-in function len>, it must be a number or a name"),
        ({"space": ["BM"]}, "space gives values by name, got ['BM']"),
        ({"space": {"BM": None}}, "the values of 'BM' are None"),
        ({"sanitize": "yes"}, "sanitize is True or False, got 'yes'"),
    ],
)
def test_values_of_the_wrong_kind(
    options: dict[str, int | list[str] | str | dict[str, Callable[..., object] | None]], message: str
):
    with pytest.raises(BadKernelOption) as caught:
        read_options(options)
    assert caught.value.message == message


def test_numpys_numbers_are_taken():
    space = read_options({"space": {"BM": 2 ** np.arange(5, 8)}}).space
    assert space is not None
    assert space == {"BM": (32, 64, 128)}
    assert [type(value) for value in space["BM"]] == [int, int, int]


def test_a_kernel_that_nothing_tunes_says_so():
    with pytest.raises(BadKernelOption, match="changed has a space of parameters") as caught:
        no_tuner(changed, (), None)
    assert "@kernel.autotune" in str(caught.value)
