"""LLVM's optimizer: what its passes change is printed by a process of its own, and is what the optimizer makes."""

from itertools import pairwise

import pytest
from llvmlite import binding

from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, pass_dumps

TEXT = """
define i32 @twice(i32 %x) {
  %place = alloca i32
  store i32 %x, ptr %place
  %read = load i32, ptr %place
  %one = add i32 %read, 1
  %two = add i32 %one, 1
  ret i32 %two
}
"""
PTX = Machine("nvptx64-nvidia-cuda", "sm_90a", "+ptx83", 3, "default", "default")


@pytest.mark.parametrize(
    "pipeline", [LlvmPipeline(2), LlvmPipeline(1, per_function=True), LlvmPipeline(3, vectorize=True)]
)
def test_the_last_dump_is_what_the_optimizer_makes(pipeline: LlvmPipeline):
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(TEXT)
    pipeline.run(module, PTX.make())
    dumps = pass_dumps(TEXT, PTX, pipeline)
    assert str(binding.parse_assembly(dumps[-1].text)) == str(module)
    assert "alloca" not in dumps[-1].text
    assert "add i32 %x, 2" in dumps[-1].text
    assert {"SROAPass", "InstCombinePass"} <= {dump.name for dump in dumps}


def test_only_passes_that_change_something_are_there():
    texts = [TEXT, *(dump.text for dump in pass_dumps(TEXT, PTX, LlvmPipeline(3)))]
    assert all(before != after for before, after in pairwise(texts))


def test_what_llvm_refuses():
    with pytest.raises(RuntimeError, match="expected instruction opcode"):
        pass_dumps("define void @f() { nonsense }", PTX, LlvmPipeline(2))


def test_a_processor_that_llvm_does_not_know():
    with pytest.raises(RuntimeError, match="No available targets"):
        Machine("abacus-unknown-unknown", "wood", "", 2, "default", "default").make()
