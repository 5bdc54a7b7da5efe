"""What graphs ask of arrays on meshes: tensors are such arrays, and nothing half made is."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from tessera import dist
from tessera.core.errors.catalog import NotStored, OperandMismatch
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.settings import overridden


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


@pytest.fixture(autouse=True)
def interpreted() -> Generator[None]:
    with overridden(target="interpret"):
        yield


def stored(values: np.ndarray) -> dist.Tensor:
    return dist.array(values, dist.Block("tp"), Mesh.of("tp", range(2)))


def test_numbers_of_python():
    one = stored(np.array([2.5], np.float32)).sum()
    assert bool(stored(np.array([1])))
    assert (bool(one), int(one), float(one), one.item()) == (True, 2, 2.5, 2.5)
    assert f"{one:.3f}" == "2.500"
    assert range(5)[stored(np.array([1, 7, 2])).argmax()] == 1
    assert stored(np.arange(4).reshape(2, 2)).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(stored(np.arange(3)))
    with pytest.raises(ValueError, match="size 1"):
        stored(np.arange(3)).item()
    with pytest.raises(TypeError, match="a number has no length"):
        len(one)


def test_what_its_type_says():
    x = stored(np.zeros((6, 4), np.float16))
    assert (x.shape, x.ndim, x.size, len(x), x.itemsize, x.nbytes) == ((6, 4), 2, 24, 6, 2, 48)
    assert x.dtype == np.float16
    assert f"{x}" == str(x)


def test_functions_of_numpy_gather():
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = stored(values)
    for result, want in (
        (np.exp(x), np.exp(values)), (np.sum(x, axis=0), values.sum(0)), (np.add.reduce(x), values.sum(0)),
        (np.concatenate([x, values]), np.concatenate([values, values])), (np.linalg.norm(x), np.linalg.norm(values)),
        (np.clip(x, a_min=1, a_max=2), values.clip(1, 2)), (np.vstack((x, x)), np.vstack((values, values))),
    ):  # fmt: skip
        assert isinstance(result, np.ndarray | np.generic)
        np.testing.assert_array_equal(result, want)
    assert np.array_equal(x, x)
    assert isinstance(np.add(x, 1), dist.Tensor)


def test_nothing_is_gathered_of_an_array_that_is_only_declared():
    x = dist.tensor((10**6, 10**6), dist.Block("tp"), Mesh.of("tp", range(2)))
    uses: list[Callable[[Any], Any]] = [bool, float, np.exp, np.sum, np.asarray]
    uses += [lambda x: x + 1, lambda x: x == 0, lambda x: x[0]]
    for use in uses:
        with pytest.raises(NotStored):
            use(x)


def test_a_function_of_numpy_writes_into_no_array_on_a_mesh():
    x: Any = stored(np.ones(4, np.float32))
    calls: list[Callable[[], Any]] = [lambda: np.add(x, 1, out=x), lambda: np.exp(np.ones(4), out=x)]
    for call in calls:
        with pytest.raises(OperandMismatch, match=r"np\.(add|exp) writes into no array on a mesh") as caught:
            call()
        assert "X[...] = X + Y" in str(caught.value)
    assert +x is x
    np.testing.assert_array_equal(np.asarray(x), np.ones(4))
