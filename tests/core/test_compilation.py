"""Compilations are values."""

from support.artifacts import scale_artifact
from tessera.core.compilation import Compilation


def test_values():
    assert Compilation(scale_artifact()) == Compilation(scale_artifact(), (), ())
