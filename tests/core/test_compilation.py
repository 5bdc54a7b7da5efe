"""Compilations are values."""

from support.artifacts import scale_artifact
from tessera.core.compilation import Compilation, PassRecord


def test_values():
    assert Compilation(scale_artifact()) == Compilation(scale_artifact(), (), ())
    assert PassRecord("p", "tile", 0.1).changed
