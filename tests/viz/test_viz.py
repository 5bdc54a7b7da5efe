"""The public names of the views."""

import pytest

from tessera import viz


def test_every_public_name_is_there():
    for name in viz.__all__:
        assert callable(getattr(viz, name))
    assert dir(viz) == sorted(viz.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        viz.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
