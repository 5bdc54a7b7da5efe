"""What graphs ask of arrays on meshes: tensors are such arrays, and nothing half made is."""

import numpy as np
import pytest

from tessera import dist
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray


def test_tensors_are_arrays_on_meshes():
    mesh = Mesh.of("tp", range(2))
    x = dist.tensor((4, 3), dist.ShardSpec(("row",), ("tp",)), mesh)
    assert isinstance(x, MeshArray)
    parts = [np.full((2, 3), rank, np.float32) for rank in range(2)]
    made = x.made(x.type, parts)
    assert isinstance(made, dist.Tensor)
    np.testing.assert_array_equal(np.asarray(made)[:, 0], [0, 0, 1, 1])


def test_all_that_is_asked_for_has_to_be_there():
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (MeshArray,), {"shard": lambda self, rank: rank})()
