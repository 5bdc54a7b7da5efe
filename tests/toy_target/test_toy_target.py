"""A target that is added by one folder and one row goes everywhere that targets go."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import BadSetting, NotAvailableYet, UnknownLevel
from tessera.core.settings import overridden
from tessera.core.targets import TARGETS
from tessera.session.session import session
from tessera_magics.doctor import targets
from tessera_magics.options import complete_cell
from toy_target import TOY

TEXT = """
@kernel{options}
def scale(x: f32[n], y: mut f32[n], a: f32):
    for i in tile.range(n, step=16):
        y[i:i+16] = a * x[i:i+16] + 1.0

@kernel{options}
def total(x: f32[n, 8], y: mut f32[n]):
    for i in tile.range(n, step=16):
        y[i:i+16] = tile.sum(x[i:i+16, :], axis=1)
"""
X = np.arange(40, dtype=np.float32)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The row in the table, and compilers that find the folder."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.setitem(TARGETS, TOY.name, TOY)
    session().close()
    with overridden(threads=1):
        yield TOY.name
    session().close()


def kernels(options: str = '(target="toy")'):
    return tessera.compile_source(TEXT.replace("{options}", options))


def test_a_kernel_runs_and_is_looked_at(toy: str):
    scale, y = kernels().scale, np.zeros(40, np.float32)
    scale(X, y, 2.0)
    np.testing.assert_array_equal(y, 2 * X + 1)
    assert (scale.last.target.name, scale.last.groups) == (toy, 3)
    assert scale.last.levels == ("source", "tile", "python")
    printed = scale.inspect_ir("python")
    assert printed.splitlines()[0] == "def scale(group, x, y, a):"
    assert printed.splitlines()[-1].startswith("    y[")
    assert printed.listing.lines[-1].spans[0].line == 5
    assert "toy" in repr(scale.last)
    assert scale.last.resources().code_bytes == len(scale.last.artifact.code)
    with pytest.raises(UnknownLevel, match="'ptx' is no level of a kernel compiled for toy") as caught:
        scale.last.ir("ptx")
    assert caught.value.hint == "choose one of source, tile, python"


def test_what_it_cannot_do_is_said_with_the_place(toy: str):
    with pytest.raises(NotAvailableYet, match=r"the target toy has no tessera.reduce") as caught:
        kernels().total(np.ones((40, 8), np.float32), np.zeros(40, np.float32))
    assert "tile.sum(x[i:i+16, :], axis=1)" in str(caught.value)


def test_settings_levels_and_streams(toy: str):
    scale, y = kernels("").scale, np.zeros(40, np.float32)
    assert "def scale(group" in scale.inspect_ir("python", X, y, 2.0)  # no other target has this level
    stream = tessera.stream.new()
    with overridden(target=toy):
        scale.on(stream)(X, y, 3.0)
        stream.synchronize()
    np.testing.assert_array_equal(y, 3 * X + 1)
    with overridden(target=toy), pytest.raises(NotAvailableYet, match="the target toy has no profile"):
        tessera.profile(scale)(X, y, 3.0)


def test_it_is_listed(toy: str):
    assert (toy, "showing how a target is added", "ready") in targets().rows
    assert complete_cell("%%tessera --target to") == [toy]
    assert complete_cell("%%tessera --show py") == ["python"]
    with pytest.raises(BadSetting) as caught, overridden(target="tpu"):
        pass
    assert toy in str(caught.value)
