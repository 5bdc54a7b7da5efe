"""What ranks hold: arrays of GPUs on a driver that does at once what it is told, PyTorch's on the host, and mistakes."""

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from support.interpreted_gpu import InterpretedDriver
from tessera import dist, op
from tessera.core.base import dtypes
from tessera.core.errors.catalog import BadMesh, RankMismatch
from tessera.core.placement.fold_plans import fold_plan, renumbered, shares_of
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree, contributions
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split
from tessera.core.program.types import Array
from tessera.core.settings import overridden
from tessera.ops.rank_values import axis_number, mesh_for
from tessera.ops.tiles.folds import fold_kernel
from tessera.runtime.dist import engines
from tessera.runtime.memory.owned import DeviceArray, to_device


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    monkeypatch.setattr(engines, "_MADE", {})
    return fake_cuda.install(monkeypatch, FakeDriver(2, run=False))


def on_gpus() -> list[DeviceArray]:
    return [to_device(np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * device, device) for device in range(2)]


def test_arrays_of_gpus_mean_their_gpus(fake: FakeDriver):
    x = on_gpus()
    gathered = op.all_gather(x, dim=0)
    assert [array.device for array in gathered] == [0, 1]
    assert np.array_equal(gathered[1].get(), np.concatenate([array.get() for array in x]))
    assert np.array_equal(op.broadcast(x, 1)[0].get(), x[1].get())
    assert not op.permute(x, [(0, 1)])[0].get().any()
    swapped = op.all_to_all(x)
    assert np.array_equal(swapped[0].get(), np.stack([x[0].get()[0], x[1].get()[0]]))
    assert len(set(op.check_replicas(op.broadcast(x)))) == 1


def test_folds_of_gpus_are_kernels_on_streams_of_their_own(fake: FakeDriver):
    x = on_gpus()
    with overridden(target="cuda:sm_90a"):
        found = op.all_reduce(x)
    assert [array.device for array in found] == [0, 1]
    assert found[0].shape == (2, 3)
    launched = [entry for entry in fake.log if entry[0] == "launch"]
    assert len(launched) == 2  # both fold everything: a value so small takes one step
    assert len({entry[1] for entry in launched}) == 2


def test_exact_sums_of_gpus_are_added_on_the_host(fake: FakeDriver):
    x = on_gpus()
    found = op.all_reduce(x, det="exact")
    assert np.array_equal(found[1].get(), x[0].get() + x[1].get())
    assert [entry for entry in fake.log if entry[0] == "launch"] == []


def test_arrays_of_the_host_are_copied_to_a_mesh_of_gpus(fake: FakeDriver):
    mesh = Mesh.of("dp", ["cuda:0", "cuda:1"])
    found = op.broadcast([np.ones(3, np.float32), np.zeros(3, np.float32)], mesh=mesh)
    assert [array.device for array in found] == [0, 1]
    assert found[1].get().tolist() == [1, 1, 1]


def test_what_gpus_cannot_be_given(fake: FakeDriver):
    with pytest.raises(RankMismatch, match="lies on a GPU, and the rank is sim:0"):
        op.all_reduce(on_gpus(), mesh=Mesh.of("dp", range(2)))
    with pytest.raises(RankMismatch, match="lies on a GPU in rows of axis 0, not 1") as mistake:
        op.all_gather(on_gpus())
    assert mistake.value.hint == "take dim=0, or transpose"


def test_tensors_of_pytorch_give_tensors():
    torch = pytest.importorskip("torch")
    found = op.all_reduce([torch.ones(2, 2), torch.ones(2, 2)])
    assert isinstance(found[0], torch.Tensor)
    assert found[0].tolist() == [[2, 2], [2, 2]]


def test_partial_sums_of_an_array_on_a_mesh_are_reduced():
    mesh = dist.Mesh(axes=("dp", "tp"), devices=range(4), shape=(2, 2))
    kind = ShardedType(dtypes.f32, (2, 6), Placement((Split(), Split(("tp",))), ("dp",)))
    x = dist.Tensor(kind, mesh)
    for rank in range(4):
        x.put(rank, np.full((2, 3), 10.0**rank, np.float32))
    y = op.all_reduce(x)
    assert isinstance(y, dist.Tensor)
    assert str(y.type) == "f32[2, 6@tp]"
    assert np.asarray(y)[0].tolist() == [101.0] * 3 + [1010.0] * 3
    y.shard(0)[0, 0] = 7  # its own memory


