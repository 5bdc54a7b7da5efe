"""Edited PTX: compiled in place of the kernel's own, linked where it is unchanged, refused with its own line."""

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import BadPtx
from tessera.kernels.kernel import Kernel

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = 2.0 * x[t:t+64]
"""
X = np.arange(300, dtype=np.float32)
TARGET = "cuda:sm_90a"


@pytest.fixture(scope="module")
def doubled() -> Kernel:
    kernel: Kernel = tessera.compile_source(SOURCE).doubled
    return kernel


@pytest.fixture(scope="module")
def ptx(doubled: Kernel) -> str:
    return str(doubled.compile(X, X.copy(), target=TARGET).ir("ptx"))


def test_the_edit_reaches_the_machine_code_and_keeps_its_links(doubled: Kernel, ptx: str):
    own = doubled.compile(X, X.copy(), target=TARGET)
    edited = ptx.replace("add.rn.f32", "sub.rn.f32")
    found = doubled.compile(X, X.copy(), target=TARGET, from_ir=edited)
    assert found.ir("ptx") == edited
    assert "FADD" in found.ir("sass")
    assert sum("-R" in line for line in found.ir("sass").split("\n") if "FADD" in line) == 4
    before, after = own.listing("ptx").lines, found.listing("ptx").lines
    assert [line.text for line in after] == edited.split("\n")
    unchanged = [(a.spans, b.spans) for a, b in zip(before, after, strict=True) if a.text == b.text and a.spans]
    assert len(unchanged) > 10
    assert all(a == b for a, b in unchanged)
    # And the kernel itself is as it was.
    assert doubled.compile(X, X.copy(), target=TARGET).ir("ptx") == ptx


def test_what_ptxas_refuses_is_shown_in_the_edited_text(doubled: Kernel, ptx: str):
    with pytest.raises(BadPtx, match=r"Unknown modifier '\.globl'") as caught:
        doubled.compile(X, X.copy(), target=TARGET, from_ir=ptx.replace("ld.global", "ld.globl", 1))
    span = caught.value.span
    assert span is not None
    assert "ld.globl" in ptx.replace("ld.global", "ld.globl", 1).split("\n")[span.line - 1]
    assert span.file == "kernel.ptx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".entry", ".func", r"has no \.entry"),
        ("entry doubled", "entry tripled", "the entry is tripled, not doubled"),
        (".param .u64", ".param .u32", "the parameters of doubled are not those"),
    ],
)
def test_another_kernel_is_refused(doubled: Kernel, ptx: str, old: str, new: str, message: str):
    assert old in ptx
    with pytest.raises(BadPtx, match=message):
        doubled.compile(X, X.copy(), target=TARGET, from_ir=ptx.replace(old, new))
