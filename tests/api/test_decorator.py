"""The decorator: its options, alone and added to a kernel, and the kernel it saw last."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

from typing import Any

import numpy as np
import pytest

from tessera import kernel, launch
from tessera.api.decorator import decorate
from tessera.core.errors.catalog import BadKernelOption, BadSetting, UnknownLevel
from tessera.kernels.kernel import Kernel, Latest
from tessera.kernels.options import Options


@kernel
def twice(x: "f32[n]", y: "mut[f32[n]]"):
    i = launch.thread_id()
    if i < n:
        y[i] = 2.0 * x[i]


def test_a_function_becomes_a_kernel():
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    assert isinstance(twice, Kernel)
    twice(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_options_are_added_to_a_kernel():
    fast = decorate(twice, Options(fast=True, shared=64))
    assert decorate(fast, Options(tile=(32,))).options == Options(tile=(32,), fast=True, shared=64)
    assert twice.options == Options()


def test_a_space_is_searched_at_the_first_call():
    @kernel.autotune(space={"BM": [16, 32]}, BN=[64])
    def tuned(x: "f32[n]"): ...

    assert tuned.options.space == {"BM": (16, 32), "BN": (64,)}


def test_the_kernel_seen_last_is_inspected(monkeypatch: pytest.MonkeyPatch):
    text = twice.inspect_ir("tile")
    assert kernel.inspect_ir("tile") == text
    monkeypatch.setattr(Latest, "kernel", None)
    with pytest.raises(UnknownLevel, match="no kernel was defined yet"):
        kernel.inspect_ir("tile")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiles": (1,)}, "a kernel has no option 'tiles'"),
        ({"tile": (1.5,)}, "tile: a grid is made of integers"),
        ({"shared": "8"}, "shared is a number of bytes, got '8'"),
        ({"target": 3}, "target is a name, got 3"),
        ({"space": {}}, "autotune needs a space"),
        ({"space": {"BM": []}}, "no values are given for 'BM'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str):
    with pytest.raises(BadKernelOption, match=rf"^[^\n]*(?:{message})"):
        kernel(**options)


def test_an_unknown_target():
    with pytest.raises(BadSetting, match="there is no target 'gpu'"):
        kernel(target="gpu")
