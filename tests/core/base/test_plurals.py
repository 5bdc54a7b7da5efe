"""Numbers in sentences."""

from tessera.core.base.plurals import counted


def test_one_and_many():
    assert [counted(count, "tile") for count in (0, 1, 2, 1024)] == ["0 tiles", "1 tile", "2 tiles", "1,024 tiles"]
