"""LLVM IR text to PTX, through llvmlite's NVPTX back end.

The back end ends the process on what it cannot select, so everything it cannot do is refused before it runs.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.targets import Architecture
from tessera.lowering.base.llvm_ir import parse

_llvm: Final[Any] = binding
_TRIPLE: Final = "nvptx64-nvidia-cuda"
_SPEED: Final = 3
_SIMPLE: Final = 1
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
    """PTX text, and the optimised LLVM IR it was made from (empty unless asked for)."""

    text: str
    optimised: str


def to_ptx(text: str, chip: Architecture, keep_optimised: bool = False) -> Ptx:
    """Optimise LLVM IR text and translate it to PTX.

    Raises:
        CompilerCrash: the text is not valid LLVM IR, or holds something NVPTX cannot do.
    """
    refused = sorted(set(_UNSELECTABLE.findall(text)))
    if refused:
        message = f"LLVM has no PTX for {', '.join(refused)}"
        raise CompilerCrash(message)
    machine = _machine(chip.name, chip.ptx)
    module = parse(convergent(text))
    module.triple = _TRIPLE
    module.data_layout = str(machine.target_data)
    _optimise(module, machine, whole=may_unroll(text))
    optimised = str(module) if keep_optimised else ""
    ptx = machine.emit_assembly(module)
    unresolved = _EXTERNAL.findall(ptx)
    if unresolved:
        message = f"the GPU code calls functions that do not exist: {', '.join(unresolved)}"
        raise CompilerCrash(message)
    return Ptx(ptx, optimised)


def _optimise(module: Any, machine: Any, *, whole: bool) -> None:
    """Run LLVM's passes: all of O3 where `whole`, else only those that simplify a function, of O1.

    Without functions to inline and loops to unroll, the rest of O3 simplifies again what is simple, for more than half
    of the time; ptxas makes the same machine code, or as good.
    """
    level = _SPEED if whole else _SIMPLE
    builder = _llvm.create_pass_builder(machine, _llvm.create_pipeline_tuning_options(speed_level=level))
    if whole:
        builder.getModulePassManager().run(module, builder)
        return
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def may_unroll(text: str) -> bool:
    """Whether LLVM may unroll a loop of a function that MLIR has printed, as it does with loops of single lanes.

    It leaves a loop alone where lanes wait for each other, or assembly does something: every loop of tiles.
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
    """Mark assembly that does something as convergent: barriers and instructions of whole warps are among it.

    LLVM may not make such a call depend on more conditions than it does, nor double it into both sides of a branch
    that lanes take differently.  MLIR has no way to say this of assembly.

    before: `call void asm sideeffect "bar.sync 0, 128;", ""(), !dbg !7`
    after:  `call void asm sideeffect "bar.sync 0, 128;", ""() convergent, !dbg !7`
    """
    return _EFFECTS.sub(r"\1 convergent\2", text)


@cache
def _machine(name: str, features: str) -> Any:
    _llvm.initialize_all_targets()
    _llvm.initialize_all_asmprinters()
    target = _llvm.Target.from_triple(_TRIPLE)
    return target.create_target_machine(cpu=name, features=features, opt=_SPEED, reloc="default", codemodel="default")
