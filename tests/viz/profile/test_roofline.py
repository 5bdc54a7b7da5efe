"""Rooflines: roofs, points and their words."""

import dataclasses

import pytest

from support.profiles import profile_of, work
from tessera.viz import roofline

SECONDS = (2e-6,)


def test_a_point_is_where_the_launch_is():
    model = roofline(profile_of([0], [0], [5], plain=SECONDS)).data
    (point,) = model.points
    assert (point.intensity, point.rate, point.bound) == (1.0, pytest.approx(5e11), "memory")
    assert point.attained == pytest.approx(0.5)
    assert [(roof.kind, roof.rate) for roof in model.roofs] == [("f32", 1e13)]


def test_kinds_of_the_same_rate_share_a_roof():
    made = dataclasses.replace(work(1), by_kind={"dot bf16": 1e9, "f32": 1e6, "i32": 5.0})
    model = roofline(profile_of([0], [0], [5], work=made)).data
    assert [roof.kind for roof in model.roofs] == ["f32, i32", "dot bf16"]


def test_phases_are_points_of_one_plot():
    both = profile_of([0], [0], [5], next_phases=(profile_of([0], [0], [9]),))
    assert [point.name for point in roofline(both).data.points] == ["phase 1 of 2", "phase 2 of 2"]


def test_forms():
    view = roofline(profile_of([0], [0], [5], plain=SECONDS))
    assert view.text() == "roofline of k: 1 FLOP per byte"
    page = view.plain_html()
    assert "500 GFLOP/s at 1 FLOP per byte: 50% of what memory allows (median of 1 launch 2 µs; at best 1 µs)" in page
    assert "1,000 GB/s" in page or "1e+03 GB/s" in page
    assert "<svg" not in page


def test_a_copy_has_no_intensity():
    made = dataclasses.replace(work(1), by_kind={})
    view = roofline(profile_of([0], [0], [5], work=made, plain=SECONDS))
    assert "no arithmetic; 500 GB/s, 50% of what memory allows" in view.plain_html()