def test_shards_of_an_array_on_a_mesh_are_reduced_over_all_of_it():
    mesh = dist.Mesh(axes=("tp", "pp"), devices=range(6), shape=(3, 2))
    x = dist.tensor((6, 4), dist.ShardSpec(partition=("row", "col"), mesh_axes=("tp", "pp")), mesh)
    x[...] = np.arange(24).reshape(6, 4)
    y = op.all_reduce(x, mesh=mesh, algo="binary_tree", deterministic=True)
    blocks = np.arange(24).reshape(3, 2, 2, 2)
    assert str(y.type) == "f32[2, 2]"
    assert np.asarray(y).tolist() == blocks.sum(axis=(0, 2)).tolist()
    along = op.all_reduce(x, axis="tp")
    assert str(along.type) == "f32[2, 4@pp]"
    cyclic = dist.tensor((6,), dist.Cyclic("tp"), mesh)
    cyclic[...] = np.arange(6)
    with pytest.raises(RankMismatch, match="is dealt in turns along tp"):
        op.all_reduce(cyclic, axis="tp")


def test_the_mesh_in_use():
    with dist.Mesh(axes="dp", devices=range(2)):
        assert op.all_reduce([np.ones(1), np.ones(1)])[1].tolist() == [2]
        assert op.all_reduce([np.ones(1), np.ones(1)], axis="dp")[1].tolist() == [2]


def test_meshes(monkeypatch: pytest.MonkeyPatch):
    mesh = Mesh.of("dp", range(2))
    assert mesh_for([], mesh, "dp") is mesh
    assert [str(device) for device in mesh_for([1, 2], None, None).devices] == ["cpu:0", "cpu:1"]
    monkeypatch.setattr(dist.Mesh, "latest", None)
    with pytest.raises(BadMesh, match="there is no mesh yet"):
        mesh_for([1, 2], None, "dp")


def test_axes_are_counted_from_either_end():
    assert [axis_number(dim, (4, 5)) for dim in (0, 1, -1, -2)] == [0, 1, 1, 0]
    with pytest.raises(RankMismatch, match="values of 2 axes have no axis 2"):
        axis_number(2, (4, 5))


class _Folding(InterpretedDriver):
    """Its kernels do not know how long arrays are: all have 200 elements."""

    def _array(self, start: int, kind: Array) -> np.ndarray:
        return super()._array(start, Array(kind.dtype, (200,)))


def test_folds_of_gpus_give_the_oracles_bits(monkeypatch: pytest.MonkeyPatch):
    """With kernels that are interpreted: five leaves on two GPUs, whose partial nodes are folded locally first."""
    monkeypatch.setattr(engines, "_MADE", {})
    driver = _Folding(2)
    fake_cuda.install(monkeypatch, driver)
    rng = np.random.default_rng(5)
    leaves = [(rng.standard_normal(200) * 2.0 ** rng.integers(-9, 9, 200)).astype(np.float32) for _ in range(5)]
    what, tree = reduction("mean", dtypes.f32), ReductionTree.binary(5)
    plan = fold_plan(tree, shares_of((2, 3)))
    with overridden(target="cuda:sm_90a"):
        for fold, root in ((plan.local[0][0], None), (plan.local[1][0], None), (plan.final, 5)):
            if not isinstance(fold, int):
                arrays = [to_device(leaves[0]) for _ in range(len(contributions(fold)) + 1)]
                kernel = fold_kernel(renumbered(fold, -contributions(fold)[0]), what, root)
                compiled = kernel.compile_quietly(*arrays)
                driver.programs[compiled.artifact.code] = compiled.artifact, compiled.program
        x = [[to_device(leaf, device) for leaf in mine] for device, mine in ((0, leaves[:2]), (1, leaves[2:]))]
        found = op.all_reduce(x, "mean", mesh=Mesh.of("dp", ["cuda:0", "cuda:1"]), leaves=5)
    expected = reduce_leaves(leaves, tree, what)
    assert [array.device for array in found] == [0, 1]
    assert all(np.array_equal(array.get().view(np.uint32), expected.view(np.uint32)) for array in found)
    assert len(driver.names) >= 3
