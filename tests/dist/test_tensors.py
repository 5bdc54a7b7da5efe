"""Tensors on meshes: symbolic, stored, read, resharded; shards, bytes, and mistakes."""

import array

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

import tessera
from support.documents import BLOCKS
from tessera import dist
from tessera.api.source_module import run_cell
from tessera.core.errors.catalog import ArgumentType, BadMesh, BadShardSpec, MeshMemory, NotStored, UnevenShards

LAYOUTS = [
    None,
    dist.ShardSpec("row", "tp"),
    dist.ShardSpec(("col", "row"), ("tp", ("pp", "dp"))),
    dist.ShardSpec("row", ("dp", "tp"), block=1),
    dist.Cyclic(("tp", "dp")),
    dist.BlockCyclic((None, "dp"), 2),
    dist.Block((("pp", "tp"),)),
    dist.Replicated(),
]


def mesh() -> dist.Mesh:
    return dist.Mesh(("dp", "tp", "pp"), range(12), (2, 3, 2))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_])
def test_what_is_stored_is_read(layout: dist.ShardSpec | None, dtype: DTypeLike):
    values = (np.arange(77).reshape(7, 11) % 5).astype(dtype)
    x = dist.tensor((7, 11), layout, mesh(), dtype)
    assert not x.stored
    x[...] = values
    np.testing.assert_array_equal(np.asarray(x), values)
    assert np.asarray(x).dtype == values.dtype
    np.testing.assert_array_equal(x[2:4, ::3], values[2:4, ::3])
    for rank in range(12):
        assert x.shard(rank).shape == x.map.local_shape(rank)
    x[1] = 2
    values[1] = 2
    np.testing.assert_array_equal(np.asarray(x), values)
    x[:] = 1
    np.testing.assert_array_equal(np.asarray(x), np.ones((7, 11), dtype))
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


def test_strided_and_broadcast_arrays_are_stored():
    values = np.arange(200, dtype=np.float32).reshape(10, 20)[::2, 1::3].T
    x = dist.tensor(values.shape, dist.ShardSpec("row", "tp"), mesh())
    x[...] = values
    np.testing.assert_array_equal(np.asarray(x), values)
    x[...] = np.arange(5)
    np.testing.assert_array_equal(np.asarray(x), np.broadcast_to(np.arange(5), values.shape))
    empty = dist.tensor((0, 4), dist.ShardSpec("row", "tp"), mesh())
    empty[...] = 1
    assert np.asarray(empty).shape == (0, 4)
    scalar = dist.tensor((), None, mesh())
    scalar[...] = 3
    assert float(np.asarray(scalar)) == 3


