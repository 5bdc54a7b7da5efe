"""Figures of two compilations: from resources, and from the machine code."""

import pytest

from tessera.viz.base import code_figures
from tessera.viz.base.code_figures import FigurePair, figures_of_code
from tests.viz.diffs import kernels


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("HGMMA", "matrix products"), ("HMMA", "matrix products"), ("UTMALDG", "loads"), ("LDS", "loads"),
        ("LDGDEPBAR", "barriers"), ("STG", "stores"), ("SYNCS", "barriers"), ("IMAD", ""), ("LEA", ""),
    ],
)  # fmt: skip
def test_classes_of_sass(name: str, kind: str):
    assert code_figures.class_of(name) == kind


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("vmovups (%rdi,%rax,4), %zmm0", ["loads"]),
        ("vmovups %zmm0, (%rsi,%rax,4)", ["stores"]),
        ("vmovups %zmm0, (%rsi,%rax,4){%k1}", ["stores"]),
        ("vfmadd213ps (%rsi,%rax,4), %zmm1, %zmm0", ["multiply-adds", "loads"]),
        ("leaq 8(%rdi), %rax", []),
        ("addq $8, %rax", []),
        ("callq memset@PLT", ["calls"]),
    ],
)
def test_classes_of_x86(line: str, kinds: list[str]):
    assert code_figures.x86_classes(line.split(maxsplit=1)[0], line) == kinds


def test_figures():
    one = FigurePair("registers", "", 168, 200)
    assert (one.told_before, one.told_after, one.delta) == ("168", "200", "+32")
    assert FigurePair("code", "bytes", 2048, 1024).delta == "-1,024"
    unknown = FigurePair("time", "us", None, 3.5)
    assert (unknown.told_before, unknown.told_after, unknown.delta) == ("not measured", "3.5 us", "")
    assert FigurePair("code", "bytes", 5, 5).delta == "="
    assert FigurePair("code", "bytes", 2048, 4096).worse
    assert not FigurePair("occupancy", "%", 50, 100, 1).worse
    assert not unknown.worse


def test_code_that_was_listed_and_code_that_was_not_have_one_size():
    one, other = kernels.scale.compile(target="cpu"), kernels.scale.variant(num_warps=8).compile(target="cpu")
    one.stages  # noqa: B018 - a listing holds tables of lines
    for pair in (figures_of_code(one, other), figures_of_code(one, one)):
        assert [(each.name, each.delta) for each in pair if each.delta != "="] == []
