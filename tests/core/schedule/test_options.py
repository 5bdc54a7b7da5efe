"""The table of schedule options."""

import pytest

from support import programs
from tessera.core.schedule.options import SCHEDULE, applicable, clash, illegal


def test_candidates_are_legal():
    for option in SCHEDULE.values():
        assert set(option.candidates) <= set(option.legal)
        assert all(illegal(option.name, value, option.targets[0]) == "" for value in option.candidates)
        assert option.name.isidentifier()


@pytest.mark.parametrize(
    ("name", "value", "target", "words"),
    [
        ("lanes", 100, "cuda", "lanes=100 is not one of 32, 64, ..., 1024"),
        ("stages", 0, "cuda", "stages=0 is not one of 1, 2, 3, 4, 5, 6, 7, 8"),
        ("stages", True, "cuda", "stages=True is not one of"),
        ("overlap", 2, "cuda", "overlap=2 is not one of True, False"),
        ("apart", 2, "cuda", "apart=2 is not one of True, False"),
        ("vector", 3, "cuda", "vector=3 is not one of 1, 2, 4, 8, 16"),
        ("vector", 4, "cuda_tile", "vector means nothing for the target cuda_tile"),
        ("warp_columns", 0, "cuda", "warp_columns=0 is not one of 1, 2, 4, 8, 16, 32"),
        ("rows", "8", "cpu", "rows=8 is not one of"),
        ("lanes", 128, "cpu", "lanes means nothing for the target cpu"),
    ],
)
def test_what_is_illegal_says_why(name: str, value: object, target: str, words: str):
    assert illegal(name, value, target).startswith(words)


@pytest.mark.parametrize("value", [True, False, 1, 0])
def test_switches_take_numbers_as_well(value: int):
    assert illegal("overlap", value, "cuda") == ""


def test_legal_values_may_clash():
    assert clash({"warps": 4, "warp_columns": 8}) == "warp_columns=8 is more than warps=4"
    assert clash({"warps": 8, "warp_columns": 8, "stages": 2}) == ""
    assert clash({"warp_columns": 8}) == clash({"warps": 4}) == ""


def test_options_that_may_make_a_difference():
    assert [option.name for option in applicable(programs.saxpy(), "cuda")] == ["lanes", "elements"]
    assert [option.name for option in applicable(programs.matmul(), "cuda")] == [
        "warps",
        "stages",
        "cluster",
        "band",
        "rows",
    ]
    assert [option.name for option in applicable(programs.matmul(), "cpu")] == ["rows"]
    assert applicable(programs.saxpy(), "cpu") == ()
