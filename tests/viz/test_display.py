"""What IPython is told to show for each of our objects."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tessera
from support.compilations import listing, saxpy_compilation
from support.shell import Formatter
from support.shell import formatter as new_formatter
from tessera.core.errors.catalog import SyntaxMistake
from tessera.viz import display, renderings
from tessera.viz.kernel_view import kernel_html, kernel_text, kernel_view
from tessera.viz.table import Table

KERNEL = """
@kernel(target="interpret", tile=(128,), shared=8 * KiB)
def group_copy(x: f32[n], y: mut f32[n], times: i32 = 2):
    smem = tshared.alloc[f32](128)
    i = tile.linear_id()
    smem[i] = x[i]
    tbarrier()
    y[i] = smem[i]
"""


@pytest.fixture
def formatter() -> Formatter:
    formatter = new_formatter()
    display.register(formatter)
    return formatter


@pytest.fixture
def kernel() -> tessera.Kernel:
    return tessera.compile_source(KERNEL, "kernel.tsr").group_copy


def test_a_compilation_shows_the_viewer_and_one_line(formatter: Formatter) -> None:
    data, _ = formatter.format(saxpy_compilation())
    assert data["text/plain"] == "saxpy for cpu: tile, target, asm"
    assert 'data-kind="explorer"' in data["text/html"]


def test_a_listing_shows_its_text(formatter: Formatter) -> None:
    data, _ = formatter.format(listing("tile", "", "a < b | | 1\nc | | 2\n"))
    assert data["text/plain"] == "a < b\nc"
    assert ">a &lt; b\nc</code></pre>" in data["text/html"]


def test_an_error_shows_its_rendering(formatter: Formatter) -> None:
    data, _ = formatter.format(SyntaxMistake("bad", hint="better"))
    assert data["text/plain"] == "TSR-E001 syntax error: bad\n  try: better"
    assert "<b>try:</b> better" in data["text/html"]


def test_a_kernel_shows_its_signature_then_its_last_call(formatter: Formatter, kernel: tessera.Kernel) -> None:
    before, _ = formatter.format(kernel)
    text = "kernel group_copy(x: f32[n], y: mut f32[n], times: i32)"
    assert before["text/plain"] == text
    assert "last call" not in before["text/html"]
    kernel(np.zeros(100, np.float32), np.zeros(100, np.float32))
    after, _ = formatter.format(kernel)
    assert after["text/plain"] == text
    assert "f32[100]" in after["text/html"]


def test_the_card_tells_options_and_source(kernel: tessera.Kernel) -> None:
    view = kernel_view(kernel)
    assert view.remarks == (
        "groups of 128 lanes",
        "at most 8 KiB of shared memory a group",
        "for target interpret",
    )
    assert view.parameters[1] == ("y", "mut f32[n]", "")
    assert "smem[i] = x[i]" in kernel_html(kernel)
    assert kernel_text(kernel) == kernel_text(kernel)


GPU_TEXT = """
@kernel(fast=True)
def double(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + x[i]
"""


def test_code_for_a_gpu_comes_with_its_resources(formatter: Formatter) -> None:
    double = tessera.compile_source(GPU_TEXT).double
    arrays = np.zeros(100, np.float32), np.zeros(100, np.float32)
    compiled = double.compile(*arrays, target="cuda:sm_90a")
    data, _ = formatter.format(compiled)
    assert "resources: registers, occupancy, instructions" in data["text/html"]
    assert "LDG.128" in data["text/html"]
    report, _ = formatter.format(compiled.resources())
    assert report["text/plain"] == str(compiled.resources())
    assert report["text/plain"].startswith("double for cuda:sm_90a\n")
    assert "<table>" in report["text/html"]
    assert "fast: approximate functions and fused arithmetic on GPUs" in kernel_view(double).remarks
    on_cpu, _ = formatter.format(double.compile(*arrays, target="cpu"))
    assert "resources: registers" not in on_cpu["text/html"]


def test_meshes_and_tensors_show_their_shards(formatter: Formatter) -> None:
    mesh = tessera.dist.Mesh(("dp", "tp", "pp"), range(72), (4, 9, 2))
    data, _ = formatter.format(mesh)
    assert data["text/plain"] == "mesh(dp=4, tp=9, pp=2), 72 devices, all simulated: sim:0 to sim:71"
    assert 'data-kind="mesh"' in data["text/html"]
    assert "tray 17" in data["text/html"]
    w = tessera.dist.tensor((1_000_000, 1_000_000, 3), tessera.dist.ShardSpec((0, 1), ("tp", "pp")), mesh, "bf16", "W")
    data, _ = formatter.format(w)
    assert data["text/plain"] == repr(w)
    assert "[888896:1000000, 500000:1000000, 0:3]" in data["text/html"]
    cyclic, _ = formatter.format(tessera.dist.tensor((9, 9), tessera.dist.Cyclic("dp"), mesh))
    assert "f32[9@dp:cyclic, 9] on mesh" in cyclic["text/html"]
    assert "data-kind" not in cyclic["text/html"]


def test_unregistering_leaves_nothing(formatter: Formatter) -> None:
    display.unregister(formatter)
    assert not formatter.mimebundle_formatter.type_printers


def test_a_table_shows_as_text_and_as_html() -> None:
    table = Table("tools", ("name", "state"), (("ptxas", "found"), ("a<b", "")))
    assert repr(table) == "tools\nname   state\nptxas  found\na<b"
    assert table._repr_html_().count("<tr>") == 3
    assert "a&lt;b" in table._repr_html_()


def test_every_class_that_is_shown_is_registered_by_its_name() -> None:
    named = {(kind.__module__, kind.__name__) for kind in renderings.RENDERINGS}
    assert named == set(display.CLASSES)
    assert len(display.CLASSES) == len(named)


def test_registering_loads_no_view() -> None:
    code = (
        "import sys; from support.shell import formatter; from tessera.viz import display\n"
        "display.register(formatter()); print([m for m in sys.modules if m.startswith('tessera.viz.ir')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
