"""What tests of the lowering share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tessera.core.mlir import ir


@pytest.fixture
def mlir() -> "Iterator[ir.Context]":
    """An MLIR context with the dialect, current in the test; tests of `make check` never load MLIR."""
    from tessera.core.tile.dialect import shared_context  # noqa: PLC0415

    with shared_context() as context:
        yield context
