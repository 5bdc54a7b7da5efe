"""What a page asks of one configuration."""

import numpy as np
import pytest

import tessera
from tessera.viz.tuning.detail import compiled, detail, diff_with_best, parsed, profile_beside_best

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
"""
VALUES = (np.zeros(100, np.float32), np.zeros(100, np.float32))


def test_resources_stand_beside_those_of_the_best():
    kernel = tessera.compile_source(SOURCE).doubled
    found = detail(kernel, VALUES, {"STEP": 64}, {"STEP": 32})
    assert found.error == ""
    rows = {name: (own, best) for name, own, best in found.rows}
    assert all(amount.startswith(tuple("123456789")) and "bytes" in amount for amount in rows["code"])
    alone = detail(kernel, VALUES, {"STEP": 64}, None)
    assert [best for _, _, best in alone.rows] == [""] * len(alone.rows)
    assert compiled(kernel, VALUES, {"STEP": 64}).artifact.name == "doubled"


def test_a_configuration_that_cannot_be_compiled_says_why():
    found = detail(tessera.compile_source(SOURCE).doubled, VALUES, {"STEP": 0}, None)
    assert found.rows == ()
    assert found.error.startswith("TSR-E")


def test_what_a_person_types():
    assert parsed("BM=64, BN=32 fast=True mode=ring x=1.5") == {
        "BM": 64,
        "BN": 32,
        "fast": True,
        "mode": "ring",
        "x": 1.5,
    }


@pytest.mark.parametrize("text", ["", "BM", "BM=", "=3", "3=BM"])
def test_what_is_no_configuration_is_refused(text: str):
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parsed(text)


def test_a_diff_goes_from_the_best_to_the_configuration():
    kernel = tessera.compile_source(SOURCE).doubled
    (found,) = diff_with_best(kernel, VALUES, {"STEP": 64}, {"STEP": 32})
    assert (found.kind, found.title) == ("diff", "from the best, STEP=32, to STEP=64")
    assert isinstance(found.payload, dict)


def test_a_profile_stands_beside_that_of_the_best():
    kernel = tessera.compile_source(SOURCE).doubled
    values = (np.ones(100, np.float32), np.zeros(100, np.float32))
    found = profile_beside_best(kernel, values, {"STEP": 64}, {"STEP": 32})
    assert [(each.kind, each.title) for each in found] == [("timeline", "STEP=64"), ("timeline", "STEP=32, the best")]
    assert not values[1].any()
    assert len(profile_beside_best(kernel, values, {"STEP": 64}, {"STEP": 64})) == 1
