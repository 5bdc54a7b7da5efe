"""Texts that are short, and the same on every machine."""

from tessera.viz.base.texts import largest, without_host


def test_the_processor_is_left_out():
    assert without_host("k for cpu:znver3: tile; cuda:sm_90a") == "k for cpu: tile; cuda:sm_90a"
    assert without_host("cpu:x86-64-v3 and cpu") == "cpu and cpu"


def test_the_largest_rows_are_in_their_own_order():
    assert largest("abcd", [3, 9, 5, 9], 3) == ["b", "c", "d"]
    assert largest("abcd", [1, 1, 1, 1], 2) == ["a", "b"]
    assert largest("ab", [1, 2], 5) == ["a", "b"]
    assert largest("", [], 5) == []
