"""Profiles of functions on meshes: bytes and times of every operator, and which clock they are of."""

import numpy as np
import pytest

import tessera
from support.mesh_mlp import arrays, line, mlp
from tessera.core.errors.catalog import NeedsMesh
from tessera.core.planning.device_timeline import COMMUNICATION
from tessera.profiling.mesh_profile import MeshProfiler


def test_every_operator_has_its_times_and_collectives_their_bytes():
    found = MeshProfiler(mlp)(*arrays(line()))
    assert found.clock == found.timeline.clock == "host"
    assert found.planned.clock == "virtual"
    assert all(each.seconds > 0 and each.modelled > 0 for each in found.operators)
    (moved,) = found.collectives
    assert (moved.kind, moved.sent) == (COMMUNICATION, 384.0)
    assert moved.name.startswith("all_reduce over tp of ")
    assert moved.basis.startswith("unmeasured")
    assert any(each.line for each in found.operators)
    assert found.seconds == found.timeline.seconds


def test_texts_say_which_clock():
    found = MeshProfiler(mlp)(*arrays(line()))
    lines = found.text().splitlines()
    assert lines[0] == "profile of mlp: host time beside the virtual clock's"
    assert any(", 384 bytes sent by each device, " in each and each.endswith(" virtual") for each in lines)
    assert MeshProfiler(mlp)(*arrays(line())).text() == found.text()
    assert " host, " in str(found)
    assert "(unmeasured: " in str(found)


def test_arrays_of_one_device_are_refused():
    x, w, v = (np.ones(shape, np.float32) for shape in ((16, 8), (8, 32), (32, 8)))
    with pytest.raises(NeedsMesh) as caught:
        tessera.profile(mlp)(x, w, v)  # pyright: ignore[reportArgumentType] - types know of kernels alone
    assert "mlp runs on one device with these arrays" in str(caught.value)
    assert (caught.value.hint or "").startswith("give arrays that lie on a mesh")
