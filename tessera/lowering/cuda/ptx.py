"""Compile LLVM IR text to PTX, with llvmlite's NVPTX back end.

The back end ends the process on what it cannot select, so everything it cannot do is refused before it runs.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from llvmlite import binding

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.targets import Architecture
from tessera.lowering.base.llvm_ir import parse
from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, PassDump
from tessera.lowering.base.llvm_passes import traced
from tessera.lowering.cuda.ptxas_defects import without_defects

_TRIPLE: Final = "nvptx64-nvidia-cuda"
_SPEED: Final = 3
_WHOLE: Final = LlvmPipeline(_SPEED)
# Without functions to inline and loops to unroll, the rest of O3 takes more than half of the time to simplify what is
# simple already; ptxas makes the same machine code without it, or equally fast code.
_SIMPLE: Final = LlvmPipeline(1, per_function=True)
# LLVM's names for maths that NVPTX has no instruction for: they would kill the process ("Cannot select").
_UNSELECTABLE: Final = re.compile(
    r"@(llvm\.(?:exp|exp2|exp10|log|log2|log10|pow|powi|sin|cos|tan|tanh|sinh|cosh|atan|atan2|acos|asin)\.\w+)"
)
_EFFECTS: Final = re.compile(r"""( asm sideeffect "[^"]*", "[^"]*"\(.*\))((?:, ![\w.]+ !\d+)*)$""", re.MULTILINE)
# The beginning of a block, or a branch and where it leads.
_FLOW: Final = re.compile(r"^(?:(\d+):|  br (?:i1 \S+ )?label %(\d+)(?:, label %(\d+))?)", re.MULTILINE)
_TOGETHER: Final = re.compile(r" asm sideeffect |@llvm\.nvvm\.\S*(?:bar|sync)")
_EXTERNAL: Final = re.compile(r"^\.extern \.func.*?([\w.$]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ptx:
    """Hold PTX text, and the optimized LLVM IR it was made from (empty unless asked for).

    passes: LLVM IR after each of LLVM's passes; none unless asked for
    """

    text: str
    optimised: str
    passes: tuple[PassDump, ...] = ()


def to_ptx(text: str, chip: Architecture, keep_optimised: bool = False, observe_passes: bool = False) -> Ptx:
    """Optimize LLVM IR text and translate it to PTX.

    Raises:
        CompilerCrash: the text is not valid LLVM IR, or holds something NVPTX cannot do.
    """
    refused = sorted(set(_UNSELECTABLE.findall(text)))
    if refused:
        message = f"LLVM has no PTX for {', '.join(refused)}"
        raise CompilerCrash(message)
    described, machine = _machine(chip.name, chip.ptx)
    module = parse(convergent(text))
    module.triple = _TRIPLE
    module.data_layout = str(machine.target_data)
    pipeline = _WHOLE if may_unroll(text) else _SIMPLE
    passes = traced(str(module), described, pipeline) if observe_passes else ()
    pipeline.run(module, machine)
    optimised = str(module) if keep_optimised else ""
    ptx = machine.emit_assembly(module)
    unresolved = _EXTERNAL.findall(ptx)
    if unresolved:
        message = f"the GPU code calls functions that do not exist: {', '.join(unresolved)}"
        raise CompilerCrash(message)
    return Ptx(without_defects(ptx), optimised, passes)


def may_unroll(text: str) -> bool:
    """Return whether LLVM may unroll a loop of this text, as it does with loops of single lanes.

    It does not unroll loops in which lanes wait for each other or assembly has side effects: every loop over tiles.
    """
    blocks: dict[str, int] = {}
    for found in _FLOW.finditer(text):
        label, *targets = found.groups()
        if label is not None:
            blocks[label] = found.start()
        # A branch to a block that began before it closes a loop.
        elif any(_TOGETHER.search(text, blocks[to], found.start()) is None for to in targets if to in blocks):
            return True
    return False


def convergent(text: str) -> str:
    """Mark assembly with side effects as convergent, as barriers and instructions of whole warps are.

    LLVM must not make such a call depend on more conditions, nor duplicate it into both sides of a divergent branch.
    MLIR cannot express this for assembly.

    before: `call void asm sideeffect "bar.sync 0, 128;", ""(), !dbg !7`
    after:  `call void asm sideeffect "bar.sync 0, 128;", ""() convergent, !dbg !7`
    """
    return _EFFECTS.sub(r"\1 convergent\2", text)


@cache
def _machine(name: str, features: str) -> tuple[Machine, binding.TargetMachine]:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    described = Machine(_TRIPLE, name, features, _SPEED, "default", "default")
    return described, described.make()