@pytest.mark.parametrize("in_a_cell", [False, True])
@pytest.mark.parametrize(
    ("block", "mesh_block"),
    [("sharded", "mesh"), ("sharded", "mesh_72"), ("sharded_large", "mesh_72"), ("sharded_large", "mesh")],
)
def test_the_tensors_of_the_documents(block: str, mesh_block: str, in_a_cell: bool):
    found: dict[str, object] = {"dist": dist}
    for name in (mesh_block, block):
        if in_a_cell:
            run_cell(BLOCKS[name], found, name=f"<{name}>")
        else:
            exec(BLOCKS[name], found)
    w = found["W"]
    assert isinstance(w, dist.Tensor)
    tp, pp = (6, 4) if mesh_block == "mesh_72" else (9, 2)
    if block == "sharded":
        assert str(w.type) == "bf16[8192, 8192@tp]"
        assert w.bytes_per_device == 8192 * -(-8192 // tp) * 2
        w[...] = 1
        assert w.parts("tp")[tp - 1].shape == (8192, 8192 - (tp - 1) * -(-8192 // tp))
        w[:, 8191] = 2
        assert w.parts("tp")[tp - 1][5, -1] == 2
        return
    assert str(w.type) == "bf16[1000000@tp, 1000000@pp]"
    assert w.bytes_per_device == -(-1_000_000 // tp) * -(-1_000_000 // pp) * 2
    assert not w.stored
    assert "nothing stored" in repr(w)
    plan = w.plan(dist.ShardSpec(("row",), ("pp",)))
    assert plan.steps[-1].after == w.reshard(dist.ShardSpec(("row",), ("pp",))).placement
    with pytest.raises(MeshMemory, match="in this process, whose machine has"):
        w[...] = 0


def test_resharding_keeps_the_values():
    values = np.random.default_rng(0).standard_normal((7, 11)).astype(np.float32)
    for before in LAYOUTS:
        for after in LAYOUTS:
            x = dist.tensor((7, 11), before, mesh())
            x[...] = values
            y = dist.reshard(x, after or dist.Replicated())
            np.testing.assert_array_equal(np.asarray(y), values)
            y[...] = 0
            np.testing.assert_array_equal(np.asarray(x), values)  # memory of its own


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16, np.int8, np.bool_])
def test_arrays_are_stored_in_shards(layout: dist.ShardSpec | None, dtype: DTypeLike):
    values = (np.arange(154).reshape(14, 11) % 5).astype(dtype)[::2]
    x = dist.array(values, layout, mesh(), name="x")
    assert (x.shape, x.dtype, x.name, x.stored) == ((7, 11), values.dtype, "x", True)
    np.testing.assert_array_equal(np.asarray(x), values)
    values[:] = 0  # it has elements of its own
    assert np.asarray(x).any()


def test_arrays_of_other_kinds_and_dtypes():
    assert str(dist.array([[1, 2, 3]], dist.ShardSpec("col", "tp"), mesh()).type) == "i64[1, 3@tp]"
    x = dist.array(np.array([1.5, 2.5]), None, mesh(), dtype="f16")
    assert (np.asarray(x).tolist(), x.dtype) == ([1.5, 2.5], np.float16)
    shared = array.array("i", range(6))  # of the standard library
    assert np.asarray(dist.array(shared, dist.ShardSpec("row", "pp"), mesh())).tolist() == list(range(6))


def test_arrays_of_torch():
    torch = pytest.importorskip("torch")
    values = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T
    x = dist.array(values, dist.ShardSpec("row", "tp"), mesh())
    np.testing.assert_array_equal(np.asarray(x).astype(np.float32), values.float().numpy())


@pytest.mark.gpu
def test_arrays_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    values = cupy.arange(77, dtype=cupy.float32).reshape(7, 11)
    with cupy.cuda.Stream(non_blocking=True):
        later = values * 2 + 1
        x = dist.array(later, dist.ShardSpec("row", "tp"), mesh())
        y = dist.tensor((11, 7), dist.ShardSpec("row", "tp"), mesh())
        y[...] = later.T
    np.testing.assert_array_equal(np.asarray(x), cupy.asnumpy(values) * 2 + 1)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x).T)


def test_arrays_that_cannot_be_stored():
    with pytest.raises(ArgumentType, match="the array holds <U1"):
        dist.array(np.array(["a"]), None, mesh())
    with pytest.raises(BadShardSpec):
        dist.array([1.0], dist.ShardSpec("col", "tp"), dist.Mesh("tp", range(2)), dtype="text")


def test_shards_by_places_along_axes():
    x = dist.array(np.arange(12).reshape(6, 2), dist.ShardSpec("row", ("tp", "pp")), mesh())
    for tp in range(3):
        for pp in range(2):
            assert x.shard(tp=tp, pp=pp).tolist() == [[4 * tp + 2 * pp, 4 * tp + 2 * pp + 1]]
    assert x.shard(dp=1, pp=1).tolist() == x.shard(1).tolist() == [[2, 3]]
    with pytest.raises(BadMesh, match="tp has no place 3") as mistake:
        x.shard(tp=3)
    assert mistake.value.hint == "its 3 places are numbered from 0 to 2"
    with pytest.raises(BadMesh, match="the mesh has no axis 'xp'"):
        x.shard(xp=0)


def test_what_a_device_sets_aside():
    x = dist.tensor((7, 11), dist.ShardSpec("row", "tp"), mesh(), "f64", name="x")
    assert str(x.memory()).splitlines() == ["x: f64[7@tp, 11], 264 bytes", "a device: 264 bytes"]


def test_arrays_over_domains():
    d = tessera.domain.Rect((8, 6, 4))
    with mesh():
        x = tessera.array.from_domain(d, dtype="bf16", distribution=dist.Block(mesh_axes=("dp", "tp")))
    assert (str(x.type), d.ndim, x.ndim) == ("bf16[8@dp, 6@tp, 4]", 3, 3)
    assert str(tessera.array.from_domain(tessera.domain.Rect(5), mesh=mesh(), name="v")).startswith("v: f32[5] on mesh")


