"""The public door: `dist.plan(x, layout)` and `dist.plan.search(model, mesh)`."""

import pytest

from support.mesh_mlp import mlp
from tessera import dist
from tessera.core.errors.catalog import BadModel, NoPlanFits

MODEL = dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64, vocabulary=8192)


def test_a_change_of_layout():
    mesh = dist.Mesh(axes=("dp", "tp"), devices=range(8), shape=(2, 4))
    x = dist.tensor((64, 64), dist.ShardSpec("row", "tp"), mesh)
    assert str(dist.plan(x, dist.Replicated())) == str(x.plan(dist.Replicated()))


def test_a_transformer_on_devices_of_a_mesh_or_a_number_of_them():
    mesh = dist.Mesh(axes="dp", devices=range(8))
    found, same = dist.plan.search(MODEL, mesh), dist.plan.search(MODEL, 8)
    assert str(found) == str(same)
    assert found.best.capacity == 141 * 10**9
    assert found.best.mesh.devices == mesh.devices


def test_the_memory_of_a_device_is_the_meshs_or_what_is_given():
    mesh = dist.Mesh(axes="dp", devices=range(8), memory=3 << 30)
    assert dist.plan.search(MODEL, mesh).best.capacity == 3 << 30
    assert dist.plan.search(MODEL, mesh, memory=4 << 30).best.capacity == 4 << 30
    with pytest.raises(NoPlanFits):
        dist.plan.search(MODEL, mesh, memory=1 << 20)


def test_a_function_with_types_in_words():
    found = dist.plan.search(mlp, 2, "f32[64, 64]", "f32[64, 256]", "f32[256, 64]", batch="x")
    assert found.best.layouts["x"].startswith("f32[64")
    assert found.devices == 2


def test_mistakes():
    with pytest.raises(BadModel) as caught:
        dist.plan.search(mlp, 2)
    assert "a function is planned for the shapes of its arguments" in str(caught.value)
    with pytest.raises(BadModel, match="int is no model that can be planned"):
        dist.plan.search(3, 2)  # pyright: ignore[reportArgumentType] - that is the mistake
