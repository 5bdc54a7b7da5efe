"""Numbers in sentences."""

from tessera.core.base.plurals import counted, short_bytes, short_count


def test_one_and_many():
    assert [counted(count, "tile") for count in (0, 1, 2, 1024)] == ["0 tiles", "1 tile", "2 tiles", "1,024 tiles"]


def test_counts_have_three_digits():
    assert [short_count(number) for number in (0, 999, 1000, 16384, 1_048_576, 3 * 10**9, 10**13)] == [
        "0 ", "999 ", "1 k", "16.4 k", "1.05 M", "3 G", "10 T",
    ]  # fmt: skip
    assert [short_bytes(size) for size in (512, 68_700_000_000)] == ["512 B", "68.7 GB"]
