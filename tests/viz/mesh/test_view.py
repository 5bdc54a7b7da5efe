"""The mesh view: transfers, texts and the plain form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import bf16, f32
from tessera.viz import mesh_view
from tessera.viz.mesh.model import Mesh, sharded
from tessera.viz.mesh.view import transfers

SPECS = st.sampled_from(
    [(None, None), ("a", None), (None, "a"), ("a", "b"), ("b", "a"), (("a", "b"), None), (None, ("b", "a"))]
)


@given(SPECS, SPECS, st.integers(1, 9), st.integers(1, 9))
def test_transfers_bring_exactly_what_is_missing(before: tuple[object, ...], after: tuple[object, ...], m: int, n: int):
    mesh = Mesh.of({"a": 2, "b": 3})
    old, new = (sharded(mesh, (m, n), spec, f32) for spec in (before, after))  # pyright: ignore[reportArgumentType]
    moved = transfers(old, new)
    assert all(each.source != each.destination for each in moved)
    for device in range(6):
        have, want = np.zeros((m, n), int), np.zeros((m, n), int)
        (a, b), (c, d) = old.shards[device].start, old.shards[device].stop
        have[a:c, b:d] = 1
        (a, b), (c, d) = new.shards[device].start, new.shards[device].stop
        want[a:c, b:d] = 1
        missing = int((want & ~have & 1).sum())
        assert sum(each.size for each in moved if each.destination == device) >= 4 * missing
        if not missing:
            assert not any(each.destination == device for each in moved)


def test_an_all_gather_of_disjoint_blocks_moves_each_once():
    mesh = Mesh.of({"tp": 4})
    moved = transfers(sharded(mesh, (8, 4), ("tp", None), bf16), sharded(mesh, (8, 4), (None, None), bf16))
    assert len(moved) == 12
    assert {each.size for each in moved} == {16}


def test_layouts_of_other_arrays_are_refused():
    mesh = Mesh.of({"a": 2})
    with pytest.raises(ValueError, match="two layouts of one array"):
        transfers(sharded(mesh, (4,), ("a",), f32), sharded(mesh, (5,), ("a",), f32))


def test_text_and_plain_form():
    view = mesh_view(sharded(Mesh.of({"data": 2, "model": 2}), (3, 8), ("data", "model"), bf16, "W"))
    assert view.text() == (
        "W: bf16[3, 8] over (data, model) of mesh(data=2, model=2), 4 devices, at most 16 bytes a device"
    )
    assert mesh_view(Mesh.nvl72()).text() == "mesh NVL72(tray=18, gpu=4), 72 devices"
    plain = view.plain_html()
    assert "[2:3, 4:8]" in plain
    assert not any(f"<{name}" in plain for name in ("script", "style", "svg", "iframe"))
