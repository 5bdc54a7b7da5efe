"""Arithmetic on tensors of a mesh, with each other, with arrays of NumPy and with numbers."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tessera import dist
from tessera.core.placement.mesh import Mesh

MESH = Mesh.of("tp", range(2))


def stored(array: np.ndarray, *dims: str) -> dist.Tensor:
    made = dist.tensor(array.shape, dist.ShardSpec(dims, ("tp",) * len(dims)), MESH)
    made[...] = array
    return made


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) + 3


@pytest.mark.parametrize(
    "compute", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a @ b]
)
def test_each_operator(compute: Callable[..., np.ndarray]):
    x, y = normal(4, 4), normal(4, 4, seed=1)
    for a, b in ((stored(x, "row"), stored(y, "row")), (stored(x, "row"), y), (x, stored(y, "row"))):
        made: object = compute(a, b)
        assert isinstance(made, dist.Tensor)
        np.testing.assert_allclose(np.asarray(made), compute(x, y), rtol=1e-6)


def test_numbers():
    x = normal(4, 6)
    made = 1.0 - stored(x, "col") * 2.0
    assert isinstance(made, dist.Tensor)
    assert str(made.type) == "f32[4, 6@tp]"
    np.testing.assert_allclose(np.asarray(made), 1.0 - x * 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    "first", ["from tessera import dist", "import tessera.dist as dist", "from tessera.dist import Mesh"]
)
def test_it_is_there_however_dist_was_imported(first: str):
    """Each way of importing is tried in an interpreter that has loaded nothing."""
    lines = (
        first,
        "from tessera import dist",
        "x = dist.tensor((4,), dist.ShardSpec(('row',), ('tp',)), dist.Mesh(['tp'], range(2)))",
        "x[...] = 2",
        "print(sum(x + x * 2.0))",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "24.0"
