"""Collectives between shardings: those expected, and for random ones, that they end where they are to."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tessera.core.base.dtypes import f32
from tessera.core.graph.graph import Tensor
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.placements import dims_of, placed
from tessera.lowering.sharding.steps import moved_between, steps_between

MESH = Mesh.of(("dp", "tp"), range(8), (2, 4))
TYPE = Tensor(f32, (64, 32))


def of(*dims: str, partial: str = "") -> Placement:
    return placed(tuple(tuple(each.split()) for each in dims), tuple(partial.split()))


@pytest.mark.parametrize(
    ("current", "wanted", "kinds", "moved"),
    [
        (of("tp", ""), of("tp", ""), [], 0),
        (of("", ""), of("tp", "dp"), ["slice axis 0 over tp", "slice axis 1 over dp"], 0),
        (of("tp", ""), of("", ""), ["all_gather axis 0 over tp"], 6144),
        (of("tp", ""), of("", "tp"), ["all_to_all axis 0 to 1 over tp"], 1536),
        (of("", "", partial="tp"), of("", ""), ["all_reduce over tp"], 12288),
        (of("", "", partial="tp"), of("tp", ""), ["reduce_scatter axis 0 over tp"], 6144),
        (of("", "", partial="dp tp"), of("", ""), ["all_reduce over dp, tp"], 14336),
        (
            of("tp", "", partial="dp"),
            of("", "dp"),
            ["reduce_scatter axis 1 over dp", "all_gather axis 0 over tp"],
            4096,
        ),
        (of("dp tp", ""), of("tp", ""), ["all_gather axis 0 over dp, tp", "slice axis 0 over tp"], 7168),
        (of("tp", ""), of("tp dp", ""), ["slice axis 0 over dp"], 0),
    ],
)
def test_steps(current: Placement, wanted: Placement, kinds: list[str], moved: int):
    assert [str(step) for step in steps_between(current, wanted)] == kinds
    assert moved_between(current, wanted, TYPE, MESH.size) == moved


AXES = ("a", "b", "c")


@st.composite
def shardings(draw: st.DrawFn) -> Placement:
    dims: list[list[str]] = [[], [], []]
    for axis in draw(st.permutations(AXES)):
        place = draw(st.integers(0, 3))
        if place < 3:
            dims[place].append(axis)
    return placed(tuple(tuple(dim) for dim in dims))


@given(shardings(), shardings(), st.booleans())
def test_each_step_begins_where_the_one_before_ends(current: Placement, wanted: Placement, partial: bool):
    free = tuple(axis for axis in AXES if axis not in current.axes)
    current = placed(dims_of(current), free if partial else ())
    here = current
    for step in steps_between(current, wanted):
        assert step.before == here
        assert len(set(step.after.axes)) == len(step.after.axes)
        here = step.after
    assert here == wanted
