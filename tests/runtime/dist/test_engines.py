"""Engines by the devices of a mesh."""

import pytest

from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import read_devices
from tessera.runtime.dist.engines import engine_of


def test_devices_decide():
    simulated, threads = engine_of(read_devices(range(3))), engine_of(read_devices(["cpu:0", "cpu:1"]))
    assert (simulated.name, simulated.ranks, simulated.shared_memory) == ("sim", 3, False)
    assert (threads.name, threads.ranks, threads.shared_memory) == ("threads", 2, True)


def test_the_same_devices_have_the_same_engine():
    assert engine_of(read_devices(range(3))) is engine_of(read_devices(range(3)))
    assert engine_of(read_devices(range(3))) is not engine_of(read_devices([0, 2, 1]))


def test_devices_of_several_kinds_are_refused():
    with pytest.raises(BadMesh) as mistake:
        engine_of(read_devices(["cpu:0", 1]))
    assert mistake.value.message == "a collective over devices of several kinds: cpu, sim"
    assert mistake.value.hint
