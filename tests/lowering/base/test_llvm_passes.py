"""LLVM's passes as stages: their names, and the text that they begin with."""

import pytest

from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base import llvm_passes
from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, PassDump

MACHINE = Machine("nvptx64-nvidia-cuda", "sm_90a", "+ptx83", 3, "default", "default")


def test_a_pass_that_goes_from_loop_to_loop_is_one_stage(monkeypatch: pytest.MonkeyPatch):
    made = tuple(PassDump(name, text) for name, text in (("LICMPass", "1"), ("LICMPass", "2"), ("GVNPass", "3"), ("LICMPass", "4")))  # fmt: skip
    monkeypatch.setattr(llvm_passes, "pass_dumps", lambda *_: made)
    stages = llvm_passes.traced("0", MACHINE, LlvmPipeline(2))
    assert [(stage.name, stage.text) for stage in stages] == [
        ("mlir-translate", "0"), ("LICM", "2"), ("GVN", "3"), ("LICM-2", "4")
    ]  # fmt: skip


def test_a_text_that_llvm_refuses_is_a_crash_of_the_compiler():
    with pytest.raises(CompilerCrash, match=r"(?s)could not be printed: .*expected top-level entity"):
        llvm_passes.traced("nonsense", MACHINE, LlvmPipeline(2))