def test_parts():
    x = dist.tensor((7, 11), dist.ShardSpec("row", "tp"), mesh())
    with pytest.raises(NotStored) as raised:
        x.parts("tp")[0]
    assert raised.value.hint == "X[...] = array first"
    x[...] = np.arange(77).reshape(7, 11)
    parts = x.parts("tp")
    assert [part.shape for part in parts] == [(3, 11), (3, 11), (1, 11)]
    assert parts[2][0, 0] == 66
    assert repr(parts).startswith("3 parts along tp of f32[7@tp, 11]")
    assert len(x.parts("tp", "dp")) == 6
    assert len(x.parts()) == 12
    with pytest.raises(BadMesh, match="no axis 'ep'"):
        x.parts("ep")


def test_memory_is_planned():
    place = dist.Mesh("tp", range(2), memory=1 << 20)
    x = dist.tensor((512, 512), dist.ShardSpec("row", "tp"), place, name="x")
    assert str(dist.memory(x, x)).splitlines()[-1] == "a device: 512.0 KiB of 1.0 MiB"
    with pytest.raises(MeshMemory, match="W, f32") as raised:
        dist.tensor((1024, 1024), None, place, name="W")
    assert raised.value.hint == "cut over 4 devices or more it would fit"
    assert raised.value.span.file == __file__


def test_reading_what_is_not_stored():
    x = dist.tensor((4,), None, mesh(), name="W")
    with pytest.raises(NotStored) as raised:
        np.asarray(x)
    line = raised.value.span.line
    assert str(raised.value).splitlines() == [
        "TSR-E605 nothing is stored yet: nothing is stored in W",
        f"  --> {__file__}, line {line}, column 9",
        f"{line:>4} |         np.asarray(x)",
        f"     |         {'^' * 13}",
        "  try: W[...] = array first",
    ]
    with pytest.raises(ValueError, match="put together in a copy"):
        np.asarray(x, copy=False)


def test_mistakes():
    place = mesh()
    x = dist.tensor((4, 6), None, place)
    with pytest.raises(BadShardSpec, match=r"an array of shape \(5,\) does not fill f32\[4, 6\]"):
        x[...] = np.zeros(5)
    assert not x.stored
    with pytest.raises(BadShardSpec, match="'f33' is no type of elements"):
        dist.tensor((4,), None, place, "f33")
    with pytest.raises(BadShardSpec, match="is no type of elements"):
        dist.tensor((4,), None, place, object())
    with pytest.raises(BadShardSpec, match="is no shape"):
        dist.tensor((4, -1), None, place)
    with pytest.raises(UnevenShards):
        dist.tensor((4, 7), dist.ShardSpec("col", "tp", uneven="refuse"), place)
    with pytest.raises(BadShardSpec, match="are no extents"):
        tessera.domain.Rect((3, -1))
    with pytest.raises(NotStored, match="nothing is stored in"):
        _ = x + 1


def test_copies_and_rows():
    x = dist.array(np.arange(12.0).reshape(4, 3), dist.Cyclic("tp"), mesh(), name="x")
    copy = x.copy()
    x[0] = -1
    np.testing.assert_array_equal(np.asarray(copy), np.arange(12.0).reshape(4, 3))
    assert (copy.type, copy.name) == (x.type, "x")
    assert [row.tolist() for row in x][:2] == [[-1, -1, -1], [3, 4, 5]]
    assert x.sharding == x.placement


def test_nothing_is_gathered_that_does_not_fit_beside_its_shards(monkeypatch: pytest.MonkeyPatch):
    x = dist.array(np.zeros((12, 1024), np.float32), dist.Block("tp"), mesh(), name="x")
    np.asarray(x)
    monkeypatch.setattr("tessera.dist.tensors._memory_of_host", lambda: 80 << 10)
    with pytest.raises(MeshMemory, match="all of x takes 96.0 KiB beside its shards in this process, whose machine has 80.0 KiB"):
        np.asarray(x)
    assert x.shard(tp=1).shape == (4, 1024)
