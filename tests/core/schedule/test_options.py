"""The table of schedule options."""

import pytest

from support import programs
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE, applicable, clash, illegal, suggestion, targets_of
from tessera.core.targets import TARGETS


def test_candidates_are_legal():
    for option in SCHEDULE.values():
        assert set(option.candidates) <= set(option.legal)
        assert all(
            illegal(option.name, value, target) == ""
            for value in option.candidates
            for target in targets_of(option.name)
        )
        assert targets_of(option.name)
        assert option.name.isidentifier()


@pytest.mark.parametrize(
    ("name", "value", "target", "words"),
    [
        ("threads_per_block", 100, "cuda", "threads_per_block=100 is not one of 32, 64, ..., 1024"),
        ("stages", 0, "cuda", "stages=0 is not one of 1, 2, 3, 4, 5, 6, 7, 8"),
        ("stages", True, "cuda", "stages=True is not one of"),
        ("overlap", 2, "cuda", "overlap=2 is not one of True, False"),
        ("epilogue_per_warpgroup", 2, "cuda", "epilogue_per_warpgroup=2 is not one of True, False"),
        ("vector_width", 3, "cuda", "vector_width=3 is not one of 1, 2, 4, 8, 16"),
        ("vector_width", 4, "cuda_tile", "vector_width means nothing for the target cuda_tile"),
        ("warp_columns", 0, "cuda", "warp_columns=0 is not one of 1, 2, 4, 8, 16, 32"),
        ("rows_per_group", "8", "cpu", "rows_per_group=8 is not one of"),
        ("threads_per_block", 128, "cpu", "threads_per_block means nothing for the target cpu"),
    ],
)
def test_what_is_illegal_says_why(name: str, value: Attribute, target: str, words: str):
    assert illegal(name, value, target).startswith(words)


@pytest.mark.parametrize("value", [True, False, 1, 0])
def test_switches_take_numbers_as_well(value: int):
    assert illegal("overlap", value, "cuda") == ""


def test_rows_of_targets_name_options_that_exist():
    assert {name for kind in TARGETS.values() for name in kind.schedule} == set(SCHEDULE)
    assert targets_of("num_warps") == ("cuda", "cuda_tile")
    assert targets_of("pingpong") == ("cuda",)


def test_suggestions_by_meaning_and_by_spelling():
    assert suggestion("num_stages") == suggestion("stage") == "stages"
    assert suggestion("GROUP_SIZE_M") == "raster_group"
    assert suggestion("blockDim") == "threads_per_block"
    assert suggestion("nothing_like_it") == ""
    known = [name for option in SCHEDULE.values() for name in option.known_as]
    assert len(set(known)) == len(known)
    assert not set(known) & set(SCHEDULE)


def test_legal_values_may_clash():
    assert clash({"num_warps": 4, "warp_columns": 8}) == "warp_columns=8 is more than num_warps=4"
    assert clash({"num_warps": 8, "warp_columns": 8, "stages": 2}) == ""
    assert clash({"warp_columns": 8}) == clash({"num_warps": 4}) == ""


def test_options_that_may_make_a_difference():
    assert [option.name for option in applicable(programs.saxpy(), "cuda")] == [
        "threads_per_block",
        "elements_per_thread",
    ]
    assert [option.name for option in applicable(programs.matmul(), "cuda")] == [
        "num_warps",
        "stages",
        "cluster",
        "raster_group",
        "rows_per_group",
    ]
    assert [option.name for option in applicable(programs.matmul(), "cpu")] == ["rows_per_group"]
    assert applicable(programs.saxpy(), "cpu") == ()
