"""Full warps run without masks."""

import re

import pytest

from support import programs
from support.builder import Builder
from support.cpu import target_module
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Domain
from tessera.core.tile.dialect import shared_context


def scale(guarded: bool):
    b = Builder("scale")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")

    def body():
        b.write(y, b.value("add", b.read(x, i), b.read(y, i)), i)

    if guarded:
        with b.when(b.compare("lt", i, b.dim("n"))):
            body()
    else:
        body()
    return b.program(domain=Domain("lanes", ("n",)))


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("passes", [True, False])
def test_one_question_decides_between_two_versions(guarded: bool, passes: bool):
    with shared_context():
        text = str(target_module(scale(guarded), passes=passes, features="+avx").module)
    assert len(re.findall(r"llvm\.load .* -> vector<32xf32>", text)) == 2
    assert len(re.findall(r"llvm\.intr\.masked\.load", text)) == 2
    assert len(re.findall(r"scf\.if", text)) == 1


def test_a_strided_loop_runs_full_iterations_first():
    with shared_context():
        text = str(target_module(programs.group_sum(), features="+avx").module)
    plain, masked = text.find("llvm.load %"), text.find("llvm.intr.masked.load")
    assert 0 < plain < masked
    assert len(re.findall(r"llvm\.intr\.masked\.load", text)) == 1
