"""A hand-made compilation of saxpy, see `support.compilations`."""

import pytest

from support.compilations import saxpy_artifact, saxpy_compilation
from tessera.core.artifact import Artifact
from tessera.core.compilation import Compilation


@pytest.fixture
def artifact() -> Artifact:
    """Saxpy, as if compiled for the CPU."""
    return saxpy_artifact()


@pytest.fixture
def compilation() -> Compilation:
    """Saxpy with listings of three levels, and three stages of the first."""
    return saxpy_compilation()
