"""Meshes and block shards."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import bf16, f32
from tessera.viz.mesh.model import Mesh, sharded


def test_an_nvl72_is_18_trays_of_4():
    mesh = Mesh.nvl72()
    assert [(axis.name, axis.size) for axis in mesh.axes] == [("tray", 18), ("gpu", 4)]
    assert len({device.enclosure for device in mesh.devices}) == 18
    assert mesh.devices[71].place == (17, 3)
    assert Mesh.nvl72({"dp": 9, "tp": 8}).devices[8].place == (1, 0)
    with pytest.raises(ValueError, match="have 72 places, not 64"):
        Mesh.nvl72({"dp": 8, "tp": 8})


def test_meshes_that_cannot_be():
    with pytest.raises(ValueError, match="at most 72 devices, not 80"):
        Mesh.of({"a": 8, "b": 10})
    with pytest.raises(ValueError, match="at least one device"):
        Mesh.of({"a": 0})


AXES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda sizes: dict(zip("abc", sizes, strict=False)))


@given(AXES, st.lists(st.integers(0, 9), max_size=4), st.data())
def test_every_element_is_held_by_as_many_devices_as_there_are_replicas(
    axes: dict[str, int], shape: list[int], data: st.DataObject
):
    mesh = Mesh.of(axes)
    free = list(axes)
    spec: list[tuple[str, ...]] = []
    for _ in shape:
        taken = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        free = [axis for axis in free if axis not in taken]
        spec.append(tuple(taken))
    array = sharded(mesh, shape, spec, f32)
    assert sum(shard.elements for shard in array.shards) == math.prod(shape) * array.replicas
    covered = {shard.start + shard.stop for shard in array.shards if shard.elements}
    assert sum(
        math.prod(stop - start for start, stop in zip(s[: len(s) // 2], s[len(s) // 2 :], strict=True)) for s in covered
    ) == math.prod(shape)
    assert all(array.bytes_of(shard) == 4 * shard.elements for shard in array.shards)


def test_specs_that_do_not_fit():
    mesh = Mesh.of({"a": 2, "b": 2})
    with pytest.raises(ValueError, match="1 entries for 2 dimensions"):
        sharded(mesh, (4, 4), ("a",), bf16)
    with pytest.raises(ValueError, match=r"no axis 'c' \(axes: a, b\)"):
        sharded(mesh, (4, 4), ("c", None), bf16)
    with pytest.raises(ValueError, match="'a' divides more than one"):
        sharded(mesh, (4, 4), ("a", ("b", "a")), bf16)
