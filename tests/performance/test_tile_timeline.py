"""Predicted timelines: every group is there once, and their time is what the cost model says."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.profiles import MACHINE, work
from tessera.performance.cost_model import predict
from tessera.performance.tile_timeline import predict_tiles, tile_seconds


@given(st.integers(0, 60), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_waves_hold_every_group_once(groups: int, per_unit: int, chunk: int, persistent: bool):
    found = predict_tiles(work(groups), MACHINE, per_unit=per_unit, chunk=chunk, persistent=persistent)
    assert sorted(found.group.tolist()) == list(range(groups))
    assert sum(wave.groups for wave in found.waves) == groups
    assert all(wave.groups <= wave.slots == MACHINE.units * per_unit for wave in found.waves)
    assert found.lane.max(initial=0) < per_unit
    for slot in {*zip(found.unit.tolist(), found.lane.tolist(), strict=True)}:
        mine = (found.unit == slot[0]) & (found.lane == slot[1])
        order = np.argsort(found.start[mine])
        assert np.all(found.end[mine][order][:-1] <= found.start[mine][order][1:] + 1e-6)
    assert 0.0 <= found.idle < 1.0 or not groups


@pytest.mark.parametrize(("on_gpu", "per_unit"), [(False, 1), (True, 1), (True, 2), (True, 4), (True, 8)])
@pytest.mark.parametrize("lanes", [0, 128, 1024])
def test_the_sum_over_full_waves_is_what_the_cost_model_says(on_gpu: bool, per_unit: int, lanes: int):
    made = dataclasses.replace(work(64), by_kind={"f32": 1e9}, steps=640.0)
    machine = dataclasses.replace(MACHINE, on_gpu=on_gpu, lanes=2048, step=3e-6)
    found = predict_tiles(made, machine, per_unit=per_unit, lanes=lanes)
    assert found.span * 1e-9 == pytest.approx(predict(made, machine, lanes).seconds - machine.launch, rel=1e-6)


def test_groups_beside_each_other_on_a_unit_take_longer():
    made = dataclasses.replace(work(64), by_kind={"f32": 1e9})
    assert tile_seconds(made, MACHINE, 2).sum() > 1.9 * tile_seconds(made, MACHINE, 1).sum()


def test_the_tail_is_idle_time():
    found = predict_tiles(work(5), MACHINE)
    assert [wave.groups for wave in found.waves] == [4, 1]
    assert found.idle == pytest.approx(3 / 8)


def test_unequal_groups_are_dealt_to_whoever_is_free():
    made = work(5)
    made.flops[:] = [4, 1, 1, 1, 1]
    found = predict_tiles(dataclasses.replace(made, by_kind={"f32": 1e12}), dataclasses.replace(MACHINE, units=2))
    assert found.unit.tolist() == [0, 1, 1, 1, 1]
    assert found.start[1:].tolist() == pytest.approx([n / 3 * float(found.start[-1]) for n in range(4)])


def test_persistent_blocks_take_groups_in_turns():
    found = predict_tiles(work(6), MACHINE, persistent=True)
    assert found.unit.tolist() == [0, 1, 2, 3, 0, 1]
    assert found.wave.tolist() == [0, 0, 0, 0, 1, 1]


def test_the_order_is_that_of_beginning():
    order = np.array([3, 2, 1, 0])
    assert predict_tiles(work(4), MACHINE, order=order).group.tolist() == [3, 2, 1, 0]
