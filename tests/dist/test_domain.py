"""Domains."""

import pytest

from tessera import domain
from tessera.core.errors.catalog import BadShardSpec


def test_rectangles_are_values():
    assert domain.Rect((2, 3)) == domain.Rect([2, 3])
    assert (domain.Rect(4).shape, domain.Rect(4).ndim) == ((4,), 1)
    with pytest.raises(BadShardSpec, match="are no extents") as raised:
        domain.Rect((2, 1.5))  # pyright: ignore - the mistake
    assert raised.value.hint == "write Rect((8, 128, 64))"
