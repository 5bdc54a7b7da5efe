"""Texts that can be edited, and the kernels that edited texts are."""

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import BadKernelOption, SyntaxMistake, TesseraError, UndefinedName
from tessera.kernels.kernel import Kernel
from tessera.viz.editing import drafts

SOURCE = """
FACTOR = 2.0

@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = FACTOR * x[t:t+64]

AFTER = 1
"""
X = np.arange(200, dtype=np.float32)


@pytest.fixture
def doubled() -> Kernel:
    kernel: Kernel = tessera.compile_source(SOURCE).doubled
    return kernel


def test_the_kernels_own_lines(doubled: Kernel):
    assert drafts.own_lines(doubled) == SOURCE.strip().split("\n\n")[1]


def test_an_edited_text_sees_what_the_original_sees(doubled: Kernel):
    edited = drafts.from_source(doubled, drafts.own_lines(doubled).replace("FACTOR *", "FACTOR + 1.0 +"))
    y = np.zeros_like(X)
    edited(X, y)
    np.testing.assert_array_equal(y, 3 + X)
    doubled(X, y)
    np.testing.assert_array_equal(y, 2 * X)


@pytest.mark.parametrize(
    "text", ["x = 1", "import os", "@kernel\ndef other(x: f32[n]):\n    x[0] = 1.0", "def doubled(x):\n    pass", ""]
)
def test_anything_but_the_kernel_is_refused_before_it_runs(doubled: Kernel, text: str):
    with pytest.raises(SyntaxMistake, match="define the kernel doubled, and nothing else"):
        drafts.from_source(doubled, text)


def test_mistakes_point_into_the_edit(doubled: Kernel):
    edited = drafts.from_source(doubled, drafts.own_lines(doubled).replace("FACTOR", "FACTR"))
    with pytest.raises(UndefinedName) as caught:
        edited.compile(X, X.copy())
    assert caught.value.span is not None
    assert caught.value.span.line == 4


def test_options(doubled: Kernel):
    options = {option.name: option for option in drafts.options_of(doubled.variant(rows_per_group=4), (X, X))}
    assert options["rows_per_group"].value == 4
    assert options["rows_per_group"].has_effect
    assert not options["stages"].has_effect
    assert drafts.with_values(doubled, {"rows_per_group": 8, "stages": None}).options.constants == {"rows_per_group": 8}
    for given in ({"nothing": 1}, {"stages": "3"}, {"rows_per_group": 3}):
        with pytest.raises(BadKernelOption):
            drafts.with_values(doubled, given)


def test_ptx_is_that_of_the_gpu_target(doubled: Kernel):
    assert drafts.ptx_target(doubled, (X, X)) == "cuda"
    assert ".visible .entry doubled(" in drafts.ptx_of(doubled, (X, X.copy()))
    assert issubclass(SyntaxMistake, TesseraError)
