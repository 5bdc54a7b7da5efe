"""Advice beside what a search measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from support.profiles import turns
from tessera.core.program.program import Attribute
from tessera.profiling.advice.explanation import explanation
from tessera.profiling.advice.measured_options import checked
from tessera.profiling.advice.model import Advice, Options


@dataclass(frozen=True)
class Times:
    """Times of values of B by that of the profiled one."""

    ratios: Mapping[Attribute, float]
    fastest: Options
    own: Options = field(default_factory=lambda: {"B": 16})

    def ratio(self, options: Options) -> float | None:
        return self.ratios.get(options["B"])


def proposing(*values: int) -> Advice:
    return Advice("tiny groups", "Larger groups cost less.", (), 0.6, (3,), tuple({"B": value} for value in values))


def test_what_a_search_found_slower_is_no_advice():
    kept, notes = checked([proposing(64)], Times({64: 1.34}, {}))
    assert kept == []
    assert notes == ["tiny groups is no advice here: a search measured B=64 takes 1.34 times as long"]


def test_one_of_several_options_may_be_slower():
    (advice,), notes = checked([proposing(64, 128, 256)], Times({64: 1.0, 128: math.inf}, {}))
    assert advice.options == ({"B": 256},)
    assert advice.text.endswith("A search measured B=64 takes 1.00 times as long; B=128 does not compile.")
    assert notes == []


def test_what_a_search_found_fastest_is_an_advice():
    kept, _ = checked([proposing(64)], Times({64: 0.9, 4: 0.75}, {"B": 4}))
    assert [each.kind for each in kept] == ["other values", "tiny groups"]
    assert kept[0].options == ({"B": 4},)
    assert kept[0].gain == pytest.approx(0.25)
    assert kept[0].lines == (3,)
    assert checked([], Times({4: 0.99}, {"B": 4})) == ([], []), "as fast as these"
    assert checked([], Times({}, {"B": 4})) == ([], []), "not measured"


def test_larger_values_are_no_advice_where_smaller_ones_were_fastest():
    kept, notes = checked([proposing(64)], Times({4: 0.75}, {"B": 4}))
    assert [each.kind for each in kept] == ["other values"]
    assert notes == ["tiny groups is no advice here: a search measured B=4 as the fastest"]
    kept, notes = checked([proposing(64)], Times({32: 0.75}, {"B": 32}))
    assert [each.kind for each in kept] == ["other values", "tiny groups"]
    assert notes == []


def test_advice_without_options_stays():
    plain = Advice("memory-bound", "Memory is the limit.", (), 0.1)
    assert checked([plain], Times({}, {})) == ([plain], [])


def test_explanations_ask_the_search():
    found = explanation(turns([1e5] * 5), lambda origin: Times({4: 0.5}, {"B": 4}) if origin is None else None)
    assert {each.kind for each in found.advice} >= {"tail effect", "other values"}
