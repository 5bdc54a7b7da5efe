"""What views are given, and what they say of what is not theirs."""

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from tessera import viz
from tessera.core.errors.catalog import NothingToShow
from tessera.kernels.kernel import Kernel
from tessera.viz.base.subjects import compiled, launched, profiled

SOURCE = """
@kernel
def twice(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] * 2.0
"""


@pytest.fixture(scope="module")
def twice() -> Kernel:
    return tessera.compile_source(SOURCE).twice


def test_a_kernel_with_a_grid_is_a_kernel(twice: Kernel):
    kernel, grid = launched(twice[2, 32], "tiles")
    assert kernel is twice
    assert grid is not None
    assert launched(twice, "tiles") == (twice, None)
    found = compiled(twice[2, 32], "explore")
    assert found is compiled(found, "explore")


def test_mistakes_name_the_view_and_what_it_was_given(twice: Kernel):
    x = np.ones(40, np.float32)
    profile = tessera.profile(twice)(x, x.copy())
    assert profiled(profile, "timeline") is profile
    told = {
        "the kernel twice": (profiled, twice),
        "a profile of twice": (compiled, profile),
        "a compilation of twice": (launched, twice.compile()),
        "the record of a compilation of twice": (launched, twice.compile().compilation),
        "the function len": (compiled, len),
        "an object of type int": (profiled, 3),
    }
    for words, (ask, given) in told.items():
        with pytest.raises(NothingToShow, match=rf"view\(\) shows .*, and {words} is none"):
            ask(given, "view")


VIEWS: dict[str, Callable[..., object]] = {
    name: getattr(viz, name) for name in viz.__all__
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("given", [3, None, len, np.ones(3)], ids=["number", "nothing", "function", "array"])
def test_every_view_refuses_what_is_not_its_own(name: str, given: object):
    arguments = (given, given) if name == "diff" else (given,)
    with pytest.raises(NothingToShow, match=rf"{name}\(\) shows") as caught:
        VIEWS[name](*arguments)
    assert caught.value.hint
