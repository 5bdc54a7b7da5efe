"""Permissions: names, sets of names, what "real" stands for, and what is refused."""

import pytest

from tessera.core.errors.catalog import BadPermission
from tessera.core.graph.permissions import ALGEBRA, CLASSES, read_permissions


def test_names_and_sets_of_names():
    assert read_permissions("bits") == frozenset()
    assert read_permissions(()) == frozenset()
    assert read_permissions("fold") == {"fold"}
    assert read_permissions({"fold", "reassociate"}) == {"fold", "reassociate"}
    assert read_permissions(["bits", "approximate"]) == {"approximate"}


def test_real_is_all_but_approximations():
    assert read_permissions("real") == ALGEBRA == set(CLASSES) - {"bits", "approximate"}
    assert read_permissions(("real", "approximate")) == set(CLASSES) - {"bits"}


@pytest.mark.parametrize("given", ["fast", ("fold", "fats"), 3, [3], None])
def test_other_names_are_refused_with_the_choices(given: object):
    with pytest.raises(BadPermission, match="is no class of rewrites") as raised:
        read_permissions(given)
    assert raised.value.hint == (
        "choose from bits, reassociate, fold, cancel, widen, approximate, real; several as a set"
    )
