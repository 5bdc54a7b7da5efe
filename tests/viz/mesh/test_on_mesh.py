"""Subjects of views of graphs on meshes: what runs on one device is refused with what to give."""

import numpy as np
import pytest

from support.mesh_mlp import arrays, line, mlp
from tessera.core.errors.catalog import NothingToShow
from tessera.viz.mesh.on_mesh import on_mesh


def test_a_function_with_arrays_on_a_mesh():
    found = on_mesh(mlp, arrays(line(), stored=False), "devices")
    assert found.mesh.shape == (2, 4)
    assert on_mesh(found, (), "devices") is found


def test_arrays_of_one_device():
    x, w, v = (np.ones(shape, np.float32) for shape in ((16, 8), (8, 32), (32, 8)))
    with pytest.raises(NothingToShow) as caught:
        on_mesh(mlp, (x, w, v), "collectives")
    assert "mlp runs on one device: collectives() shows what the devices of a mesh do" in str(caught.value)
    assert (caught.value.hint or "").startswith("give arrays that lie on a mesh")
