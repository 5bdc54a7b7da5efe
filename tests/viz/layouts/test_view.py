"""The layout view: what it takes, texts, the plain form."""

from typing import Any, cast

import pytest

from support import stepped_kernels as kernels
from tessera.core.errors.catalog import NothingToShow
from tessera.core.layouts import Swizzle, accumulator
from tessera.viz import layout
from tessera.viz.layouts.banks import SharedLayout
from tessera.viz.layouts.fragments import Fragment


def test_an_operand_of_an_instruction():
    view = layout("mma.sync.m16n8k8", operand="B", dtype="tf32")
    assert view.title == "B of mma.sync.m16n8k8, factors tf32"
    assert view.text() == ("B of mma.sync.m16n8k8, factors tf32\n  row = lane % 4 + 4 * r, col = lane / 4")
    assert layout(Fragment.of("mma.m16n8k8", "B", "tf32")).text() == view.text()


def test_a_swizzled_tile_and_its_conflicts():
    view = layout(SharedLayout((32, 32), 4, "xor"))
    assert view.title == "32 x 32 elements of 4 B in shared memory, swizzle xor"
    assert "a column, 4 B a lane: 4-way bank conflict" in view.text()
    own = layout(SharedLayout((32, 32), 4), accesses={"diagonal": [(n, n) for n in range(32)]})
    assert own.text().splitlines()[-1] == "    diagonal: no bank conflict"
    assert layout(SharedLayout((32, 32), 4, padding=4)).title.endswith("rows padded by 4 B")
    assert layout(Swizzle(((7, 4),))).title.endswith("swizzled")


def test_plain_form():
    plain = layout(accumulator((16, 8), 0)).plain_html()
    assert "row = lane / 4 + 8 * (r / 2)" in plain
    assert "31:3" in plain
    assert not any(f"<{name}" in plain for name in ("script", "style", "svg", "iframe"))
    assert "and 2 more layouts" not in layout("mma.sync.m16n8k16").plain_html()


def test_a_kernel_is_compiled_for_a_gpu_and_linked_with_its_other_views():
    view = layout(kernels.softmax.compile(target="cuda:sm_80"))
    payload = cast("dict[str, Any]", view.payload())
    assert payload["group"].startswith("softmax ")
    assert all(grid["kind"] == "registers" for grid in payload["grids"])


def test_a_small_output_is_small():
    assert len(layout("mma.sync.m16n8k16").html()) < 100_000
    assert len(layout(SharedLayout((64, 64), 2, 128)).html()) < 100_000


def test_what_has_no_layout_is_refused():
    with pytest.raises(NothingToShow, match=r"layout\(\) shows kernels, .* an object of type int is none"):
        layout(cast("Any", 3))
    with pytest.raises(NothingToShow, match="is no MMA instruction"):
        layout("mma")
