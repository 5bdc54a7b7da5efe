"""The benchmark of the tuner: ten kernels that compile, and a row for one of them."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))  # pyright: ignore[reportUnknownMemberType] - of pytest itself
    return importlib.import_module("tuning")


@pytest.mark.parametrize("gpu", [False, True])
def test_ten_kernels(tuning: ModuleType, gpu: bool) -> None:
    cases = tuning.cases(gpu)
    module = tessera.compile_source(tuning.SOURCE.replace("{dtype}", "f32"))
    assert len(cases) == 10
    for case in cases:
        kernel = getattr(module, case.kernel)
        assert len(kernel.source.function.args.args) == len(case.shapes)


def test_a_row(tuning: ModuleType, tmp_path: Path) -> None:
    case = tuning.Case("small", "stencil", ((100,), (100,)), {"BLOCK": [16, 64]})
    module = tessera.compile_source(tuning.SOURCE.replace("{dtype}", "f32"))
    values = tuning.arguments(case, "f32", lambda array: array)
    assert [array.dtype for array in values] == [np.float32] * 2
    before = values[1].copy()
    with overridden(cache_dir=tmp_path):
        row = tuning.measure(case, module.stencil, values, 3)
    assert (row.name, row.configurations, row.pruned) == ("small", 3, 0)
    assert row.choice["BLOCK"] in (16, 64, 256)
    assert 0 < row.first <= row.seconds
    assert row.cost > 0
    assert row.gain > 0
    np.testing.assert_array_equal(values[1], before)  # every launch has copies
